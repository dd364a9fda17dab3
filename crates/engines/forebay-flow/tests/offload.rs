//! Records of a table that lends flows against those of one that sees all packets itself. Below is a model here: a map, and the rules of [`Lower`].

#![allow(clippy::unwrap_used)]

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use forebay_flow::offload::{
    Answer, Counted, HeavyHitter, Loan, Lower, OffloadCounts, Packets, Policy, Rate,
};
use forebay_flow::{
    Batch, Config, EndReason, Eviction, FlowKey, FlowRecord, Packet, Table, Volume, Watch, Way,
};
use proptest::prelude::*;

const SECOND_NS: u64 = 1_000_000_000;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
/// How much younger than its begin a packet has to be before a watched flow is counted, ns.
const GUARD_NS: u64 = 1_000_000;

#[derive(Debug)]
struct Flow {
    loan: Loan,
    is_counted: bool,
    is_cut: bool,
    is_closed: bool,
    counted: Counted,
}

#[derive(Debug, Default)]
struct Below {
    now_ns: u64,
    idle_ns: u64,
    room: usize,
    /// Another table has what is asked for.
    is_elsewhere: bool,
    /// It can cut packets.
    trims: bool,
    /// Packets that came up cut.
    cut: u64,
    flows: HashMap<FlowKey, Flow>,
    taken: Volume,
}

impl Below {
    /// Whether a packet is counted here.
    fn packet(&mut self, packet: &Packet<'_>) -> bool {
        self.now_ns = packet.time_ns;
        let (key, turned) = packet.key.canonical();
        let Some(flow) = self.flows.get_mut(&key) else {
            return false;
        };
        let closes = packet.tcp_flags & (SYN | FIN | RST) != 0
            || packet.time_ns >= flow.loan.heard_ns + self.idle_ns
            || packet.time_ns >= flow.loan.active_due_ns;
        flow.is_closed |= closes;
        if flow.is_closed {
            return false;
        }
        flow.loan.heard_ns = packet.time_ns;
        if !flow.is_counted {
            self.cut += u64::from(flow.is_cut);
            return false;
        }
        let (counted, way) = (&mut flow.counted, usize::from(turned));
        if counted.packets == [0, 0] {
            counted.first_ns = packet.time_ns;
        }
        counted.last_ns = packet.time_ns;
        counted.packets[way] += 1;
        counted.octets[way] += u64::from(packet.octets);
        counted.tcp_flags[way] |= packet.tcp_flags;
        true
    }
}

#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Below>>);

impl Lower for Shared {
    fn watch(&mut self, key: &FlowKey, loan: &Loan) -> Answer {
        let mut below = self.0.lock().unwrap();
        assert_eq!(*key, key.canonical().0);
        if below.is_elsewhere {
            return Answer::Elsewhere;
        }
        if below.flows.len() >= below.room {
            return Answer::Full;
        }
        let flow = Flow {
            loan: *loan,
            is_counted: false,
            is_cut: false,
            is_closed: false,
            counted: Counted::default(),
        };
        assert!(below.flows.insert(*key, flow).is_none());
        Answer::Since(below.now_ns)
    }

    fn trims(&self) -> bool {
        self.0.lock().unwrap().trims
    }

    fn trim(&mut self, key: &FlowKey, loan: &Loan) -> Answer {
        let answer = self.watch(key, loan);
        if let Some(flow) = self.0.lock().unwrap().flows.get_mut(key) {
            flow.is_cut = true;
        }
        answer
    }

    fn count(&mut self, key: &FlowKey, loan: &Loan) -> bool {
        let mut below = self.0.lock().unwrap();
        let flow = below.flows.get_mut(key).unwrap();
        flow.is_counted = !flow.is_closed;
        flow.loan.heard_ns = flow.loan.heard_ns.max(loan.heard_ns);
        flow.is_counted
    }

    fn take(&mut self, key: &FlowKey) -> Option<Counted> {
        let mut below = self.0.lock().unwrap();
        let counted = below.flows.remove(key)?.counted;
        below.taken += counted.volume();
        Some(counted)
    }

    fn collect(&mut self, key: &FlowKey) -> Option<Counted> {
        let mut below = self.0.lock().unwrap();
        let counted = std::mem::take(&mut below.flows.get_mut(key)?.counted);
        below.taken += counted.volume();
        Some(counted)
    }
}

#[derive(Clone, Copy, Debug)]
struct Step {
    host: u8,
    is_reverse: bool,
    octets: u32,
    tcp_flags: u8,
    ns: u64,
    /// Packets under way that the table handles before the next one comes.
    handles: u8,
    /// What else happens: a tick, or an export of a flow.
    what: u8,
}

fn key(host: u8) -> FlowKey {
    let source = [10, 0, 0, host.wrapping_mul(31)];
    FlowKey::new(source.into(), [10, 0, 0, 128].into(), 6).with_ports(50_000, 443)
}

fn packet(step: &Step, time_ns: u64) -> Packet<'static> {
    let key = key(step.host);
    Packet {
        time_ns,
        key: if step.is_reverse { key.turned() } else { key },
        octets: step.octets,
        tcp_flags: step.tcp_flags,
        header: &[],
        payload: &[],
        payload_bytes: 0,
        hop_limit: 64,
        fragment: None,
        tunnel: None,
    }
}

fn short() -> Config {
    Config {
        flows: 512,
        biflow: true,
        idle_timeout_ns: 4 * SECOND_NS,
        active_timeout_ns: 9 * SECOND_NS,
        linger_ns: SECOND_NS,
        eviction: Eviction::Oldest,
        hash_seed: 7,
    }
}

fn sorted(mut records: Vec<FlowRecord>) -> Vec<String> {
    records.sort_by_key(|record| (record.start_ns, record.key.source(), record.end_ns));
    let texts = records.iter().map(|record| format!("{record:?}"));
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts
}

fn sum(records: &[FlowRecord]) -> Volume {
    let volumes = records.iter().map(FlowRecord::volume);
    volumes.fold(Volume::default(), |sum, volume| sum + volume)
}

/// A table that lends, with packets on their way to it.
struct World {
    below: Shared,
    table: Table,
    way: VecDeque<Packet<'static>>,
    records: Vec<FlowRecord>,
    counted: u64,
}

impl World {
    fn new(config: &Config, policy: Box<dyn Policy>, room: usize) -> Self {
        let below = Shared(Arc::new(Mutex::new(Below {
            idle_ns: config.idle_timeout_ns,
            room,
            ..Below::default()
        })));
        let mut table = Table::new(config).unwrap();
        table.set_offload(Box::new(below.clone()), policy).unwrap();
        Self {
            below,
            table,
            way: VecDeque::new(),
            records: Vec::new(),
            counted: 0,
        }
    }

    fn comes(&mut self, packet: &Packet<'static>) {
        if self.below.0.lock().unwrap().packet(packet) {
            self.counted += 1;
        } else {
            self.way.push_back(*packet);
        }
    }

    fn handles(&mut self, most: usize) {
        let count = most.min(self.way.len());
        let batch: Vec<Packet<'static>> = self.way.drain(..count).collect();
        let records = &mut self.records;
        self.table
            .handle_packets(&batch, &mut |record| records.push(*record));
        self.check();
    }

    /// To the latest time that no packet under way is before.
    fn ticks(&mut self, now_ns: u64) {
        let now_ns = self.way.front().map_or(now_ns, |packet| packet.time_ns);
        let records = &mut self.records;
        self.table.tick(now_ns, &mut |record| records.push(*record));
        self.check();
    }

    fn check(&self) {
        assert_eq!(sum(&self.records), self.table.exported());
        self.check_counts();
    }

    fn check_counts(&self) {
        let (table, below) = (&self.table, self.below.0.lock().unwrap());
        assert_eq!(table.offloaded(), below.taken);
        let seen = table.taken() + table.offloaded();
        assert_eq!(seen, table.exported() + table.held());
        assert_eq!(table.held(), table.held_now());
        let OffloadCounts {
            watched,
            counted,
            returned,
            missing,
            ..
        } = table.offload_counts();
        assert!(missing == 0 && counted <= watched);
        assert_eq!(watched, returned + below.flows.len() as u64);
    }

    /// What was counted below moves no clock of the table.
    fn ends(&mut self, now_ns: u64) {
        self.handles(usize::MAX);
        self.ticks(now_ns);
        let records = &mut self.records;
        self.table.end_all(&mut |record| records.push(*record));
        self.check();
        assert!(self.below.0.lock().unwrap().flows.is_empty());
        assert_eq!(self.table.offloaded().packets, self.counted);
    }
}

/// Both tables; gives how many packets were counted below.
fn agree(policy: Box<dyn Policy>, room: usize, steps: &[Step]) -> u64 {
    let config = short();
    let mut world = World::new(&config, policy, room);
    let mut alone = Table::new(&config).unwrap();
    let mut records = Vec::new();
    let mut now_ns = 0;
    for step in steps {
        now_ns += step.ns;
        let packet = packet(step, now_ns);
        alone.handle_packet(&packet, &mut |record| records.push(*record));
        world.comes(&packet);
        world.handles(step.handles.into());
        match step.what {
            0 => world.ticks(now_ns),
            host @ 1..=3 => {
                world.table.take_back(&key(host));
                world.check();
            }
            host @ 4..=12 => {
                world.table.collect(&key(host % 4));
                world.check();
            }
            _ => {}
        }
    }
    world.ends(now_ns);
    // The clock does not follow a last packet that is far ahead.
    alone.tick(now_ns, &mut |record| records.push(*record));
    alone.end_all(&mut |record| records.push(*record));
    let both = [sorted(world.records), sorted(records)];
    let differs =
        (0..both[0].len().max(both[1].len())).find(|n| both[0].get(*n) != both[1].get(*n));
    if let Some(n) = differs {
        assert_eq!(
            both[0].get(n),
            both[1].get(n),
            "of {} and {} records",
            both[0].len(),
            both[1].len()
        );
    }
    world.counted
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let flags = prop_oneof![
        20 => Just(ACK), 1 => Just(SYN), 2 => Just(FIN | ACK), 1 => Just(RST), 1 => any::<u8>()
    ];
    let times = prop_oneof![
        4 => Just(0_u64),
        8 => 0..3_000_000_u64,
        8 => 0..SECOND_NS / 5,
        2 => 0..3 * SECOND_NS,
        1 => SECOND_NS - 2..SECOND_NS + 2,
        1 => 4 * SECOND_NS - 2..4 * SECOND_NS + 2,
        1 => 9 * SECOND_NS - 2..9 * SECOND_NS + 2,
    ];
    let handles = prop_oneof![3 => Just(0_u8), 3 => 0..3_u8, 1 => Just(20)];
    let step = (
        0..4_u8,
        any::<bool>(),
        20..100_000_u32,
        flags,
        times,
        handles,
        0..40_u8,
    );
    let step = step.prop_map(
        |(host, is_reverse, octets, tcp_flags, ns, handles, what)| Step {
            host,
            is_reverse,
            octets,
            tcp_flags,
            ns,
            handles,
            what,
        },
    );
    proptest::collection::vec(step, 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn records_are_those_of_a_table_that_sees_all_packets(
        after in 0..6_u64, room in 0..5_usize, steps in steps(250),
    ) {
        agree(Box::new(Packets(after)), room, &steps);
    }

    #[test]
    fn whatever_the_policy(is_rate: bool, steps in steps(250)) {
        let policy: Box<dyn Policy> = if is_rate {
            Box::new(Rate { rate_hz: 2, packets_min: 2 })
        } else {
            Box::new(HeavyHitter::new(4, 32, 1))
        };
        agree(policy, 4, &steps);
    }
}

fn plain(host: u8, ns: u64) -> Step {
    Step {
        host,
        is_reverse: false,
        octets: 100,
        tcp_flags: ACK,
        ns,
        handles: 1,
        what: 40,
    }
}

#[test]
fn a_long_flow_is_counted_below_but_for_its_first_packets() {
    let steps: Vec<Step> = (0..1000).map(|_| plain(1, 2_000_000)).collect();
    // 31 that the policy asks for, and 1 that shows that none is under way.
    assert_eq!(agree(Box::new(Packets::default()), 4, &steps), 968);
}

#[test]
fn a_flow_without_room_below_stays_and_is_asked_for_again_later() {
    let config = short();
    let mut world = World::new(&config, Box::new(Packets(0)), 1);
    let mut now_ns = 0;
    let mut comes = |world: &mut World, host, ns| {
        now_ns += ns;
        world.comes(&packet(&plain(host, 0), now_ns));
        world.handles(1);
    };
    for host in [1, 1, 2, 2, 2, 2] {
        comes(&mut world, host, 2_000_000);
    }
    let counts = world.table.offload_counts();
    assert_eq!((counts.watched, counts.refused), (1, 1));
    assert!(world.table.take_back(&key(1).turned()));
    assert!(!world.table.take_back(&key(1)));
    assert!(!world.table.take_back(&key(3)));
    comes(&mut world, 2, 100_000_000);
    assert_eq!(world.table.offload_counts().watched, 2);
    world.ends(now_ns);
}

/// Of flows that below has forgotten each is told.
#[test]
fn a_flow_that_below_does_not_give_back_is_counted_as_missing() {
    let mut world = World::new(&short(), Box::new(Packets(0)), 4);
    for ms in [1, 2] {
        for host in 1..=3 {
            world.comes(&packet(&plain(host, 0), SECOND_NS + ms * 1_000_000));
            world.handles(1);
        }
    }
    assert_eq!(world.table.offload_counts().watched, 3);
    world.below.0.lock().unwrap().flows.clear();
    for host in 1..=3 {
        assert!(world.table.take_back(&key(host)));
        let counts = world.table.offload_counts();
        assert_eq!((counts.missing, counts.returned), (host.into(), 0));
    }
}

/// From the moment at which there was no room on, to the nanosecond.
#[test]
fn a_flow_without_room_is_asked_for_again_after_a_pause() {
    let mut world = World::new(&short(), Box::new(Packets(0)), 0);
    for (ns, refused) in [(0, 0), (1, 1), (100_000_000, 1), (100_000_001, 2)] {
        world.comes(&packet(&plain(1, 0), SECOND_NS + ns));
        world.handles(1);
        assert_eq!(world.table.offload_counts().refused, refused, "{ns}");
    }
}

/// A packet that is younger than the begin of the watch by just the guard may have one from before behind it.
#[test]
fn a_flow_is_counted_when_the_clock_is_past_its_watch_and_a_guard() {
    let mut world = World::new(&short(), Box::new(Packets(0)), 4);
    let begin_ns = SECOND_NS + 1;
    for (ns, counted) in [
        (SECOND_NS, 0),
        (begin_ns, 0),
        (begin_ns + 1_000_000, 0),
        (begin_ns + 1_000_001, 1),
    ] {
        world.comes(&packet(&plain(1, 0), ns));
        world.handles(1);
        assert_eq!(world.table.offload_counts().counted, counted, "{ns}");
    }
}

/// While others are under way a flow is only watched: a FIN among them would be missed.
#[test]
fn nothing_is_counted_below_while_packets_from_before_are_under_way() {
    let config = short();
    let mut world = World::new(&config, Box::new(Packets(1)), 4);
    let mut now_ns = 0;
    for _ in 0..50 {
        now_ns += 2_000_000;
        world.comes(&packet(&plain(1, 0), now_ns));
    }
    world.handles(49);
    assert_eq!(world.table.offload_counts().watched, 1);
    assert_eq!(world.table.offload_counts().counted, 0);
    now_ns += 2_000_000;
    world.comes(&packet(&plain(1, 0), now_ns));
    assert_eq!(world.counted, 0);
    world.handles(2);
    assert_eq!(world.table.offload_counts().counted, 1);
    now_ns += 2_000_000;
    world.comes(&packet(&plain(1, 0), now_ns));
    assert_eq!(world.counted, 1);
    world.ends(now_ns);
    assert_eq!(world.records[0].packets, 52);
    assert_eq!(world.records[0].end_ns, now_ns);
    assert_eq!(world.records[0].end_reason, EndReason::Forced);
}

#[test]
fn a_full_table_takes_lent_flows_back_before_it_lets_one_go() {
    for eviction in [Eviction::Oldest, Eviction::LineLru] {
        let config = Config {
            flows: 16,
            eviction,
            ..short()
        };
        let mut world = World::new(&config, Box::new(Packets(1)), 16);
        let mut now_ns = 0;
        let mut sent = 0;
        for round in 0..40_u8 {
            for mouse in 0..16 {
                for host in [0, 1, 2, 3, 4 + mouse + round] {
                    now_ns += 1_100_000;
                    world.comes(&packet(&plain(host, 0), now_ns));
                    world.handles(1);
                    sent += 1;
                }
            }
        }
        world.ends(now_ns);
        assert!(world.counted > sent / 2, "{eviction:?} {}", world.counted);
        assert_eq!(sum(&world.records).packets, sent);
        assert!(world.table.counts().ended(EndReason::LackOfResources) > 100);
    }
}

/// Wants so many packets of each flow.
struct Wanting {
    most: u64,
    seen: u64,
    /// Of them the first ones with their payload.
    payloads: u64,
}

/// A table below that cuts frames, and a watch that wants `most` packets, the first `payloads` of them whole.
fn cutting(most: u64, payloads: u64) -> (World, Wanting) {
    let world = World::new(&short(), Box::new(Packets(1)), 4);
    world.below.0.lock().unwrap().trims = true;
    let watch = Wanting {
        most,
        seen: 0,
        payloads,
    };
    (world, watch)
}

impl Watch for Wanting {
    fn begun(&mut self, _place: u32, _packet: &Packet<'_>) {
        self.seen = 1;
    }

    fn packet(&mut self, _place: u32, _way: Way, _packet: &Packet<'_>) {
        self.seen += 1;
    }

    fn wants(&self, _place: u32) -> bool {
        self.seen < self.most
    }

    fn wants_payload(&self, _place: u32) -> bool {
        self.seen < self.payloads
    }

    fn ended(&mut self, _place: u32, _record: &FlowRecord) {}
}

/// Keeps the records of flows that end.
#[derive(Default)]
struct Keeping(Vec<FlowRecord>);

impl Watch for Keeping {
    fn begun(&mut self, _place: u32, _packet: &Packet<'_>) {}

    fn packet(&mut self, _place: u32, _way: Way, _packet: &Packet<'_>) {}

    fn ended(&mut self, _place: u32, record: &FlowRecord) {
        self.0.push(*record);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Without a way between them, with every time heard: records and times that are not believed are the same, times of the future among them.
    #[test]
    fn a_table_that_hears_all_times_believes_what_one_believes_that_sees_all_packets(
        steps in steps(250), futures in proptest::collection::vec(0..30_u8, 250),
    ) {
        let mut world = World::new(&short(), Box::new(Packets(2)), 4);
        let mut alone = Table::new(&short()).unwrap();
        let (mut all, mut kept) = (Vec::new(), Keeping::default());
        let mut now_ns = SECOND_NS;
        let mut calm = 0;
        for (step, future) in steps.iter().zip(&futures) {
            now_ns += step.ns;
            // Two of them behind each other would be believed, and two with a pause of the others alone between them: a clock that jumps ends flows in bounded steps, and a
            // flow that waits for its end may be cut at another packet.
            calm = if step.ns < SECOND_NS { calm + 1 } else { 0 };
            let is_future = *future == 0 && calm >= 3;
            if is_future {
                calm = 0;
            }
            let time_ns = now_ns + if is_future { 86_400 * SECOND_NS } else { 0 };
            let packet = packet(step, time_ns);
            alone.handle_packet(&packet, &mut |record| all.push(*record));
            if world.below.0.lock().unwrap().packet(&packet) {
                world.table.hear(time_ns, &mut kept);
            } else {
                world.table.handle_packet(&packet, &mut |record| kept.0.push(*record));
            }
            world.check_counts();
        }
        world.table.end_all(&mut |record| kept.0.push(*record));
        alone.end_all(&mut |record| all.push(*record));
        prop_assert_eq!(sorted(kept.0), sorted(all));
        prop_assert_eq!(world.table.counts().disbelieved, alone.counts().disbelieved);
        prop_assert_eq!(world.table.clock_ns(), alone.clock_ns());
    }
}

#[test]
fn a_flow_that_another_table_has_lent_is_asked_for_once() {
    let mut world = World::new(&short(), Box::new(Packets(0)), 4);
    world.below.0.lock().unwrap().is_elsewhere = true;
    for ms in 1..50 {
        world.comes(&packet(&plain(1, 0), ms * 1_000_000));
        world.handles(1);
    }
    let counts = world.table.offload_counts();
    assert_eq!(
        (counts.elsewhere, counts.watched, counts.refused),
        (1, 0, 0)
    );
    // Others are lent at once.
    world.below.0.lock().unwrap().is_elsewhere = false;
    // A flow's first packet asks for nothing.
    for ms in [50, 51] {
        world.comes(&packet(&plain(2, 0), ms * 1_000_000));
        world.handles(1);
    }
    assert_eq!(world.table.offload_counts().watched, 1);
}

#[test]
fn a_clock_that_is_set_back_lends_again_at_once() {
    let mut world = World::new(&short(), Box::new(Packets(0)), 0);
    let comes = |world: &mut World, ns| {
        for ns in [ns, ns + 1] {
            world.comes(&packet(&plain(1, 0), ns));
            world.handles(1);
        }
    };
    comes(&mut world, 3600 * SECOND_NS);
    assert_eq!(world.table.offload_counts().refused, 1);
    let mut kept = Keeping::default();
    world.table.set_back(&mut kept);
    world.records.extend(kept.0);
    world.below.0.lock().unwrap().room = 4;
    comes(&mut world, SECOND_NS);
    assert_eq!(world.table.offload_counts().watched, 1);
}

#[test]
fn a_flow_is_not_lent_as_long_as_its_packets_are_wanted() {
    let mut world = World::new(&short(), Box::new(Packets(1)), 4);
    let mut watch = Wanting {
        most: 7,
        seen: 0,
        payloads: 0,
    };
    let mut batch = Batch::new(1);
    for n in 1..=8 {
        batch.push(&packet(&plain(1, 0), n));
        world.table.handle_batch(&batch, &mut watch);
        batch.clear();
        let watched = world.table.offload_counts().watched;
        assert_eq!(watched, u64::from(n >= 7), "after packet {n}");
    }
}

/// The first four are wanted with their payload, and headers up to the ninth; then nothing is.
#[test]
fn a_flow_whose_headers_are_wanted_comes_up_cut_until_nothing_is() {
    for (ns, cut, counted) in [
        // Packets that are so far apart that none from before is under way: 5 to 9 are cut, all behind it are counted.
        (2 * GUARD_NS, 5, 11),
        // Two come before the watch is old enough, of which headers are wanted: it stays one that cuts.
        (GUARD_NS / 2, 5, 11),
        // All is wanted before the watch is old enough: some more are cut.
        (GUARD_NS / 8, 9, 7),
    ] {
        let (mut world, mut watch) = cutting(9, 4);
        let (mut batch, mut kept) = (Batch::new(1), Keeping::default());
        for n in 1..=20 {
            let packet = packet(&plain(1, 0), n * ns);
            if world.below.0.lock().unwrap().packet(&packet) {
                world.counted += 1;
                continue;
            }
            batch.push(&packet);
            world.table.handle_batch(&batch, &mut watch);
            batch.clear();
            let counts = world.table.offload_counts();
            assert_eq!(
                (counts.watched, counts.trimmed),
                match n {
                    ..4 => (0, 0),
                    _ => (1, 1),
                },
                "after packet {n}"
            );
        }
        let counts = world.table.offload_counts();
        assert_eq!((counts.counted, world.counted), (1, counted), "{ns}");
        assert_eq!(world.below.0.lock().unwrap().cut, cut, "{ns}");
        world.table.end_all_watched(&mut kept);
        let packets: Vec<_> = kept.0.iter().map(|record| record.packets).collect();
        assert_eq!(packets, [20], "{ns}");
    }
}

/// Nothing is wanted of it when its watch is old enough: none of its packets is needed for that.
#[test]
fn a_flow_whose_headers_were_wanted_is_counted_as_soon_as_its_watch_is_old_enough() {
    let (mut world, mut watch) = cutting(3, 0);
    let mut batch = Batch::new(1);
    for n in 1..=3 {
        batch.push(&packet(&plain(1, 0), n));
        world.table.handle_batch(&batch, &mut watch);
        batch.clear();
    }
    let found = |world: &World| {
        let counts = world.table.offload_counts();
        (counts.trimmed, counts.counted)
    };
    assert_eq!(found(&world), (1, 0));
    world.table.tick_watched(3 + 2 * GUARD_NS, &mut watch);
    assert_eq!(found(&world), (1, 1));
}

/// Whatever ends it: what was cut is taken back as what was counted is.
#[test]
fn a_flow_that_is_cut_comes_back_with_what_closes_it() {
    let (mut world, mut watch) = cutting(100, 0);
    let mut batch = Batch::new(1);
    for (n, tcp_flags) in [ACK, ACK, ACK, RST | ACK].into_iter().enumerate() {
        let step = Step {
            tcp_flags,
            ..plain(1, 0)
        };
        let packet = packet(&step, (n as u64 + 1) * 2 * GUARD_NS);
        assert!(!world.below.0.lock().unwrap().packet(&packet));
        batch.push(&packet);
        world.table.handle_batch(&batch, &mut watch);
        batch.clear();
    }
    let counts = world.table.offload_counts();
    assert_eq!((counts.trimmed, counts.counted, counts.returned), (1, 0, 1));
    assert!(world.below.0.lock().unwrap().flows.is_empty());
}

#[test]
fn what_was_counted_is_collected_while_its_flow_stays_lent() {
    let mut world = World::new(&short(), Box::new(Packets(0)), 4);
    let comes = |world: &mut World, ms: u64| {
        world.comes(&packet(&plain(1, 0), ms * 1_000_000));
        world.handles(1);
    };
    // Nothing is known of it, it is held here, and it is watched.
    for ms in 1..=3 {
        assert!(!world.table.collect(&key(1)), "{ms}");
        comes(&mut world, ms);
    }
    for ms in 4..=20 {
        comes(&mut world, ms);
    }
    assert!(world.counted > 10 && world.table.offloaded().packets == 0);
    assert!(world.table.collect(&key(1)) && !world.table.collect(&key(2)));
    assert_eq!(world.table.offloaded().packets, world.counted);
    comes(&mut world, 21);
    assert!(world.table.collect(&key(1)));
    assert_eq!(world.table.offloaded().packets, world.counted);
    assert_eq!(world.table.offload_counts().collected, 2);
    assert_eq!(world.below.0.lock().unwrap().flows.len(), 1);
    world.ends(22_000_000);
}

/// A table below whose clock is further ahead than the idle time-out gets no flow; a clock that has not begun is behind any.
#[test]
fn a_flow_is_not_lent_to_a_table_in_the_future() {
    let idle_ns = short().idle_timeout_ns;
    for (time_ns, since_ns, watched) in [
        (SECOND_NS, SECOND_NS + idle_ns, 1),
        (SECOND_NS, SECOND_NS + idle_ns + 1, 0),
        (0, 10 * SECOND_NS, 1),
    ] {
        let mut world = World::new(&short(), Box::new(Packets(1)), 4);
        world.below.0.lock().unwrap().now_ns = since_ns;
        for _ in 0..2 {
            let packet = packet(&plain(1, 0), time_ns);
            world.table.handle_packet(&packet, &mut |_| ());
        }
        assert_eq!(world.table.clock_ns(), time_ns);
        let lent = world.below.0.lock().unwrap().flows.len() as u64;
        let counts = world.table.offload_counts();
        assert_eq!((counts.watched, lent), (watched, watched), "{since_ns}");
    }
}

#[test]
fn each_direction_alone_is_not_lent() {
    let mut table = Table::new(&Config {
        biflow: false,
        ..short()
    })
    .unwrap();
    let below = Shared(Arc::default());
    let error = table.set_offload(Box::new(below), Box::new(Packets(1)));
    assert_eq!(error.unwrap_err().name, "biflow");
}
