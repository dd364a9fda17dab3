//! One socket: its turns.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use forebay_ledger::{Leak, Words};
use forebay_link::udp::UdpPort;
use forebay_link::{Adopted, BatchMode, BatchTag, Datagram, DatagramSource, RecvBatch};
use forebay_ring::Producers;
use forebay_run::error::RunError;
use forebay_sys::clock;

use super::lane::{Arrival, DATAGRAM_BYTES_MAX, Lanes};
use super::unsaid::{NOTE_BYTES, NOTES_MAX, RECORD_EXTRA_BYTES};
use crate::books::Books;
use crate::plan::{FullPolicy, Plan, ReceiverPlan};

/// More room that a buffer of merged datagrams takes in a ring: a header and padding for each of them.
const MERGED_BYTES_MAX: usize = 128 * 64;
/// From this mean datagram size on, datagrams are received straight into the ring.
const DIRECT_BYTES: u64 = 2_048;

/// At most what the kernel charges a receive buffer with for a datagram, bytes: the memory of the packet, in powers of two for small ones (`forebay_link::udp::Config`
/// has what was measured).
const fn charge_bytes(len: usize) -> u64 {
    768 + 2 * len as u64
}

/// What a turn came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The socket was empty.
    Empty,
    /// Something was taken.
    Took {
        /// As much as a turn takes, so that more is waiting.
        full: bool,
    },
    /// The ring is full and the policy is to hold.
    Blocked,
}

pub(super) struct Port {
    index: u32,
    link: UdpPort,
    lanes: Lanes,
    batch_id: u64,
    /// Its receive buffer, bytes.
    buffer_bytes: u64,
    /// Rounds that had left the sockets empty when `charged` was begun.
    rounds: u64,
    /// About what the kernel charged for datagrams that were taken since, bytes.
    charged: u64,
    /// Mean datagram size of late, in bytes, times 16.
    mean16: u64,
    /// Receive stamp of the newest datagram, in ns of the wall clock; 0 without stamps.
    newest_ns: u64,
    /// How far the wall clock, which the kernel stamps with, is ahead of the monotonic one, in ns: read anew for each turn, as it may be set.
    ahead_ns: u64,
}

/// A stamp of the kernel's as time of the monotonic clock; 0 where there is none.
fn monotonic(stamp_ns: Option<u64>, ahead_ns: u64) -> u64 {
    stamp_ns.map_or(0, |stamp_ns| stamp_ns.saturating_sub(ahead_ns).max(1))
}

impl Port {
    pub(super) fn attach(
        plan: &Plan,
        index: usize,
        socket: OwnedFd,
        books: &Books,
        words: &Words,
        producers: &mut Producers,
    ) -> Result<Self, RunError> {
        let lanes = Lanes::attach(plan, index, books, words, producers)?;
        let (total, last) = lanes.booked_drops();
        let link = UdpPort::resume_drops(socket, plan.receiver.gro, total, last)?;
        Ok(Self {
            index: index as u32,
            buffer_bytes: link.fill()?.limit_bytes,
            rounds: 0,
            charged: 0,
            link,
            batch_id: lanes.booked_batch(),
            lanes,
            mean16: 0,
            newest_ns: 0,
            ahead_ns: 0,
        })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }

    /// Bytes of the receive buffer.
    pub(super) fn buffer_bytes(&self) -> u64 {
        self.buffer_bytes
    }

    /// Counts what is taken since so many rounds had left the sockets empty.
    pub(super) fn gather_from(&mut self, rounds: u64) {
        if self.rounds != rounds {
            (self.rounds, self.charged) = (rounds, 0);
        }
    }

    /// The part of its buffer that was taken since, in 1/1024.
    pub(super) fn filled(&self) -> u64 {
        self.charged * 1024 / self.buffer_bytes.max(1)
    }

    /// Whether the books hold the batch of this number.
    pub(super) fn has_booked(&self, batch_id: u64) -> bool {
        self.lanes.booked_batch() >= batch_id
    }

    /// Whether something came that the kernel received after `time_ns`.
    pub(super) fn is_past(&self, time_ns: u64) -> bool {
        self.newest_ns > time_ns
    }

    /// Whether every ring of the port can take a message, with some room to spare so that it does not block at once again.
    pub(super) fn has_room(&self, producers: &Producers) -> bool {
        self.lanes.has_room(producers)
    }

    /// Takes what the socket has, up to one batch, books it and shows it to the builder.
    pub(super) fn turn(
        &mut self,
        plan: &ReceiverPlan,
        batch: &mut RecvBatch,
        producers: &mut Producers,
        leak: &mut Leak,
    ) -> Result<Turn, RunError> {
        self.ahead_ns = clock::realtime_ns().saturating_sub(clock::monotonic_ns());
        let direct = self.lanes.is_single() && self.mean16 >= DIRECT_BYTES * 16 && !plan.gro;
        if direct {
            self.turn_direct(plan, batch, producers, leak)
        } else {
            self.turn_scratch(plan, batch, producers, leak)
        }
    }

    /// Large datagrams: the kernel copies each to its place in the ring.
    fn turn_direct(
        &mut self,
        plan: &ReceiverPlan,
        batch: &mut RecvBatch,
        producers: &mut Producers,
        leak: &mut Leak,
    ) -> Result<Turn, RunError> {
        let most = plan.batch_datagrams.min(32);
        let mut turn = Turn::Empty;
        for taken in 1..=most {
            // Booked before anything is received: a successor finds the datagram where the tag says.
            if self.lanes.say_dropped(0, producers) {
                self.lanes.commit(self.batch_id, producers);
            }
            let (ring, have) = self.lanes.place(0);
            let ring = &mut producers.rings[ring];
            let tag = BatchTag {
                words: [ring.position(), have as u64],
                ..self.next_tag()
            };
            let Ok(mut loan) = ring.reserve(have + DATAGRAM_BYTES_MAX) else {
                if plan.full == FullPolicy::Hold {
                    return Ok(Turn::Blocked);
                }
                return self.turn_scratch(plan, batch, producers, leak);
            };
            let Some(free) = loan.get_mut(have..) else {
                break;
            };
            if !self.link.take_into(batch, free, tag)? {
                break;
            }
            turn = Turn::Took {
                full: taken == most,
            };
            self.batch_id = tag.batch_id;
            self.take_direct(batch, producers, leak);
            self.commit(batch, producers);
        }
        Ok(turn)
    }

    /// The datagram of the batch lies in the ring behind the unfinished message.
    fn take_direct(&mut self, batch: &RecvBatch, producers: &mut Producers, leak: &mut Leak) {
        let datagram = batch.datagram(0);
        self.observe(datagram.len);
        if leak.take("socket") {
            return;
        }
        self.lanes.count_in(0, datagram.len as u64);
        self.newest_ns = self.newest_ns.max(datagram.stamp_ns.unwrap_or(0));
        let stamp_ns = monotonic(datagram.stamp_ns, self.ahead_ns);
        self.lanes
            .settle_in_ring(0, datagram.len, stamp_ns, producers, leak);
    }

    /// Small datagrams: many per system call into scratch memory, then packed into the rings.
    fn turn_scratch(
        &mut self,
        plan: &ReceiverPlan,
        batch: &mut RecvBatch,
        producers: &mut Producers,
        leak: &mut Leak,
    ) -> Result<Turn, RunError> {
        let max = self.batch_room(plan, batch.slots(), producers);
        if max == 0 {
            return Ok(Turn::Blocked);
        }
        let tag = self.next_tag();
        let count = self.link.take_scratch(batch, max, tag)?;
        if count == 0 {
            return Ok(Turn::Empty);
        }
        self.batch_id = tag.batch_id;
        self.take_scratch(count, batch, producers, leak);
        self.commit(batch, producers);
        Ok(Turn::Took { full: count >= max })
    }

    /// How many datagrams surely fit into every ring of the port; all of them when full rings may drop.
    fn batch_room(&self, plan: &ReceiverPlan, slots: usize, producers: &Producers) -> usize {
        let wanted = plan.batch_datagrams.min(slots);
        if plan.full == FullPolicy::Drop || !self.lanes.is_single() {
            return wanted;
        }
        let (ring, have) = self.lanes.place(0);
        let free = producers.rings[ring]
            .free_bytes()
            .saturating_sub(have as u64);
        let most = DATAGRAM_BYTES_MAX
            + RECORD_EXTRA_BYTES
            + NOTES_MAX * NOTE_BYTES
            + if plan.gro { MERGED_BYTES_MAX } else { 0 };
        wanted.min((free / most as u64) as usize)
    }

    fn take_scratch(
        &mut self,
        count: usize,
        batch: &RecvBatch,
        producers: &mut Producers,
        leak: &mut Leak,
    ) {
        for index in 0..count {
            let datagram = batch.datagram(index);
            let payload = batch.payload(index);
            self.newest_ns = self.newest_ns.max(datagram.stamp_ns.unwrap_or(0));
            let whole = payload.len().max(1);
            // The kernel merged several of this size; the last may be shorter.
            let each = datagram
                .gro_segment_bytes
                .map_or(whole, |bytes| usize::from(bytes).clamp(1, whole));
            let mut rest = payload;
            loop {
                let (one, more) = rest.split_at(each.min(rest.len()));
                let len = if each == whole {
                    datagram.len
                } else {
                    one.len()
                };
                self.take_datagram(&Datagram { len, ..datagram }, one, producers, leak);
                rest = more;
                if rest.is_empty() {
                    break;
                }
            }
        }
    }

    /// One datagram as it was sent.
    fn take_datagram(
        &mut self,
        datagram: &Datagram,
        payload: &[u8],
        producers: &mut Producers,
        leak: &mut Leak,
    ) {
        let bytes = datagram.len as u64;
        self.observe(datagram.len);
        if leak.take("socket") {
            return;
        }
        let arrival = Arrival {
            payload,
            from: datagram.from,
            stamp_ns: monotonic(datagram.stamp_ns, self.ahead_ns),
        };
        let Some(lane) = self.lanes.find(&arrival) else {
            return self.lanes.stray(bytes);
        };
        self.lanes.count_in(lane, bytes);
        if datagram.truncated {
            return self.lanes.count_cut(lane, bytes);
        }
        self.lanes.take(lane, &arrival, producers, leak);
    }

    /// Handles what a killed predecessor had in hand.
    pub(super) fn adopt(
        &mut self,
        adopted: &Adopted,
        batch: &mut RecvBatch,
        producers: &mut Producers,
        leak: &mut Leak,
    ) {
        self.batch_id = adopted.tag.batch_id;
        match adopted.mode {
            BatchMode::Scratch => self.take_scratch(adopted.count, batch, producers, leak),
            BatchMode::Direct => {
                let (ring, _) = self.lanes.place(0);
                if producers.rings[ring].position() == adopted.tag.words[0] {
                    self.take_direct(batch, producers, leak);
                } else {
                    let bytes = batch.datagram(0).len as u64;
                    self.lanes.count_in(0, bytes);
                    self.lanes.drop_crashed(0, bytes);
                }
            }
        }
        self.commit(batch, producers);
    }

    fn commit(&mut self, batch: &mut RecvBatch, producers: &mut Producers) {
        self.lanes.commit(self.batch_id, producers);
        batch.disarm();
    }

    /// Reads the socket's own counters.
    pub(super) fn read_kernel(&mut self) {
        if let Ok((drops, fill)) = self.link.observe() {
            self.lanes.count_kernel(&drops, fill);
        }
    }

    /// Ends unfinished messages at the end of a run.
    pub(super) fn finish(&mut self, producers: &mut Producers) {
        self.lanes.finish(producers);
    }

    fn next_tag(&self) -> BatchTag {
        BatchTag {
            batch_id: self.batch_id + 1,
            socket: self.index,
            words: [0; 2],
        }
    }

    #[inline]
    fn observe(&mut self, len: usize) {
        self.mean16 = self.mean16 - self.mean16 / 16 + len as u64;
        self.charged += charge_bytes(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_wall_clock_does_not_show_in_the_time_since_a_stamp() {
        let boot_ns = 1_800_000_000_000_000_000;
        // Received at 5 s and built at 6 s of the monotonic clock, wherever the other one stands.
        for ahead_ns in [boot_ns, boot_ns + 3_600_000_000_000, boot_ns - 1] {
            let stamp_ns = monotonic(Some(ahead_ns + 5_000_000_000), ahead_ns);
            assert_eq!(6_000_000_000 - stamp_ns, 1_000_000_000);
        }
        assert_eq!(monotonic(None, boot_ns), 0, "unknown");
        assert_eq!(
            monotonic(Some(7), boot_ns),
            1,
            "known, and before all others"
        );
    }
}
