//! What the port costs over a bare `recvmmsg` loop: CPU time to empty a filled socket buffer.
//!
//! Sending is not timed and does not run meanwhile, so the numbers are the receiver's alone. Each round fills
//! and empties the buffer once per way of receiving, in turn; the ratio is taken per round, its median is printed.
//! `cargo bench -p forebay-link --bench udp`

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark stops at a panic and prints"
)]

use std::os::fd::{AsFd, OwnedFd};

use forebay_link::udp::{Config, UdpPort};
use forebay_link::{Ancillary, BatchTag, DatagramSource, RecvBatch, SLOT_CAPACITY_BYTES};
use forebay_sys::clock::thread_cpu_ns;
use forebay_sys::host::Host;
use forebay_sys::socket::{UdpOptions, connect_udp};
use forebay_sys::udp_batch::{BareRecv, Outgoing, SendBatch};

const ROUNDS: usize = 41;
const SLOTS: usize = 64;
const BUFFER_BYTES: u32 = 8 << 20;

/// A way to empty a port; gives the number of datagrams.
type Drain<'a> = (&'a str, Box<dyn FnMut(&mut UdpPort) -> u64 + 'a>);

fn fill(sender: &OwnedFd, batch: &mut SendBatch, payload: &[u8], count: usize) {
    let outgoing = vec![Outgoing::connected(payload); count];
    assert_eq!(batch.send(sender.as_fd(), &outgoing).count, count);
}

fn bare<'a>() -> Drain<'a> {
    let mut bare = BareRecv::new(SLOTS, SLOT_CAPACITY_BYTES);
    let drain = move |port: &mut UdpPort| {
        let mut sum = 0;
        loop {
            match bare.receive(port.as_fd()).unwrap() {
                0 => return sum,
                count => sum += count as u64,
            }
        }
    };
    ("bare recvmmsg", Box::new(drain))
}

fn scratch<'a>(name: &'a str, ancillary: Ancillary) -> Drain<'a> {
    let mut batch = RecvBatch::private(SLOTS, ancillary).unwrap();
    let drain = move |port: &mut UdpPort| {
        let mut sum = 0;
        loop {
            match port
                .receive_scratch(&mut batch, SLOTS, BatchTag::default())
                .unwrap()
            {
                0 => return sum,
                count => sum += count as u64,
            }
        }
    };
    (name, Box::new(drain))
}

fn direct<'a>() -> Drain<'a> {
    let mut batch = RecvBatch::private(1, Ancillary::default()).unwrap();
    // As a ring would lend it: the next place, over and over through 4 MiB.
    let mut ring = vec![0_u8; 4 << 20];
    let drain = move |port: &mut UdpPort| {
        let (mut sum, mut at) = (0, 0);
        while port
            .receive_into(
                &mut batch,
                &mut ring[at..at + SLOT_CAPACITY_BYTES],
                BatchTag::default(),
            )
            .unwrap()
        {
            sum += 1;
            at += (batch.datagram(0).len + 32).next_multiple_of(64);
            if at + SLOT_CAPACITY_BYTES > ring.len() {
                at = 0;
            }
        }
        sum
    };
    ("UdpPort, one by one into a ring", Box::new(drain))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare(payload_bytes: usize, count: usize, stamps: bool) {
    let config = Config {
        receive_buffer_bytes: BUFFER_BYTES,
        stamps,
        ..Config::default()
    };
    let (mut port, shortfall) = UdpPort::bind(&config).unwrap();
    if let Some(shortfall) = shortfall {
        println!("skipped: {shortfall}");
        return;
    }
    let sender = connect_udp(port.address(), &UdpOptions::default()).unwrap();
    let (mut send, payload) = (SendBatch::new(64), vec![0x5a; payload_bytes]);
    let mut ways = [
        bare(),
        scratch("UdpPort", Ancillary::default()),
        scratch(
            "UdpPort, addresses",
            Ancillary {
                addresses: true,
                control: false,
            },
        ),
        scratch(
            "UdpPort, addresses and control",
            Ancillary {
                addresses: true,
                control: true,
            },
        ),
        direct(),
    ];
    let mut cost_ns = vec![Vec::with_capacity(ROUNDS); ways.len()];
    for _ in 0..ROUNDS {
        for (way, costs) in ways.iter_mut().zip(&mut cost_ns) {
            fill(&sender, &mut send, &payload, count);
            let start = thread_cpu_ns();
            let received = (way.1)(&mut port);
            costs.push((thread_cpu_ns() - start) as f64 / received as f64);
            assert_eq!(
                received, count as u64,
                "the buffer was too small for the benchmark"
            );
        }
    }
    println!(
        "{payload_bytes} B, stamps {}, {count} datagrams a round:",
        if stamps { "on" } else { "off" }
    );
    for (way, costs) in ways.iter().zip(&cost_ns) {
        let ratio = median(
            costs
                .iter()
                .zip(&cost_ns[0])
                .map(|(cost, bare)| bare / cost)
                .collect(),
        );
        let cost = median(costs.clone());
        let rate = 1e9 / cost;
        println!(
            "  {:32} {cost:8.0} ns  {:6.2} M datagrams/s  {:6.2} GB/s  {ratio:5.2} of bare",
            way.0,
            rate / 1e6,
            rate * payload_bytes as f64 / 1e9,
        );
    }
}

fn main() {
    let host = Host::read();
    println!(
        "{} CPUs, {}, kernel {}, load {:.2}, median of {ROUNDS} rounds",
        host.cpus, host.cpu_model, host.kernel, host.load_average[0]
    );
    for stamps in [false, true] {
        compare(300, 4_000, stamps);
    }
    compare(32_768, 200, false);
}
