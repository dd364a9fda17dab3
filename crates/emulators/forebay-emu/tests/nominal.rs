//! Nothing goes wrong: what is sent, when, and that it is counted and verified.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not be")]

mod receiver;

use forebay_emu::world::{Arrival, World};
use forebay_emu::{ByteOrder, Config, Group, Huge, Limit, SoftReadouts, Spacing, TriggerBits};
use receiver::Receiver;

fn limited(mut config: Config, events: u64) -> Config {
    config.limit = Limit {
        events: Some(events),
        duration_ns: None,
    };
    config
}

fn world(config: &Config) -> World {
    World::new(0, SoftReadouts::new(config).unwrap(), Vec::new())
}

/// Runs to the end and checks everything that holds of every faultless run.
fn received(config: &Config) -> Receiver {
    let (mut world, mut receiver) = (world(config), Receiver::new(config));
    world.run(&mut receiver);
    let totals = world.readouts.totals();
    assert_eq!(receiver.mismatches, []);
    assert_eq!(receiver.broken_messages, 0);
    assert_eq!(totals.all.sent.items, receiver.subevents());
    assert_eq!(totals.all.sent.bytes, receiver.subevent_bytes());
    assert_eq!(totals.all.made, totals.all.sent);
    assert_eq!(totals.all.messages, receiver.messages);
    assert_eq!(totals.all.datagrams_sent.items, receiver.datagrams);
    assert_eq!(totals.all.datagrams_sent.bytes, receiver.datagram_bytes);
    assert_eq!(
        totals.all.sent.items,
        totals.events * config.sources() as u64
    );
    for (source, books) in totals.by_source.iter().enumerate() {
        assert_eq!(
            (books.residual(), books.residual_datagrams()),
            ((0, 0), (0, 0))
        );
        assert_eq!(books.sent.items, receiver.seen[&source].len() as u64);
    }
    receiver
}

#[test]
fn golden_message() {
    let mut config = limited(Config::new(1, vec![Group::new(1, 36, 0.0)], 1000.0), 2);
    config.trigger.first = 0x00ab_cdef;
    let mut datagrams = Vec::new();
    world(&config).run(&mut |arrival: Arrival<'_>| datagrams.push(arrival.bytes.to_vec()));
    #[rustfmt::skip]
    let mut want: Vec<u8> = vec![
        0, 0, 0, 88,             0, 3, 0, 0x62,          // queue: size, decoding
        0, 0, 0, 36,             0, 2, 0, 0x11,          // sub-event: size, decoding of type 1
        0, 0, 0x80, 0,           0xab, 0xcd, 0xef, TAG0, // id, trigger number and tag
        0, 2, 0, 0,                                      // two data words from address 0
        H0[0], H0[1], H0[2], H0[3], H0[4], H0[5], H0[6], H0[7],
        0, 1, 0x55, 0x55,        0, 0, 0, 1,             // status
        0xaa, 0xaa, 0xaa, 0xaa,                          // padding to 8
        0, 0, 0, 36,             0, 2, 0, 0x11,
        0, 0, 0x80, 0,           0xab, 0xcd, 0xf0, TAG1,
        0, 2, 0, 0,
        H1[0], H1[1], H1[2], H1[3], H1[4], H1[5], H1[6], H1[7],
        0, 1, 0x55, 0x55,        0, 0, 0, 1,
        0xaa, 0xaa, 0xaa, 0xaa,
    ];
    want.extend_from_within(..32);
    assert_eq!(datagrams, [want]);
}

// The random parts of the golden message: they hold the seed's meaning from version to version.
const TAG0: u8 = 0x05;
const TAG1: u8 = 0x76;
const H0: [u8; 8] = [0xdd, 0x1f, 0xa4, 0x47, 0x2e, 0xab, 0x19, 0x82];
const H1: [u8; 8] = [0x35, 0x41, 0x9c, 0x31, 0xa6, 0x68, 0xac, 0xa4];

#[test]
fn every_source_sends_every_trigger_once_in_order_with_the_common_tag() {
    for water_mark_bytes in [None, Some(64), Some(2048), Some(32 << 10), Some(1 << 20)] {
        for (bits, order) in [
            (TriggerBits::TwentyFour, ByteOrder::Big),
            (TriggerBits::Sixteen, ByteOrder::Little),
        ] {
            let mut config = limited(Config::test2(100_000.0), 700);
            config.transport.water_mark_bytes = water_mark_bytes;
            config.transport.byte_order = order;
            config.trigger.bits = bits;
            config.trigger.first = bits.mask() - 300;
            let receiver = received(&config);
            let want: Vec<u32> = (0..700)
                .map(|i| (bits.mask() - 300 + i) & bits.mask())
                .collect();
            let tags = |s: usize| receiver.seen[&s].iter().map(|s| s.tag).collect::<Vec<_>>();
            for source in 0..90 {
                assert_eq!(
                    receiver.numbers(source),
                    want,
                    "source {source} {water_mark_bytes:?}"
                );
                assert_eq!(tags(source), tags(0));
            }
            let distinct: std::collections::BTreeSet<_> = tags(0).into_iter().collect();
            assert!(distinct.len() > 200, "tags are random");
        }
    }
}

#[test]
fn queues_are_filled_up_to_the_water_mark_and_never_beyond() {
    for mark in [512, 4096, 32 << 10, 1 << 20] {
        let mut config = limited(Config::new(3, vec![Group::new(2, 338, 60.0)], 1e5), 3000);
        config.groups[0].max_bytes = 500;
        config.transport.water_mark_bytes = Some(mark);
        let limit = mark.min(config.transport.max_queue_bytes);
        let receiver = received(&config);
        for source in 0..2 {
            let queues = &receiver.queues[&source];
            let (last, full) = queues.split_last().unwrap();
            assert!(*last <= limit);
            // The largest sub-event is below 700 bytes: less than that is left unused.
            assert!(
                full.iter().all(|&q| q <= limit && q + 700 > limit),
                "{mark}: {full:?}"
            );
        }
    }
}

#[test]
fn a_queue_of_exactly_the_water_mark_is_not_beyond_it() {
    let mut config = limited(Config::new(1, vec![Group::new(1, 112, 0.0)], 1e5), 30);
    config.transport.water_mark_bytes = Some(8 + 3 * 112);
    assert_eq!(received(&config).queues[&0], [8 + 3 * 112; 10]);
    config.transport.water_mark_bytes = Some(8 + 3 * 112 - 1);
    assert_eq!(received(&config).queues[&0], [8 + 2 * 112; 15]);
}

#[test]
fn without_a_water_mark_each_subevent_is_a_datagram_at_its_time() {
    let mut config = limited(Config::test2(1000.0), 50);
    config.transport.water_mark_bytes = None;
    let receiver = received(&config);
    assert_eq!(receiver.datagrams, 50 * 90);
    for seen in receiver.seen.values() {
        for (i, subevent) in seen.iter().enumerate() {
            assert_eq!(subevent.now_ns, i as u64 * 1_000_000);
        }
    }
}

#[test]
fn huge_subevents_travel_alone_in_cut_messages_and_keep_the_order() {
    for bytes in [60_000, 64_480, 100_000, 400_000] {
        let mut config = limited(Config::new(5, vec![Group::new(4, 116, 0.0)], 1e5), 4000);
        config.huge = Some(Huge {
            every_events: 500,
            bytes,
        });
        let receiver = received(&config);
        for seen in receiver.seen.values() {
            let huge: Vec<_> = seen.iter().filter(|s| s.bytes > 1000).collect();
            assert_eq!(huge.len(), 8);
            assert!(huge.windows(2).all(|w| w[1].number - w[0].number == 500));
            assert!(seen.windows(2).all(|w| w[1].number == w[0].number + 1));
        }
    }
}

/// With `exact_cuts` the end of the message cannot be seen: a receiver that follows the rule of
/// nettrans glues it to the next one and loses both.
#[test]
fn a_message_of_exactly_two_cuts_is_ambiguous_only_when_asked_for() {
    let exact = 2 * 64_512 - 40;
    let mut config = limited(Config::new(5, vec![Group::new(1, 116, 0.0)], 1e5), 2000);
    config.transport.water_mark_bytes = None;
    config.huge = Some(Huge {
        every_events: 1000,
        bytes: exact,
    });
    received(&config);
    config.transport.exact_cuts = true;
    let (mut world, mut receiver) = (world(&config), Receiver::new(&config));
    world.run(&mut receiver);
    assert_eq!(receiver.broken_messages, 2);
    assert_eq!(world.readouts.totals().all.messages, receiver.messages + 2);
}

#[test]
fn a_partly_filled_queue_leaves_after_the_flush_time() {
    let mut config = limited(Config::new(1, vec![Group::new(3, 116, 0.0)], 100.0), 100);
    config.transport.flush_ns = Some(25_000_000);
    let receiver = received(&config);
    for seen in receiver.seen.values() {
        // Triggers come every 10 ms: three fit into 25 ms from the first on.
        let waits = seen
            .iter()
            .map(|s| s.now_ns - u64::from(s.number) * 10_000_000);
        assert_eq!(waits.max(), Some(25_000_000));
    }
    assert!(
        receiver.queues[&0]
            .iter()
            .rev()
            .skip(1)
            .all(|&q| q == 8 + 3 * 120)
    );
}

#[test]
fn poll_timeout_names_the_next_trigger_or_flush() {
    let mut config = limited(Config::new(1, vec![Group::new(1, 116, 0.0)], 10.0), 2);
    config.transport.flush_ns = Some(30_000_000);
    let mut readouts = SoftReadouts::new(&config).unwrap();
    let start = 7_000_000_000;
    let mut next = start;
    let mut steps = Vec::new();
    while !readouts.is_finished() {
        readouts.handle_time(next);
        let mut sent = 0;
        while readouts.poll_datagram().is_some() {
            sent += 1;
        }
        steps.push(((next - start) / 1_000_000, sent));
        next = readouts.poll_timeout().unwrap_or(next);
    }
    assert_eq!(steps, [(0, 0), (30, 1), (100, 0), (130, 1)]);
    assert_eq!(readouts.poll_timeout(), None);
}

#[test]
fn the_same_seed_sends_the_same_bytes_and_another_seed_others() {
    let bytes = |seed| {
        let mut config = limited(Config::test2(1e5), 300);
        config.groups.iter_mut().for_each(|g| g.sigma_bytes = 20.0);
        config.trigger.spacing = Spacing::Poisson;
        config.seed = seed;
        let mut all = Vec::new();
        world(&config).run(&mut |a: Arrival<'_>| all.push((a.now_ns, a.source, a.bytes.to_vec())));
        all
    };
    assert!(bytes(1) == bytes(1));
    assert!(bytes(1) != bytes(2));
}

/// How often the clock is looked at changes the order between sources, not what a source sends.
#[test]
fn what_a_source_sends_does_not_depend_on_the_steps_of_time() {
    let mut config = limited(Config::test2(1e5), 2000);
    config.transport.flush_ns = None;
    config.huge = Some(Huge {
        every_events: 300,
        bytes: 100_000,
    });
    let sent = |step_ns: u64, max: usize| {
        let mut readouts = SoftReadouts::new(&config).unwrap();
        let mut sent = vec![Vec::new(); 90];
        for now_ns in (0..).step_by(step_ns as usize) {
            readouts.handle_time(now_ns);
            while let Some(batch) = readouts.poll_batch(max) {
                assert!(batch.len() <= max);
                for datagram in batch.datagrams() {
                    sent[datagram.source].push(datagram.bytes.to_vec());
                }
            }
            if readouts.is_finished() {
                return sent;
            }
            if readouts.poll_timeout().is_none() {
                readouts.finish(now_ns);
            }
        }
        sent
    };
    let fine = sent(10_000, 1);
    assert!(fine == sent(100_000_000, 64));
    assert!(fine == sent(333_333, 3));
}

#[test]
fn datagrams_not_sent_are_offered_again_and_refused_ones_are_counted() {
    let mut config = limited(Config::new(1, vec![Group::new(2, 116, 0.0)], 1e6), 40);
    config.transport.water_mark_bytes = None;
    let mut readouts = SoftReadouts::new(&config).unwrap();
    let mut sent: Vec<Vec<u8>> = Vec::new();
    let mut refused = 0;
    readouts.handle_time(0);
    readouts.handle_time(1_000_000);
    while let Some(batch) = readouts.poll_batch(8) {
        let taken: Vec<_> = batch
            .datagrams()
            .take(3)
            .map(|d| d.bytes.to_vec())
            .collect();
        readouts.handle_sent(taken.len());
        sent.extend(taken);
        if sent.len().is_multiple_of(5) && readouts.poll_batch(2).is_some() {
            readouts.handle_refused(1);
            refused += 1;
        }
        let all = readouts.totals().all;
        assert_eq!((all.residual(), all.residual_datagrams()), ((0, 0), (0, 0)));
    }
    let all = readouts.totals().all;
    assert!(refused > 2);
    assert_eq!(
        (all.sent.items, all.send_failed.items),
        (80 - refused, refused)
    );
    assert_eq!(all.datagrams_sent.items, sent.len() as u64);
    sent.sort();
    sent.dedup();
    assert_eq!(sent.len() as u64, 80 - refused, "nothing is sent twice");
}

#[test]
fn sources_can_share_a_port_and_ids_count_up() {
    let mut config = limited(Config::new(1, vec![Group::new(10, 116, 0.0)], 1000.0), 3);
    config.transport.sources_per_port = 4;
    config.transport.first_id = 0x123;
    config.transport.water_mark_bytes = None;
    let mut ports = std::collections::BTreeSet::new();
    world(&config).run(&mut |a: Arrival<'_>| {
        let id = u32::from_be_bytes(*a.bytes[16..].first_chunk().unwrap());
        assert_eq!(id, 0x123 + a.source as u32);
        ports.insert((a.port, a.source));
    });
    let want = (0..10).map(|s| (s / 4, s)).collect();
    assert_eq!(ports, want);
}

#[test]
fn finish_cuts_the_triggers_and_sends_what_is_held() {
    let config = Config::test2(1000.0);
    let mut world = world(&config);
    let mut receiver = Receiver::new(&config);
    while world.now_ns() < 20_000_000 {
        world.step(&mut receiver);
    }
    assert_eq!(world.readouts.totals().all.held.items, 21 * 90);
    assert_eq!(receiver.subevents(), 0);
    world.readouts.finish(world.now_ns());
    while world.step(&mut receiver) {}
    assert!(world.readouts.is_finished());
    assert_eq!(receiver.subevents(), 21 * 90);
    assert_eq!(world.readouts.totals().all.held.items, 0);
}

#[test]
fn it_knows_that_it_was_the_limit() {
    let mut config = Config::test2(10_000.0);
    config.limit.duration_ns = Some(1_000_000_000);
    let run = |step_ns: u64| {
        let mut readouts = SoftReadouts::new(&config).unwrap();
        let mut now_ns = 0;
        while readouts.poll_timeout().is_some() {
            readouts.handle_time(now_ns);
            while readouts.poll_batch(64).is_some() {}
            now_ns += step_ns;
        }
        readouts.behind()
    };
    let fast = run(1_000_000);
    assert!(!fast.generator_limited, "{fast:?}");
    assert!(fast.lag_ns_max <= 1_000_000 && fast.lag_ns_p99 >= 900_000);
    // Looking at the clock every 100 ms only, it is behind its schedule for nine tenths of the run.
    let slow = run(100_000_000);
    assert!(slow.generator_limited, "{slow:?}");
    assert!(slow.behind_ns > slow.run_ns / 2);
}

#[test]
fn a_source_that_catches_up_leaves_the_others_their_turn() {
    let config = limited(
        Config::new(3, vec![Group::new(3, 32 << 10, 0.0)], 1000.0),
        100,
    );
    let mut readouts = SoftReadouts::new(&config).unwrap();
    // It starts, and is looked at again when all triggers are overdue.
    readouts.handle_time(0);
    readouts.handle_time(1_000_000_000);
    let (mut of, mut in_a_row, mut longest, mut all) = (usize::MAX, 0, 0, 0);
    while let Some(datagram) = readouts.poll_datagram() {
        in_a_row = if datagram.source == of { in_a_row } else { 0 } + datagram.bytes.len();
        of = datagram.source;
        longest = longest.max(in_a_row);
        all += datagram.bytes.len();
    }
    assert!(all > 3 * 90 * (32 << 10), "{all}");
    assert!((256 << 10..400 << 10).contains(&longest), "{longest}");
}
