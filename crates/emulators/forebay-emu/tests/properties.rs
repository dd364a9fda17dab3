//! Whatever is configured and whatever goes wrong: the books close, what was not spoiled is whole,
//! and it ends.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not be")]

mod receiver;

use forebay_emu::world::World;
use forebay_emu::{
    ByteOrder, Config, Fault, FaultRule, Group, Huge, Pick, SoftReadouts, Spacing, Spill,
    TriggerBits, Verifier,
};
use proptest::prelude::*;
use receiver::Receiver;

fn group() -> impl Strategy<Value = Group> {
    (1_usize..4, 6_u32..400, 0.0..300.0).prop_map(|(count, words, sigma)| Group {
        min_bytes: 16,
        max_bytes: 4000,
        ..Group::new(count, words * 4, sigma)
    })
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        Just(Fault::Silent),
        Just(Fault::WrongTag),
        Just(Fault::DataError),
        Just(Fault::HeaderOnly),
        Just(Fault::BadSize),
        Just(Fault::DropMessage),
        Just(Fault::DuplicateMessage),
        Just(Fault::CorruptTrailer),
        Just(Fault::CorruptByte),
        Just(Fault::ReorderMessage),
        (0_u64..100_000_000).prop_map(|ns| Fault::Late { ns }),
        (-10_i32..10).prop_map(|triggers| Fault::Ahead { triggers }),
        any::<bool>().prop_map(|from_zero| Fault::Restart { from_zero }),
    ]
}

fn rule() -> impl Strategy<Value = FaultRule> {
    let pick = prop_oneof![
        Just(Pick::Always),
        (1_u64..50).prop_map(Pick::Every),
        (0.0..1.0).prop_map(Pick::Chance),
    ];
    // Sources wrap round to those that exist.
    (0_usize..12, fault(), 0_u64..300, 1_u64..400, pick).prop_map(
        |(source, fault, from, n, pick)| {
            FaultRule::new(source, fault)
                .during(from..from + n)
                .pick(pick)
        },
    )
}

prop_compose! {
    fn config()(
        seed in any::<u64>(),
        groups in prop::collection::vec(group(), 1..4),
        rate_hz in 10.0..1e6,
        poisson in any::<bool>(),
        spill in prop::option::of((1_u64..1_000_000_000, 0.01..1.0)),
        sixteen in any::<bool>(),
        first in 0_u32..0xffff,
        water_mark_bytes in prop::option::of(64_u32..70_000),
        flush_ns in prop::option::of(0_u64..10_000_000_000),
        little in any::<bool>(),
        huge in prop::option::of((1_u32..200, 4_u32..60_000)),
        faults in prop::collection::vec(rule(), 0..6),
        events in 0_u64..400,
    ) -> Config {
        let mut config = Config::new(seed, groups, rate_hz);
        config.trigger.spacing = if poisson { Spacing::Poisson } else { Spacing::Fixed };
        config.trigger.spill = spill.map(|(period_ns, share)| Spill {
            period_ns,
            length_ns: ((period_ns as f64 * share) as u64).max(1),
        });
        config.trigger.bits = if sixteen { TriggerBits::Sixteen } else { TriggerBits::TwentyFour };
        config.trigger.first = first;
        config.transport.water_mark_bytes = water_mark_bytes;
        config.transport.flush_ns = flush_ns;
        config.transport.byte_order = if little { ByteOrder::Little } else { ByteOrder::Big };
        config.huge = huge.map(|(every_events, words)| Huge { every_events, bytes: words * 4 });
        let sources = config.sources();
        config.faults = faults.into_iter().map(|f| FaultRule { source: f.source % sources, ..f }).collect();
        config.limit.events = Some(events);
        config
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn books_close_and_whole_messages_hold_what_was_made(config in config()) {
        let mut world = World::new(0, SoftReadouts::new(&config).unwrap(), Vec::new());
        let mut receiver = Receiver::new(&config);
        for step in 0..200 {
            if !world.step(&mut receiver) {
                break;
            }
            if step % 7 == 0 {
                let all = world.readouts.totals().all;
                prop_assert_eq!((all.residual(), all.residual_datagrams()), ((0, 0), (0, 0)));
            }
        }
        world.run(&mut receiver);
        let totals = world.readouts.totals();
        prop_assert!(world.readouts.is_finished());
        prop_assert_eq!(Some(totals.events), config.limit.events);
        prop_assert_eq!(totals.all.datagrams_sent.items, receiver.datagrams);
        prop_assert_eq!(totals.all.datagrams_sent.bytes, receiver.datagram_bytes);
        for (source, books) in totals.by_source.iter().enumerate() {
            prop_assert_eq!((books.residual(), books.residual_datagrams()), ((0, 0), (0, 0)));
            prop_assert_eq!((books.held.items, books.datagrams_held.items), (0, 0));
            prop_assert_eq!(books.made.items - books.duplicated.items + books.silent, totals.events);
            let seen = receiver.seen.get(&source).map_or(0, Vec::len) as u64;
            prop_assert!(seen <= books.sent.items);
            if books.corrupted_messages + books.spoiled_subevents == 0 {
                prop_assert_eq!(seen, books.sent.items);
                prop_assert!(receiver.seen.get(&source).into_iter().flatten().all(|s| s.intact));
            }
        }
    }

    #[test]
    fn the_verifier_bears_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut verifier = Verifier::new(&Config::test2(1.0)).unwrap();
        prop_assert!(verifier.check(&bytes).is_err());
    }

    #[test]
    fn any_single_bit_that_changes_is_noticed(
        source in 0_usize..90, number in 0_u32..1000, bit in any::<prop::sample::Index>(),
    ) {
        let mut config = Config::test2(1e6);
        config.trigger.first = number;
        config.limit.events = Some(1);
        config.transport.water_mark_bytes = None;
        let mut readouts = SoftReadouts::new(&config).unwrap();
        readouts.handle_time(0);
        let mut subevent = Vec::new();
        while let Some(datagram) = readouts.poll_datagram() {
            if datagram.source == source {
                let size = u32::from_be_bytes(*datagram.bytes[8..].first_chunk().unwrap());
                subevent = datagram.bytes[8..8 + size as usize].to_vec();
            }
        }
        let mut verifier = Verifier::new(&config).unwrap();
        let verified = verifier.check(&subevent);
        prop_assert_eq!(verified.map(|v| (v.source, v.number, v.bytes)), Ok((source, number, subevent.len())));
        let bit = bit.index(subevent.len() * 8);
        subevent[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(verifier.check(&subevent).is_err(), "bit {}", bit);
    }
}
