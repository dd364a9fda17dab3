//! A peer over shared memory that writes anything into all that it can write: the link says so and ends, and nothing else happens.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_link::bytes::{
    Address, ByteLink, ByteLinkError, Received, Region, Room, ShmDoor, ShmLink,
};
use forebay_ring::{Meta, Producers, RingSetMemory, RingSetSpec};
use forebay_sys::seqpacket::{Arrived, SeqListener, SeqSocket};
use proptest::prelude::*;

use crate::world::{Dice, free_name, greeting, hello, take};

const PIECE_BYTES_MAX: usize = 2_000;
const CAPACITY: u64 = 64 << 10;
const POSITION_AT: u64 = 128;
const CLOSED_AT: u64 = 136;

/// An honest end, and all that its peer has.
pub(crate) struct World {
    pub(crate) link: Box<dyn ByteLink>,
    pub(crate) socket: Option<SeqSocket>,
    /// Says where it reads.
    consumer_page: OwnedFd,
    data: OwnedFd,
    /// Says where it writes.
    producer_page: OwnedFd,
    producers: Producers,
}

pub(crate) const ROOM: Room = Room {
    piece_bytes_max: PIECE_BYTES_MAX,
    pieces: 4,
};

fn spec() -> RingSetSpec {
    RingSetSpec::new("", vec![CAPACITY], PIECE_BYTES_MAX as u32)
}

/// The honest one listens.
pub(crate) fn world() -> World {
    let Address::Shm { name } = free_name() else {
        panic!("no name");
    };
    let room = ROOM;
    let mut door = ShmDoor::listen(&name, room).unwrap();
    let socket = SeqSocket::connect(&door.path()).unwrap();
    socket.send(&hello(u64::from(u16::MAX), 4), &[]).unwrap();
    let link = take(&mut door);
    let mut fds = Vec::new();
    let found = socket.receive_with_fds(&mut [0; 32], &mut fds).unwrap();
    assert_eq!((found, fds.len()), (Arrived::Record(24), 10));
    let out = fds.split_off(5);
    World::of(link, socket, fds, out)
}

/// One that has connected, and the socket of what listens there.
pub(crate) fn knocked() -> (ShmLink, SeqSocket) {
    let Address::Shm { name } = free_name() else {
        panic!("no name");
    };
    let path = ShmDoor::listen(&name, ROOM).unwrap().path();
    let listener = SeqListener::bind(&path, 1).unwrap();
    let link = ShmLink::connect(&name, ROOM).unwrap();
    std::fs::remove_file(path).unwrap();
    (link, listener.accept().unwrap().unwrap())
}

/// The honest one has connected, to memory that its peer has made.
pub(crate) fn attached() -> World {
    let (mut link, socket) = knocked();
    let ring = || RingSetMemory::create(&spec()).unwrap();
    let (there, back) = (ring(), ring());
    let mut given = there.consumer_fds().unwrap();
    given.extend(back.producer_fds().unwrap());
    let given: Vec<_> = given.iter().map(AsFd::as_fd).collect();
    let welcome = greeting(2, PIECE_BYTES_MAX as u64, 4);
    socket.send(&welcome, &given).unwrap();
    assert_eq!(link.receive().unwrap(), Received::Nothing);
    let (input, out) = (back.consumer_fds().unwrap(), there.producer_fds().unwrap());
    World::of(Box::new(link), socket, input, out)
}

fn poke(fd: &OwnedFd, at: u64, bytes: &[u8]) {
    assert_eq!(rustix::io::pwrite(fd, bytes, at).unwrap(), bytes.len());
}

#[derive(Debug, Clone)]
enum Move {
    /// The honest side's.
    Send(usize),
    Receive,
    Sleep(bool),
    Finish,
    /// The peer's: an honest one, and lies.
    Piece(usize),
    Region(u64),
    Reference {
        count: u32,
        words: Vec<u64>,
    },
    ProducerPage(u64, u64),
    ConsumerPage(u64, u64),
    Data(u64, Vec<u8>),
    Say(Vec<u8>),
    Leave,
}

fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..4 * CAPACITY,
        (0..4_000_u64).prop_map(|n| n * 32),
        0..2_u64
    ]
}

fn place() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(POSITION_AT),
        Just(CLOSED_AT),
        (0..512_u64).prop_map(|n| n * 8)
    ]
}

fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        6 => (0..PIECE_BYTES_MAX + 1).prop_map(Move::Send),
        8 => Just(Move::Receive),
        2 => any::<bool>().prop_map(Move::Sleep),
        1 => Just(Move::Finish),
        6 => (0..PIECE_BYTES_MAX).prop_map(Move::Piece),
        1 => (0..4_u64).prop_map(Move::Region),
        2 => (0..6_u32, prop::collection::vec(prop_oneof![0..4_u64, Just(4096), word()], 0..15))
            .prop_map(|(count, words)| Move::Reference { count, words }),
        1 => (place(), word()).prop_map(|(at, word)| Move::ProducerPage(at, word)),
        1 => (place(), word()).prop_map(|(at, word)| Move::ConsumerPage(at, word)),
        2 => (0..CAPACITY - 64, prop::collection::vec(any::<u8>(), 0..64)).prop_map(|(at, bytes)| Move::Data(at, bytes)),
        // A header that is nearly right.
        2 => (0..2048_u64, 0..2 * PIECE_BYTES_MAX as u32).prop_map(|(at, len)| Move::Data(at * 32, len.to_ne_bytes().to_vec())),
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Move::Say),
        1 => Just(Move::Leave),
    ]
}

/// Nobody but the peer is to blame.
fn blamed<T>(answer: Result<T, ByteLinkError>) -> Option<T> {
    match answer {
        Ok(value) => Some(value),
        Err(ByteLinkError::Broken { .. } | ByteLinkError::Lost { .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

impl World {
    /// With the descriptors of the ring that the peer reads, and of the one that it writes.
    fn of(
        link: Box<dyn ByteLink>,
        socket: SeqSocket,
        mut input: Vec<OwnedFd>,
        out: Vec<OwnedFd>,
    ) -> Self {
        let copies = out.iter().map(|fd| fd.try_clone().unwrap()).collect();
        let mut out = out.into_iter();
        Self {
            link,
            socket: Some(socket),
            consumer_page: input.remove(2),
            data: out.next().unwrap(),
            producer_page: out.next().unwrap(),
            producers: Producers::map(&spec(), copies).unwrap(),
        }
    }

    /// `None` when the connection has ended.
    fn apply(&mut self, step: &Move) -> Option<()> {
        match step {
            Move::Send(bytes) => {
                let taken = blamed(self.link.send(&[&vec![0x5a; *bytes]]))?;
                assert!(taken == 0 || taken == *bytes);
            }
            Move::Receive => {
                let found = blamed(self.link.receive())?;
                let bytes = self.link.bytes().len();
                assert!(bytes <= PIECE_BYTES_MAX);
                // A piece may consist of references alone.
                let some = bytes > 0 || self.link.apart().is_some();
                assert_eq!(found == Received::Some, some);
                if let Some(apart) = self.link.apart() {
                    let mut copy = Vec::new();
                    apart.copy_to(&mut copy);
                    assert_eq!(copy.len(), apart.len());
                }
                self.link.used(bytes);
            }
            Move::Sleep(for_room) => {
                blamed(self.link.arm(*for_room))?;
                self.link.disarm();
            }
            Move::Finish => self.link.finish(),
            Move::Piece(bytes) => self.piece(&vec![0xa5; *bytes], 0),
            Move::Region(number) => self.show(*number),
            Move::Reference { count, words } => {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                self.piece(&bytes, *count);
            }
            Move::ProducerPage(at, word) => poke(&self.producer_page, *at, &word.to_ne_bytes()),
            Move::ConsumerPage(at, word) => poke(&self.consumer_page, *at, &word.to_ne_bytes()),
            Move::Data(at, bytes) => poke(&self.data, *at, bytes),
            Move::Say(bytes) => self.say(bytes, &[]),
            Move::Leave => self.socket = None,
        }
        Some(())
    }

    /// A piece that says of itself that it begins with so many references.
    pub(crate) fn piece(&mut self, bytes: &[u8], references: u32) {
        let ring = &mut self.producers.rings[0];
        if let Ok(mut loan) = ring.reserve(bytes.len()) {
            loan.copy_from_slice(bytes);
            let meta = Meta {
                tag: references,
                ..Meta::default()
            };
            loan.commit(bytes.len(), meta);
            ring.publish();
        }
    }

    /// A region of one page, by that number.
    pub(crate) fn show(&mut self, number: u64) {
        let region = Region::create("hostile", 1).unwrap();
        self.say(&greeting(4, number, 0), &[region.reader_fd().unwrap()]);
    }

    pub(crate) fn say(&mut self, record: &[u8], fds: &[OwnedFd]) {
        if let Some(socket) = &self.socket {
            let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            let _ = socket.send(record, &fds);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_peer_that_lies_ends_the_connection_and_no_more(
        listens: bool,
        moves in prop::collection::vec(any_move(), 1..150),
    ) {
        let mut world = if listens { world() } else { attached() };
        for step in &moves {
            if world.apply(step).is_none() {
                break;
            }
        }
    }
}

/// The peer writes while this side reads.
#[test]
fn a_peer_that_scribbles_at_the_same_time_is_survived() {
    let mut dice = Dice::seeded();
    let (mut pieces, mut faults) = (0_u64, 0_u64);
    for _ in 0..20 {
        let mut world = world();
        let (data, page) = (
            world.data.try_clone().unwrap(),
            world.producer_page.try_clone().unwrap(),
        );
        let (over, seed) = (AtomicBool::new(false), dice.roll(1 << 40));
        std::thread::scope(|scope| {
            scope.spawn(|| scribble(seed, &data, &page, &over));
            for _ in 0..50_000 {
                world.piece(&[0xa5; 300], 0);
                if world.apply(&Move::Receive).is_none() {
                    faults += 1;
                    break;
                }
                pieces += 1;
            }
            over.store(true, Ordering::Relaxed);
        });
    }
    println!("{pieces} looks, {faults} faults");
    assert!(faults > 0, "the attacker never hit");
}

fn scribble(seed: u64, data: &OwnedFd, page: &OwnedFd, over: &AtomicBool) {
    let mut dice = Dice::new(seed);
    while !over.load(Ordering::Relaxed) {
        let word = dice.roll(1 << 40);
        poke(data, dice.roll(CAPACITY / 8) * 8, &word.to_ne_bytes());
        if dice.roll(64) == 0 {
            poke(page, POSITION_AT, &(word % CAPACITY).to_ne_bytes());
        }
    }
}
