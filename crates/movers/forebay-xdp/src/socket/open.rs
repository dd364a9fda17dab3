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
use crate::sys::umem::Umem;
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
        let number = interface_number(interface)?;
        let mut refused = None;
        for flags in config.tries() {
            match Self::try_open((interface, number, queue), config, flags) {
                Ok(port) => return Ok(port),
                Err(Stopped::Refused(error)) => refused = Some(error),
                Err(Stopped::Failed(error)) => return Err(error),
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

    fn try_open(
        (interface, number, queue): (&str, u32, u32),
        config: &PortConfig,
        flags: u16,
    ) -> Result<Self, Stopped> {
        let failed = |call| {
            move |source| {
                Stopped::Failed(XdpError::System {
                    call,
                    target: interface.to_owned(),
                    source,
                })
            }
        };
        let socket = Socket::open().map_err(|source| Stopped::Failed(not_opened(source)))?;
        let total = config.receive_buffers + config.send_buffers;
        let memory = Umem::new(total, config.buffer_bytes)
            .ok_or_else(|| failed("mmap")(io::Error::last_os_error()));
        let (umem, mut receive_free) = memory?;
        let send_free = receive_free.split_off(config.receive_buffers as usize);
        socket.register(&umem).map_err(|source| {
            Stopped::Failed(not_registered(
                source,
                u64::from(total) * u64::from(config.buffer_bytes),
            ))
        })?;
        let ring = |which, entries| {
            socket
                .ring(which, entries)
                .map_err(failed("setsockopt(AF_XDP ring)"))
        };
        // The kernel wants these two of each socket. What it has read of a ring it says later than what came of it: there is room for both.
        let fill = Giving::new(ring(Which::Fill, 2 * config.receive_buffers.max(1))?);
        let completion = Taking::new(ring(Which::Completion, config.send_buffers.max(2))?);
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
            socket,
        };
        port.refill();
        port.bind(flags)?;
        port.is_zero_copy = port
            .socket
            .is_zero_copy()
            .map_err(failed("getsockopt(XDP_OPTIONS)"))?;
        Ok(port)
    }

    /// Binds it, again as long as the socket that had the queue before is being taken apart.
    fn bind(&self, flags: u16) -> Result<(), Stopped> {
        for _ in 0..BUSY_TRIES {
            match self.socket.bind(self.number, self.queue, flags) {
                Ok(()) => return Ok(()),
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

impl From<XdpError> for Stopped {
    fn from(error: XdpError) -> Self {
        Self::Failed(error)
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
