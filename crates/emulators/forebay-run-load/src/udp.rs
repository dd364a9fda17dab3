//! Packets as datagrams of UDP, with the kernel's stamps.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd};

use forebay_load::{BATCH_PACKETS, Due, Load, SendDrop};
use forebay_sys::SysError;
use forebay_sys::clock::monotonic_ns;
use forebay_sys::socket::{
    UdpOptions, connect_udp, mem_info, raise_receive_buffer, raise_send_buffer,
};
use forebay_sys::stamped::{Queued, Stamped};
use forebay_sys::udp_batch::{Ancillary, BatchTag, Outgoing, RecvBatch, SendBatch, SendStop};

use crate::end::{End, Seen, Trouble};

/// Room for answers that wait, in bytes of payload, where the host allows it.
const BUFFER_BYTES: usize = 4 << 20;
/// A target's packets are stamped no more often than this, in ns: each costs a call of its own.
const STAMP_EVERY_NS: u64 = 50_000;
/// Datagrams of one call.
const SLOTS: usize = 64;
/// Calls for one target before the others have their turn.
const ROUNDS: usize = 4;
/// Stamps that are waited for.
const STAMPS_MAX: usize = 1 << 12;
/// From `asm-generic/errno.h`: longer than the way takes.
const EMSGSIZE: i32 = 90;

pub(crate) struct Udp {
    socket: Stamped,
    out: SendBatch,
    packets: Box<[u8]>,
    packet_bytes_max: usize,
    due: Vec<Due>,
    /// Packets of which a stamp is to come, by the kernel's number.
    asked: VecDeque<(u32, u64)>,
    stamped_ns: u64,
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
            socket: Stamped::new(fd)?,
            out: SendBatch::new(BATCH_PACKETS),
            packets: vec![0; packet_bytes_max * BATCH_PACKETS].into(),
            packet_bytes_max,
            due: Vec::with_capacity(BATCH_PACKETS),
            asked: VecDeque::new(),
            stamped_ns: 0,
            received: RecvBatch::private(SLOTS, ancillary)?,
            trouble: Trouble::default(),
        })
    }

    /// Writes what is due.
    fn write(&mut self, load: &mut Load, at: usize, now_ns: u64) {
        self.due.clear();
        self.due.extend_from_slice(load.poll_due(at, now_ns));
        let places = self.packets.chunks_mut(self.packet_bytes_max);
        for (due, place) in self.due.iter().zip(places) {
            load.emit(at, due, place);
        }
    }

    /// Sends the first packet so that the kernel says when it leaves: how many that were.
    fn send_stamped(&mut self, load: &mut Load, at: usize, now_ns: u64) -> io::Result<usize> {
        let (Some(first), true) = (self.due.first(), now_ns >= self.stamped_ns + STAMP_EVERY_NS)
        else {
            return Ok(0);
        };
        let id = self
            .socket
            .send_stamped(&self.packets[..first.bytes], None)?;
        load.handle_sent(at, 1, now_ns);
        self.stamped_ns = now_ns;
        if self.asked.len() == STAMPS_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back((id, first.sequence));
        Ok(1)
    }

    /// The packet at which a call stopped; whether others can be sent now.
    fn settle(&mut self, load: &mut Load, at: usize, stop: &SendStop) -> bool {
        match stop {
            SendStop::WouldBlock => return false,
            SendStop::NoBuffers => load.handle_refused(at, SendDrop::NoBuffer),
            // That of an earlier one, and this one may go.
            SendStop::Refused => self.trouble.note(REFUSED),
            SendStop::Failed(error) if error.raw_os_error() == Some(EMSGSIZE) => {
                self.trouble.note(error);
                load.handle_refused(at, SendDrop::TooLong);
            }
            SendStop::Failed(error) => {
                self.trouble.note(error);
                load.handle_refused(at, SendDrop::Refused);
            }
        }
        true
    }

    /// Takes the kernel's stamps of what was sent.
    fn take_stamps(&mut self, load: &mut Load, at: usize) {
        while let Ok(Some(entry)) = self.socket.poll_sent() {
            match entry {
                Queued::Sent(stamp) => {
                    let asked = self.asked.iter().position(|(id, _)| *id == stamp.id);
                    // Stamps of those in front of it did not come, and will not.
                    let mut passed = asked.map(|to| self.asked.drain(..=to));
                    if let Some((_, sequence)) = passed.as_mut().and_then(Iterator::last) {
                        load.handle_stamp(at, sequence, stamp.realtime_ns);
                    }
                }
                Queued::Error(error) => {
                    self.trouble.note(io::Error::from_raw_os_error(error.errno))
                }
            }
        }
    }
}

const REFUSED: &str = "connection refused: nothing listens there";

impl End for Udp {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn send(&mut self, load: &mut Load, at: usize) -> bool {
        for _ in 0..ROUNDS {
            let now_ns = monotonic_ns();
            self.write(load, at, now_ns);
            if self.due.is_empty() {
                return true;
            }
            // What is refused here is told by the call below, which begins with the same packet.
            let first = self.send_stamped(load, at, now_ns).unwrap_or(0);
            let places = self.packets.chunks(self.packet_bytes_max);
            let all = self.due.iter().zip(places).skip(first);
            let outgoing = all.map(|(due, place)| Outgoing::connected(&place[..due.bytes]));
            let outgoing: Vec<Outgoing<'_>> = outgoing.collect();
            let sent = self.out.send(self.socket.as_fd(), &outgoing);
            load.handle_sent(at, sent.count, now_ns);
            let stopped = sent.stopped;
            if stopped.is_some_and(|stop| !self.settle(load, at, &stop)) {
                return false;
            }
        }
        true
    }

    fn receive(&mut self, load: &mut Load, at: usize, seen: &mut Seen) {
        self.take_stamps(load, at);
        for _ in 0..ROUNDS {
            let tag = BatchTag::default();
            let socket = self.socket.as_fd();
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
        mem_info(&self.socket).map_or(0, |info| info.drops.into())
    }
}
