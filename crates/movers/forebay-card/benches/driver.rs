//! What a frame costs by a driver, in and out: over a virtual cable in a network namespace, with one thread that sends and receives in turn, so that the time is that of the
//! CPU. And how late one comes that comes alone.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a bench prints, and ends where it cannot go on"
)]

use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

use forebay_card::{Driver, Flushed, Sent, packet, xdp};
use forebay_link::packet::{BATCH_FRAMES_MAX, FrameBatch, SendPort};
use forebay_sys::clock::monotonic_ns;
use forebay_sys::eventfd::EventFd;
use forebay_sys::wait;
use forebay_testing::wire::{carries, lay, may_have_network, sh};

const INSIDE: &str = "FOREBAY_BENCH_IN_NAMESPACE";
const SESSIONS: usize = 9;
const FRAMES: u64 = 200_000;
const ALONE: usize = 2_000;
/// After so long without a frame the others were lost.
const SILENCE: Duration = Duration::from_millis(200);

fn main() {
    if std::env::var_os(INSIDE).is_some() {
        inside();
    } else if may_have_network() {
        let own = std::env::current_exe().unwrap();
        let ended = Command::new("unshare")
            .arg("--net")
            .arg(own)
            .env(INSIDE, "1")
            .status();
        assert!(ended.unwrap().success());
    }
}

fn inside() {
    lay();
    carries();
    for bytes in [64, 1_472] {
        let frame = frame(bytes);
        let sending = nobody(&frame);
        let frames = packet::PacketOptions::default();
        let blocks = packet::PacketOptions {
            ring: packet::PacketRing::BLOCKS,
            ..frames
        };
        for (name, options) in [("packet, frames", frames), ("packet, blocks", blocks)] {
            let driver = packet::open("near", &options).unwrap();
            measure(name, driver, &frame, sending);
        }
        match xdp::open("near", &xdp::XdpOptions::default()) {
            Ok(driver) => measure("xdp", driver, &frame, sending),
            Err(error) => println!("xdp not measured: {error}"),
        }
    }
}

fn frame(bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    frame.resize(bytes, 7);
    frame
}

/// The far end, which sends 64 of the same frame with one call.
struct Far {
    port: SendPort,
    batch: FrameBatch,
}

impl Far {
    fn new(frame: &[u8]) -> Self {
        let mut batch = FrameBatch::new(frame.len());
        while let Some(room) = batch.room() {
            room.copy_from_slice(frame);
            batch.push(frame.len());
        }
        let port = SendPort::open("far").unwrap();
        Self { port, batch }
    }

    fn send(&mut self, frames: usize) -> u64 {
        self.port.send(&self.batch, 0..frames).frames as u64
    }
}

fn median(mut times_ns: Vec<f64>) -> f64 {
    times_ns.sort_by(f64::total_cmp);
    times_ns[times_ns.len() / 2]
}

/// What it costs to send to nobody, in ns.
fn nobody(frame: &[u8]) -> f64 {
    let mut far = Far::new(frame);
    let session = |_| {
        let begin = Instant::now();
        let mut sent = 0;
        while sent < FRAMES {
            sent += far.send(BATCH_FRAMES_MAX);
        }
        begin.elapsed().as_nanos() as f64 / sent as f64
    };
    median((0..SESSIONS).map(session).collect())
}

fn measure(name: &str, mut driver: Driver, frame: &[u8], sending_ns: f64) {
    let bytes = frame.len();
    let mut far = Far::new(frame);
    let sessions = (0..SESSIONS).map(|_| incoming(&mut driver, &mut far));
    let in_ns = median(sessions.collect());
    let sessions = (0..SESSIONS).map(|_| outgoing(&mut driver, frame));
    let out_ns = median(sessions.collect());
    let late_ns = median((0..ALONE).map(|_| alone(&mut driver, &mut far)).collect());
    let lost = driver.receive.counts().unwrap().dropped.total();
    println!(
        "{name}, {bytes} bytes: in {in_ns:.0} ns ({:.2} M/s) with its sending, of which to nobody {sending_ns:.0} ns; out {out_ns:.0} ns ({:.2} M/s); alone after {late_ns:.0} ns; {lost} lost",
        1e3 / in_ns,
        1e3 / out_ns
    );
    drop(driver);
    sh("ip link set near up");
}

fn incoming(driver: &mut Driver, far: &mut Far) -> f64 {
    let begin = Instant::now();
    let (mut sent, mut came, mut last) = (0, 0, begin);
    let mut take = |came: &mut u64| {
        let visit = &mut |frame: &[u8]| *came += u64::from(!frame.is_empty());
        driver.receive.receive(256, visit).unwrap()
    };
    while sent < FRAMES {
        sent += far.send(BATCH_FRAMES_MAX);
        take(&mut came);
    }
    while came < sent && last.elapsed() < SILENCE {
        if take(&mut came) > 0 {
            last = Instant::now();
        }
    }
    // What was waited for in vain at the end is no work.
    let silence = if came < sent { SILENCE } else { Duration::ZERO };
    (begin.elapsed() - silence).as_nanos() as f64 / came.max(1) as f64
}

fn outgoing(driver: &mut Driver, frame: &[u8]) -> f64 {
    let begin = Instant::now();
    let mut sent = 0;
    while sent < FRAMES {
        for _ in 0..BATCH_FRAMES_MAX {
            sent += u64::from(driver.send.send(frame) == Sent::Taken);
        }
        driver.send.flush();
    }
    while driver.send.flush() == Flushed::Waits {}
    begin.elapsed().as_nanos() as f64 / sent as f64
}

/// From the sending of a frame to its visit, by a wait for the descriptor.
fn alone(driver: &mut Driver, far: &mut Far) -> f64 {
    let never = EventFd::create().unwrap();
    let begin = Instant::now();
    assert_eq!(far.send(1), 1);
    let mut came = 0;
    while came == 0 {
        let until_ns = monotonic_ns() + 1_000_000_000;
        let descriptors = [driver.receive.descriptor(), never.as_fd()];
        wait::sleep_until_or(descriptors, until_ns, 0).unwrap();
        came = driver.receive.receive(1, &mut |_| {}).unwrap();
    }
    begin.elapsed().as_nanos() as f64
}
