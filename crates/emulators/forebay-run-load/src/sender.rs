//! Packets of a target by their due times onto a socket of datagrams, some with a stamp of the kernel.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use forebay_load::{BATCH_PACKETS, Due, Load};
use forebay_sys::SysError;
use forebay_sys::clock::monotonic_ns;
use forebay_sys::stamped::{Queued, Stamped};
use forebay_sys::udp_batch::{Outgoing, SendBatch, SendStop};

use crate::end::Trouble;

/// A target's packets are stamped no more often than this, in ns: each costs a call of its own.
const STAMP_EVERY_NS: u64 = 50_000;
/// Calls for one target before the others have their turn.
const ROUNDS: usize = 4;
/// Stamps that are waited for.
const STAMPS_MAX: usize = 1 << 12;
/// From `asm-generic/errno.h`: longer than the way takes.
pub(crate) const EMSGSIZE: i32 = 90;

pub(crate) struct Sender {
    socket: Stamped,
    out: SendBatch,
    packets: Box<[u8]>,
    packet_bytes_max: usize,
    due: Vec<Due>,
    /// Packets of which a stamp is to come, by the kernel's number.
    asked: VecDeque<(u32, u64)>,
    stamped_ns: u64,
}

impl Sender {
    /// Over a socket that is bound to its peer, or to its interface. Each packet begins with `front`.
    pub(crate) fn new(
        fd: OwnedFd,
        packet_bytes_max: usize,
        front: &[u8],
    ) -> Result<Self, SysError> {
        let mut packets: Box<[u8]> = vec![0; packet_bytes_max * BATCH_PACKETS].into();
        for place in packets.chunks_mut(packet_bytes_max) {
            place[..front.len()].copy_from_slice(front);
        }
        Ok(Self {
            socket: Stamped::new(fd)?,
            out: SendBatch::new(BATCH_PACKETS),
            packets,
            packet_bytes_max,
            due: Vec::with_capacity(BATCH_PACKETS),
            asked: VecDeque::new(),
            stamped_ns: 0,
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

    /// Sends what is due; whether there was room for all. `settle` is told where a call stopped, and says whether others can be sent now.
    pub(crate) fn send(
        &mut self,
        load: &mut Load,
        at: usize,
        settle: &mut dyn FnMut(&mut Load, &SendStop) -> bool,
    ) -> bool {
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
            if stopped.is_some_and(|stop| !settle(load, &stop)) {
                return false;
            }
        }
        true
    }

    /// Takes the kernel's stamps of what was sent; whether there was something.
    pub(crate) fn take_stamps(
        &mut self,
        load: &mut Load,
        at: usize,
        trouble: &mut Trouble,
    ) -> bool {
        let mut has_any = false;
        while let Ok(Some(entry)) = self.socket.poll_sent() {
            has_any = true;
            match entry {
                Queued::Sent(stamp) => {
                    let asked = self.asked.iter().position(|(id, _)| *id == stamp.id);
                    // Stamps of those in front of it did not come, and will not.
                    let mut passed = asked.map(|to| self.asked.drain(..=to));
                    if let Some((_, sequence)) = passed.as_mut().and_then(Iterator::last) {
                        load.handle_stamp(at, sequence, stamp.realtime_ns);
                    }
                }
                Queued::Error(error) => trouble.note(io::Error::from_raw_os_error(error.errno)),
            }
        }
        has_any
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
