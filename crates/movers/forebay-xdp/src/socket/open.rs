//! From settings to a port that is bound.

use std::io;
use std::time::Duration;

use super::account::PortCounts;
use super::config::{Copying, PortConfig};
use super::receiving::Receiving;
use super::rings::{Giving, Taking};
use super::{Port, Sending};
use crate::error::XdpError;
use crate::sys::interface_number;
use crate::sys::umem::{Buffer, Place, Umem};
use crate::sys::xsk::{Socket, Which, flag};

/// A queue that was just left is free a little later: how often it is tried again …
const BUSY_TRIES: u32 = 500;
/// … and after how long.
const BUSY_PAUSE: Duration = Duration::from_millis(2);

impl Port {
    /// Opens one on a queue of an interface of this thread's network namespace. A virtual interface carries nothing before its peer is up.
    ///
    /// # Errors
    /// A setting is outside its range; there is no such interface or queue, or another socket has it; this process lacks `CAP_NET_RAW`, or may not lock so much memory;
    /// the driver cannot do without a copy, and shall ([`Copying::Never`](super::Copying::Never)).
    pub fn open(interface: &str, queue: u32, config: &PortConfig) -> Result<Self, XdpError> {
        config.validate()?;
        let total = config.receive_buffers + config.send_buffers;
        let memory = Umem::new(total, config.buffer_bytes).ok_or_else(|| no_memory(interface))?;
        Self::open_over((interface, queue), config, memory)
    }

    /// The same over this memory, with the rights to all of its buffers but those that are shared.
    pub(super) fn open_over(
        (interface, queue): (&str, u32),
        config: &PortConfig,
        memory: (Umem, Vec<Buffer>),
    ) -> Result<Self, XdpError> {
        let number = interface_number(interface)?;
        let (mut memory, mut refused) = (Some(memory), None);
        for flags in config.tries() {
            let Some(own) = memory.take() else { break };
            let mut port = Self::unbound((interface, number, queue), config, flags, own)?;
            match port.bind(flags) {
                Ok(()) => return Ok(port),
                Err(Stopped::Failed(error)) => return Err(error),
                Err(Stopped::Refused(error)) => {
                    refused = Some(error);
                    memory = Some(port.dismantled());
                }
            }
        }
        Err(match refused {
            Some(error) if error.raw_os_error() == Some(libc::EINVAL) => XdpError::NoQueue {
                interface: interface.to_owned(),
                queue,
            },
            Some(source)
                if config.copying == Copying::Never
                    && source.raw_os_error() == Some(libc::EOPNOTSUPP) =>
            {
                XdpError::Copies {
                    interface: interface.to_owned(),
                }
            }
            refused => XdpError::System {
                call: "bind(AF_XDP)",
                target: format!("queue {queue} of {interface}"),
                source: refused.unwrap_or_else(io::Error::last_os_error),
            },
        })
    }

    fn unbound(
        (interface, number, queue): (&str, u32, u32),
        config: &PortConfig,
        flags: u16,
        (umem, mut receive_free): (Umem, Vec<Buffer>),
    ) -> Result<Self, XdpError> {
        let socket = Socket::open().map_err(not_opened)?;
        let bytes = umem.total() as u64 * u64::from(config.buffer_bytes);
        let registered = socket.register(&umem);
        registered.map_err(|source| not_registered(source, bytes))?;
        let ring = |which, entries| {
            let ring = socket.ring(which, entries);
            ring.map_err(|source| XdpError::System {
                call: "setsockopt(AF_XDP ring)",
                target: interface.to_owned(),
                source,
            })
        };
        // The kernel wants these two of each socket. What it has read of a ring it says later than what came of it: there is room for both.
        let fill = Giving::new(ring(Which::Fill, 2 * config.receive_buffers.max(1))?);
        let completion = Taking::new(ring(Which::Completion, config.send_buffers.max(2))?);
        let is_sharing = umem.count(Place::Shared) > 0;
        // There are no rights to shared buffers.
        let received = config.receive_buffers as usize * usize::from(!is_sharing);
        let send_free = receive_free.split_off(received);
        let receiving = match config.receive_buffers {
            0 => None,
            _ => {
                let ring = Taking::new(ring(Which::Receive, config.receive_ring)?);
                Some(Receiving::new(ring, receive_free))
            }
        };
        let sending = match config.send_buffers {
            0 => None,
            places => Some(Sending {
                ring: Giving::new(ring(Which::Send, 2 * places)?),
                free: send_free,
            }),
        };
        let mut port = Self {
            receiving,
            sending,
            fill,
            completion,
            umem,
            counts: PortCounts::default(),
            interface: interface.to_owned(),
            number,
            queue,
            is_zero_copy: false,
            takes_pieces: flags & flag::PIECES != 0,
            is_sharing,
            lent: 0,
            lent_max: config.receive_buffers,
            socket,
        };
        port.refill();
        Ok(port)
    }

    /// Closed, and its memory.
    fn dismantled(self) -> (Umem, Vec<Buffer>) {
        let Self { umem, socket, .. } = self;
        drop(socket);
        umem.anew()
    }

    /// Binds it, again as long as the socket that had the queue before is being taken apart.
    fn bind(&mut self, flags: u16) -> Result<(), Stopped> {
        for _ in 0..BUSY_TRIES {
            match self.socket.bind(self.number, self.queue, flags) {
                Ok(()) => {
                    let is_zero_copy = self.socket.is_zero_copy();
                    self.is_zero_copy = is_zero_copy.map_err(|source| {
                        Stopped::Failed(XdpError::System {
                            call: "getsockopt(XDP_OPTIONS)",
                            target: self.interface.clone(),
                            source,
                        })
                    })?;
                    return Ok(());
                }
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    std::thread::sleep(BUSY_PAUSE)
                }
                Err(error) => return Err(Stopped::Refused(error)),
            }
        }
        Err(Stopped::Failed(XdpError::QueueInUse {
            interface: self.interface.clone(),
            queue: self.queue,
        }))
    }
}

/// Why a port was not opened.
enum Stopped {
    /// The kernel does not bind it so; it may do otherwise.
    Refused(io::Error),
    Failed(XdpError),
}

pub(super) fn no_memory(interface: &str) -> XdpError {
    XdpError::System {
        call: "mmap",
        target: interface.to_owned(),
        source: io::Error::last_os_error(),
    }
}

fn not_opened(source: io::Error) -> XdpError {
    match source.raw_os_error() {
        Some(libc::EPERM) => XdpError::NotAllowed {
            missing: "CAP_NET_RAW".to_owned(),
        },
        _ => XdpError::System {
            call: "socket(AF_XDP)",
            target: "(CONFIG_XDP_SOCKETS of the kernel)".to_owned(),
            source,
        },
    }
}

fn not_registered(source: io::Error, bytes: u64) -> XdpError {
    match source.raw_os_error() {
        Some(libc::ENOBUFS | libc::ENOMEM) => XdpError::Memory { bytes },
        _ => XdpError::System {
            call: "setsockopt(XDP_UMEM_REG)",
            target: format!("{bytes} bytes"),
            source,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_outside_their_range_are_named() {
        let usual = PortConfig::default();
        for (wrong, name) in [
            (
                PortConfig {
                    buffer_bytes: 1_024,
                    ..usual
                },
                "buffer_bytes",
            ),
            (
                PortConfig {
                    receive_buffers: 1_000,
                    ..usual
                },
                "receive_buffers",
            ),
            (
                PortConfig {
                    receive_ring: 0,
                    ..usual
                },
                "receive_ring",
            ),
            (
                PortConfig {
                    send_buffers: 1 << 21,
                    ..usual
                },
                "send_buffers",
            ),
            (
                PortConfig {
                    receive_buffers: 0,
                    send_buffers: 0,
                    ..usual
                },
                "send_buffers",
            ),
        ] {
            let error = Port::open("lo", 0, &wrong).unwrap_err();
            assert!(error.to_string().starts_with(name), "{error}");
        }
    }
}
