//! A driver of each kind, with the other end of its cable: interfaces lie in a network namespace that ends with its test.

pub(crate) mod sent;

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use forebay_card::packet::PacketRing;
use forebay_card::{Driver, FRAME_BYTES_MAX, Link, apart, emulated, packet, pcap, tap, xdp};
use forebay_link::packet::{
    BATCH_FRAMES_MAX, Event, FrameBatch, PacketPort, PortOptions, RingSize, SendPort, Stopped,
};
use forebay_link::pcap::{CaptureError, Frames};
use forebay_sys::clock::monotonic_ns;
use forebay_sys::eventfd::EventFd;
use forebay_sys::wait::{self, Woken};
use forebay_testing::wire::{carries, is_inside, lay, may_have_network, may_have_tun, sh};
use forebay_wire::pcap::{file_header, packet_header};
use forebay_xdp::{PortConfig, Redirect, XdpError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
/// Of local experiments (IEEE 802).
const KIND: [u8; 2] = [0x88, 0xb5];

/// Backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// With a ring of frames.
    Packet,
    /// With a ring of blocks.
    Blocks,
    Xdp,
    Tap,
    Pcap,
    Emulated,
}

/// Threads of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    One,
    /// Frames go in one of their own.
    Two,
}

/// How much room a driver has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Ample,
    /// For few frames that come.
    LittleIn,
    /// For few frames that go, and a link that takes them slowly.
    LittleOut,
    /// Ample, and so many buffers that a client reads, where a driver has to know of them as it is opened.
    #[allow(dead_code, reason = "by the tests of such buffers alone")]
    Shared(u32),
}

/// A frame with its number.
pub(crate) fn frame(number: u32, bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    frame.extend(KIND);
    frame.extend(number.to_be_bytes());
    frame.resize(bytes, number as u8);
    frame
}

/// The same with a VLAN tag.
pub(crate) fn tagged(number: u32, bytes: usize) -> Vec<u8> {
    let mut frame = frame(number, bytes - 4);
    frame.splice(12..12, [0x81, 0, 0x20, 5]);
    frame
}

/// Whether it is one of these, and none of another program.
pub(crate) fn is_ours(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&KIND) || frame.get(16..18) == Some(&KIND)
}

/// The other end of a cable.
pub(crate) trait Far {
    /// Sends a frame, and says whether the cable carried it.
    fn send(&mut self, frame: &[u8]) -> bool;
    /// Frames that have come, of these tests alone; waits for none.
    fn receive(&mut self) -> Vec<Vec<u8>>;
    fn set_link(&mut self, link: Link);
    fn set_mtu(&mut self, mtu_bytes: u32);
    /// The host sends on the driver's interface.
    fn host_sends(&mut self) {}
}

pub(crate) struct World {
    pub(crate) driver: Driver,
    pub(crate) far: Box<dyn Far>,
    pub(crate) kind: Kind,
    pub(crate) threads: Threads,
    /// What the far end sends when it is to begin.
    first: Vec<Vec<u8>>,
}

/// Runs a test in a world of this kind, or says why not.
pub(crate) fn run(
    name: &str,
    (kind, threads): (Kind, Threads),
    room: Room,
    first: impl FnOnce() -> Vec<Vec<u8>>,
    test: fn(World),
) {
    let is_virtual = matches!(kind, Kind::Pcap | Kind::Emulated);
    if !(is_virtual || may_be(kind) && is_inside(name)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let first = first();
    let (driver, far) = match kind {
        Kind::Packet | Kind::Blocks | Kind::Xdp => wired(kind, room),
        Kind::Tap => tapped(room),
        Kind::Pcap => filed(folder.path().into(), &first),
        Kind::Emulated => in_memory(room),
    };
    let driver = match threads {
        Threads::One => driver,
        Threads::Two => apart(driver, FRAME_BYTES_MAX).unwrap(),
    };
    test(World {
        driver,
        far,
        kind,
        threads,
        first,
    });
}

fn may_be(kind: Kind) -> bool {
    if !may_have_network() {
        return false;
    }
    match kind {
        Kind::Tap => may_have_tun(),
        Kind::Xdp => match Redirect::attach("nothing") {
            Err(error @ (XdpError::NotBuilt { .. } | XdpError::NotAllowed { .. })) => {
                forebay_testing::skip!("{error}");
                false
            }
            _ => true,
        },
        _ => true,
    }
}

impl World {
    /// The far end sends what it was given to begin with; tells how many of them the cable carried.
    pub(crate) fn begin(&mut self) -> u64 {
        if self.kind == Kind::Pcap {
            return self.first.len() as u64;
        }
        let carried = self.first.iter().filter(|frame| self.far.send(frame));
        carried.count() as u64
    }

    /// Receives until so many frames have come; those of other programs are none.
    pub(crate) fn receive(&mut self, frames: usize) -> Vec<Vec<u8>> {
        receive(&mut *self.driver.receive, frames)
    }

    /// Waits until so many frames have come at the far end.
    pub(crate) fn far_receives(&mut self, frames: usize) -> Vec<Vec<u8>> {
        let until_ns = monotonic_ns() + 20 * SECOND_NS;
        let mut came = Vec::new();
        while came.len() < frames {
            came.extend(self.far.receive());
            assert!(monotonic_ns() < until_ns, "{} of {frames}", came.len());
        }
        came
    }
}

pub(crate) fn receive(half: &mut dyn forebay_card::ReceiveSide, frames: usize) -> Vec<Vec<u8>> {
    let mut came = Vec::new();
    while came.len() < frames {
        if !half.is_ready() {
            let never = EventFd::create().unwrap();
            let until_ns = monotonic_ns() + 20 * SECOND_NS;
            let woken = wait::sleep_until_or([half.descriptor(), never.as_fd()], until_ns, 0);
            let is_ready = woken.unwrap() == Woken::Ready { index: 0 };
            assert!(is_ready, "{} of {frames}: {:?}", came.len(), half.counts());
        }
        let before = half.counts().unwrap().visited.items;
        let (mut visits, most) = (0, 16);
        let visited = half.receive(most, &mut |frame| {
            visits += 1;
            if is_ours(frame) {
                came.push(frame.to_vec());
            }
        });
        assert_eq!(visited.unwrap(), visits);
        assert!(visits <= most + half.burst_frames());
        let after = half.counts().unwrap().visited.items;
        assert_eq!(after - before, visits as u64);
        if visits == 0 {
            half.settle();
        }
    }
    came
}

/// Whether a descriptor is writable at once, or within this time. One that is readable as well is no reason to wake.
pub(crate) fn is_writable(descriptor: BorrowedFd<'_>, within_ns: u64) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::OUT)];
    let time = Timespec {
        tv_sec: (within_ns / SECOND_NS) as i64,
        tv_nsec: (within_ns % SECOND_NS) as i64,
    };
    poll(&mut polled, Some(&time)).unwrap() == 1 && polled[0].revents().contains(PollFlags::OUT)
}

/// Whether a wait for something to read would end at once, by an error, too.
pub(crate) fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    let time = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut polled, Some(&time)).unwrap() == 1
}

/// An interface as the far end.
struct Wire {
    /// What the driver has, and what is set up and down with it.
    near: &'static str,
    /// The other end.
    far: &'static str,
    sending: SendPort,
    receiving: PacketPort,
    batch: FrameBatch,
    nothing: EventFd,
    /// What the host sends from.
    host: Option<std::net::UdpSocket>,
}

impl Wire {
    fn new(near: &'static str, far: &'static str) -> Self {
        let options = PortOptions {
            queues: 1,
            ring: RingSize {
                block_bytes: 1 << 16,
                // A slow sender has a block for each frame, and nobody may be there to take it away.
                blocks: 1_024,
                block_timeout_ms: 1,
            },
            snap_bytes: u32::MAX,
            promiscuous: true,
        };
        let receiving = PacketPort::open_shut(far, &options).unwrap().remove(0);
        receiving.ignore_outgoing().unwrap();
        receiving.accept(u32::MAX).unwrap();
        Self {
            near,
            far,
            sending: SendPort::open(far).unwrap(),
            receiving,
            batch: FrameBatch::new(9_000),
            nothing: EventFd::create().unwrap(),
            host: None,
        }
    }
}

impl Far for Wire {
    fn send(&mut self, frame: &[u8]) -> bool {
        self.batch.remove_before(BATCH_FRAMES_MAX);
        self.batch.room().unwrap()[..frame.len()].copy_from_slice(frame);
        self.batch.push(frame.len());
        loop {
            match self.sending.send(&self.batch, 0..1).stopped {
                None => return true,
                Some(Stopped::Refused(_) | Stopped::Busy) => return false,
                Some(Stopped::Full) => {
                    assert!(is_writable(self.sending.as_fd(), 20 * SECOND_NS));
                }
            }
        }
    }

    fn receive(&mut self) -> Vec<Vec<u8>> {
        let mut came = Vec::new();
        let until_ns = monotonic_ns() + SECOND_NS / 100;
        if self.receiving.wait(self.nothing.as_fd(), until_ns).unwrap() == Event::Block {
            let mut block = self.receiving.take().unwrap();
            let frames = block.frames().map(|frame| frame.unwrap().bytes.to_vec());
            came.extend(frames.filter(|frame| is_ours(frame)));
        }
        came
    }

    fn set_link(&mut self, link: Link) {
        let near = self.near;
        match link {
            Link::Up => {
                sh(&format!(
                    "ip link set {near} up; ip link set {} up",
                    self.far
                ));
                sh(&format!(
                    "for _ in $(seq 2000); do ip -brief link show {near} | grep -q 'LOWER_UP' && exit 0; sleep 0.01; done; exit 1"
                ));
            }
            Link::Down => sh(&format!("ip link set {near} down")),
            Link::NoCarrier => sh(&format!("ip link set {} down", self.far)),
            Link::Gone => sh(&format!("ip link delete {near}")),
        }
    }

    fn set_mtu(&mut self, mtu_bytes: u32) {
        for end in [self.near, self.far] {
            sh(&format!("ip link set {end} mtu {mtu_bytes}"));
        }
    }

    fn host_sends(&mut self) {
        let near = self.near;
        let host = self.host.get_or_insert_with(|| {
            sh(&format!(
                "ip address add 10.9.0.2/24 dev {near}; ip neighbour replace 10.9.0.9 lladdr 02:00:00:00:00:09 dev {near}"
            ));
            std::net::UdpSocket::bind("10.9.0.2:0").unwrap()
        });
        host.send_to(b"of the host", "10.9.0.9:9").unwrap();
    }
}

fn quiet(interface: &str) {
    sh(&format!(
        "f=/proc/sys/net/ipv6/conf/{interface}/disable_ipv6; [ ! -e $f ] || echo 1 > $f"
    ));
}

fn wired(kind: Kind, room: Room) -> (Driver, Box<dyn Far>) {
    lay();
    carries();
    let mut near = "near";
    if kind != Kind::Xdp && room == Room::LittleOut {
        // Queueing disciplines of the interface itself are passed by; one below it holds what it has, and the sender's memory with it.
        sh("tc qdisc add dev near root tbf rate 8mbit burst 16k limit 1000k");
        sh("ip link add link near name slow type macvlan mode private");
        quiet("slow");
        sh("ip link set slow up");
        near = "slow";
    }
    let driver = match kind {
        Kind::Xdp => {
            let port = match room {
                Room::Ample | Room::Shared(_) => PortConfig::default(),
                Room::LittleIn => PortConfig {
                    receive_buffers: 64,
                    receive_ring: 64,
                    ..PortConfig::default()
                },
                Room::LittleOut => PortConfig {
                    send_buffers: 16,
                    ..PortConfig::default()
                },
            };
            let options = xdp::XdpOptions {
                port,
                shared_frames: match room {
                    Room::Shared(frames) => Some(frames),
                    _ => None,
                },
                ..xdp::XdpOptions::default()
            };
            xdp::open(near, &options).unwrap()
        }
        _ => {
            let is_little = room == Room::LittleIn;
            let ring = match kind {
                Kind::Blocks => PacketRing::Blocks(RingSize {
                    block_bytes: 1 << 16,
                    blocks: if is_little { 2 } else { 64 },
                    block_timeout_ms: 1,
                }),
                _ => PacketRing::Frames(if is_little { 64 } else { 1_024 }),
            };
            let options = packet::PacketOptions {
                ring,
                ..packet::PacketOptions::default()
            };
            packet::open(near, &options).unwrap()
        }
    };
    (driver, Box::new(Wire::new(near, "far")))
}

fn tapped(room: Room) -> (Driver, Box<dyn Far>) {
    let mut options = tap::TapOptions::default();
    let mut far = "tap0";
    if room == Room::LittleOut {
        options.send_bytes_max = 400_000;
        far = "far";
        lay();
        carries();
    }
    let driver = tap::open("tap0", &options).unwrap();
    quiet("tap0");
    sh("ip link set tap0 up");
    if room == Room::LittleOut {
        sh("ip link add bridge0 type bridge");
        quiet("bridge0");
        sh("tc qdisc add dev near root tbf rate 8mbit burst 16k limit 1000k");
        sh(
            "ip link set near master bridge0; ip link set tap0 master bridge0; ip link set bridge0 up",
        );
        sh(
            "for _ in $(seq 2000); do bridge link show dev near | grep -q forwarding && bridge link show dev tap0 | grep -q forwarding && exit 0; sleep 0.01; done; exit 1",
        );
    }
    (driver, Box::new(Wire::new("tap0", far)))
}

/// Files in the place of the far end.
struct Files {
    output: PathBuf,
    read: usize,
}

impl Far for Files {
    fn send(&mut self, _: &[u8]) -> bool {
        panic!("what comes was written before the file was opened")
    }

    fn receive(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Frames::new(File::open(&self.output).unwrap()).unwrap();
        let mut all = Vec::new();
        loop {
            match frames.advance() {
                Ok(true) => all.push(frames.frame().bytes.to_vec()),
                // The file's end may lie within a packet while another thread writes it: that one comes with the next look.
                Ok(false) | Err(CaptureError::Cut { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        let new = all.split_off(self.read);
        self.read += new.len();
        new
    }

    fn set_link(&mut self, _: Link) {
        panic!("a file has no link")
    }

    fn set_mtu(&mut self, _: u32) {
        panic!("a file has no longest packet")
    }
}

fn filed(folder: PathBuf, first: &[Vec<u8>]) -> (Driver, Box<dyn Far>) {
    let (input, output) = (folder.join("in.pcap"), folder.join("out.pcap"));
    let mut file = File::create(&input).unwrap();
    file.write_all(&file_header(1, 65_535)).unwrap();
    for frame in first {
        let bytes = frame.len() as u32;
        file.write_all(&packet_header(1_000, bytes, bytes)).unwrap();
        file.write_all(frame).unwrap();
    }
    let options = pcap::PcapOptions {
        input: Some(input),
        output: Some(output.clone()),
        ..pcap::PcapOptions::default()
    };
    let driver = pcap::open(&options).unwrap();
    (driver, Box::new(Files { output, read: 0 }))
}

impl Far for emulated::FarEnd {
    fn send(&mut self, frame: &[u8]) -> bool {
        emulated::FarEnd::send(self, frame)
    }

    fn receive(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| emulated::FarEnd::receive(self)).collect()
    }

    fn set_link(&mut self, link: Link) {
        emulated::FarEnd::set_link(self, link);
    }

    fn set_mtu(&mut self, mtu_bytes: u32) {
        self.set_mtu_bytes(mtu_bytes);
    }
}

fn in_memory(room: Room) -> (Driver, Box<dyn Far>) {
    let mut options = emulated::EmulatedOptions::default();
    match room {
        Room::Ample | Room::Shared(_) => {}
        Room::LittleIn => options.receive_frames = 50,
        Room::LittleOut => options.send_frames = 50,
    }
    let (driver, far) = emulated::open(&options).unwrap();
    (driver, Box::new(far))
}
