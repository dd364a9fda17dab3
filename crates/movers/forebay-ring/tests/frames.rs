//! Frame pools: against a model, and with a peer that writes anything.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints its seed"
)]

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use forebay_ring::{
    BareReceiver, BareSender, Descriptor, Frame, FramePoolMemory, FramePoolSpec, FrameReceiver,
    FrameSender, Full, PeerFault, Region, RingError, SpecFault,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

const FRAMES: u32 = 5;
const FRAME_BYTES: u32 = 192;
const SENT_AT: u64 = 128;
const FREED_AT: u64 = 256;
const WORDS_AT: u64 = 384;

struct World {
    sender: FrameSender,
    receiver: FrameReceiver,
    sender_page: OwnedFd,
    receiver_page: OwnedFd,
}

fn world() -> World {
    let spec = FramePoolSpec {
        name: "frames".into(),
        frames: FRAMES,
        frame_bytes: FRAME_BYTES,
    };
    let memory = FramePoolMemory::create(&spec).unwrap();
    World {
        sender: FrameSender::map(&spec, memory.sender_fds().unwrap()).unwrap(),
        receiver: FrameReceiver::map(&spec, memory.receiver_fds().unwrap()).unwrap(),
        sender_page: memory.sender_fds().unwrap().remove(1),
        receiver_page: memory.receiver_fds().unwrap().remove(1),
    }
}

fn poke(fd: &OwnedFd, at: u64, word: u64) {
    assert_eq!(rustix::io::pwrite(fd, &word.to_ne_bytes(), at).unwrap(), 8);
}

#[derive(Debug, Clone)]
enum Step {
    Acquire,
    Send { offset: u32, len: u32 },
    PutBack,
    Publish,
    Next,
    Free(usize),
    Give,
    Reclaim,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Acquire),
        3 => (0..220u32, 0..220u32).prop_map(|(offset, len)| Step::Send { offset, len }),
        1 => Just(Step::PutBack),
        2 => Just(Step::Publish),
        3 => Just(Step::Next),
        3 => (0..4usize).prop_map(Step::Free),
        2 => Just(Step::Give),
        2 => Just(Step::Reclaim),
    ]
}

#[derive(Default)]
struct Model {
    writing: Vec<Frame>,
    sent: VecDeque<(u32, u32, u32)>,
    published: VecDeque<(u32, u32, u32)>,
    held: Vec<Descriptor>,
    freed: u32,
    given: u32,
    number: u32,
}

impl World {
    fn apply(&mut self, model: &mut Model, step: &Step) {
        match *step {
            Step::Acquire => model.writing.extend(self.sender.acquire()),
            Step::Send { offset, len } => self.send(model, offset, len),
            Step::PutBack => {
                if let Some(frame) = model.writing.pop() {
                    self.sender.put_back(frame);
                }
            }
            Step::Publish => {
                self.sender.publish();
                model.published.append(&mut model.sent);
            }
            Step::Next => self.next(model),
            Step::Free(nth) if nth < model.held.len() => {
                let frame = model.held.remove(nth).frame;
                assert!(self.receiver.free(frame));
                assert!(!self.receiver.free(frame), "freed twice by its own side");
                model.freed += 1;
            }
            Step::Free(_) => assert!(!self.receiver.free(FRAMES)),
            Step::Give => {
                self.receiver.publish();
                model.given += std::mem::take(&mut model.freed);
            }
            Step::Reclaim => assert_eq!(
                self.sender.reclaim().unwrap(),
                std::mem::take(&mut model.given)
            ),
        }
        let away =
            model.writing.len() + model.sent.len() + model.published.len() + model.held.len();
        assert_eq!(
            self.sender.free_frames() + away + (model.freed + model.given) as usize,
            FRAMES as usize
        );
        assert_eq!(self.receiver.held_frames(), model.held.len());
        assert_eq!(
            (self.sender.double_frees(), self.sender.unknown_frees()),
            (0, 0)
        );
    }

    fn send(&mut self, model: &mut Model, offset: u32, len: u32) {
        let Some(mut frame) = model.writing.pop() else {
            return;
        };
        self.sender
            .bytes_mut(&mut frame)
            .unwrap()
            .fill(model.number as u8);
        match self.sender.send(frame, offset, len, model.number) {
            Ok(()) => {
                assert!(offset + len <= FRAME_BYTES);
                model.sent.push_back((offset, len, model.number));
                model.number += 1;
            }
            Err(unsent) => {
                assert!(offset + len > FRAME_BYTES && matches!(unsent.why, Full::TooLong { .. }));
                model.writing.push(unsent.frame);
            }
        }
    }

    fn next(&mut self, model: &mut Model) {
        let found = self.receiver.next().unwrap();
        assert_eq!(
            found.map(|d| (d.offset, d.len, d.tag)),
            model.published.pop_front()
        );
        if let Some(descriptor) = found {
            let bytes = self.receiver.view(&descriptor).unwrap().to_vec();
            assert_eq!(bytes, vec![descriptor.tag as u8; descriptor.len as usize]);
            model.held.push(descriptor);
        }
    }
}

#[derive(Debug, Clone)]
enum Attack {
    SenderPage(u64, u64),
    ReceiverPage(u64, u64),
    Honest(Step),
}

fn attack() -> impl Strategy<Value = Attack> {
    let at = prop_oneof![
        Just(SENT_AT),
        Just(FREED_AT),
        (0..16u64).prop_map(|n| WORDS_AT + 8 * n)
    ];
    let word = prop_oneof![3 => 0..8u64, 1 => any::<u64>()];
    prop_oneof![
        1 => (at.clone(), word.clone()).prop_map(|(at, word)| Attack::SenderPage(at, word)),
        1 => (at, word).prop_map(|(at, word)| Attack::ReceiverPage(at, word)),
        6 => step().prop_map(Attack::Honest),
    ]
}

/// The same calls with a peer that may have written anything: whatever comes is checked.
fn survive(world: &mut World, writing: &mut Vec<Frame>, held: &mut Vec<Descriptor>, step: &Step) {
    match *step {
        Step::Acquire => writing.extend(world.sender.acquire()),
        Step::Send { offset, len } => {
            let Some(mut frame) = writing.pop() else {
                return;
            };
            world.sender.bytes_mut(&mut frame).unwrap().fill(1);
            if let Err(unsent) = world.sender.send(frame, offset, len, 0) {
                writing.push(unsent.frame);
            }
        }
        Step::PutBack => writing
            .pop()
            .into_iter()
            .for_each(|frame| world.sender.put_back(frame)),
        Step::Publish => world.sender.publish(),
        Step::Next => {
            if let Ok(Some(descriptor)) = world.receiver.next() {
                assert!(
                    descriptor.frame < FRAMES && descriptor.offset + descriptor.len <= FRAME_BYTES
                );
                assert!(held.iter().all(|held| held.frame != descriptor.frame));
                assert_eq!(
                    world.receiver.view(&descriptor).unwrap().to_vec().len(),
                    descriptor.len as usize
                );
                held.push(descriptor);
            }
        }
        Step::Free(nth) if nth < held.len() => assert!(world.receiver.free(held.remove(nth).frame)),
        Step::Free(_) => {}
        Step::Give => world.receiver.publish(),
        Step::Reclaim => drop(world.sender.reclaim()),
    }
    assert!(world.sender.free_frames() + writing.len() <= FRAMES as usize);
    assert_eq!(world.receiver.held_frames(), held.len());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn frames_go_round_and_none_is_lost(steps in prop::collection::vec(step(), 1..150)) {
        let (mut world, mut model) = (world(), Model::default());
        for step in &steps {
            world.apply(&mut model, step);
        }
    }

    #[test]
    fn garbage_in_the_pages_is_survived(attacks in prop::collection::vec(attack(), 1..150)) {
        let (mut world, mut writing, mut held) = (world(), Vec::new(), Vec::new());
        for attack in &attacks {
            match attack {
                Attack::SenderPage(at, word) => poke(&world.sender_page, *at, *word),
                Attack::ReceiverPage(at, word) => poke(&world.receiver_page, *at, *word),
                Attack::Honest(step) => survive(&mut world, &mut writing, &mut held, step),
            }
        }
    }
}

/// One frame sent and published.
fn with_frame() -> World {
    let mut world = world();
    let frame = world.sender.acquire().unwrap();
    world.sender.send(frame, 0, 10, 7).unwrap();
    world.sender.publish();
    world
}

#[test]
fn a_frame_freed_twice_is_counted_and_comes_back_once() {
    let mut world = with_frame();
    let frame = world.receiver.next().unwrap().unwrap().frame;
    for (entry, freed) in [frame.into(), frame.into(), u64::from(FRAMES), 1 << 40]
        .into_iter()
        .enumerate()
    {
        poke(&world.receiver_page, WORDS_AT + 8 * entry as u64, freed);
    }
    poke(&world.receiver_page, FREED_AT, 4);
    assert_eq!(world.sender.reclaim().unwrap(), 1);
    assert_eq!(
        (world.sender.double_frees(), world.sender.unknown_frees()),
        (1, 2)
    );
    assert_eq!(world.sender.free_frames(), FRAMES as usize);
}

#[test]
fn each_bad_descriptor_has_a_name_and_the_next_one_is_read() {
    let words = |frame: u64, offset: u64, len: u64| (frame | offset << 32, len | 7 << 32);
    let mut world = with_frame();
    world.receiver.next().unwrap().unwrap();
    let held = 0;
    let cases = [
        (
            words(5, 0, 1),
            PeerFault::FrameUnknown {
                frame: 5,
                frames: FRAMES,
            },
        ),
        (words(held, 0, 1), PeerFault::FrameHeld { frame: 0 }),
        (
            words(1, 190, 3),
            PeerFault::FrameRange {
                frame: 1,
                offset: 190,
                len: 3,
                frame_bytes: FRAME_BYTES,
            },
        ),
        (
            words(1, u64::from(u32::MAX), 1),
            PeerFault::FrameRange {
                frame: 1,
                offset: u32::MAX,
                len: 1,
                frame_bytes: FRAME_BYTES,
            },
        ),
    ];
    for (entry, ((first, second), fault)) in (1u64..).zip(cases) {
        poke(&world.sender_page, WORDS_AT + 16 * entry, first);
        poke(&world.sender_page, WORDS_AT + 16 * entry + 8, second);
        poke(&world.sender_page, SENT_AT, entry + 1);
        assert_eq!(
            world.receiver.next(),
            Err(RingError::Peer { ring: 0, fault })
        );
        assert_eq!(world.receiver.next(), Ok(None));
        assert_eq!(world.receiver.refused_descriptors(), entry);
    }
}

#[test]
fn impossible_pools_are_refused_with_what_would_be_right() {
    let create = |frames, frame_bytes| {
        FramePoolMemory::create(&FramePoolSpec {
            name: "no".into(),
            frames,
            frame_bytes,
        })
    };
    let fault = |result: Result<FramePoolMemory, RingError>| match result {
        Err(RingError::Spec { fault, .. }) => fault,
        other => panic!("{other:?}"),
    };
    assert!(matches!(
        fault(create(0, 64)),
        SpecFault::Frames { found: 0, .. }
    ));
    assert!(matches!(
        fault(create(1, 65)),
        SpecFault::FrameBytes { found: 65, .. }
    ));
    assert!(matches!(
        fault(create(1, 0)),
        SpecFault::FrameBytes { found: 0, .. }
    ));
}

struct Bare {
    sender: BareSender,
    receiver: BareReceiver,
    sender_page: OwnedFd,
    receiver_page: OwnedFd,
}

fn bare() -> Bare {
    let spec = FramePoolSpec {
        name: "bare".into(),
        frames: FRAMES,
        frame_bytes: FRAME_BYTES,
    };
    let memory = FramePoolMemory::create(&spec).unwrap();
    Bare {
        sender: BareSender::map(&spec, memory.sender_fds().unwrap()).unwrap(),
        receiver: BareReceiver::map(&spec, memory.receiver_fds().unwrap()).unwrap(),
        sender_page: memory.sender_fds().unwrap().remove(1),
        receiver_page: memory.receiver_fds().unwrap().remove(1),
    }
}

impl Bare {
    fn freed(&mut self) -> Vec<u64> {
        let mut freed = Vec::new();
        self.sender.reclaim(|frame| freed.push(frame)).unwrap();
        freed
    }
}

#[test]
fn bare_ends_carry_what_their_users_say() {
    let mut bare = bare();
    for (frame, bytes) in [(3, &[7; 192][..]), (0, b"short"), (4, b"")] {
        bare.sender.send(frame, bytes, frame + 10).unwrap();
    }
    assert_eq!(bare.receiver.next(), Ok(None), "not published yet");
    bare.sender.publish();
    for (frame, bytes) in [(3, &[7; 192][..]), (0, b"short"), (4, b"")] {
        let found = bare.receiver.next().unwrap().unwrap();
        assert_eq!((found.frame, found.tag), (frame, frame + 10));
        assert_eq!(bare.receiver.view(&found).unwrap().to_vec(), bytes);
        bare.receiver.free(frame);
    }
    assert!(bare.freed().is_empty(), "not published yet");
    bare.receiver.publish();
    assert_eq!(bare.freed(), [3, 0, 4]);
    assert_eq!(bare.receiver.unreturned_frames(), 0);
}

#[test]
fn a_pool_has_memory_for_the_frames_that_were_used() {
    let spec = FramePoolSpec {
        name: "bare".into(),
        frames: 4096,
        frame_bytes: 16 << 10,
    };
    let memory = FramePoolMemory::create(&spec).unwrap();
    let frames = memory.receiver_fds().unwrap().remove(0);
    // As the kernel counts it, in units of 512 bytes.
    let memory_bytes = || rustix::fs::fstat(&frames).unwrap().st_blocks as u64 * 512;
    let mut sender = BareSender::map(&spec, memory.sender_fds().unwrap()).unwrap();
    let mut receiver = BareReceiver::map(&spec, memory.receiver_fds().unwrap()).unwrap();
    assert_eq!(memory_bytes(), 0, "nothing was sent");
    for frame in [0, 2000] {
        sender.send(frame, &[7; 16 << 10], 0).unwrap();
        sender.publish();
        let sent = receiver.next().unwrap().unwrap();
        assert_eq!(receiver.view(&sent).unwrap().to_vec(), [7; 16 << 10]);
    }
    // Two frames, and what the kernel rounds up to.
    let used = memory_bytes();
    assert!((32 << 10..8 << 20).contains(&used), "{used}");
}

#[test]
fn bare_ends_show_lies_as_they_are_written_and_reach_no_other_memory() {
    let mut bare = bare();
    let said = [(5, 0, 1), (1, 190, 3), (1, u32::MAX, 1), (u32::MAX, 0, 0)];
    for (entry, (frame, offset, len)) in (0u64..).zip(said) {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        poke(
            &bare.sender_page,
            WORDS_AT + 16 * entry,
            pair(frame, offset),
        );
        poke(&bare.sender_page, WORDS_AT + 16 * entry + 8, pair(len, 0));
    }
    poke(&bare.sender_page, SENT_AT, 4);
    for (frame, offset, len) in said {
        let found = bare.receiver.next().unwrap().unwrap();
        assert_eq!((found.frame, found.offset, found.len), (frame, offset, len));
        assert!(bare.receiver.view(&found).is_none());
    }
    for (entry, freed) in [2, 2, u64::MAX].into_iter().enumerate() {
        poke(&bare.receiver_page, WORDS_AT + 8 * entry as u64, freed);
    }
    poke(&bare.receiver_page, FREED_AT, 3);
    assert_eq!(bare.freed(), [2, 2, u64::MAX]);
    let (mut bare, max) = (self::bare(), 192);
    let too_long = bare.sender.send(0, &[0; 193], 0);
    assert_eq!(too_long, Err(Full::TooLong { len: 193, max }));
    let unknown = bare.sender.send(FRAMES, b"x", 0);
    assert_eq!(unknown, Err(Full::TooLong { len: 1, max: 0 }));
}

#[test]
fn bare_ends_stop_at_a_peer_that_does_not_take_and_at_impossible_positions() {
    let mut bare = bare();
    // As many entries as the next power of two of the frames.
    (0..8).for_each(|at| bare.sender.send(at % FRAMES, b"x", 0).unwrap());
    assert!(matches!(
        bare.sender.send(0, b"x", 0),
        Err(Full::NoSpace { .. })
    ));
    poke(&bare.receiver_page, FREED_AT, 9);
    for _ in 0..2 {
        let found = bare.sender.reclaim(|_| panic!("nothing can come back"));
        assert!(matches!(found, Err(RingError::Peer { .. })), "{found:?}");
    }
    poke(&bare.sender_page, SENT_AT, 9);
    for _ in 0..2 {
        assert!(matches!(bare.receiver.next(), Err(RingError::Peer { .. })));
    }
    (0..9).for_each(|_| bare.receiver.free(0));
    assert_eq!(bare.receiver.unreturned_frames(), 1);
}

/// Two receivers of frames that one process writes in one place, and no sender of either can.
#[test]
fn pools_over_one_memory_show_its_frames_to_each_and_let_nobody_else_write() {
    let spec = FramePoolSpec {
        name: "over".into(),
        frames: FRAMES,
        frame_bytes: FRAME_BYTES,
    };
    let mut region = Region::create("over", spec.data_bytes()).unwrap();
    let mut ends: Vec<_> = (0..2)
        .map(|_| {
            let memory = FramePoolMemory::create_over(&spec, region.reader_fd().unwrap()).unwrap();
            // Not even the sender's own end has a right to write, and one that wants it gets none.
            let refused = BareSender::map(&spec, memory.sender_fds().unwrap()).unwrap_err();
            assert!(
                matches!(refused, RingError::System { call: "mmap", .. }),
                "{refused}"
            );
            (
                BareSender::map_over(&spec, memory.sender_fds().unwrap()).unwrap(),
                FrameReceiver::map(&spec, memory.receiver_fds().unwrap()).unwrap(),
            )
        })
        .collect();
    region.bytes_mut()[2 * FRAME_BYTES as usize + 7..][..5].copy_from_slice(b"frame");
    let lies = Descriptor {
        frame: 2,
        offset: 7,
        len: 5,
        tag: 0,
    };
    for (sender, receiver) in &mut ends {
        for wrong in [
            Descriptor {
                frame: FRAMES,
                ..lies
            },
            Descriptor {
                offset: FRAME_BYTES - 4,
                ..lies
            },
            Descriptor {
                offset: u32::MAX,
                ..lies
            },
        ] {
            let refused = sender.send_in_place(wrong).unwrap_err();
            assert!(matches!(refused, Full::TooLong { .. }), "{wrong:?}");
        }
        assert!(matches!(
            sender.send(0, b"a copy", 0),
            Err(Full::TooLong { .. })
        ));
        sender.send_in_place(lies).unwrap();
        sender.publish();
        let found = receiver.next().unwrap().unwrap();
        assert_eq!(found, lies);
        assert_eq!(receiver.view(&found).unwrap().to_vec(), b"frame");
        assert!(receiver.free(found.frame));
        receiver.publish();
        let mut back = Vec::new();
        sender.reclaim(|number| back.push(number)).unwrap();
        assert_eq!(back, [2]);
    }
}

#[test]
fn a_pool_is_over_no_memory_of_another_size_or_that_can_be_written_anew() {
    let spec = FramePoolSpec {
        name: "over".into(),
        frames: 64,
        frame_bytes: FRAME_BYTES,
    };
    let short = Region::create("short", 1).unwrap().reader_fd().unwrap();
    let refused = FramePoolMemory::create_over(&spec, short).unwrap_err();
    assert!(matches!(refused, RingError::Size { .. }), "{refused}");
    // As long, and of another pool: it is sealed against another size alone.
    let other = FramePoolMemory::create(&spec).unwrap();
    let frames = other.receiver_fds().unwrap().remove(0);
    let refused = FramePoolMemory::create_over(&spec, frames).unwrap_err();
    assert!(matches!(refused, RingError::Seals { .. }), "{refused}");
}
