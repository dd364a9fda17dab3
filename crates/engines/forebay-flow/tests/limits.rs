//! What happens at the table's limits: ends by TCP, full tables, times that jump, and work that is bounded.

#![allow(clippy::unwrap_used)]

use forebay_flow::plugins::{Fields, Plugins};
use forebay_flow::{Config, EndReason, Eviction, FlowKey, FlowRecord, Packet, Table};
use proptest::prelude::*;

const SECOND_NS: u64 = 1_000_000_000;
const FIN_ACK: u8 = 0x11;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

fn packet(flow: u32, tcp_flags: u8, time_ns: u64) -> Packet<'static> {
    let [a, b, c, d] = flow.to_be_bytes();
    Packet {
        time_ns,
        key: FlowKey::new([10, b, c, d].into(), [10, 0, 0, 1].into(), 6)
            .with_ports(50_000 + u16::from(a), 443),
        octets: 100,
        tcp_flags,
        header: &[],
        payload: &[],
        payload_bytes: 0,
        hop_limit: 64,
        fragment: None,
        tunnel: None,
    }
}

fn back(flow: u32, tcp_flags: u8, time_ns: u64) -> Packet<'static> {
    let there = packet(flow, tcp_flags, time_ns);
    Packet {
        key: there.key.turned(),
        octets: 1000,
        ..there
    }
}

/// The records of these packets, and of a tick behind them.
fn records_of(config: Config, packets: &[Packet<'_>], tick_ns: u64) -> Vec<FlowRecord> {
    let mut table = Table::new(&config).unwrap();
    let mut records = Vec::new();
    for packet in packets {
        table.handle_packet(packet, &mut |record| records.push(*record));
    }
    table.tick(tick_ns, &mut |record| records.push(*record));
    assert_eq!(table.taken(), table.exported() + table.held());
    records
}

fn uniflow() -> Config {
    Config {
        biflow: false,
        ..Config::default()
    }
}

#[test]
fn the_initiator_is_who_was_seen_first_whichever_way_the_key_goes() {
    for flow in [0, 9] {
        for first in [packet(flow, ACK, 1), back(flow, ACK, 1)] {
            let second = Packet {
                key: first.key.turned(),
                octets: 7,
                time_ns: 2,
                tcp_flags: SYN | ACK,
                ..first
            };
            let records = records_of(Config::default(), &[first, second, first], 31 * SECOND_NS);
            let [record] = records[..] else {
                panic!("{records:?}")
            };
            assert_eq!(
                (record.key, record.packets, record.packets_rev),
                (first.key, 2, 1)
            );
            let octets = (record.octets, record.octets_rev);
            assert_eq!(octets, (2 * u64::from(first.octets), 7));
            assert_eq!((record.tcp_flags, record.tcp_flags_rev), (ACK, SYN | ACK));
            assert_eq!((record.start_ns, record.end_ns), (1, 2));
        }
    }
}

#[test]
fn the_acknowledgement_behind_the_last_fin_belongs_to_its_flow() {
    let packets = [
        packet(9, SYN, 0),
        back(9, SYN | ACK, 1),
        packet(9, FIN_ACK, 2),
        back(9, FIN_ACK, 3),
        packet(9, ACK, 4),
    ];
    let records = records_of(Config::default(), &packets, SECOND_NS + SECOND_NS / 8);
    let [record] = records[..] else {
        panic!("{records:?}")
    };
    assert_eq!((record.packets, record.packets_rev), (3, 2));
    assert_eq!(record.end_reason, EndReason::EndDetected);
    // One side that goes on has not ended.
    let half = records_of(Config::default(), &packets[..3], 2 * SECOND_NS);
    assert_eq!(half, []);
    // Of a flow of one direction its own FIN is all.
    let records = records_of(uniflow(), &packets[..3], 2 * SECOND_NS);
    assert_eq!((records.len(), records[0].packets), (1, 2));
    assert_eq!(records[0].end_reason, EndReason::EndDetected);
}

#[test]
fn a_connection_that_begins_on_the_ports_of_one_that_ended_is_another_flow() {
    let packets = [
        packet(9, ACK, 0),
        back(9, RST, 1),
        packet(9, ACK, 2),
        packet(9, SYN, 3),
    ];
    let records = records_of(Config::default(), &packets, 4);
    let [record] = records[..] else {
        panic!("{records:?}")
    };
    assert_eq!(
        (record.packets, record.packets_rev, record.end_ns),
        (2, 1, 2)
    );
    assert_eq!(record.end_reason, EndReason::EndDetected);
}

#[test]
fn ends_come_within_a_second_of_their_time() {
    for eviction in [Eviction::Oldest, Eviction::LineLru] {
        let config = Config {
            eviction,
            ..Config::default()
        };
        let mut table = Table::new(&config).unwrap();
        let (mut idle, mut active) = (0, 0);
        for step in 0..6500 {
            let now_ns = step * SECOND_NS / 10;
            let mut judge = |record: &FlowRecord| {
                let due_ns = match record.end_reason {
                    EndReason::Idle => record.end_ns + 30 * SECOND_NS,
                    EndReason::Active => record.start_ns + 300 * SECOND_NS,
                    reason => panic!("{reason:?}"),
                };
                assert!(
                    (due_ns..due_ns + SECOND_NS / 4).contains(&now_ns),
                    "{record:?}"
                );
                let is_idle = record.end_reason == EndReason::Idle;
                *if is_idle { &mut idle } else { &mut active } += 1;
            };
            table.tick(now_ns, &mut judge);
            // One that never pauses for long, among many that have one packet.
            if step % 7 == 0 {
                table.handle_packet(&packet(1, ACK, now_ns), &mut judge);
            }
            table.handle_packet(&packet(1000 + step as u32, ACK, now_ns), &mut judge);
        }
        assert_eq!((idle, active), (6500 - 301, 2), "{eviction:?}");
    }
}

/// What a reader of a capture asks before each packet: the same as the clock is behind it.
#[test]
fn what_is_believed_of_a_packet_is_what_the_clock_then_says() {
    let mut table = Table::new(&Config::default()).unwrap();
    let mut ignored = |_: &FlowRecord| ();
    // In s: in order, late, far ahead alone, far ahead with a witness that is earlier, and late again.
    for time_s in [100, 101, 90, 1_000, 102, 1_000, 999, 998, 1_001] {
        let packet = packet(1, ACK, time_s * SECOND_NS);
        let believed_ns = table.believed_ns(packet.time_ns);
        table.handle_packet(&packet, &mut ignored);
        // Of two that are far ahead the later one counts: the reader goes as far as the packet.
        let beyond_ns = if time_s == 999 { SECOND_NS } else { 0 };
        assert_eq!(believed_ns + beyond_ns, table.clock_ns(), "{time_s}");
    }
}

/// Behind a time that the clock was moved to by hand, a witness is believed, and time goes no further than the packet.
#[test]
fn what_is_believed_of_a_packet_at_the_clocks_time_is_that_time() {
    let mut table = Table::new(&Config::default()).unwrap();
    let mut plugins = Plugins::new(&[], table.places());
    let handle = |table: &mut Table, time_s| {
        table.handle_packet(&packet(1, ACK, time_s * SECOND_NS), &mut |_| ());
    };
    // In s, with an idle time-out of 30: the second packet is the first one's witness, and the third one waits for its own.
    handle(&mut table, 100);
    handle(&mut table, 101);
    table.pass(200 * SECOND_NS, &mut plugins.watch(&mut |_, _| ()));
    handle(&mut table, 205);
    assert_eq!(table.clock_ns(), 200 * SECOND_NS);
    let believed_s = [200, 201].map(|time_s| table.believed_ns(time_s * SECOND_NS) / SECOND_NS);
    assert_eq!(believed_s, [200, 201]);
}

/// Goes through the time before each packet as the reader of a capture does, in so many steps at most; the records.
fn passed_through(times_s: &[(u32, u64)]) -> u64 {
    let mut table = Table::new(&Config::default()).unwrap();
    let mut plugins = Plugins::new(&[], table.places());
    let mut packets = 0;
    let mut ended = |record: &FlowRecord, _| packets += record.packets + record.packets_rev;
    for (flow, time_s) in times_s {
        let packet = packet(*flow, ACK, time_s * SECOND_NS);
        let until_ns = table.believed_ns(packet.time_ns);
        let mut steps = 0;
        while let Some(due_ns) = table.poll_timeout().filter(|due_ns| *due_ns <= until_ns) {
            table.pass(due_ns, &mut plugins.watch(&mut ended));
            steps += 1;
            // A flow that is ahead is looked at once a turn of the wheel, which is about 34 s.
            assert!(
                steps < 50_000,
                "time stands still at {due_ns} ns: {times_s:?}"
            );
        }
        table.handle_packet(&packet, &mut |record| {
            ended(record, Fields::default());
        });
    }
    table.end_all(&mut |record| ended(record, Fields::default()));
    packets
}

/// The begin of a flow that is ahead of the clock is set back by a packet that is late.
#[test]
fn time_goes_on_behind_a_flow_whose_begin_was_set_back() {
    let times_s = [(1, 500), (2, 4_100), (1, 0), (2, 1), (1, 3_600)];
    assert_eq!(passed_through(&times_s), 5);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn time_goes_on_whatever_jumps_it_makes(
        times_s in proptest::collection::vec(
            (0..4_u32, prop_oneof![0..100_u64, 400..600_u64, 3_500..4_500_u64, 0..100_000_u64]),
            1..40,
        ),
    ) {
        prop_assert_eq!(passed_through(&times_s), times_s.len() as u64);
    }
}

#[test]
fn what_is_believed_is_the_same_with_time_gone_through_before_packets() {
    // In s, idle after 30: behind 946 come two that are far ahead, the nearer one second, and each gets a witness. On the way to 1,000 flows are over at 975 and 976, of which 1,000 is
    // not far ahead.
    let times_s = [100, 945, 946, 5_000, 1_000, 5_001, 5_002];
    let run = |passes: bool| {
        let mut table = Table::new(&Config::default()).unwrap();
        let mut plugins = Plugins::new(&[], table.places());
        let mut ends = Vec::new();
        for (n, time_s) in times_s.into_iter().enumerate() {
            let packet = packet(n as u32, ACK, time_s * SECOND_NS);
            let mut ended =
                |record: &FlowRecord, _| ends.push((record.start_ns, record.end_reason));
            let until_ns = table.believed_ns(packet.time_ns);
            let due = |table: &Table| table.poll_timeout().filter(|due_ns| *due_ns <= until_ns);
            while let Some(due_ns) = due(&table).filter(|_| passes) {
                table.pass(due_ns, &mut plugins.watch(&mut ended));
            }
            let mut record = |record: &FlowRecord| ends.push((record.start_ns, record.end_reason));
            table.handle_packet(&packet, &mut record);
        }
        table.end_all(&mut |record| ends.push((record.start_ns, record.end_reason)));
        ends.sort_by_key(|end| end.0);
        (ends, table.clock_ns(), table.counts().disbelieved)
    };
    assert_eq!(run(true), run(false));
    assert_eq!(run(true).2, 0);
}

#[test]
fn a_full_table_takes_ten_times_as_many_flows() {
    for eviction in [Eviction::Oldest, Eviction::LineLru] {
        let config = Config {
            flows: 1 << 12,
            eviction,
            ..Config::default()
        };
        let mut table = Table::new(&config).unwrap();
        let (mut records, mut most, mut busy) = (0, 0, 0);
        for flow in 0..10 << 12 {
            let mut now = 0;
            let time_ns = u64::from(flow) * 500_000;
            let mut count = |record: &FlowRecord| {
                now += 1;
                busy += u32::from(record.packets > 1);
            };
            table.handle_packet(&packet(100 + flow, ACK, time_ns), &mut count);
            // One of them has packets all the time.
            table.handle_packet(&packet(1, ACK, time_ns), &mut count);
            most = most.max(now);
            records += now;
        }
        assert_eq!((most, busy), (1, 0), "{eviction:?}");
        assert_eq!(table.counts().ended(EndReason::LackOfResources), records);
        assert_eq!(table.counts().begun, records + table.flows() as u64);
        assert_eq!(table.taken(), table.exported() + table.held());
        if eviction == Eviction::Oldest {
            assert_eq!(table.flows(), 1 << 12);
        }
    }
}

#[test]
fn a_search_for_room_is_bounded_and_counted() {
    let config = Config {
        flows: 1 << 12,
        ..Config::default()
    };
    let mut table = Table::new(&config).unwrap();
    let mut ignored = |_: &FlowRecord| ();
    // All begin in one tick and have packets later: the wheel knows none of it.
    for time_ns in [0, 5 * SECOND_NS] {
        for flow in 0..1 << 12 {
            table.handle_packet(&packet(flow, ACK, time_ns), &mut ignored);
        }
    }
    table.handle_packet(&packet(1 << 20, ACK, 5 * SECOND_NS), &mut ignored);
    assert_eq!(table.counts().hurried, 1);
    assert_eq!(table.counts().ended(EndReason::LackOfResources), 1);
    for flow in 0..15 {
        table.handle_packet(&packet(2 << 20 | flow, ACK, 5 * SECOND_NS), &mut ignored);
    }
    // 15 of them have put 15 times 256 where they belong, and the next one the rest.
    assert_eq!(table.counts().hurried, 15);
    table.handle_packet(&packet(3 << 20, ACK, 5 * SECOND_NS), &mut ignored);
    assert_eq!(table.counts().hurried, 15);
}

#[test]
fn a_clock_that_jumps_ends_flows_in_bounded_steps() {
    let mut table = Table::new(&Config::default()).unwrap();
    let mut ignored = |_: &FlowRecord| ();
    for flow in 0..10_000 {
        table.handle_packet(
            &packet(flow, ACK, u64::from(flow) * 1_000_000),
            &mut ignored,
        );
    }
    let later_ns = 100 * 24 * 3600 * SECOND_NS;
    let mut ended = 0;
    // One packet alone moves no clock.
    table.handle_packet(&packet(1 << 20, ACK, later_ns), &mut |_| ended += 1);
    assert_eq!((ended, table.clock_ns()), (0, 9_999_000_000));
    table.handle_packet(&packet(1 << 20, ACK, later_ns), &mut |record| {
        assert_eq!(record.end_reason, EndReason::Idle);
        ended += 1;
    });
    assert!((1..=32).contains(&ended), "{ended}");
    // What is over counts as over, whether it was taken out or not.
    table.handle_packet(&packet(9_999, ACK, later_ns), &mut |_| ended += 1);
    assert!((3..=65).contains(&ended), "{ended}");
    let mut ticks = 0;
    while table.poll_timeout().unwrap() <= later_ns {
        let before = ended;
        table.tick(later_ns, &mut |_| ended += 1);
        assert!((1..=1024).contains(&(ended - before)));
        ticks += 1;
    }
    assert_eq!((ended, ticks, table.flows()), (10_000, 10, 2));
    let due_ns = table.poll_timeout().unwrap();
    let expected_ns = later_ns + 30 * SECOND_NS;
    assert!((expected_ns..expected_ns + SECOND_NS / 8).contains(&due_ns));
    // Back: with its own time, and counted.
    table.handle_packet(&packet(9_999, ACK, later_ns - 7), &mut ignored);
    assert_eq!(table.counts().out_of_order, 1);
    table.end_all(&mut |record| {
        let is_late = record.key == packet(9_999, ACK, 0).key;
        assert_eq!(record.start_ns, later_ns - if is_late { 7 } else { 0 });
        assert_eq!(
            (record.end_ns, record.end_reason),
            (later_ns, EndReason::Forced)
        );
    });
    assert_eq!((table.flows(), table.poll_timeout()), (0, None));
}

#[test]
fn the_end_of_time_is_a_time() {
    let mut table = Table::new(&Config::default()).unwrap();
    let mut ignored = |_: &FlowRecord| ();
    table.handle_packet(&packet(1, ACK, 0), &mut ignored);
    table.handle_packet(&packet(2, ACK, u64::MAX), &mut ignored);
    table.handle_packet(&packet(3, ACK, 5), &mut ignored);
    table.tick(u64::MAX, &mut ignored);
    assert!(table.poll_timeout().is_none_or(|ns| ns > 0));
    table.end_all(&mut ignored);
    assert_eq!(table.taken(), table.exported());
}

#[test]
fn a_clock_that_was_set_back_ends_all_flows_once_and_then_counts_as_before() {
    let mut table = Table::new(&Config::default()).unwrap();
    let mut plugins = Plugins::new(&[], table.places());
    let mut records = Vec::new();
    let hour_ns = 3_600 * SECOND_NS;
    table.handle_packet(&packet(1, ACK, hour_ns), &mut |_| {});
    table.handle_packet(&packet(2, ACK, hour_ns + 1), &mut |_| {});
    assert_eq!(table.clock_ns(), hour_ns + 1);
    let ended = &mut |record: &FlowRecord, _| records.push(*record);
    table.set_back(&mut plugins.watch(ended));
    let forced = |record: &FlowRecord| record.end_reason == EndReason::Forced;
    assert!(
        records.len() == 2 && records.iter().all(forced),
        "{records:?}"
    );
    records.clear();
    for step in 1..=5 {
        let ended = &mut |record: &FlowRecord| records.push(*record);
        table.handle_packet(&packet(1, ACK, step * SECOND_NS), ended);
    }
    assert_eq!(table.flows(), 1);
    table.tick(60 * SECOND_NS, &mut |record| records.push(*record));
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(
        (records[0].packets, records[0].end_reason),
        (5, EndReason::Idle)
    );
    assert_eq!(table.taken(), table.exported() + table.held());
}

/// One packet of the future among others: they are counted as if it were not there.
#[test]
fn a_time_of_the_future_moves_no_clock_for_others() {
    let century_ns = 100 * 365 * 24 * 3600 * SECOND_NS;
    let begin_ns = 1_700_000_000 * SECOND_NS;
    let packets: Vec<_> = (0..2_000_u32)
        .map(|n| packet(n % 50, ACK, begin_ns + u64::from(n) * 50_000_000))
        .collect();
    let sound = records_of(Config::default(), &packets, begin_ns + 200 * SECOND_NS);
    assert_eq!(sound.len(), 50);
    for own in [false, true] {
        let mut table = Table::new(&Config::default()).unwrap();
        let mut records = Vec::new();
        for (n, one) in packets.iter().enumerate() {
            table.handle_packet(one, &mut |record| records.push(*record));
            if n % 100 == 50 {
                // Of a flow of its own, or of one that goes on.
                let flow = if own { 7 } else { 1 << 20 };
                let future = packet(flow, ACK, begin_ns + century_ns + n as u64);
                table.handle_packet(&future, &mut |record| records.push(*record));
            }
        }
        assert_eq!(table.counts().disbelieved, 20);
        assert!(table.clock_ns() < begin_ns + 200 * SECOND_NS);
        table.tick(begin_ns + 200 * SECOND_NS, &mut |record| {
            records.push(*record)
        });
        let others = |record: &&FlowRecord| record.key != packet(7, ACK, 0).key;
        let of = |records: &[FlowRecord]| {
            let mut texts: Vec<_> = records
                .iter()
                .filter(others)
                .map(|one| format!("{one:?}"))
                .collect();
            texts.sort();
            texts
        };
        assert_eq!(of(&records), of(&sound));
        table.end_all(&mut |record| records.push(*record));
        let packets: u64 = records.iter().map(|record| record.packets).sum();
        assert_eq!((packets, table.taken().packets), (2_020, 2_020));
        assert_eq!(table.taken(), table.exported());
    }
}

/// A flow with a time far ahead of the clock, and one behind it: each ends by its active time-out, counted from its own begin.
#[test]
fn a_flow_that_began_ahead_of_the_clock_ends_in_its_time_and_holds_up_no_other() {
    let idle_timeout_ns = 1_000 * SECOND_NS;
    let mut table = Table::new(&Config {
        idle_timeout_ns,
        ..Config::default()
    })
    .unwrap();
    let ahead_s = 2_000;
    let mut records = Vec::new();
    for (flow, at_s) in [(1, 0), (2, ahead_s), (3, 10), (4, 20)] {
        let packet = packet(flow, ACK, at_s * SECOND_NS);
        table.handle_packet(&packet, &mut |record| records.push(*record));
    }
    assert_eq!(table.clock_ns(), 20 * SECOND_NS);
    let active_s = 300;
    let mut ends = Vec::new();
    for now_s in 20..ahead_s + active_s + 2 {
        // Enough ticks for a packet's share of ends.
        table.tick(now_s * SECOND_NS, &mut |record| records.push(*record));
        for record in records.drain(..) {
            ends.push((record.start_ns / SECOND_NS, now_s, record.end_reason));
        }
    }
    let ended = |begun_s| (begun_s, begun_s + active_s, EndReason::Active);
    assert_eq!(ends, [0, 10, 20, ahead_s].map(ended));
}
