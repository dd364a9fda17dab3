//! The table against a model that keeps flows in a map, ends each at its very time, and knows no limit of work.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use forebay_flow::{Config, EndReason, Eviction, FlowKey, FlowRecord, Packet, Table, Volume};
use proptest::prelude::*;

/// A tick of the table's wheel: it may hand on a flow so much later than its time.
const TICK_NS: u64 = 1 << 26;
const SECOND_NS: u64 = 1_000_000_000;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

#[derive(Clone, Copy, Debug)]
struct Step {
    host: u8,
    is_reverse: bool,
    octets: u32,
    tcp_flags: u8,
    /// Since the step before, or back from the latest time.
    ns: u64,
    is_late: bool,
    is_tick: bool,
}

fn key(host: u8, is_reverse: bool) -> FlowKey {
    // Hosts below and above 10.0.0.128, so that canonical keys go both ways.
    let source = [10, 0, 0, host.wrapping_mul(31)];
    let key = FlowKey::new(source.into(), [10, 0, 0, 128].into(), 6).with_ports(50_000, 443);
    if is_reverse { key.turned() } else { key }
}

/// The flows that are not over, by the key of the initiator, and the records of the others with when they were over.
struct Model {
    config: Config,
    places: Option<usize>,
    clock_ns: u64,
    /// Times that were far ahead and wait for the next packet: none or one.
    unbelieved: Vec<u64>,
    disbelieved: u64,
    flows: HashMap<FlowKey, FlowRecord>,
    records: Vec<(u64, FlowRecord)>,
}

impl Model {
    fn has_ended(&self, flow: &FlowRecord) -> bool {
        let is_finished =
            flow.tcp_flags & FIN != 0 && (!self.config.biflow || flow.tcp_flags_rev & FIN != 0);
        is_finished || (flow.tcp_flags | flow.tcp_flags_rev) & RST != 0
    }

    fn quiet_ns(&self, flow: &FlowRecord) -> u64 {
        flow.end_ns
            + if self.has_ended(flow) {
                self.config.linger_ns
            } else {
                self.config.idle_timeout_ns
            }
    }

    fn end(&mut self, key: FlowKey, at_ns: u64, reason: EndReason) {
        let mut flow = self.flows.remove(&key).unwrap();
        flow.end_reason = if self.has_ended(&flow) {
            EndReason::EndDetected
        } else {
            reason
        };
        self.records.push((at_ns, flow));
    }

    fn advance(&mut self, now_ns: u64) {
        self.clock_ns = self.clock_ns.max(now_ns);
        for (key, flow) in self.flows.clone() {
            let quiet_ns = self.quiet_ns(&flow);
            let active_ns = flow.start_ns + self.config.active_timeout_ns;
            if quiet_ns.min(active_ns) <= self.clock_ns {
                let reason = if quiet_ns <= active_ns {
                    EndReason::Idle
                } else {
                    EndReason::Active
                };
                self.end(key, quiet_ns.min(active_ns), reason);
            }
        }
    }

    /// All times that are far ahead, this one among them, are believed up to the first of them if there are two, and on from there as far as they are near.
    fn hear(&mut self, time_ns: u64) {
        let far = |clock_ns: u64, time_ns: u64| time_ns > clock_ns + self.config.idle_timeout_ns;
        let mut clock_ns = self.clock_ns;
        let mut waiting = std::mem::take(&mut self.unbelieved);
        if far(clock_ns, time_ns) {
            waiting.push(time_ns);
            waiting.sort_unstable();
            if let [first, second] = waiting[..] {
                clock_ns = first;
                waiting = vec![second];
                if !far(clock_ns, second) {
                    clock_ns = second;
                    waiting.clear();
                }
            }
            self.unbelieved = waiting;
        } else {
            self.disbelieved += waiting.len() as u64;
            clock_ns = clock_ns.max(time_ns);
        }
        self.advance(clock_ns);
    }

    /// A packet finds its own flow over by its own time.
    fn end_own(&mut self, key: FlowKey, time_ns: u64) {
        let Some(flow) = self.flows.get(&key) else {
            return;
        };
        let quiet_ns = self.quiet_ns(flow);
        let active_ns = flow.start_ns + self.config.active_timeout_ns;
        if quiet_ns.min(active_ns) <= time_ns {
            let reason = if quiet_ns <= active_ns {
                EndReason::Idle
            } else {
                EndReason::Active
            };
            self.end(key, quiet_ns.min(active_ns), reason);
        }
    }

    fn packet(&mut self, packet: &Packet<'_>) {
        self.hear(packet.time_ns);
        self.end_own(packet.key, packet.time_ns);
        if self.config.biflow {
            self.end_own(packet.key.turned(), packet.time_ns);
        }
        let (there, back) = (packet.key, packet.key.turned());
        let mut is_reverse = self.config.biflow && self.flows.contains_key(&back);
        let mut key = if is_reverse { back } else { there };
        let begins = packet.tcp_flags & (SYN | ACK) == SYN;
        if begins
            && self
                .flows
                .get(&key)
                .is_some_and(|flow| self.has_ended(flow))
        {
            self.end(key, self.clock_ns, EndReason::EndDetected);
            (key, is_reverse) = (there, false);
        }
        if !self.flows.contains_key(&key) && Some(self.flows.len()) == self.places {
            let first = self
                .flows
                .iter()
                .min_by_key(|(_, flow)| self.quiet_ns(flow));
            let victim = *first.unwrap().0;
            self.end(victim, self.clock_ns, EndReason::LackOfResources);
        }
        let flow = self.flows.entry(key).or_insert(FlowRecord {
            key: packet.key,
            packets: 0,
            octets: 0,
            packets_rev: 0,
            octets_rev: 0,
            start_ns: packet.time_ns,
            end_ns: packet.time_ns,
            tcp_flags: 0,
            tcp_flags_rev: 0,
            end_reason: EndReason::Forced,
        });
        let (packets, octets, flags) = if is_reverse {
            (
                &mut flow.packets_rev,
                &mut flow.octets_rev,
                &mut flow.tcp_flags_rev,
            )
        } else {
            (&mut flow.packets, &mut flow.octets, &mut flow.tcp_flags)
        };
        *packets += 1;
        *octets += u64::from(packet.octets);
        *flags |= packet.tcp_flags;
        flow.start_ns = flow.start_ns.min(packet.time_ns);
        flow.end_ns = flow.end_ns.max(packet.time_ns);
    }
}

fn sorted(records: impl Iterator<Item = FlowRecord>) -> Vec<String> {
    let mut texts: Vec<String> = records.map(|record| format!("{record:?}")).collect();
    texts.sort();
    texts
}

fn packet(step: &Step, time_ns: u64) -> Packet<'static> {
    Packet {
        time_ns,
        key: key(step.host, step.is_reverse),
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

/// What has ended must have been handed on a tick later, and nothing before its time. With `places` the table has so many and the model evicts.
fn agree(config: &Config, places: Option<usize>, steps: &[Step]) {
    let mut table = Table::new(config).unwrap();
    let mut model = Model {
        config: *config,
        places,
        clock_ns: 0,
        unbelieved: Vec::new(),
        disbelieved: 0,
        flows: HashMap::new(),
        records: Vec::new(),
    };
    let mut records: Vec<FlowRecord> = Vec::new();
    let mut taken = Volume::default();
    let mut late = 0;
    for step in steps {
        let time_ns = if step.is_late {
            model.clock_ns.saturating_sub(step.ns)
        } else {
            model.clock_ns + step.ns
        };
        late += u64::from(time_ns < model.clock_ns && !step.is_tick);
        if step.is_tick {
            model.advance(time_ns);
            let near_ns = model.clock_ns + config.idle_timeout_ns;
            model.unbelieved.retain(|waits_ns| *waits_ns > near_ns);
            table.tick(time_ns, &mut |record| records.push(*record));
        } else {
            let packet = packet(step, time_ns);
            model.packet(&packet);
            table.handle_packet(&packet, &mut |record| records.push(*record));
            taken += Volume {
                packets: 1,
                octets: step.octets.into(),
            };
        }
        assert_eq!(table.taken(), taken);
        assert_eq!(table.exported() + table.held(), taken);
        let counts = table.counts();
        assert_eq!(counts.disbelieved, model.disbelieved);
        let ended: u64 = EndReason::ALL
            .iter()
            .map(|reason| counts.ended(*reason))
            .sum();
        assert_eq!(counts.begun, ended + table.flows() as u64);
        assert_eq!(table.held_now(), table.held());
        assert_eq!(table.flows_now(), table.flows() as u64);
        assert_eq!((ended, counts.out_of_order), (records.len() as u64, late));
        let over = model.records.iter();
        let must = over
            .filter(|(at_ns, _)| at_ns + TICK_NS <= model.clock_ns)
            .count();
        // A packet that begins a flow, and is late or was not believed, may find itself behind younger ones.
        if late == 0 && model.disbelieved == 0 {
            assert!((must..=model.records.len()).contains(&records.len()));
        }
        assert!(table.poll_timeout().is_some() || table.flows() == 0);
    }
    table.end_all(&mut |record| records.push(*record));
    assert_eq!((table.held(), table.exported()), (Volume::default(), taken));
    // A flow that began late may be over since.
    model.advance(model.clock_ns);
    let left: Vec<FlowKey> = model.flows.keys().copied().collect();
    for key in left {
        model.end(key, 0, EndReason::Forced);
    }
    assert_eq!(
        sorted(records.into_iter()),
        sorted(model.records.iter().map(|(_, record)| *record))
    );
    assert_eq!(table.counts().hurried, 0);
}

/// Packets that are handed over together are counted as one by one.
fn agree_in_batches(config: &Config, steps: &[Step]) {
    let mut tables = [0, 1].map(|_| Table::new(config).unwrap());
    let mut records = [Vec::new(), Vec::new()];
    let [ones, batched] = &mut records;
    let (mut batch, mut time_ns) = (Vec::new(), 0_u64);
    for step in steps {
        time_ns = if step.is_late {
            time_ns.saturating_sub(step.ns)
        } else {
            time_ns + step.ns
        };
        let packet = packet(step, time_ns);
        tables[0].handle_packet(&packet, &mut |record| ones.push(*record));
        batch.push(packet);
        if step.is_tick {
            tables[1].handle_packets(&batch, &mut |record| batched.push(*record));
            batch.clear();
            assert_eq!(ones, batched);
        }
    }
    tables[1].handle_packets(&batch, &mut |record| batched.push(*record));
    assert_eq!(ones, batched);
    assert_eq!(tables[0].counts(), tables[1].counts());
    assert_eq!(tables[0].taken(), tables[1].taken());
}

fn steps(
    hosts: u8,
    apart_ns: impl Strategy<Value = u64> + Clone,
    is_late: bool,
) -> impl Strategy<Value = Vec<Step>> {
    let flags = prop_oneof![3 => Just(ACK), 1 => Just(SYN), 1 => Just(FIN | ACK), 1 => Just(RST), 1 => any::<u8>()];
    let late = prop_oneof![4 => Just(false), 1 => Just(is_late)];
    let kind = prop_oneof![8 => Just(false), 1 => Just(true)];
    let step = (
        0..hosts,
        any::<bool>(),
        20..100_000_u32,
        flags,
        apart_ns,
        late,
        kind,
    );
    let step = step.prop_map(
        |(host, is_reverse, octets, tcp_flags, ns, is_late, is_tick)| Step {
            host,
            is_reverse,
            octets,
            tcp_flags,
            ns,
            is_late,
            is_tick,
        },
    );
    proptest::collection::vec(step, 0..200)
}

/// From nothing to hours, near the time-outs as well.
fn times() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![
        2 => Just(0),
        6 => 0..SECOND_NS / 5,
        4 => 0..3 * SECOND_NS,
        1 => (SECOND_NS - 2..SECOND_NS + 2).prop_map(|ns| ns),
        1 => 4 * SECOND_NS - 2..4 * SECOND_NS + 2,
        1 => 0..20_000 * SECOND_NS,
    ]
}

fn short(biflow: bool, eviction: Eviction) -> Config {
    Config {
        flows: 512,
        biflow,
        idle_timeout_ns: 4 * SECOND_NS,
        active_timeout_ns: 9 * SECOND_NS,
        linger_ns: SECOND_NS,
        eviction,
        hash_seed: 7,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn records_are_those_of_the_model(
        biflow: bool, line: bool, steps in steps(12, times(), false),
    ) {
        let eviction = if line { Eviction::LineLru } else { Eviction::Oldest };
        agree(&short(biflow, eviction), None, &steps);
    }

    #[test]
    fn records_are_those_of_the_model_though_time_jumps_both_ways(
        biflow: bool, line: bool, steps in steps(12, times(), true),
    ) {
        let eviction = if line { Eviction::LineLru } else { Eviction::Oldest };
        agree(&short(biflow, eviction), None, &steps);
    }

    /// Times are so far apart that no two flows are in one tick of the wheel.
    #[test]
    fn of_a_full_table_the_flow_goes_that_was_idle_longest(
        biflow: bool,
        steps in steps(60, (1..4_u64).prop_map(|ticks| ticks * 4 * TICK_NS), false),
    ) {
        let config = Config {
            flows: 16,
            idle_timeout_ns: 400 * TICK_NS,
            active_timeout_ns: 5000 * TICK_NS,
            linger_ns: 34 * TICK_NS,
            ..short(biflow, Eviction::Oldest)
        };
        agree(&config, Some(16), &steps);
    }

    #[test]
    fn packets_in_batches_are_counted_as_one_by_one(
        biflow: bool, line: bool, steps in steps(60, times(), true),
    ) {
        let eviction = if line { Eviction::LineLru } else { Eviction::Oldest };
        agree_in_batches(&Config { flows: 16, ..short(biflow, eviction) }, &steps);
    }

    #[test]
    fn of_full_rows_nothing_is_lost(biflow: bool, steps in steps(200, times(), true)) {
        let config = Config { flows: 16, ..short(biflow, Eviction::LineLru) };
        let mut table = Table::new(&config).unwrap();
        let (mut exported, mut records) = (Volume::default(), 0);
        let mut time_ns = 0;
        for step in &steps {
            time_ns += step.ns;
            table.handle_packet(&packet(step, time_ns), &mut |record| {
                let packets = record.packets + record.packets_rev;
                exported += Volume { packets, octets: record.octets + record.octets_rev };
                records += 1;
            });
            assert_eq!(exported, table.exported());
            assert_eq!(exported + table.held(), table.taken());
            assert_eq!(records + table.flows() as u64, table.counts().begun);
        }
    }
}
