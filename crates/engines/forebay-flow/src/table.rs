//! Flows in memory that is made once, and their ends.
//!
//! The clock is the greatest time seen, of [`Table::tick`] and of packets, of which one that is far ahead is not believed alone (`table/ahead.rs`); it never goes back. A flow is over when the clock reaches its time-out, whether it was
//! taken out by then or not: a packet that comes later begins another one. So records do not depend on how work is spread over calls, of which each does a
//! bounded amount. A packet from before the clock's time counts with its own time in the record and is [`Counts::out_of_order`]; the record of a flow that begins
//! with one may be handed on as much later than the active time-out as the packet was late, and that of a flow with a packet whose time was not believed when it is idle.
//!
//! Memory, not arithmetic, is what a packet costs: a line of the index, one of what is compared and one of what is counted. With 100,000 flows in an order as if
//! at random, each packet waited for about 190 ns of them (AMD EPYC, 4 KiB pages); in batches ([`Table::handle_packets`]) decoder and table took 106 to 132 ns.
//!
//! FIN from both sides, or RST, shortens the idle time-out of a flow to the linger time: what comes behind, as the last acknowledgement, still belongs to it. A
//! SYN without ACK begins another flow at once. Such a flow ends by [`EndReason::EndDetected`], whatever takes it out.

mod ahead;
mod entry;
mod list;
mod offload;
mod wheel;

use core::hint::black_box;

use forebay_wire::packet::tcp::{ACK, SYN};

use self::ahead::Ahead;
use self::entry::{Cold, Hot};
use self::list::Lists;
use self::wheel::Wheel;
use crate::batch::Batch;
use crate::config::Config;
use crate::decode::Packet;
use crate::index::{Index, Room};
use crate::key::{FlowKey, KeyHash};
use crate::offload::Offload;
use crate::record::{EndReason, FlowRecord, Volume};
use crate::watch::{OnEnd, Watch, Way};
use forebay_settings::OutOfRange;

/// Flows that a packet ends at most for each time-out, besides its own.
const ENDS_PER_PACKET: usize = 16;
/// Flows that a tick ends at most for each time-out.
const ENDS_PER_TICK: usize = 512;
/// Flows that are looked at for one that goes, of those that had packets since they were armed.
const LOOKS_PER_EVICTION: usize = 256;
/// Packets whose memory is waited for at once.
const PACKETS_AHEAD: usize = 16;
/// The list of all flows by their begin.
const STARTED: usize = 0;
/// The list of those that begin behind the clock's time.
const AHEAD: usize = 1;

/// What happened, besides packets and their octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Flows that began.
    pub begun: u64,
    /// Packets from before the table's time.
    pub out_of_order: u64,
    /// Packets whose time was further ahead of the table's than the idle time-out, and that of the next one was not: the clock did not follow them.
    pub disbelieved: u64,
    /// Flows that went for want of room when the search for the one that was idle longest had reached its limit of 256.
    pub hurried: u64,
    ended: [u64; EndReason::ALL.len()],
}

impl Counts {
    /// Flows that ended for a reason.
    pub const fn ended(&self, reason: EndReason) -> u64 {
        self.ended[reason as usize - 1]
    }
}

/// The flows of one stream of packets.
#[derive(Debug)]
pub struct Table {
    biflow: bool,
    idle_ns: u64,
    active_ns: u64,
    linger_ns: u64,
    hash: KeyHash,
    index: Index,
    hot: Vec<Hot>,
    cold: Vec<Cold>,
    wheel: Wheel,
    started: Lists,
    clock_ns: u64,
    /// Where packets alone, and ticks, have brought it: what is far ahead of it waits for a witness.
    heard_ns: u64,
    ahead: Ahead,
    taken: Volume,
    exported: Volume,
    /// By what came and went.
    held: Volume,
    counts: Counts,
    offload: Option<Box<Offload>>,
}

impl Table {
    /// Makes the memory, once.
    ///
    /// # Errors
    /// A setting is outside its range.
    pub fn new(config: &Config) -> Result<Self, OutOfRange> {
        config.validate()?;
        let index = Index::new(config.eviction, config.flows);
        let places = index.places();
        Ok(Self {
            biflow: config.biflow,
            idle_ns: config.idle_timeout_ns,
            active_ns: config.active_timeout_ns,
            linger_ns: config.linger_ns,
            hash: KeyHash::new(config.hash_seed),
            index,
            hot: vec![Hot::FREE; places],
            cold: vec![Cold::FREE; places],
            wheel: Wheel::new(places, config.idle_timeout_ns),
            started: Lists::new(2, places),
            clock_ns: 0,
            heard_ns: 0,
            ahead: Ahead::default(),
            taken: Volume::default(),
            exported: Volume::default(),
            held: Volume::default(),
            counts: Counts::default(),
            offload: None,
        })
    }

    /// How many places there are for flows; a place of a [`Watch`] is below that.
    pub fn places(&self) -> usize {
        self.hot.len()
    }

    /// Counts a packet. Flows that end meanwhile are handed to `ended`.
    pub fn handle_packet(&mut self, packet: &Packet<'_>, ended: &mut impl FnMut(&FlowRecord)) {
        let hash = self.hash.of(&self.key(packet).0);
        self.take(packet, hash, &mut OnEnd(ended));
    }

    /// Counts packets one after the other, as [`Self::handle_packet`] does, but waits for the memory of several flows at once.
    pub fn handle_packets(&mut self, packets: &[Packet<'_>], ended: &mut impl FnMut(&FlowRecord)) {
        let watch = &mut OnEnd(ended);
        for packets in packets.chunks(PACKETS_AHEAD) {
            let hashes = self.look_ahead(packets);
            for (hash, packet) in hashes.into_iter().zip(packets) {
                self.take(packet, hash, watch);
            }
        }
    }

    /// As [`Self::handle_packets`], with the bytes that the batch kept, and with a watch over each packet and each end.
    pub fn handle_batch(&mut self, batch: &Batch, watch: &mut impl Watch) {
        let packets = batch.packets();
        for (chunk, packets) in packets.chunks(PACKETS_AHEAD).enumerate() {
            let hashes = self.look_ahead(packets);
            for (n, (hash, packet)) in hashes.into_iter().zip(packets).enumerate() {
                let with_bytes = batch.with_bytes(chunk * PACKETS_AHEAD + n);
                self.take(with_bytes.as_ref().unwrap_or(packet), hash, watch);
            }
        }
    }

    /// Hashes of up to [`PACKETS_AHEAD`] packets, of whose flows the memory is in the cache afterwards.
    #[inline]
    fn look_ahead(&self, packets: &[Packet<'_>]) -> [u64; PACKETS_AHEAD] {
        let mut hashes = [0; PACKETS_AHEAD];
        let mut places = [None; PACKETS_AHEAD];
        for ((hash, place), packet) in hashes.iter_mut().zip(&mut places).zip(packets) {
            *hash = self.hash.of(&self.key(packet).0);
            *place = self.index.find(*hash, |_| true);
        }
        // Most likely it is the flow's. What is read here is in the cache when it is needed.
        for place in places.into_iter().flatten() {
            black_box(self.hot[place as usize].last_ns ^ self.cold[place as usize].hash);
        }
        hashes
    }

    /// What the packet's flow is found by, and whether the packet goes against it.
    #[inline]
    fn key(&self, packet: &Packet<'_>) -> (FlowKey, bool) {
        if self.biflow {
            packet.key.canonical()
        } else {
            (packet.key, false)
        }
    }

    #[inline]
    fn take(&mut self, packet: &Packet<'_>, hash: u64, watch: &mut impl Watch) {
        let volume = Volume {
            packets: 1,
            octets: packet.octets.into(),
        };
        self.taken += volume;
        self.held += volume;
        if packet.time_ns < self.clock_ns {
            self.counts.out_of_order += 1;
        }
        self.hear(packet.time_ns, watch);
        let (key, turned) = self.key(packet);
        let is_it = |place: u32| self.cold[place as usize].key == key;
        let mut found = self.index.find(hash, is_it);
        if let Some(place) = found
            && let Some(reason) = self.over(place, packet)
        {
            self.end(place, reason, watch);
            found = None;
        }
        match found {
            Some(place) => {
                self.index.touch(hash, place);
                self.count(place, turned, packet, watch);
            }
            None => self.begin(hash, packet, watch),
        }
    }

    /// Hears of a packet that is not counted here, as it was filtered, or is counted below: time goes on, as far as it is believed.
    #[inline]
    pub fn hear(&mut self, time_ns: u64, watch: &mut impl Watch) {
        self.heard_ns = self.ahead.hear(self.heard_ns, self.idle_ns, time_ns);
        self.counts.disbelieved = self.ahead.disbelieved;
        self.advance(self.heard_ns);
        self.end_due(ENDS_PER_PACKET, watch);
    }

    /// What the clock will be behind a packet with this time, as far as that is believed, and not beyond the packet, ns. Where the input can wait, the table is asked
    /// for what is over by then, one [`Self::poll_timeout`] after the other ([`Self::pass`]): time goes through a silence as it would with packets.
    #[inline]
    pub fn believed_ns(&self, time_ns: u64) -> u64 {
        let mut ahead = self.ahead;
        let believed_ns = ahead.hear(self.heard_ns, self.idle_ns, time_ns);
        if time_ns < self.clock_ns {
            believed_ns
        } else {
            believed_ns.min(time_ns)
        }
    }

    /// Moves the clock to a time that no later packet is before, and hands on what has ended by it.
    ///
    /// It ends a bounded number of flows: more may be due, which [`Self::poll_timeout`] tells.
    pub fn tick(&mut self, now_ns: u64, ended: &mut impl FnMut(&FlowRecord)) {
        self.tick_watched(now_ns, &mut OnEnd(ended));
    }

    /// As [`Self::tick`], with a watch over each end.
    pub fn tick_watched(&mut self, now_ns: u64, watch: &mut impl Watch) {
        self.pass(now_ns, watch);
        self.heard_ns = self.clock_ns;
        self.ahead.reach(self.clock_ns, self.idle_ns);
    }

    /// Goes through a time on the way to that which the next packet brings ([`Self::believed_ns`]), and hands on what has ended by it, a bounded number as of [`Self::tick`]. What is
    /// believed of packets stays as it is without.
    pub fn pass(&mut self, now_ns: u64, watch: &mut impl Watch) {
        self.advance(now_ns);
        self.end_due(ENDS_PER_TICK, watch);
    }

    /// From when on [`Self::tick`] may have something to do, ns: the clock's time or before if it has now. None without flows.
    pub fn poll_timeout(&self) -> Option<u64> {
        if self.wheel.due().is_some() {
            return Some(self.clock_ns);
        }
        let oldest = self.started.first(STARTED).or(self.started.first(AHEAD))?;
        let active_ns = self.active_due_ns(&self.hot[oldest as usize]);
        Some(
            self.wheel
                .next_ns()
                .map_or(active_ns, |ns| ns.min(active_ns)),
        )
    }

    /// Ends all flows; those whose time-out is not over are forced to end.
    pub fn end_all(&mut self, ended: &mut impl FnMut(&FlowRecord)) {
        self.end_all_watched(&mut OnEnd(ended));
    }

    /// As [`Self::end_all`], with a watch over each end.
    pub fn end_all_watched(&mut self, watch: &mut impl Watch) {
        while let Some(place) = self.started.first(STARTED).or(self.started.first(AHEAD)) {
            self.end(place, EndReason::Forced, watch);
        }
    }

    /// Ends all flows, as [`Self::end_all_watched`] does, and begins its time anew: a clock that was set back would end each flow with its first packet.
    pub fn set_back(&mut self, watch: &mut impl Watch) {
        self.end_all_watched(watch);
        (self.clock_ns, self.heard_ns) = (0, 0);
        self.ahead.forget();
        if let Some(offload) = &mut self.offload {
            offload.paused_until_ns = 0;
        }
        self.wheel = Wheel::new(self.hot.len(), self.idle_ns);
    }

    /// Its time, ns: the greatest that it was told of.
    pub const fn clock_ns(&self) -> u64 {
        self.clock_ns
    }

    /// What came in.
    pub const fn taken(&self) -> Volume {
        self.taken
    }

    /// What the records had that were handed on.
    pub const fn exported(&self) -> Volume {
        self.exported
    }

    /// What the flows have that are here, by what came and went: at once, for a view of a table at work.
    pub const fn held_now(&self) -> Volume {
        self.held
    }

    /// What the flows have that are here: counted anew from all of them.
    pub fn held(&self) -> Volume {
        let mut held = Volume::default();
        for entry in &self.hot {
            held += Volume {
                packets: entry.packets.iter().sum(),
                octets: entry.octets.iter().sum(),
            };
        }
        held
    }

    /// Flows that are here, by those that began and ended: at once.
    pub fn flows_now(&self) -> u64 {
        let ended: u64 = self.counts.ended.iter().sum();
        self.counts.begun - ended
    }

    /// Flows that are here: counted anew.
    pub fn flows(&self) -> usize {
        let is_flow = |entry: &&Hot| entry.packets != [0; 2];
        self.hot.iter().filter(is_flow).count()
    }

    /// What else happened.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    #[inline]
    fn advance(&mut self, now_ns: u64) {
        self.clock_ns = self.clock_ns.max(now_ns);
        // Also where the clock stays: a packet that is late may have set the begin of a flow back to before it.
        self.catch_up();
        self.wheel.advance(&mut self.hot, self.clock_ns);
        if self.offload.is_some() {
            self.open_watched();
        }
    }

    /// Flows that began ahead of the clock are among the others once it has reached their begin.
    #[inline]
    fn catch_up(&mut self) {
        while let Some(place) = self.started.first(AHEAD)
            && self.hot[place as usize].first_ns <= self.clock_ns
        {
            self.started.remove(&mut self.cold, place);
            self.started.push(&mut self.cold, STARTED, place);
        }
    }

    #[inline]
    fn end_due(&mut self, most: usize, watch: &mut impl Watch) {
        for _ in 0..most {
            let Some(place) = self.wheel.due() else {
                break;
            };
            match self.due(place) {
                Some(reason) => self.end(place, reason, watch),
                None => self.arm_again(place),
            }
        }
        for _ in 0..most {
            let Some(place) = self.started.first(STARTED) else {
                break;
            };
            // Of those that began in order none is due before the first.
            let Some(reason) = self.due(place) else {
                break;
            };
            self.end(place, reason, watch);
        }
    }

    /// When a flow has been quiet for too long, ns.
    #[inline]
    const fn quiet_due_ns(&self, entry: &Hot) -> u64 {
        let quiet_ns = if entry.has_ended(self.biflow) {
            self.linger_ns
        } else {
            self.idle_ns
        };
        entry.last_ns.saturating_add(quiet_ns)
    }

    #[inline]
    const fn active_due_ns(&self, entry: &Hot) -> u64 {
        entry.first_ns.saturating_add(self.active_ns)
    }

    /// The time-out of a flow that was over first, if any.
    #[inline]
    fn timed_out(&self, place: u32) -> Option<EndReason> {
        self.timed_out_by(place, self.clock_ns)
    }

    #[inline]
    fn timed_out_by(&self, place: u32, now_ns: u64) -> Option<EndReason> {
        let entry = &self.hot[place as usize];
        let (quiet_ns, active_ns) = (self.quiet_due_ns(entry), self.active_due_ns(entry));
        if quiet_ns.min(active_ns) > now_ns {
            None
        } else if quiet_ns <= active_ns {
            Some(EndReason::Idle)
        } else {
            Some(EndReason::Active)
        }
    }

    /// Whether a flow is over before a packet of its key.
    #[inline]
    fn over(&mut self, place: u32, packet: &Packet<'_>) -> Option<EndReason> {
        let begins = packet.tcp_flags & (SYN | ACK) == SYN;
        if begins && self.hot[place as usize].has_ended(self.biflow) {
            return Some(EndReason::EndDetected);
        }
        // To its own flow a packet is as late as it says, though the clock may not believe it yet.
        let now_ns = self.clock_ns.max(packet.time_ns);
        let reason = self.timed_out_by(place, now_ns)?;
        if self.settle(place) {
            return self.timed_out_by(place, now_ns);
        }
        Some(reason)
    }

    #[inline]
    fn count(&mut self, place: u32, turned: bool, packet: &Packet<'_>, watch: &mut impl Watch) {
        let entry = &mut self.hot[place as usize];
        let direction = usize::from(turned != entry.turned);
        let had_ended = entry.has_ended(self.biflow);
        entry.octets[direction] += u64::from(packet.octets);
        entry.packets[direction] += 1;
        entry.tcp_flags[direction] |= packet.tcp_flags;
        entry.first_ns = entry.first_ns.min(packet.time_ns);
        entry.last_ns = entry.last_ns.max(packet.time_ns);
        // It is due earlier than where it is in the wheel.
        if !had_ended && entry.has_ended(self.biflow) {
            self.arm_again(place);
        }
        watch.packet(place, Way::of(direction == 1), packet);
        self.consider(place, packet.tcp_flags, watch);
    }

    fn arm_again(&mut self, place: u32) {
        let due_ns = self.quiet_due_ns(&self.hot[place as usize]);
        self.wheel.disarm(&mut self.hot, place);
        self.wheel.arm(&mut self.hot, place, due_ns);
    }

    fn begin(&mut self, hash: u64, packet: &Packet<'_>, watch: &mut impl Watch) {
        let (key, turned) = self.key(packet);
        let victim = match self.index.room(hash) {
            Room::Free => None,
            Room::Instead(place) => Some(place),
            Room::InsteadOfAny => self.idle_longest(),
        };
        if let Some(victim) = victim {
            self.end(victim, EndReason::LackOfResources, watch);
        }
        let place = self.index.enter(hash);
        self.counts.begun += 1;
        let entry = &mut self.hot[place as usize];
        entry.turned = turned;
        entry.octets[0] = packet.octets.into();
        entry.packets[0] = 1;
        entry.tcp_flags[0] = packet.tcp_flags;
        (entry.first_ns, entry.last_ns) = (packet.time_ns, packet.time_ns);
        let due_ns = self.quiet_due_ns(&self.hot[place as usize]);
        self.wheel.arm(&mut self.hot, place, due_ns);
        let cold = &mut self.cold[place as usize];
        (cold.key, cold.hash) = (key, hash);
        let list = if packet.time_ns > self.clock_ns {
            AHEAD
        } else {
            STARTED
        };
        self.started.push(&mut self.cold, list, place);
        watch.begun(place, packet);
    }

    /// The flow whose quiet time is over first, to a tick of the wheel.
    fn idle_longest(&mut self) -> Option<u32> {
        for _ in 0..LOOKS_PER_EVICTION {
            let (list, place) = self.wheel.next()?;
            self.settle(place);
            let due_ns = self.quiet_due_ns(&self.hot[place as usize]);
            if self.wheel.list(due_ns) == list {
                return Some(place);
            }
            self.arm_again(place);
        }
        self.counts.hurried += 1;
        self.wheel.next().map(|(_, place)| place)
    }

    /// Takes a flow out and hands on its record. A time-out that was over before goes before the reason given, and its end by TCP before both.
    fn end(&mut self, place: u32, reason: EndReason, watch: &mut impl Watch) {
        self.settle(place);
        let reason = if self.hot[place as usize].has_ended(self.biflow) {
            EndReason::EndDetected
        } else {
            self.timed_out(place).unwrap_or(reason)
        };
        self.wheel.disarm(&mut self.hot, place);
        self.started.remove(&mut self.cold, place);
        let Cold { key, hash, .. } = self.cold[place as usize];
        self.index.remove(hash, place);
        let record = self.hot[place as usize].record(key, reason);
        self.hot[place as usize] = Hot::FREE;
        self.exported += record.volume();
        self.held -= record.volume();
        self.counts.ended[reason as usize - 1] += 1;
        watch.ended(place, &record);
    }
}
