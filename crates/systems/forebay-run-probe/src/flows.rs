//! What one thread that captures has: a decoder and a table of its own, and its lane to the exporter. Nothing of it is shared.

use std::collections::VecDeque;

use forebay_flow::filter::Filter;
use forebay_flow::plugins::{Fields, Plugins};
use forebay_flow::{Batch, Config, Decoder, FlowKey, FlowRecord, Frame, Packet, Table, Volume};
use forebay_ledger::Leak;
use forebay_run::{Host, Stop, Urgency};

use crate::error::ProbeError;
use crate::export::{Amount, Judged, Losses, Row};
use crate::offload::{self, Below};
use crate::packets::Tap;
use crate::queue::{Outlet, Queue};
use crate::run::ProbePlan;

/// Packets that the table gets together: it waits for the memory of several flows at once.
const BATCH_PACKETS: usize = 64;
/// Times a table is asked for more that is due before books are looked at: with 512 flows each. A quarter of a million in a tenth of a second: a million that are due together are over within a second.
const TICKS_MAX: usize = 512;

/// When so many frames of a capture, one after the other, are late by more than the idle time-out, its time is begun anew at them.
const LATE_FRAMES: u32 = 64;
/// Flows of each kind that are taken back or collected at once.
const TOLD_MAX: usize = 64;
/// A reader of a capture looks so often, by the capture's clock, at what is over, in ns: packets alone end a bounded number of flows each.
const PASS_NS: u64 = 250_000_000;

pub(crate) struct Flows<'a> {
    pub(crate) decoder: Decoder,
    pub(crate) filter: Filter,
    pub(crate) table: Table,
    pub(crate) plugins: Plugins,
    /// Frames that the input had.
    pub(crate) read: u64,
    /// Frames that were lost in front of it.
    pub(crate) unread: u64,
    /// Packets that came to the decoder.
    pub(crate) seen: Volume,
    /// Packets that were not handed on, as the filter said.
    pub(crate) filtered: Volume,
    /// Records that the table gave.
    pub(crate) formed: Amount,
    pub(crate) outlet: Outlet<'a>,
    below: Option<Below>,
    /// Flows that it says are closed, and that have reached the limit, not taken back or collected yet.
    told: [VecDeque<FlowKey>; 2],
    /// Where packets themselves are exported to.
    pub(crate) tap: Option<Tap<'a>>,
    batch: Batch,
    /// Nothing may hold the input back.
    is_live: bool,
    /// When it is looked at what is over, by the capture's clock.
    pass_ns: u64,
    /// Frames of before are late by more than the idle time-out.
    late_ns: u64,
    /// So many of them came one after the other.
    late_frames: u32,
    /// How often a capture's time was begun anew, as all frames were late.
    pub(crate) set_backs: u64,
    config: Config,
    /// By how much the table's clock was behind the time-out of a flow at most when its record was formed, in ns.
    pub(crate) late_max_ns: u64,
    stop: Stop,
    pub(crate) leak: Leak,
}

impl<'a> Flows<'a> {
    /// Of the thread with the place `lane`. `seed` is that of hashes, which strangers must not know.
    pub(crate) fn new(
        plan: &ProbePlan,
        queue: &'a Queue,
        (lane, seed): (usize, u64),
        below: Option<Below>,
        host: &Host,
    ) -> Result<Self, ProbeError> {
        let (decode, config) = plan.settings.engine(seed);
        let mut table = Table::new(&config)?;
        if let Some(below) = &below {
            below.lend(&mut table, offload::policy(&plan.settings, seed))?;
        }
        Ok(Self {
            decoder: Decoder::new(&decode)?,
            filter: plan.settings.make_filter()?,
            plugins: plan.settings.make_plugins(table.places()),
            table,
            read: 0,
            unread: 0,
            seen: Volume::default(),
            filtered: Volume::default(),
            formed: Amount::default(),
            outlet: Outlet::new(queue, lane),
            below,
            told: Default::default(),
            tap: None,
            batch: Batch::new(BATCH_PACKETS),
            is_live: plan.settings.interface.is_some(),
            pass_ns: 0,
            late_ns: 0,
            late_frames: 0,
            set_backs: 0,
            config,
            late_max_ns: 0,
            stop: host.stop.clone(),
            // What shall vanish vanishes in one place.
            leak: if lane == 0 {
                host.leak.clone()
            } else {
                Leak::off()
            },
        })
    }

    /// Counts a frame, and its packet with others when there are enough.
    #[inline]
    pub(crate) fn take(&mut self, frame: &Frame<'_>) {
        self.read += 1;
        if frame.time_ns >= self.pass_ns {
            self.pass(frame.time_ns);
        } else if frame.time_ns < self.late_ns {
            self.come_late();
        } else {
            self.late_frames = 0;
        }
        let mut left = None;
        if let Some(below) = &self.below {
            let Some(bytes) = below.leaves(frame) else {
                return self.hear(frame.time_ns);
            };
            let bytes = &frame.bytes[..bytes];
            left = Some(Frame { bytes, ..*frame });
        }
        let frame = left.as_ref().unwrap_or(frame);
        self.seen.packets += 1;
        match self.decoder.handle_frame(frame) {
            Ok(mut packet) => {
                self.seen.octets += u64::from(packet.octets);
                if self.looks_at_packets() && !self.passes(frame, &mut packet) {
                    return self.hear(frame.time_ns);
                }
                if self.leak.take("packets") {
                    return;
                }
                self.plugins.batch(&mut self.batch, &packet);
                if self.batch.is_full() {
                    self.settle();
                }
            }
            Err(refused) => {
                self.seen.octets += u64::from(refused.octets);
                self.hear(frame.time_ns);
            }
        }
    }

    /// The table does not count a frame of this time, as it is counted in front of it, filtered or of no flow; but time goes on, behind the packets that wait.
    fn hear(&mut self, time_ns: u64) {
        self.settle();
        self.with_table(|table, _, plugins, mut ended| {
            table.hear(time_ns, &mut plugins.watch(&mut ended));
        });
    }

    /// What was counted below and came back to this table, by the one that took it there.
    pub(crate) fn taken_below(&self) -> Volume {
        self.below.as_ref().map_or(Volume::default(), Below::taken)
    }

    /// Frames that the kernel has counted for the socket of this thread.
    pub(crate) fn came_up(&self, frames: u64) {
        if let Some(below) = &self.below {
            below.came_up(frames);
        }
    }

    /// Asks the table below which flows are closed in it, as one may be whose last packet was lost on its way up, and which tell how far they are. While some of those before
    /// wait this thread asks for no more.
    pub(crate) fn look_below(&mut self) {
        let Some(below) = &self.below else {
            return;
        };
        below.keep_time();
        if !self.has_told() {
            self.told = below.told();
        }
    }

    /// Flows that the table below has told of wait.
    pub(crate) fn has_told(&self) -> bool {
        self.told.iter().any(|told| !told.is_empty())
    }

    /// Takes back some of the flows that are closed below, and what was counted of some that tell how far they are: packets come in between, as each is a call of the kernel.
    pub(crate) fn hear_below(&mut self) {
        let [closed, ahead] = &mut self.told;
        for flow in ahead.drain(..ahead.len().min(TOLD_MAX)) {
            self.table.collect(&flow);
        }
        for flow in closed.drain(..closed.len().min(TOLD_MAX)) {
            self.table.take_back(&flow);
        }
    }

    #[inline]
    const fn looks_at_packets(&self) -> bool {
        !self.filter.is_empty() || self.tap.is_some()
    }

    /// Whether the filter lets a packet pass; it may trim it.
    fn passes(&mut self, frame: &Frame<'_>, packet: &mut Packet<'_>) -> bool {
        let verdict = self.filter.judge(frame, packet);
        if !verdict.passes {
            self.filtered += Volume {
                packets: 1,
                octets: packet.octets.into(),
            };
        } else if let Some(tap) = &mut self.tap
            && tap.take(frame, packet, &verdict)
        {
            let (is_live, stop) = (self.is_live, &self.stop);
            tap.hand_over(|| may_wait(is_live, stop));
        }
        verdict.passes
    }

    /// Counts the packets that wait for others.
    pub(crate) fn settle(&mut self) {
        self.with_table(|table, batch, plugins, mut ended| {
            table.handle_batch(batch, &mut plugins.watch(&mut ended));
            batch.clear();
        });
    }

    /// Ends what is over by `now_ns`, a time that no later packet is before, until there is something else to do: packets do not wait for all that is due.
    pub(crate) fn tick(&mut self, now_ns: u64, mut has_more: impl FnMut() -> bool) {
        for _ in 0..TICKS_MAX {
            let due_ns = self.table.poll_timeout();
            if due_ns.is_none_or(|due_ns| due_ns > now_ns) {
                return;
            }
            self.with_table(|table, _, plugins, mut ended| {
                table.tick_watched(now_ns, &mut plugins.watch(&mut ended));
            });
            if has_more() {
                return;
            }
        }
    }

    /// Goes through the time before a frame of a capture, and hands on what is over by then, each at its time: silence may have been long, and much be over. An interface
    /// has a clock of its own, and nothing of it may wait.
    #[cold]
    fn pass(&mut self, time_ns: u64) {
        if self.is_live {
            self.pass_ns = u64::MAX;
            return;
        }
        self.settle();
        let until_ns = self.table.believed_ns(time_ns);
        let mut is_over = false;
        while let Some(due_ns) = self
            .table
            .poll_timeout()
            .filter(|due_ns| *due_ns <= until_ns && !self.stop.is_asked())
        {
            is_over = true;
            self.with_table(|table, _, plugins, mut ended| {
                table.pass(due_ns, &mut plugins.watch(&mut ended));
            });
        }
        if is_over {
            self.hand_over();
        }
        self.pass_ns = until_ns.saturating_add(PASS_NS);
        self.late_ns = until_ns.saturating_sub(self.config.idle_timeout_ns);
        self.late_frames = 0;
    }

    /// A frame of a capture is so late that it would end its flow. One after the other, they are on time, and what was before them was not.
    #[cold]
    fn come_late(&mut self) {
        self.late_frames += 1;
        if self.late_frames == LATE_FRAMES {
            self.set_back();
            self.set_backs += 1;
            (self.pass_ns, self.late_ns, self.late_frames) = (0, 0, 0);
        }
    }

    /// The clock of the host, or of a capture, was set back: all flows end, and the table's time begins anew.
    pub(crate) fn set_back(&mut self) {
        self.settle();
        self.with_table(|table, _, plugins, mut ended| {
            table.set_back(&mut plugins.watch(&mut ended));
        });
    }

    /// Ends all flows, hands over all records, and closes the lane.
    pub(crate) fn end_all(&mut self) {
        self.settle();
        self.tick(self.table.clock_ns(), || false);
        // Nothing comes any more that could be held back.
        self.is_live = false;
        self.with_table(|table, _, plugins, mut ended| {
            table.end_all_watched(&mut plugins.watch(&mut ended));
        });
        if let Some(below) = &self.below {
            below.leave();
        }
        self.hand_over();
        self.outlet.close();
        if let Some(tap) = &mut self.tap {
            tap.close();
        }
    }

    /// Records wait for others no longer.
    pub(crate) fn hand_over(&mut self) {
        let (is_live, stop) = (self.is_live, &self.stop);
        self.outlet.hand_over(|| may_wait(is_live, stop));
        if let Some(tap) = &mut self.tap {
            tap.hand_over(|| may_wait(is_live, stop));
        }
        let mut ignored = Volume::default();
        for (_, refused) in self.decoder.refused().iter() {
            ignored += refused;
        }
        let filter = (!self.filter.is_empty()).then(|| Judged {
            came_packets: self.seen.packets - ignored.packets,
            discarded: self.filtered,
        });
        self.outlet.tell(Losses {
            unread_packets: self.unread,
            ignored,
            filter,
            ..Losses::default()
        });
    }

    fn with_table(
        &mut self,
        work: impl FnOnce(&mut Table, &mut Batch, &mut Plugins, &mut dyn FnMut(&FlowRecord, Fields)),
    ) {
        let Self {
            table,
            batch,
            plugins,
            formed,
            outlet,
            leak,
            is_live,
            stop,
            config,
            ..
        } = self;
        let mut due_ns = u64::MAX;
        work(table, batch, plugins, &mut |record, fields| {
            due_ns = due_ns.min(config.due_ns(record).unwrap_or(u64::MAX));
            if leak.take("records") {
                return;
            }
            *formed += Amount::of(record);
            let record = *record;
            if outlet.push(Row { record, fields }) {
                outlet.hand_over(|| may_wait(*is_live, stop));
            }
        });
        let late_ns = self.table.clock_ns().saturating_sub(due_ns);
        self.late_max_ns = self.late_max_ns.max(late_ns);
    }
}

fn may_wait(is_live: bool, stop: &Stop) -> bool {
    !is_live && stop.urgency() < Urgency::Now
}

#[cfg(test)]
mod tests {
    use forebay_flow::LinkType;

    use super::*;
    use crate::books::DATAGRAM;

    #[test]
    fn records_wait_where_nothing_is_live_until_all_shall_end_now() {
        let stop = Stop::of_library().unwrap();
        for urgency in [Urgency::Go, Urgency::Drain, Urgency::Hurry, Urgency::Now] {
            stop.order(urgency);
            let waits = [false, true].map(|is_live| may_wait(is_live, &stop));
            assert_eq!(waits, [urgency != Urgency::Now, false]);
        }
    }

    #[test]
    fn a_flow_ends_when_it_is_due_and_nothing_is_done_before() {
        let mut plan = ProbePlan::default();
        plan.settings.interface = Some("none".into());
        let host = Host::new(Stop::of_library().unwrap(), Leak::off(), ());
        let queue = Queue::new(1, 9);
        let mut flows = Flows::new(&plan, &queue, (0, 7), None, &host).unwrap();
        flows.take(&Frame {
            time_ns: 5,
            link: Some(LinkType::RawIp),
            bytes: &DATAGRAM,
            wire_bytes: 30,
        });
        flows.settle();
        let due_ns = flows.table.poll_timeout().unwrap();
        flows.tick(due_ns - 1, || unreachable!("nothing is due"));
        flows.tick(due_ns, || false);
        assert!(due_ns > 5 + flows.config.idle_timeout_ns);
        assert_eq!(flows.formed.flows, 1);
    }
}
