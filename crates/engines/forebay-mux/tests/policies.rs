//! Which client sends next, in virtual time over a link, and what is promised of it.

#![allow(clippy::unwrap_used)]

mod world;

use forebay_mux::policy::{PerClient, PolicyConfig, Schedule, ScheduleError, Slot};
use forebay_mux::transmit::{ClassConfig, Next, Sender, Transmit};
use proptest::prelude::*;
use world::{Full, MS, SECOND_NS, SENDER, bytes_of, id, one_class, packet, schedule};

const GIGABIT: u64 = 1_000_000_000;

fn with_clients(policy: PolicyConfig, clients: u8) -> Transmit {
    let mut transmit = one_class(policy);
    (0..clients).for_each(|client| transmit.add_client(id(client), SENDER).unwrap());
    transmit
}

/// What would be sent now, one after the other, without time passing.
fn drained(transmit: &mut Transmit, now_ns: u64) -> Vec<(u8, u32)> {
    let mut sent = Vec::new();
    while let Next::Send(client, packet) = transmit.poll(now_ns, |_, _| {}) {
        transmit.finish(client, packet, true);
        sent.push((client.index() as u8, packet.buffer));
    }
    sent
}

fn offer(transmit: &mut Transmit, client: u8, buffers: core::ops::Range<u32>, now_ns: u64) {
    buffers.for_each(|buffer| {
        transmit
            .offer(id(client), packet(buffer, 100), now_ns)
            .unwrap()
    });
}

#[test]
fn signalled_drains_in_the_order_of_signals() {
    let all = PolicyConfig::Signalled {
        burst_packets: u32::MAX,
    };
    let mut transmit = with_clients(all, 3);
    offer(&mut transmit, 2, 0..2, 0);
    offer(&mut transmit, 0, 0..2, 0);
    offer(&mut transmit, 2, 2..3, 0);
    let order = [(2, 0), (2, 1), (2, 2), (0, 0), (0, 1)];
    assert_eq!(drained(&mut transmit, 0), order);
    // With a burst of 2 the client that has more goes behind the other.
    transmit
        .set_policy(0, &PolicyConfig::Signalled { burst_packets: 2 }, 0)
        .unwrap();
    offer(&mut transmit, 2, 0..3, 1);
    offer(&mut transmit, 0, 0..3, 1);
    let order = [(2, 0), (2, 1), (0, 0), (0, 1), (2, 2), (0, 2)];
    assert_eq!(drained(&mut transmit, 1), order);
}

#[test]
fn round_robin_sends_one_of_each() {
    let mut transmit = with_clients(PolicyConfig::RoundRobin, 3);
    offer(&mut transmit, 1, 0..3, 0);
    offer(&mut transmit, 2, 0..1, 0);
    offer(&mut transmit, 0, 0..2, 0);
    let order = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (1, 2)];
    assert_eq!(drained(&mut transmit, 0), order);
}

#[test]
fn strict_priority_starves_and_the_guard_feeds() {
    let level = PerClient::all(1).with(id(0), 0);
    let full = Full {
        link_rate_bps: GIGABIT,
        lengths: &[&[1000], &[1000]],
        until_ns: SECOND_NS,
        depth: 4,
    };
    let strict = PolicyConfig::Priority {
        level: level.clone(),
        guard_ns: None,
    };
    let left = full.run(&mut with_clients(strict, 2));
    assert_eq!((bytes_of(&left, 0), bytes_of(&left, 1)), (125_000_000, 0));
    // A packet each 10 ms and no more: 100 in a second.
    let guarded = PolicyConfig::Priority {
        level,
        guard_ns: Some(10 * MS),
    };
    let left = full.run(&mut with_clients(guarded, 2));
    let fed: Vec<_> = left
        .iter()
        .filter(|left| left.client == 1)
        .map(|left| left.at_ns)
        .collect();
    assert!((98..=100).contains(&fed.len()), "{}", fed.len());
    let gaps = fed.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(
        gaps.clone()
            .all(|gap| gap > 10 * MS && gap < 10 * MS + 20_000),
        "{gaps:?}"
    );
    assert!(fed[0] < 10 * MS + 20_000);
}

#[test]
fn an_order_of_priority_that_is_changed_holds_at_once() {
    let config = |first: u8| PolicyConfig::Priority {
        level: PerClient::all(1).with(id(first), 0),
        guard_ns: None,
    };
    let mut transmit = with_clients(config(0), 2);
    offer(&mut transmit, 0, 0..3, 0);
    offer(&mut transmit, 1, 0..3, 0);
    let first = transmit.poll(0, |_, _| {});
    assert!(matches!(first, Next::Send(client, _) if client == id(0)));
    transmit.set_policy(0, &config(1), 0).unwrap();
    assert_eq!(
        drained(&mut transmit, 0),
        [(1, 0), (1, 1), (1, 2), (0, 1), (0, 2)]
    );
}

#[test]
fn a_class_goes_before_another_and_its_guard_feeds_that() {
    let class = |guard_ns| ClassConfig {
        policy: PolicyConfig::RoundRobin,
        guard_ns,
    };
    for (guard_ns, fed) in [(None, 0..=0), (Some(5 * MS), 195..=200)] {
        let mut transmit = Transmit::new(&[class(None), class(guard_ns)]).unwrap();
        transmit.add_client(id(0), SENDER).unwrap();
        transmit
            .add_client(id(1), Sender { class: 1, ..SENDER })
            .unwrap();
        let full = Full {
            link_rate_bps: GIGABIT,
            lengths: &[&[1000], &[1000]],
            until_ns: SECOND_NS,
            depth: 4,
        };
        let left = full.run(&mut transmit);
        let packets = bytes_of(&left, 1) / 1000;
        assert!(fed.contains(&packets), "{guard_ns:?}: {packets}");
    }
}

/// A packet takes 8 us, longer than the guards: all are past theirs at each turn, and none may have them all.
#[test]
fn classes_whose_guards_are_shorter_than_a_packet_are_all_fed() {
    let class = |guard_ns| ClassConfig {
        policy: PolicyConfig::RoundRobin,
        guard_ns,
    };
    let classes = [class(None), class(Some(1000)), class(Some(1000))];
    let mut transmit = Transmit::new(&classes).unwrap();
    for client in 0..3 {
        let sender = Sender {
            class: client.into(),
            ..SENDER
        };
        transmit.add_client(id(client), sender).unwrap();
    }
    let full = Full {
        link_rate_bps: GIGABIT,
        lengths: &[&[1000], &[1000], &[1000]],
        until_ns: 100 * MS,
        depth: 4,
    };
    let left = full.run(&mut transmit);
    let packets = [1, 2].map(|client| bytes_of(&left, client) / 1000);
    assert!(packets.iter().all(|of| *of > 4000), "{packets:?}");
}

/// A limited class leaves the link to the class behind it, which waits for nothing.
#[test]
fn a_class_that_is_limited_leaves_the_rest_to_the_next() {
    let limited = ClassConfig {
        policy: world::bucket(100_000_000, 3000),
        guard_ns: None,
    };
    let rest = ClassConfig {
        policy: PolicyConfig::RoundRobin,
        guard_ns: None,
    };
    let mut transmit = Transmit::new(&[limited, rest]).unwrap();
    transmit.add_client(id(0), SENDER).unwrap();
    transmit
        .add_client(id(1), Sender { class: 1, ..SENDER })
        .unwrap();
    let full = Full {
        link_rate_bps: GIGABIT,
        lengths: &[&[1000], &[1000]],
        until_ns: SECOND_NS,
        depth: 4,
    };
    let left = full.run(&mut transmit);
    let bits = [bytes_of(&left, 0) * 8, bytes_of(&left, 1) * 8];
    assert!((99_000_000..=101_000_000).contains(&bits[0]), "{bits:?}");
    assert!(bits[0] + bits[1] > 999_000_000, "{bits:?}");
}

#[test]
fn packets_of_a_schedule_lie_in_the_windows_of_their_clients() {
    let mut transmit = with_clients(PolicyConfig::Tdm(schedule(3, GIGABIT)), 4);
    let mut lengths: Vec<&[u32]> = vec![&[1514], &[64, 700], &[9000]];
    // Client 3 has no window.
    transmit.offer(id(3), packet(0, 64), 0).unwrap();
    lengths.push(&[]);
    let until_ns = 360 * MS;
    let left = Full {
        link_rate_bps: GIGABIT,
        lengths: &lengths,
        until_ns,
        depth: 16,
    }
    .run(&mut transmit);
    let mut wire_ns = 0;
    for sent in &left {
        let begin_ns = wire_ns.max(sent.at_ns);
        wire_ns = begin_ns + (u64::from(sent.bytes) + 24) * 8;
        let window_ns = begin_ns / 3_600_000 * 3_600_000 + u64::from(sent.client) * 1_200_000;
        assert!(
            window_ns <= begin_ns && wire_ns <= window_ns + MS,
            "{sent:?} on the wire until {wire_ns}"
        );
    }
    // Each window is used but for what no whole packet fits into.
    for (client, longest) in [(0, 1514), (1, 700), (2, 9000)] {
        let sent = left.iter().filter(|left| left.client == client);
        let wire_bytes: u64 = sent.map(|left| u64::from(left.bytes) + 24).sum();
        let least = 100 * (125_000 - (longest + 24));
        assert!(
            (least..=100 * 125_000).contains(&wire_bytes),
            "client {client}: {wire_bytes}"
        );
    }
    assert_eq!((bytes_of(&left, 3), transmit.waiting(id(3))), (0, 1));
}

#[test]
fn a_schedule_that_overlaps_is_refused() {
    let slot = |offset_ns| Slot {
        client: id(1),
        offset_ns,
        window_ns: 1000,
    };
    let said = |slots: Vec<Slot>, cycle_ns| {
        let refused = Schedule::new(slots, cycle_ns, 0, GIGABIT, 24);
        refused.unwrap_err().to_string()
    };
    assert_eq!(said(vec![], 1000), "0 windows; a schedule has 1 to 4096");
    let overlap =
        "the window of client 1 at 999 ns begins before the one before it is over, at 1000 ns";
    assert_eq!(said(vec![slot(0), slot(999)], 10_000), overlap);
    let cycle = "the last window ends at 2000 ns, behind the cycle of 1999 ns";
    assert_eq!(said(vec![slot(0), slot(1000)], 1999), cycle);
    assert!(Schedule::new(vec![slot(0), slot(1000)], 2000, 5, GIGABIT, 24).is_ok());
}

#[test]
fn a_schedule_names_what_is_out_of_range() {
    let of = |window_ns, cycle_ns, begin_ns, rate, overhead| {
        let slot = Slot {
            client: id(1),
            offset_ns: 0,
            window_ns,
        };
        Schedule::new(vec![slot], cycle_ns, begin_ns, rate, overhead)
    };
    let most = 60 * SECOND_NS;
    for (schedule, name) in [
        (of(10, 999, 0, GIGABIT, 24), "cycle_ns"),
        (of(10, most + 1, 0, GIGABIT, 24), "cycle_ns"),
        (of(10, u64::MAX, 0, GIGABIT, 24), "cycle_ns"),
        (of(10, 1000, (1 << 63) + 1, GIGABIT, 24), "begin_ns"),
        (of(0, 1000, 0, GIGABIT, 24), "window_ns"),
        (of(u64::MAX, 1000, 0, GIGABIT, 24), "window_ns"),
        (of(10, 1000, 0, 7999, 24), "link_rate_bps"),
        (of(10, 1000, 0, 1000 * GIGABIT + 1, 24), "link_rate_bps"),
        (of(10, 1000, 0, GIGABIT, 257), "overhead_bytes"),
    ] {
        let refused = schedule.unwrap_err();
        assert!(
            matches!(refused, ScheduleError::Config(error) if error.name == name),
            "{refused}, not {name}"
        );
    }
    assert!(of(1000, 1000, 1 << 63, 8000, 256).is_ok());
    assert!(of(most, most, 0, 1000 * GIGABIT, 0).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever schedule is taken and whatever time it is: no sum overflows, and the time to ask again is to come.
    #[test]
    fn a_schedule_is_asked_at_any_time(
        begin_ns in prop_oneof![0..SECOND_NS, any::<u64>()],
        cycle_ns in prop_oneof![any::<u64>(), 1000..60 * SECOND_NS],
        window_ns in prop_oneof![1..1000_u64, 1..60 * SECOND_NS, any::<u64>()],
        bytes in any::<u32>(),
        times_ns in proptest::collection::vec(prop_oneof![any::<u64>(), (0..1000_u64).prop_map(|ago| u64::MAX - ago)], 1..20),
    ) {
        let slot = Slot { client: id(0), offset_ns: cycle_ns.saturating_sub(window_ns), window_ns };
        if let Ok(schedule) = Schedule::new(vec![slot], cycle_ns, begin_ns, GIGABIT, 24) {
            let mut transmit = with_clients(PolicyConfig::Tdm(schedule), 1);
            for now_ns in times_ns {
                transmit.offer(id(0), packet(0, bytes % 10_000), 0).unwrap();
                match transmit.poll(now_ns, |_, _| {}) {
                    Next::Send(client, packet) => transmit.finish(client, packet, true),
                    Next::AskAt(at_ns) => prop_assert!(at_ns > now_ns, "{at_ns} after {now_ns}"),
                    Next::Idle => {}
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// However long packets are: what two clients have had, by their quanta, differs by less than a quantum and the longest packet of each.
    #[test]
    fn deficit_round_robin_is_fair_in_bytes(
        lengths in proptest::collection::vec(proptest::collection::vec(60..9000_u32, 1..6), 2..5),
        quanta in proptest::collection::vec(1514..8000_u32, 4),
    ) {
        let mut quantum_bytes = PerClient::all(1514);
        for (client, quantum) in (0..).zip(&quanta) {
            quantum_bytes = quantum_bytes.with(id(client), *quantum);
        }
        let mut transmit = with_clients(PolicyConfig::DeficitRoundRobin { quantum_bytes }, lengths.len() as u8);
        let slices: Vec<&[u32]> = lengths.iter().map(Vec::as_slice).collect();
        let left = Full { link_rate_bps: GIGABIT, lengths: &slices, until_ns: 20 * MS, depth: 3 }.run(&mut transmit);
        let mut sent = vec![0_f64; lengths.len()];
        for left in &left {
            sent[usize::from(left.client)] += f64::from(left.bytes);
            // In rounds: what was sent by the quantum of each.
            let rounds = sent.iter().zip(&quanta).map(|(bytes, quantum)| bytes / f64::from(*quantum));
            let (least, most) = rounds.fold((f64::MAX, 0.0_f64), |(least, most), of| (least.min(of), most.max(of)));
            let slack = lengths.iter().zip(&quanta).map(|(lengths, quantum)| {
                f64::from(*lengths.iter().max().unwrap()) / f64::from(*quantum)
            });
            prop_assert!(most - least <= 1.0 + slack.fold(0.0, f64::max) + 1e-9, "{sent:?} by {quanta:?}");
        }
        prop_assert!(left.len() > 100);
    }
}
