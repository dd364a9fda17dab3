//! A hostile producer: messages that lie about their contents, memory that changes under the reader, garbage. No
//! panic, the books close, and what comes out is a readable file.

mod harness;

use std::cell::Cell;

use forebay_evb::{Completion, Config, Input, Message, Poll, Run, SubEventDrop};
use harness::arena::Arena;
use harness::{MS, Rig, Sub, sub};
use proptest::prelude::*;

const N: usize = 3;

#[derive(Debug, Clone)]
enum Act {
    /// A sound message from this trigger on, each sub-event displaced by that much.
    Send {
        source: usize,
        from: u32,
        displaced: Vec<i32>,
        tag_flip: u8,
    },
    /// A sound message that claims another number of sub-events.
    Lie {
        source: usize,
        from: u32,
        count: u32,
        claimed: u32,
    },
    /// Whatever bytes.
    Garbage {
        source: usize,
        bytes: Vec<u8>,
        claimed: u32,
    },
    /// Bytes that look like headers of sub-events, with any sizes.
    Headers {
        source: usize,
        sizes: Vec<u32>,
        claimed: u32,
    },
    Pass(u64),
    Press(usize, bool),
    Close(usize, bool),
    Commit,
    Restart,
}

fn act() -> impl Strategy<Value = Act> {
    let source = 0..N;
    let displaced = prop_oneof![
        8 => Just(0),
        1 => -20..20_i32,
        1 => any::<i32>(),
    ];
    let size = prop_oneof![
        0..80_u32,
        any::<u32>(),
        Just(16_u32),
        Just(u32::MAX),
        Just(0x7fff_fff0_u32)
    ];
    prop_oneof![
        10 => (source.clone(), 0..60_u32, proptest::collection::vec(displaced, 0..12), prop_oneof![9 => Just(0), 1 => any::<u8>()])
            .prop_map(|(source, from, displaced, tag_flip)| Act::Send { source, from, displaced, tag_flip }),
        2 => (source.clone(), 0..60_u32, 0..6_u32, prop_oneof![0..12_u32, any::<u32>()])
            .prop_map(|(source, from, count, claimed)| Act::Lie { source, from, count, claimed }),
        1 => (source.clone(), proptest::collection::vec(any::<u8>(), 0..200), 0..9_u32)
            .prop_map(|(source, bytes, claimed)| Act::Garbage { source, bytes, claimed }),
        1 => (source.clone(), proptest::collection::vec(size, 0..6), 0..9_u32)
            .prop_map(|(source, sizes, claimed)| Act::Headers { source, sizes, claimed }),
        3 => (0..300_u64).prop_map(|ms| Act::Pass(ms * MS)),
        1 => (source.clone(), any::<bool>()).prop_map(|(source, on)| Act::Press(source, on)),
        1 => (source, any::<bool>()).prop_map(|(source, on)| Act::Close(source, on)),
        2 => Just(Act::Commit),
        1 => Just(Act::Restart),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    let completion = prop_oneof![
        Just(Completion::Wait),
        Just(Completion::Partial),
        Just(Completion::Discard)
    ];
    (
        completion,
        any::<bool>(),
        any::<bool>(),
        1..40_u32,
        1..40_u32,
    )
        .prop_map(
            |(completion, check_tag, narrow, timeout_events, window_events)| {
                let mut config = Config::new(N);
                config.completion = completion;
                config.check_tag = check_tag;
                config.timeout_ns = 100 * MS;
                config.timeout_events = timeout_events;
                config.window_events = window_events;
                if narrow {
                    config.trigger_bits = forebay_wire::subevent::TriggerBits::Sixteen;
                }
                config
            },
        )
}

fn displaced(from: u32, by: &[i32], tag_flip: u8) -> Vec<Sub> {
    let of = |(offset, by): (usize, &i32)| {
        let trigger = from.wrapping_add(offset as u32);
        let shown = trigger.wrapping_add_signed(*by) & 0xff_ffff;
        Sub {
            trigger: shown,
            tag: sub(trigger).tag ^ tag_flip,
            ..sub(trigger)
        }
    };
    by.iter().enumerate().map(of).collect()
}

fn play(rig: &mut Rig, act: &Act, sent: &mut [u32; N]) {
    match act {
        Act::Send {
            source,
            from,
            displaced: by,
            tag_flip,
        } => {
            // Most messages go on where the source was, some go back.
            let from = if *from > 5 {
                sent[*source]
            } else {
                sent[*source].saturating_sub(*from)
            };
            sent[*source] = from + by.len() as u32;
            rig.send(*source, &displaced(from, by, *tag_flip));
        }
        Act::Lie {
            source,
            from,
            count,
            claimed,
        } => {
            let mut body = Vec::new();
            for sub in displaced(*from, &vec![0; *count as usize], 0) {
                rig.append(&mut body, *source, &sub);
            }
            rig.send_raw(*source, &body, *claimed);
        }
        Act::Garbage {
            source,
            bytes,
            claimed,
        } => rig.send_raw(*source, bytes, *claimed),
        Act::Headers {
            source,
            sizes,
            claimed,
        } => {
            let header = |size: &u32| {
                let words = [*size, 0x2_0001, 0x8000, sent[*source] << 8];
                words.map(u32::to_be_bytes).concat()
            };
            let body: Vec<u8> = sizes.iter().flat_map(header).collect();
            rig.send_raw(*source, &body, *claimed);
        }
        Act::Pass(ns) => rig.pass(*ns),
        Act::Press(source, on) => rig.builder.handle_pressure(*source, *on),
        Act::Close(source, true) => rig.builder.handle_close(*source),
        Act::Close(source, false) => rig.builder.handle_open(*source),
        Act::Commit => rig.commit(),
        Act::Restart => rig.restart(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn the_books_close_whatever_comes(config in config(), acts in proptest::collection::vec(act(), 1..80)) {
        let mut rig = Rig::new(config);
        let mut sent = [0; N];
        for act in &acts {
            play(&mut rig, act, &mut sent);
        }
        rig.finish_hostile();
    }

    /// Sound sub-events in any order, with any numbers: each is in one event or one named drop.
    #[test]
    fn no_subevent_is_built_twice(config in config(), acts in proptest::collection::vec(act(), 1..80)) {
        let mut rig = Rig::new(config);
        let mut sent = [0; N];
        for act in &acts {
            if !matches!(act, Act::Garbage { .. } | Act::Headers { .. } | Act::Lie { .. }) {
                play(&mut rig, act, &mut sent);
            }
        }
        rig.finish();
    }
}

/// Memory that is rewritten between any two reads.
struct Shifting<'a> {
    arena: &'a Arena,
    reads: Cell<u32>,
}

impl Shifting<'_> {
    fn spoil(&self, bytes: &mut [u8]) {
        let read = self.reads.get();
        self.reads.set(read.wrapping_add(1));
        let at = read.wrapping_mul(0x9e37_79b9) as usize;
        if read.is_multiple_of(3) && !bytes.is_empty() {
            let len = bytes.len();
            bytes[at % len] ^= 1 << (at % 8);
        }
    }
}

impl Input for Shifting<'_> {
    fn header(&self, source: usize, at: u64) -> Option<[u8; 16]> {
        let mut header = self.arena.header(source, at)?;
        self.spoil(&mut header);
        Some(header)
    }

    fn copy(&self, source: usize, at: u64, into: &mut [u8]) -> bool {
        let copied = self.arena.copy(source, at, into);
        self.spoil(into);
        copied
    }
}

#[test]
fn memory_that_changes_between_two_reads() {
    for start in 0..50 {
        println!("first read {start}");
        let mut rig = Rig::new(Config::new(N));
        for trigger in (0..200).step_by(10) {
            rig.send_all(&harness::subs(trigger..trigger + 10));
        }
        let reads = Cell::new(start);
        for round in 0..5_000 {
            let shifting = Shifting {
                arena: &rig.arena,
                reads: Cell::new(reads.get()),
            };
            let now_ns = round * MS;
            let poll = rig.builder.poll(now_ns, &shifting, &mut rig.sink);
            reads.set(shifting.reads.get());
            if poll == Poll::Full {
                rig.sink.drain();
            }
        }
        rig.now_ns = 5_000 * MS;
        rig.finish_hostile();
    }
}

/// Positions and lengths that no queue has.
#[test]
fn messages_outside_the_queue() {
    let mut rig = Rig::new(Config::new(1));
    let arena = Arena::new(1);
    let mut end = 0;
    let runs = [[0; 8], [0xff; 8], [1, 0, 0, 0, 1, 0, 0, 0]];
    let runs = runs.map(|bytes| Some(Run::from_bytes(bytes, u32::MAX)));
    let runs = runs.into_iter().chain([
        Some(Run {
            first: u32::MAX,
            step: u32::MAX,
            items: 0,
        }),
        None,
    ]);
    let places = [
        (0, 0, 0),
        (0, 64, 2),
        (u64::MAX, 64, 2),
        (u64::MAX - 8, u32::MAX, u32::MAX),
        (1 << 40, 16, 0),
    ];
    for ((at, len, items), numbers) in runs.flat_map(|run| places.map(|place| (place, run))) {
        end += 1;
        let message = Message {
            at,
            len,
            items,
            end,
            stamp_ns: 0,
            dropped: len,
            numbers,
        };
        rig.builder.handle_message(0, 0, message, &arena);
        assert_eq!(rig.builder.poll(0, &arena, &mut rig.sink), Poll::Idle);
        assert_eq!((rig.builder.held(0), rig.builder.released(0)), (0, end));
    }
    let book = rig.builder.save().clone();
    let account = &rig.builder.accounts().sources[0].account;
    let incoming = book.tally(account.incoming);
    let broken = book.tally(account.lost(SubEventDrop::Broken));
    assert_eq!(incoming, broken);
}
