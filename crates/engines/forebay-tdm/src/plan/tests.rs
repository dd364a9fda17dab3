use proptest::prelude::*;

use super::*;

fn port_of_a_gigabit() -> PlanInput {
    PlanInput {
        shares: vec![1; 3],
        ..PlanInput::default()
    }
}

#[test]
fn a_plan_has_the_numbers_that_follow_from_the_port() {
    let plan = Plan::compute(&port_of_a_gigabit()).unwrap();
    // 1472 + 66 bytes at 1 Gb/s.
    assert_eq!((plan.packet_ps, plan.pace_ps), (12_304_000, 12_304_000));
    // 131,072 / 1538 = 85 packets: an eighth, which is also no more than 100 us; a quarter.
    assert_eq!((plan.burst_packets, plan.catch_up_packets), (8, 21));
    // 100 us, 2 x 5 us, a packet.
    assert_eq!(plan.guard_ns, 100_000 + 10_000 + 12_304);
    assert!(
        plan.utilisation >= 0.975 && plan.utilisation <= 0.98 + 0.005,
        "{}",
        plan.utilisation
    );
    assert_eq!(plan.cycle_ns, 3 * (plan.slots[0].window_ns + plan.guard_ns));
    let whats: Vec<_> = plan.reasons.iter().map(|reason| reason.what).collect();
    assert_eq!(whats, ["window", "guard", "pace", "burst", "catch up"]);
    assert!(plan.warnings.is_empty());
}

#[test]
fn unequal_shares_have_windows_as_long_as_their_shares() {
    let input = PlanInput {
        shares: vec![1, 2, 5],
        window_ns: Some(10_000_000),
        ..port_of_a_gigabit()
    };
    let plan = Plan::compute(&input).unwrap();
    let windows: Vec<_> = plan.slots.iter().map(|slot| slot.window_ns).collect();
    assert_eq!(windows, [3_750_000, 7_500_000, 18_750_000]);
    for pair in plan.slots.windows(2) {
        assert_eq!(
            pair[1].offset_ns,
            pair[0].offset_ns + pair[0].window_ns + plan.guard_ns
        );
    }
}

#[test]
fn the_modes_differ_in_slots_and_pace_alone() {
    let of = |mode| {
        Plan::compute(&PlanInput {
            mode,
            ..port_of_a_gigabit()
        })
        .unwrap()
    };
    let paced = of(Mode::SlotsPaced);
    let slots = of(Mode::Slots);
    assert_eq!((slots.pace_ps, &slots.slots), (0, &paced.slots));
    // 1472 + 66 bytes at 1 Gb/s.
    let pace = |plan: &Plan| (plan.reasons[2].what, plan.reasons[2].value.clone());
    assert_eq!(pace(&paced), ("pace", "12.304 us a packet".to_owned()));
    assert_eq!(pace(&slots), ("pace", "flat out".to_owned()));
    assert!(
        slots.warnings[0].contains("slots-paced"),
        "{:?}",
        slots.warnings
    );
    let incast = of(Mode::Incast);
    assert!(incast.slots.iter().all(|slot| slot.offset_ns == 0) && incast.pace_ps == 0);
    assert!(!incast.warnings.is_empty());
    let credit = of(Mode::Credit);
    assert!(credit.slots.iter().all(|slot| slot.offset_ns == 0) && credit.pace_ps > 0);
    for plan in [slots, incast, credit] {
        let packets = |plan: &Plan| {
            plan.slots
                .iter()
                .map(|slot| slot.packets)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            packets(&plan),
            packets(&paced),
            "the same data in all modes"
        );
    }
}

#[test]
fn a_guard_for_being_late_takes_no_more_than_is_left_but_for_what_cannot_be_caught_up() {
    let of = |lateness_ns, port_buffer_bytes| {
        let input = PlanInput {
            lateness_ns,
            port_buffer_bytes,
            window_ns: Some(2_500_000),
            ..port_of_a_gigabit()
        };
        let plan = Plan::compute(&input).unwrap();
        let guard = plan.reasons[1].why.clone();
        (plan.guard_ns, plan.warnings.len(), guard)
    };
    // Twice 5 us and a packet of 12.304 us; 98 % of 2.551 ms are the window.
    let (rest_ns, left_ns) = (22_304, 51_020);
    let (guard_ns, warnings, why) = of(20_000, 131_072);
    assert_eq!((guard_ns, warnings), (20_000 + rest_ns, 0));
    assert!(
        why.starts_with("20 us lateness (99 %), twice 5 us"),
        "{why}"
    );
    // 21 packets, 258.384 us, are caught up.
    let (guard_ns, warnings, why) = of(200_000, 131_072);
    assert_eq!((guard_ns, warnings), (left_ns, 0));
    let told = "28.716 us for being late (99 % are by less than 200 us, up to 258.384 us of which";
    assert!(why.starts_with(told), "{why}");
    let (guard_ns, warnings, _) = of(400_000, 131_072);
    assert_eq!((guard_ns, warnings), (400_000 - 258_384 + rest_ns, 1));
    // A buffer that lets nobody catch up.
    let (guard_ns, warnings, _) = of(200_000, 4_000);
    assert_eq!((guard_ns, warnings), (200_000 + rest_ns, 1));
    // A grant's is how long a report is waited for that does not come.
    let input = PlanInput {
        mode: Mode::Credit,
        lateness_ns: 200_000,
        window_ns: Some(2_500_000),
        ..port_of_a_gigabit()
    };
    assert_eq!(Plan::compute(&input).unwrap().guard_ns, 200_000 + rest_ns);
}

#[test]
fn windows_that_are_short_next_to_their_guard_are_told() {
    let input = PlanInput {
        window_ns: Some(1_000_000),
        lateness_ns: 400_000,
        ..port_of_a_gigabit()
    };
    let plan = Plan::compute(&input).unwrap();
    assert!(plan.utilisation < 0.9, "{}", plan.utilisation);
    assert!(
        plan.warnings[0].contains("make them longer"),
        "{:?}",
        plan.warnings
    );
}

#[test]
fn all_of_the_port_is_shared_in_turns_without_a_guard() {
    let input = PlanInput {
        utilisation: 1.0,
        guard_ns: Some(0),
        ..port_of_a_gigabit()
    };
    let plan = Plan::compute(&input).unwrap();
    // The shortest window, and the whole packets of 12.304 us in it.
    let slots: Vec<_> = plan
        .slots
        .iter()
        .map(|it| (it.offset_ns, it.packets))
        .collect();
    assert_eq!(slots, [(0, 81), (1_000_000, 81), (2_000_000, 81)]);
    assert_eq!((plan.cycle_ns, plan.guard_ns), (3_000_000, 0));
}

#[test]
fn what_costs_nothing_is_no_warning() {
    // 81 packets a window, flat out.
    let warnings = |mode, senders: usize, port_buffer_bytes| {
        let input = PlanInput {
            mode,
            port_buffer_bytes,
            shares: vec![1; senders],
            utilisation: 1.0,
            guard_ns: Some(0),
            ..port_of_a_gigabit()
        };
        Plan::compute(&input).unwrap().warnings.len()
    };
    let buffer_bytes = 81 * 1538;
    assert_eq!(warnings(Mode::Slots, 3, buffer_bytes), 0, "all of it fits");
    assert_eq!(warnings(Mode::Slots, 3, buffer_bytes - 1), 1);
    assert_eq!(warnings(Mode::Incast, 1, buffer_bytes), 0, "it is alone");
    assert_eq!(warnings(Mode::Incast, 2, buffer_bytes), 1);
}

/// Half of the port is the guard's and a packet's: the window is as long as both, 1 s at most.
#[test]
fn a_guard_may_ask_for_the_longest_window_and_for_no_longer_one() {
    let of = |guard_ns| {
        Plan::compute(&PlanInput {
            utilisation: 0.5,
            guard_ns: Some(guard_ns),
            ..port_of_a_gigabit()
        })
    };
    let longest = 1_000_000_000 - 12_304;
    assert_eq!(of(longest).unwrap().slots[0].window_ns, 1_000_000_000);
    let refused = of(longest + 1).unwrap_err();
    let asked = PlanError::Guard {
        guard_ns: longest + 1,
        utilisation: 0.5,
        window_ns: 1_000_000_001,
        most_ns: 1_000_000_000,
    };
    assert_eq!(refused, asked);
}

#[test]
fn what_cannot_work_is_refused_with_the_remedy() {
    let refused = |input: PlanInput| Plan::compute(&input).unwrap_err().to_string();
    let said = refused(PlanInput {
        utilisation: 1.01,
        ..port_of_a_gigabit()
    });
    assert!(
        said.contains("101 %") && said.contains("ask for less"),
        "{said}"
    );
    let said = refused(PlanInput {
        utilisation: 1.0,
        ..port_of_a_gigabit()
    });
    assert!(said.contains("99.9"), "{said}");
    // The longest window, 1 s, and half a second of guard.
    let said = refused(PlanInput {
        utilisation: 1.0,
        guard_ns: Some(500_000_000),
        ..port_of_a_gigabit()
    });
    let told = "utilisation 100 % is asked for, and a port carries at most 66.6 %";
    assert!(said.starts_with(told), "{said}");
    let said = refused(PlanInput {
        port_buffer_bytes: 3_000,
        ..port_of_a_gigabit()
    });
    assert!(said.contains("smaller packets"), "{said}");
    let said = refused(PlanInput {
        link_rate_bps: 1_000_000,
        window_ns: Some(1_000_000),
        ..port_of_a_gigabit()
    });
    let told = "a window of 1 ms holds no packet: one takes 12.304 ms at 1 Mbit/s";
    assert!(
        said.starts_with(told) && said.contains("--window"),
        "{said}"
    );
    let said = refused(PlanInput {
        lateness_ns: 900_000_000,
        ..port_of_a_gigabit()
    });
    assert!(
        said.contains("real-time priority") && said.contains("more than 1 s"),
        "{said}"
    );
    for (input, key) in [
        (
            PlanInput {
                link_rate_bps: 0,
                ..port_of_a_gigabit()
            },
            "rate of the port is 0 bit/s;",
        ),
        (
            PlanInput {
                packet_bytes: 100,
                ..port_of_a_gigabit()
            },
            "size of a packet (--packet-bytes) is 100 bytes;",
        ),
        (
            PlanInput {
                shares: vec![],
                ..port_of_a_gigabit()
            },
            "number of senders",
        ),
        (
            PlanInput {
                shares: vec![1, 0],
                ..port_of_a_gigabit()
            },
            "share",
        ),
        (
            PlanInput {
                utilisation: f64::NAN,
                ..port_of_a_gigabit()
            },
            "utilisation",
        ),
        (
            PlanInput {
                window_ns: Some(99_999),
                ..port_of_a_gigabit()
            },
            "window (--window) is 99.999 us; 100 us to 1 s",
        ),
        (
            PlanInput {
                guard_ns: Some(u64::MAX),
                ..port_of_a_gigabit()
            },
            "guard (--dead-time)",
        ),
    ] {
        let said = refused(input);
        assert!(said.starts_with(key), "{said}");
    }
}

proptest! {
    #[test]
    fn a_plan_never_overbooks_the_port_and_never_overlaps(
        rate in 1_000_000_u64..800_000_000_000, buffer in 0_u64..100_000_000, packet in 100_u32..70_000,
        shares in prop::collection::vec(0_u16..1000, 0..70), lateness in 0_u64..10_000_000, clock in 0_u64..1_000_000,
        utilisation in 0.01_f64..1.1, window in prop::option::of(100_000_u64..1_000_000_000), guard in prop::option::of(0_u64..10_000_000),
        mode in 0..4_usize,
    ) {
        let input = PlanInput {
            link_rate_bps: rate, port_buffer_bytes: buffer, packet_bytes: packet, shares, mode: Mode::ALL[mode],
            lateness_ns: lateness, clock_error_ns: clock, utilisation, window_ns: window, guard_ns: guard, ..PlanInput::default()
        };
        if let Ok(plan) = Plan::compute(&input) {
            prop_assert!(plan.utilisation <= 1.0);
            let wire = u64::from(packet + input.wire_overhead_bytes);
            prop_assert!(u64::from(plan.burst_packets.max(plan.catch_up_packets)) * wire <= buffer);
            for slot in &plan.slots {
                prop_assert!(u128::from(slot.packets) * u128::from(plan.packet_ps) <= u128::from(slot.window_ns) * 1_000);
            }
            if matches!(plan.mode, Mode::Slots | Mode::SlotsPaced) {
                for pair in plan.slots.windows(2) {
                    prop_assert!(pair[0].offset_ns + pair[0].window_ns + plan.guard_ns <= pair[1].offset_ns);
                }
                let last = plan.slots.last().unwrap();
                prop_assert!(last.offset_ns + last.window_ns + plan.guard_ns <= plan.cycle_ns);
            }
        }
    }
}
