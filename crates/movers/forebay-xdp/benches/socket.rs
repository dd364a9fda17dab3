//! What a frame costs past the stack, in and out, beside a packet socket: on a virtual cable in a network namespace, in one thread that sends and receives in turn.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a bench prints, and ends where it cannot go on"
)]

#[path = "../tests/frames/mod.rs"]
mod frames;

use std::time::{Duration, Instant};

use forebay_link::packet::{
    BATCH_FRAMES_MAX, FrameBatch, PacketPort, PortOptions, RingSize, SendPort,
};
use forebay_xdp::{Port, PortConfig, Redirect};
use frames::Made;
use frames::cable::cable;

const SESSIONS: usize = 9;
const FRAMES: u64 = 200_000;
/// After so long without a frame the others were lost.
const SILENCE: Duration = Duration::from_millis(200);

fn main() {
    let thread = std::thread::spawn(|| match cable() {
        Ok(()) => on_cable(),
        Err(why) => println!("nothing measured: {why}"),
    });
    thread.join().unwrap();
}

fn on_cable() {
    for bytes in [64, 1_472] {
        let headers = Made::new().frame().len() - Made::new().payload_bytes;
        let frame = Made {
            payload_bytes: bytes - headers,
            ..Made::new()
        }
        .frame();
        assert_eq!(frame.len(), bytes);
        let mut by_packet = packet_sender(&frame);
        let mut socket = PacketPort::open("near", &options()).unwrap().remove(0);
        let came = || {
            let mut came = 0;
            while let Some(mut block) = socket.take() {
                came += block.frames().filter(|frame| frame.is_ok()).count() as u64;
            }
            came
        };
        receive(
            &format!("packet socket, {bytes} bytes in"),
            &mut by_packet,
            came,
        );
        drop(socket);
        send(&format!("packet socket, {bytes} bytes out"), &mut by_packet);
        let config = PortConfig::default();
        let Ok(redirect) = Redirect::attach("near") else {
            println!("AF_XDP not measured: no program, or no right to load it");
            return;
        };
        let mut port = Port::open("near", 0, &config).unwrap();
        redirect.steer(&port).unwrap();
        let came = || {
            let mut came = 0;
            while port.look() > 0 {
                // Each frame is looked at.
                port.receive(64, |frame| came += u64::from(!frame.is_empty()));
            }
            came
        };
        receive(&format!("AF_XDP, {bytes} bytes in"), &mut by_packet, came);
        drop((port, redirect));
        let mut port = Port::open("far", 0, &config).unwrap();
        let mut by_port = || {
            let mut sent = 0;
            while sent < BATCH_FRAMES_MAX as u64 && port.send(&frame).is_ok() {
                sent += 1;
            }
            port.flush().unwrap();
            sent
        };
        send(&format!("AF_XDP, {bytes} bytes out"), &mut by_port);
    }
}

fn options() -> PortOptions {
    PortOptions {
        queues: 1,
        ring: RingSize {
            block_bytes: 256 << 10,
            blocks: 128,
            block_timeout_ms: 10,
        },
        snap_bytes: 65_536,
        promiscuous: false,
    }
}

/// Sends a batch by a packet socket past the queueing disciplines, and gives how many the kernel took.
fn packet_sender(frame: &[u8]) -> impl FnMut() -> u64 {
    let mut port = SendPort::open("far").unwrap();
    let mut batch = FrameBatch::new(frame.len());
    while let Some(room) = batch.room() {
        room.copy_from_slice(frame);
        batch.push(frame.len());
    }
    move || port.send(&batch, 0..BATCH_FRAMES_MAX).frames as u64
}

/// The median of sessions, each of which sends and receives in turn.
fn receive(name: &str, send: &mut impl FnMut() -> u64, mut came: impl FnMut() -> u64) {
    let (mut times_ns, mut lost) = (Vec::new(), 0);
    for _ in 0..SESSIONS {
        let begin = Instant::now();
        let (mut sent, mut received, mut last) = (0, 0, begin);
        while sent < FRAMES {
            sent += send();
            received += came();
        }
        while received < sent && last.elapsed() < SILENCE {
            let more = came();
            if more > 0 {
                received += more;
                last = Instant::now();
            }
        }
        lost += sent - received;
        times_ns.push(begin.elapsed().as_nanos() as f64 / received.max(1) as f64);
    }
    tell(
        name,
        times_ns,
        &format!("its sending by a packet socket included; {lost} lost"),
    );
}

fn send(name: &str, send: &mut impl FnMut() -> u64) {
    let session = |_| {
        let begin = Instant::now();
        let mut sent = 0;
        while sent < FRAMES {
            sent += send();
        }
        begin.elapsed().as_nanos() as f64 / sent as f64
    };
    tell(name, (0..SESSIONS).map(session).collect(), "to no socket");
}

fn tell(name: &str, mut times_ns: Vec<f64>, more: &str) {
    times_ns.sort_by(f64::total_cmp);
    let (least, median) = (times_ns[0], times_ns[times_ns.len() / 2]);
    let rate = 1e3 / median;
    println!(
        "{name:32} {median:5.0} ns a frame ({rate:.2} M/s; median of {SESSIONS}, least {least:.0}); {more}"
    );
}
