//! Packets as datagrams of UDP, with the kernel's stamps.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd};

use forebay_load::{Load, SendDrop};
use forebay_sys::SysError;
use forebay_sys::clock::monotonic_ns;
use forebay_sys::socket::{
    UdpOptions, connect_udp, mem_info, raise_receive_buffer, raise_send_buffer,
};
use forebay_sys::udp_batch::{Ancillary, BatchTag, RecvBatch, SendStop};

use crate::end::{End, Seen, Trouble};
use crate::sender::{EMSGSIZE, Sender};

/// Room for answers that wait, in bytes of payload, where the host allows it.
const BUFFER_BYTES: usize = 4 << 20;
/// Datagrams of one call.
const SLOTS: usize = 64;
/// Calls for one target before the others have their turn.
const ROUNDS: usize = 4;

pub(crate) struct Udp {
    sender: Sender,
    received: RecvBatch,
    trouble: Trouble,
}

impl Udp {
    pub(crate) fn open(to: SocketAddr, packet_bytes_max: usize) -> Result<Self, SysError> {
        let fd = connect_udp(to, &UdpOptions::default())?;
        raise_receive_buffer(&fd, BUFFER_BYTES)?;
        raise_send_buffer(&fd, BUFFER_BYTES)?;
        let ancillary = Ancillary {
            addresses: false,
            control: true,
        };
        Ok(Self {
            sender: Sender::new(fd, packet_bytes_max, &[])?,
            received: RecvBatch::private(SLOTS, ancillary)?,
            trouble: Trouble::default(),
        })
    }
}

/// The packet at which a call stopped; whether others can be sent now.
fn settle(trouble: &mut Trouble, load: &mut Load, at: usize, stop: &SendStop) -> bool {
    match stop {
        SendStop::WouldBlock => return false,
        SendStop::NoBuffers => load.handle_refused(at, SendDrop::NoBuffer),
        // That of an earlier one, and this one may go.
        SendStop::Refused => trouble.note(REFUSED),
        SendStop::Failed(error) if error.raw_os_error() == Some(EMSGSIZE) => {
            trouble.note(error);
            load.handle_refused(at, SendDrop::TooLong);
        }
        SendStop::Failed(error) => {
            trouble.note(error);
            load.handle_refused(at, SendDrop::Refused);
        }
    }
    true
}

const REFUSED: &str = "connection refused: nothing listens there";

impl End for Udp {
    fn fd(&self) -> BorrowedFd<'_> {
        self.sender.as_fd()
    }

    fn send(&mut self, load: &mut Load, at: usize) -> bool {
        let trouble = &mut self.trouble;
        let mut settle = |load: &mut Load, stop: &SendStop| settle(trouble, load, at, stop);
        self.sender.send(load, at, &mut settle)
    }

    fn receive(&mut self, load: &mut Load, at: usize, seen: &mut Seen) {
        self.sender.take_stamps(load, at, &mut self.trouble);
        for _ in 0..ROUNDS {
            let tag = BatchTag::default();
            let socket = self.sender.as_fd();
            match self.received.receive_scratch(socket, SLOTS, tag) {
                Ok(datagrams) => {
                    let now_ns = monotonic_ns();
                    for index in 0..datagrams {
                        let stamp_ns = self.received.datagram(index).stamp_ns;
                        let packet = self.received.payload(index);
                        let came = load.handle_packet(at, packet, now_ns, stamp_ns);
                        seen.take(at, came);
                    }
                    if datagrams < SLOTS {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    self.trouble.note(REFUSED);
                }
                Err(error) => self.trouble.note(error),
            }
        }
    }

    fn trouble(&self) -> &Trouble {
        &self.trouble
    }

    fn is_lost(&self) -> bool {
        false
    }

    fn dropped(&self) -> u64 {
        mem_info(&self.sender).map_or(0, |info| info.drops.into())
    }
}
