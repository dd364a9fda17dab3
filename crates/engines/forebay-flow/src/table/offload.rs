//! Flows of the table that are counted below user space, and what comes back of them.

use std::collections::VecDeque;

use forebay_wire::packet::tcp::{FIN, RST, SYN};

use super::Table;
use crate::key::FlowKey;
use crate::offload::{
    Answer, Counted, FlowView, GUARD_NS, Lent, Loan, Lower, Offload, OffloadCounts, PAUSE_NS,
    Policy,
};
use crate::record::{EndReason, Volume};
use crate::watch::Watch;
use forebay_settings::OutOfRange;

impl Table {
    /// Lends flows from now on.
    ///
    /// # Errors
    /// Each direction is a flow of its own: what is counted below has both.
    pub fn set_offload(
        &mut self,
        lower: Box<dyn Lower>,
        policy: Box<dyn Policy>,
    ) -> Result<(), OutOfRange> {
        if !self.biflow {
            return Err(OutOfRange {
                name: "biflow",
                value: 0,
                low: 1,
                high: 1,
            });
        }
        self.offload = Some(Box::new(Offload {
            lower,
            policy,
            watched: VecDeque::new(),
            paused_until_ns: 0,
            counts: OffloadCounts::default(),
            offloaded: Volume::default(),
        }));
        Ok(())
    }

    /// What was counted below and came back. With [`Self::taken`] it is what the records had that were handed on, and what is here.
    pub fn offloaded(&self) -> Volume {
        let offload = self.offload.as_ref();
        offload.map_or(Volume::default(), |offload| offload.offloaded)
    }

    /// What happened to flows that were lent.
    pub fn offload_counts(&self) -> OffloadCounts {
        let offload = self.offload.as_ref();
        offload.map_or(OffloadCounts::default(), |offload| offload.counts)
    }

    /// Takes a flow back, as when below says that it is closed. False if it is not lent.
    pub fn take_back(&mut self, key: &FlowKey) -> bool {
        match self.place_of(key) {
            Some(place) => self.settle(place),
            None => false,
        }
    }

    /// Takes what was counted of a flow until now, as when below says that it is much; the flow stays lent. False if it is not lent, or below does not know it.
    pub fn collect(&mut self, key: &FlowKey) -> bool {
        let Some(place) = self.place_of(key) else {
            return false;
        };
        if self.hot[place as usize].lent != Lent::Counted {
            return false;
        }
        let Some(offload) = &mut self.offload else {
            return false;
        };
        let Some(counted) = offload.lower.collect(&self.cold[place as usize].key) else {
            return false;
        };
        offload.counts.collected += 1;
        offload.offloaded += counted.volume();
        self.merge(place, &counted);
        true
    }

    /// Where a flow is, if it is here.
    fn place_of(&self, key: &FlowKey) -> Option<u32> {
        let key = key.canonical().0;
        let hash = self.hash.of(&key);
        let is_it = |place: u32| self.cold[place as usize].key == key;
        self.index.find(hash, is_it)
    }

    /// The time-out of a flow that is over, if any, by all that was counted of it.
    #[inline]
    pub(super) fn due(&mut self, place: u32) -> Option<EndReason> {
        let reason = self.timed_out(place)?;
        if self.settle(place) {
            return self.timed_out(place);
        }
        Some(reason)
    }

    /// Takes back what was counted of a flow, if it is lent.
    #[inline]
    pub(super) fn settle(&mut self, place: u32) -> bool {
        if matches!(self.hot[place as usize].lent, Lent::No | Lent::Elsewhere) {
            return false;
        }
        self.return_of(place);
        true
    }

    fn return_of(&mut self, place: u32) {
        let lent = std::mem::replace(&mut self.hot[place as usize].lent, Lent::No);
        let Some(offload) = &mut self.offload else {
            return;
        };
        if matches!(lent, Lent::Watched | Lent::Trimming) {
            offload.watched.retain(|(_, watched)| *watched != place);
        }
        match offload.lower.take(&self.cold[place as usize].key) {
            None => offload.counts.missing += 1,
            Some(counted) => {
                offload.counts.returned += 1;
                offload.offloaded += counted.volume();
                self.merge(place, &counted);
            }
        }
    }

    /// Adds what was counted to a flow.
    fn merge(&mut self, place: u32, counted: &Counted) {
        let volume = counted.volume();
        if volume.packets == 0 {
            return;
        }
        self.held += volume;
        let entry = &mut self.hot[place as usize];
        for against in [false, true] {
            let (way, of) = (usize::from(against != entry.turned), usize::from(against));
            entry.packets[way] += counted.packets[of];
            entry.octets[way] += counted.octets[of];
            entry.tcp_flags[way] |= counted.tcp_flags[of];
        }
        entry.first_ns = entry.first_ns.min(counted.first_ns);
        entry.last_ns = entry.last_ns.max(counted.last_ns);
    }

    /// Lends a flow after a packet, or takes it back if the packet may end it.
    #[inline]
    pub(super) fn consider(&mut self, place: u32, tcp_flags: u8, watch: &impl Watch) {
        if self.offload.is_none() {
            return;
        }
        let may_end = tcp_flags & (SYN | FIN | RST) != 0;
        match self.hot[place as usize].lent {
            Lent::No if may_end || self.hot[place as usize].has_ended(self.biflow) => {}
            Lent::No => self.lend(place, watch),
            Lent::Elsewhere => {}
            // Below has closed it.
            _ if may_end => self.return_of(place),
            Lent::Watched | Lent::Counted => {}
            // Nothing is wanted of it any more.
            Lent::Trimming if !watch.wants(place) => self.hot[place as usize].lent = Lent::Watched,
            Lent::Trimmed if !watch.wants(place) => self.count_below(place),
            Lent::Trimming | Lent::Trimmed => {}
        }
    }

    fn loan(&self, place: u32) -> Loan {
        let entry = &self.hot[place as usize];
        Loan {
            heard_ns: entry.last_ns,
            active_due_ns: self.active_due_ns(entry),
        }
    }

    fn lend(&mut self, place: u32, watch: &impl Watch) {
        let loan = self.loan(place);
        let (entry, key) = (&self.hot[place as usize], self.cold[place as usize].key);
        let view = FlowView {
            key,
            packets: entry.packets,
            octets: entry.octets,
            first_ns: entry.first_ns,
            last_ns: entry.last_ns,
        };
        let Some(offload) = &mut self.offload else {
            return;
        };
        let wants_more = watch.wants(place);
        let trims = wants_more && offload.lower.trims() && !watch.wants_payload(place);
        if !offload.policy.wants(&view)
            || (wants_more && !trims)
            || self.clock_ns < offload.paused_until_ns
        {
            return;
        }
        let answer = match trims {
            true => offload.lower.trim(&key, &loan),
            false => offload.lower.watch(&key, &loan),
        };
        match answer {
            // The table's clock would not come to a time of the future, which others behind it would wait for.
            Answer::Since(since_ns)
                if self.clock_ns > 0 && since_ns > self.clock_ns.saturating_add(self.idle_ns) =>
            {
                offload.lower.take(&key);
            }
            Answer::Since(since_ns) => {
                offload.counts.watched += 1;
                offload.watched.push_back((since_ns, place));
                offload.counts.trimmed += u64::from(trims);
                self.hot[place as usize].lent = match trims {
                    true => Lent::Trimming,
                    false => Lent::Watched,
                };
            }
            Answer::Elsewhere => {
                offload.counts.elsewhere += 1;
                self.hot[place as usize].lent = Lent::Elsewhere;
            }
            Answer::Full => {
                offload.counts.refused += 1;
                offload.paused_until_ns = self.clock_ns.saturating_add(PAUSE_NS);
            }
        }
    }

    /// Has the flows counted below from whose watch on all packets are younger than the clock.
    #[inline]
    pub(super) fn open_watched(&mut self) {
        while let Some(offload) = &mut self.offload
            && let Some(&(since_ns, place)) = offload.watched.front()
            && since_ns.saturating_add(GUARD_NS) < self.clock_ns
        {
            offload.watched.pop_front();
            match self.hot[place as usize].lent {
                Lent::Trimming => self.hot[place as usize].lent = Lent::Trimmed,
                _ => self.count_below(place),
            }
        }
    }

    /// Has a flow counted below, of which all packets from before its watch have been handled.
    fn count_below(&mut self, place: u32) {
        let (loan, key) = (self.loan(place), self.cold[place as usize].key);
        let Some(offload) = &mut self.offload else {
            return;
        };
        // One that is closed comes back with the packet that closed it, which is under way.
        if offload.lower.count(&key, &loan) {
            offload.counts.counted += 1;
        }
        self.hot[place as usize].lent = Lent::Counted;
    }
}
