//! Backends, pairs of connected links, and seeded choices.

use std::any::Any;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay_link::bytes::{
    Address, ByteLink, ByteLinkError, Door, DoorError, PARTS_MAX, Received, Region, Room, ShmDoor,
};
use forebay_sys::seqpacket::SeqSocket;

use crate::tls::terms;

/// Far beyond what anything here takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// What the suite has to know of a backend.
pub(crate) struct Backend {
    /// An address that nobody has.
    pub(crate) fresh: fn() -> Address,
    /// Whether [`Received::Ended`] can also mean that the peer is dead.
    pub(crate) end_may_be_death: bool,
    /// Whether some of what a peer's `send` took can be missing when it goes without an end.
    pub(crate) death_cuts: bool,
    /// Whether what a peer leaves unread can cut off what it has sent.
    pub(crate) unread_cuts: bool,
    /// Whether a link that has ended waits, when it is dropped, for the peer to read: nothing between the two keeps what the peer has no room for.
    pub(crate) drop_waits: bool,
    /// Whether ranges of regions are copied: for RDMA, Linux 6.1 takes no memory that may only be read.
    pub(crate) copies_regions: bool,
    /// One so-many-th of what is repeated often is done: an emulated device is slow.
    pub(crate) share: u64,
    /// Visits a door in every way that is none of ours; what comes back keeps those there that stay.
    pub(crate) garbage: fn(&Address) -> Vec<Box<dyn Any>>,
}

/// A backend, or why it cannot be used here.
pub(crate) type Found = Result<Backend, String>;

pub(crate) fn over_tcp() -> Found {
    Ok(Backend {
        fresh: free_port,
        end_may_be_death: true,
        death_cuts: false,
        unread_cuts: true,
        drop_waits: false,
        copies_regions: false,
        share: 1,
        garbage: tcp_garbage,
    })
}

pub(crate) fn over_shm() -> Found {
    Ok(Backend {
        fresh: free_name,
        end_may_be_death: false,
        death_cuts: false,
        unread_cuts: false,
        drop_waits: false,
        copies_regions: false,
        share: 1,
        garbage: shm_garbage,
    })
}

pub(crate) use crate::fabric::{over_fabric_tcp, over_fabric_verbs};
pub(crate) use crate::tls::over_tls;

fn free_port() -> Address {
    free_port_of("127.0.0.1")
}

pub(crate) fn free_port_of(host: &str) -> Address {
    let port = TcpListener::bind((host, 0)).and_then(|socket| socket.local_addr());
    Address::Tcp {
        host: host.into(),
        port: port.unwrap().port(),
    }
}

/// Drops a link that has ended; beside the reader where it waits for that.
pub(crate) fn leave(backend: &Backend, link: Box<dyn ByteLink>) {
    if backend.drop_waits {
        std::thread::spawn(move || drop(link));
    }
}

/// Connects as the backend of the address does.
pub(crate) fn connect(address: &Address, room: Room) -> Result<Box<dyn ByteLink>, ByteLinkError> {
    forebay_link::bytes::connect(address, terms(address, room))
}

/// Listens so.
pub(crate) fn listen(address: &Address, room: Room) -> Result<Box<dyn Door>, DoorError> {
    forebay_link::bytes::listen(address, terms(address, room))
}

pub(crate) fn free_name() -> Address {
    let name = format!("test-{:016x}", any_number());
    Address::Shm { name }
}

/// Another one at each call, in each process.
pub(crate) fn any_number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Where a listener by that name has its socket.
pub(crate) fn socket_of(address: &Address) -> PathBuf {
    let (Address::Shm { name }, Address::Shm { name: other }) = (address, free_name()) else {
        panic!("{address} is not in shared memory");
    };
    let neighbour = ShmDoor::listen(&other, Room::default()).unwrap();
    neighbour.path().with_file_name(format!("{name}.sock"))
}

pub(crate) fn tcp_garbage(address: &Address) -> Vec<Box<dyn Any>> {
    let Address::Tcp { host, port } = address else {
        panic!("{address} is not TCP");
    };
    strangers_on(&format!("{host}:{port}"))
}

pub(crate) fn strangers_on(place: &str) -> Vec<Box<dyn Any>> {
    let visit = || TcpStream::connect(place).unwrap();
    visit().write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    visit().write_all(&[0xff; 4096]).unwrap();
    drop(visit());
    vec![Box::new(visit())]
}

fn shm_garbage(address: &Address) -> Vec<Box<dyn Any>> {
    let path = socket_of(address);
    let say = |record: &[u8]| {
        let socket = SeqSocket::connect(&path).unwrap();
        socket.send(record, &[]).unwrap();
        socket
    };
    let mut next_version = hello(66_000, 64);
    next_version[4] = 2;
    drop(SeqSocket::connect(&path).unwrap());
    drop(say(&hello(1_000, 1)));
    drop(say(b"GET / HTTP/1.1\r\n\r\n"));
    let stay = [
        say(&[0xff; 4096]),
        say(&next_version),
        say(&hello(0, 0)),
        say(&hello(u64::MAX, u64::MAX)),
        SeqSocket::connect(&path).unwrap(),
    ];
    stay.map(|socket| Box::new(socket) as Box<dyn Any>).into()
}

/// The record with which a connection over shared memory begins, byte by byte.
pub(crate) fn hello(piece_bytes_max: u64, pieces: u64) -> Vec<u8> {
    greeting(1, piece_bytes_max, pieces)
}

pub(crate) fn greeting(kind: u8, piece_bytes_max: u64, pieces: u64) -> Vec<u8> {
    let mut record = b"FBSM\x01\x00".to_vec();
    record.extend([kind, 0]);
    record.extend(piece_bytes_max.to_le_bytes());
    record.extend(pieces.to_le_bytes());
    record
}

/// Fails a test that hangs.
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Call it wherever something is waited for.
    pub(crate) fn check(&self) {
        assert!(self.0.elapsed() < LIMIT, "stuck");
        std::thread::yield_now();
    }
}

pub(crate) fn listen_fresh(backend: &Backend) -> Box<dyn Door> {
    listen(&(backend.fresh)(), Room::default()).unwrap()
}

pub(crate) fn take(door: &mut dyn Door) -> Box<dyn ByteLink> {
    let deadline = Deadline::begin();
    loop {
        if let Some(link) = door.accept().unwrap() {
            return link;
        }
        deadline.check();
    }
}

/// Lets one in whose link is of this process: it is asked to get on meanwhile.
pub(crate) fn admit(door: &mut dyn Door, near: &mut dyn ByteLink) -> Box<dyn ByteLink> {
    let deadline = Deadline::begin();
    loop {
        assert_eq!(near.receive().unwrap(), Received::Nothing);
        if let Some(link) = door.accept().unwrap() {
            return link;
        }
        deadline.check();
    }
}

/// [`admit`]s it, and looks at both ends until a byte has come: both know that they are connected.
pub(crate) fn meet(door: &mut dyn Door, near: &mut dyn ByteLink) -> Box<dyn ByteLink> {
    let mut far = admit(door, near);
    let deadline = Deadline::begin();
    let mut sent = 0;
    while far.bytes().is_empty() {
        if sent == 0 {
            sent = near.send(&[b"?"]).unwrap();
        }
        near.receive().unwrap();
        far.receive().unwrap();
        deadline.check();
    }
    far.used(1);
    far
}

/// Two ends of a connection: the one that connected, the one that listened.
pub(crate) struct Pair {
    pub(crate) near: Box<dyn ByteLink>,
    pub(crate) far: Box<dyn ByteLink>,
    door: Box<dyn Door>,
}

impl Pair {
    pub(crate) fn address(&self) -> Address {
        self.door.address().unwrap()
    }

    /// Sends near to far until so much was taken. Far is asked to get on, and reads nothing.
    pub(crate) fn fill_far(&mut self, writer: &mut Writer, until: u64, dice: &mut Dice) {
        fill(&mut *self.near, &mut *self.far, writer, until, dice);
    }

    /// The other way round.
    pub(crate) fn fill_near(&mut self, writer: &mut Writer, until: u64, dice: &mut Dice) {
        fill(&mut *self.far, &mut *self.near, writer, until, dice);
    }
}

fn fill(
    from: &mut dyn ByteLink,
    to: &mut dyn ByteLink,
    writer: &mut Writer,
    until: u64,
    dice: &mut Dice,
) {
    let deadline = Deadline::begin();
    while writer.position < until {
        writer.offer(from, 1_000, dice).unwrap();
        to.arm(false).unwrap();
        to.disarm();
        deadline.check();
    }
}

pub(crate) fn pair(backend: &Backend) -> Pair {
    pair_with(backend, Room::default())
}

pub(crate) fn pair_with(backend: &Backend, room: Room) -> Pair {
    let mut door = listen(&(backend.fresh)(), room).unwrap();
    let mut near = connect(&door.address().unwrap(), room).unwrap();
    let far = meet(&mut *door, &mut *near);
    Pair { near, far, door }
}

/// The byte at a place of a stream: different for neighbours and for places a power of two apart.
pub(crate) fn byte_at(position: u64) -> u8 {
    (position.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Writes the stream of [`byte_at`], in pieces and parts of any size.
pub(crate) struct Writer {
    pub(crate) position: u64,
    buffer: Vec<u8>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self {
            position: 0,
            buffer: Vec::new(),
        }
    }

    /// Offers `bytes` more; how many were taken.
    pub(crate) fn offer(
        &mut self,
        link: &mut dyn ByteLink,
        bytes: usize,
        dice: &mut Dice,
    ) -> Result<usize, ByteLinkError> {
        self.buffer.clear();
        let places = self.position..self.position + bytes as u64;
        self.buffer.extend(places.map(byte_at));
        let mut parts: Vec<&[u8]> = Vec::new();
        let mut left = &self.buffer[..];
        for _ in 0..dice.roll(6) {
            let (part, rest) = left.split_at(dice.roll(left.len() as u64 + 1) as usize);
            parts.push(part);
            left = rest;
        }
        parts.push(left);
        let taken = link.send(&parts)?;
        self.position += taken as u64;
        Ok(taken)
    }
}

/// Writes the same stream, of which all but the first bytes of a piece stay in a region.
pub(crate) struct Lender {
    pub(crate) position: u64,
    region: Region,
}

impl Lender {
    /// Memory in which the stream's first `bytes` lie.
    pub(crate) fn new(bytes: u64) -> Self {
        let mut region = Region::create("test", bytes).unwrap();
        for (place, byte) in (0..).zip(region.bytes_mut()) {
            *byte = byte_at(place);
        }
        Self {
            position: 0,
            region,
        }
    }

    /// Offers `bytes` more, which the region has.
    pub(crate) fn offer(&mut self, link: &mut dyn ByteLink, bytes: usize, dice: &mut Dice) {
        let mut at = self.position as usize;
        let end = at + bytes;
        let own = dice.roll(bytes.min(60) as u64 + 1) as usize;
        let own: Vec<u8> = (self.position..).take(own).map(byte_at).collect();
        at += own.len();
        let mut ranges = Vec::new();
        for _ in 0..dice.roll(PARTS_MAX as u64) {
            let to = at + dice.roll((end - at) as u64 + 1) as usize;
            ranges.push(at..to);
            at = to;
        }
        ranges.push(at..end);
        let taken = link.send_from(&own, &self.region, &ranges).unwrap();
        assert!(taken <= bytes);
        self.position += taken as u64;
    }
}

/// Reads it again and holds every byte against its place.
pub(crate) struct Reader {
    pub(crate) position: u64,
    /// Bytes that were read in the peer's memory.
    pub(crate) apart_bytes: u64,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self {
            position: 0,
            apart_bytes: 0,
        }
    }

    fn check(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            assert_eq!(byte, byte_at(self.position), "at {}", self.position);
            self.position += 1;
        }
    }

    /// One look, all of which is used.
    pub(crate) fn look(&mut self, link: &mut dyn ByteLink) -> Result<Received, ByteLinkError> {
        let found = link.receive()?;
        self.check(link.bytes());
        if let (Some(apart), Received::Some) = (link.apart(), found) {
            let mut bytes = Vec::new();
            apart.copy_to(&mut bytes);
            assert_eq!(bytes.len(), apart.len());
            self.check(&bytes);
            self.apart_bytes += bytes.len() as u64;
        }
        link.used(link.bytes().len());
        assert!(link.bytes().is_empty());
        Ok(found)
    }

    /// Until the end, of which kind ever.
    pub(crate) fn look_to_the_end(&mut self, link: &mut dyn ByteLink) -> Result<(), ByteLinkError> {
        let deadline = Deadline::begin();
        while self.look(link)? != Received::Ended {
            deadline.check();
        }
        Ok(())
    }
}

/// xorshift64*.
pub(crate) struct Dice(u64);

impl Dice {
    /// From `FOREBAY_SEED`, printed.
    pub(crate) fn seeded() -> Self {
        let seed = std::env::var("FOREBAY_SEED").ok();
        let seed = seed.and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or(20_261_122_u64);
        println!("FOREBAY_SEED={seed}");
        Self::new(seed)
    }

    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 17) % sides
    }

    /// Mostly short, sometimes as long as a piece may be.
    pub(crate) fn piece(&mut self, most: usize) -> usize {
        let most = match self.roll(4) {
            0 => most,
            1 => most.min(4_000),
            _ => most.min(100),
        };
        1 + self.roll(most as u64) as usize
    }
}
