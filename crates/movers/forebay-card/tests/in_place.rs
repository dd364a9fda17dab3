//! Drivers that receive where clients read: what came lies in the memory that everybody else can only read, and a buffer that a client has is written by nobody.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

#[expect(dead_code, reason = "nothing is sent here")]
mod worlds;

use std::collections::VecDeque;
use std::fs::File;

use forebay_card::{CardInDrop, Desk, DriverError, xdp};
use forebay_mux::ClientId;
use forebay_mux::buffers::{BufferId, Lent, ReceivePool, Share};
use forebay_ring::PeerRegion;
use forebay_sys::clock::monotonic_ns;
use forebay_xdp::PortConfig;
use worlds::{Kind, Room, SECOND_NS, Threads, World, frame, is_ours, run, tagged};

const CLIENT: ClientId = ClientId::new(0);
/// Buffers that the client may have.
const FRAMES: u32 = 8;

/// A client that keeps what it has as long as it may, with the pool of a multiplexer.
struct Keeper {
    pool: ReceivePool,
    memory: PeerRegion,
    frame_bytes: u64,
    held: VecDeque<(BufferId, u32, Vec<u8>)>,
    came: Vec<Vec<u8>>,
}

impl Keeper {
    fn of(world: &mut World) -> Self {
        let shared = world.driver.receive.share(FRAMES).unwrap().unwrap();
        let mut pool = ReceivePool::new(FRAMES, shared.card_frames).unwrap();
        let share = Share {
            queue_frames: FRAMES,
            guaranteed_frames: FRAMES,
        };
        pool.add_client(CLIENT, share).unwrap();
        let frames = u64::from(FRAMES + shared.card_frames);
        let wanted = (frames * u64::from(shared.frame_bytes)).next_multiple_of(4_096);
        let file = File::from(shared.reader.try_clone().unwrap());
        assert_eq!(file.metadata().unwrap().len(), wanted);
        Self {
            pool,
            memory: PeerRegion::map(&shared.reader).unwrap(),
            frame_bytes: shared.frame_bytes.into(),
            held: VecDeque::new(),
            came: Vec::new(),
        }
    }

    /// The same, of a driver that has its own buffers already.
    fn begun(world: &mut World) -> Self {
        let mut keeper = Self::of(world);
        let none = world.driver.receive.receive_shared(0, &mut keeper);
        assert_eq!(none.unwrap(), 0);
        keeper
    }

    fn read(&self, buffer: BufferId, offset: u32, bytes: usize) -> Vec<u8> {
        let at = u64::from(buffer.0) * self.frame_bytes + u64::from(offset);
        self.memory.view(at, bytes).unwrap().to_vec()
    }

    /// Gives the oldest back, which is as it was when it came.
    fn free(&mut self) {
        let (buffer, offset, frame) = self.held.pop_front().unwrap();
        assert!(
            self.read(buffer, offset, frame.len()) == frame,
            "{buffer:?} was written"
        );
        self.pool.take_back(CLIENT, buffer).unwrap();
    }
}

impl Desk for Keeper {
    fn lend(&mut self) -> Option<Lent> {
        let lent = self.pool.lend()?;
        let is_held = self.held.iter().any(|(held, ..)| held.0 == lent.number());
        assert!(!is_held, "{lent:?} is a client's");
        Some(lent)
    }

    fn land(&mut self, buffer: Lent, offset: u32, frame: &[u8]) -> Option<Lent> {
        if !is_ours(frame) {
            return Some(buffer);
        }
        if self.held.len() == FRAMES as usize {
            self.free();
        }
        let mut card = Some(buffer);
        let buffer = self
            .pool
            .give(CLIENT, frame.len() as u32, &mut card)
            .unwrap();
        assert_eq!(card, None);
        let bytes = self.read(buffer, offset, frame.len());
        assert!(bytes == frame, "{buffer:?} has other bytes");
        self.held.push_back((buffer, offset, bytes.clone()));
        self.came.push(bytes);
        None
    }
}

/// Receives until so many frames have come.
fn receive(world: &mut World, keeper: &mut Keeper, frames: usize) {
    let until_ns = monotonic_ns() + 20 * SECOND_NS;
    let card = &mut world.driver.receive;
    while keeper.came.len() < frames {
        assert!(
            monotonic_ns() < until_ns,
            "{} of {frames}",
            keeper.came.len()
        );
        let before = card.counts().unwrap().visited.items;
        let visited = card.receive_shared(16, keeper).unwrap();
        assert!(visited <= 16 + card.burst_frames());
        assert_eq!(
            card.counts().unwrap().visited.items - before,
            visited as u64
        );
        if visited == 0 {
            card.settle();
        }
    }
}

fn whole(mut world: World) {
    let mut keeper = Keeper::begun(&mut world);
    let lengths = (18..=1_514).step_by(7).chain([1_514]);
    let frames: Vec<_> = lengths
        .zip(0..)
        .map(|(bytes, number)| match number % 3 {
            0 => tagged(number, bytes + 4),
            _ => frame(number, bytes),
        })
        .collect();
    for (at, sent) in frames.iter().enumerate() {
        assert!(world.far.send(sent));
        receive(&mut world, &mut keeper, at + 1);
    }
    assert!(keeper.came == frames, "other frames");
    assert_eq!(keeper.held.len(), FRAMES as usize);
    (0..FRAMES).for_each(|_| keeper.free());
    let counts = world.driver.receive.counts().unwrap();
    assert_eq!((counts.residual(), counts.held), (0, 0), "{counts:?}");
}

fn too_long(mut world: World) {
    let mut keeper = Keeper::begun(&mut world);
    world.far.set_mtu(3_000);
    let frames = [
        tagged(0, 1_518),
        frame(1, 1_519),
        frame(2, 2_900),
        frame(3, 100),
    ];
    for frame in &frames {
        assert!(world.far.send(frame));
    }
    receive(&mut world, &mut keeper, 2);
    assert_eq!(keeper.came, [&frames[0][..], &frames[3]]);
    let counts = world.driver.receive.counts().unwrap();
    assert_eq!(counts.dropped, [(CardInDrop::TooLong, 2)].into());
    assert_eq!(counts.residual(), 0, "{counts:?}");
}

#[test]
fn frames_of_a_tap_lie_where_clients_read() {
    run(
        "frames_of_a_tap_lie_where_clients_read",
        (Kind::Tap, Threads::One),
        Room::Ample,
        Vec::new,
        whole,
    );
}

#[test]
fn frames_of_a_port_lie_where_clients_read() {
    run(
        "frames_of_a_port_lie_where_clients_read",
        (Kind::Xdp, Threads::One),
        Room::Shared(FRAMES),
        Vec::new,
        whole,
    );
}

#[test]
fn a_frame_of_a_port_that_is_too_long_is_dropped_by_name() {
    run(
        "a_frame_of_a_port_that_is_too_long_is_dropped_by_name",
        (Kind::Xdp, Threads::One),
        Room::Shared(FRAMES),
        Vec::new,
        too_long,
    );
}

#[test]
fn a_port_has_no_frame_without_a_buffer_and_takes_each_that_it_is_lent() {
    run(
        "a_port_has_no_frame_without_a_buffer_and_takes_each_that_it_is_lent",
        (Kind::Xdp, Threads::One),
        Room::Shared(FRAMES),
        Vec::new,
        |mut world| {
            assert!(world.driver.receive.share(FRAMES + 1).unwrap().is_none());
            let mut keeper = Keeper::of(&mut world);
            // Nothing is lent before it is asked for frames.
            for number in 0..5 {
                assert!(world.far.send(&frame(number, 100)));
            }
            let until_ns = monotonic_ns() + 20 * SECOND_NS;
            loop {
                let lost = world.driver.receive.counts().unwrap().dropped;
                if lost == [(CardInDrop::NoBuffer, 5)].into() {
                    break;
                }
                assert!(monotonic_ns() < until_ns, "{lost:?}");
            }
            assert_eq!(
                world
                    .driver
                    .receive
                    .receive_shared(16, &mut keeper)
                    .unwrap(),
                0
            );
            let card_frames = PortConfig::default().receive_buffers;
            assert_eq!(keeper.pool.lent_frames(), card_frames);
            // More than it has buffers, of which the client keeps as many as it may: each lies in another one as long as it is kept.
            let frames: Vec<_> = (0..2 * card_frames)
                .map(|number| frame(number, 60 + number as usize % 700))
                .collect();
            for (at, some) in frames.chunks(1_000).enumerate() {
                assert!(some.iter().all(|frame| world.far.send(frame)));
                receive(&mut world, &mut keeper, at * 1_000 + some.len());
            }
            assert!(keeper.came == frames, "other frames");
            assert_eq!(keeper.pool.lent_frames(), card_frames);
            // The other way frames do not come.
            let other = world.driver.receive.receive(16, &mut |_| panic!("a frame"));
            assert_eq!(other.unwrap(), 0);
            let counts = world.driver.receive.counts().unwrap();
            assert_eq!(counts.dropped, [(CardInDrop::NoBuffer, 5)].into());
            assert_eq!((counts.residual(), counts.held), (0, 0), "{counts:?}");
            drop(world.driver);
            // Frames that a buffer has no room for.
            let mut options = xdp::XdpOptions {
                frame_bytes_max: 3_840,
                shared_frames: Some(FRAMES),
                ..xdp::XdpOptions::default()
            };
            drop(xdp::open("near", &options).unwrap());
            options.frame_bytes_max = 3_841;
            let refused = xdp::open("near", &options).unwrap_err();
            let names = matches!(&refused, DriverError::SharedLength { interface, frame_bytes_max: 3_841, longest_bytes: 3_840 } if interface == "near");
            assert!(names, "{refused}");
        },
    );
}

#[test]
fn frames_of_memory_lie_where_clients_read() {
    run(
        "",
        (Kind::Emulated, Threads::One),
        Room::Ample,
        Vec::new,
        whole,
    );
}

#[test]
fn a_frame_of_a_tap_that_is_too_long_is_dropped_by_name() {
    run(
        "a_frame_of_a_tap_that_is_too_long_is_dropped_by_name",
        (Kind::Tap, Threads::One),
        Room::Ample,
        Vec::new,
        too_long,
    );
}

#[test]
fn a_frame_of_memory_that_is_too_long_is_dropped_by_name() {
    run(
        "",
        (Kind::Emulated, Threads::One),
        Room::Ample,
        Vec::new,
        too_long,
    );
}

#[test]
fn drivers_that_receive_elsewhere_say_so() {
    run(
        "",
        (Kind::Pcap, Threads::One),
        Room::Ample,
        Vec::new,
        |mut world| {
            assert!(world.driver.receive.share(8).unwrap().is_none());
        },
    );
}
