//! What it costs to say which client a frame is for, with 2 clients and with 64, by their Ethernet addresses, IP addresses, ports or connections.

#![allow(missing_docs, clippy::expect_used)]

use std::net::IpAddr;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use forebay_mux::classify::{Classifier, Prefix, Rule, Verdict};
use forebay_mux::{ClientId, Mac};

fn main() {
    divan::main();
}

const FRAMES: usize = 100_000;
const UDP: u8 = 17;

/// What rules are of.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Mac,
    Address,
    Port,
    Connection,
    /// Of each client its Ethernet address and a port: two tables.
    MacAndPort,
}

fn mac(client: u8) -> Mac {
    Mac([2, 0, 0, 0, 1, client])
}

fn address(host: u8) -> IpAddr {
    [10, 0, 0, host].into()
}

fn rules(kind: Kind, clients: u8) -> Vec<Rule> {
    let of = |client| {
        let rule = Rule::of(ClientId::new(client));
        let by_mac = Rule {
            destination_mac: Some(mac(client)),
            ..rule
        };
        let by_address = Rule {
            destination: Some(Prefix::exact(address(client))),
            ..rule
        };
        let port = Some(7000 + u16::from(client));
        let by_port = Rule {
            protocol: Some(UDP),
            destination_port: port,
            ..rule
        };
        let source = Some(Prefix::exact(address(200)));
        let (protocol, source_port, destination_port) = (Some(UDP), Some(5000), port);
        let connection = Rule {
            protocol,
            source,
            source_port,
            destination_port,
            ..by_address
        };
        match kind {
            Kind::Mac => vec![by_mac],
            Kind::Address => vec![by_address],
            Kind::Port => vec![by_port],
            Kind::Connection => vec![connection],
            Kind::MacAndPort => vec![by_mac, by_port],
        }
    };
    (0..clients).flat_map(of).collect()
}

/// A datagram of 64 bytes to a client, by all that rules may ask for.
fn frame(client: u8) -> Vec<u8> {
    let mut frame = [
        &mac(client).0[..],
        &[
            2, 0, 0, 0, 0, 9, 8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, UDP, 0, 0,
        ],
    ]
    .concat();
    frame.extend([10, 0, 0, 200, 10, 0, 0, client, 0x13, 0x88]);
    frame.extend((7000 + u16::from(client)).to_be_bytes());
    frame.extend([0, 30, 0, 0]);
    frame.resize(64, 0);
    frame
}

#[divan::bench(sample_count = 50, args = [Kind::Mac, Kind::Address, Kind::Port, Kind::Connection, Kind::MacAndPort], consts = [2, 64])]
fn classify<const CLIENTS: u8>(bencher: Bencher<'_, '_>, kind: Kind) {
    let classifier = Classifier::new(&rules(kind, CLIENTS), &[]).expect("sound rules");
    let made: Vec<_> = (0..CLIENTS).map(frame).collect();
    // In an order as if at random.
    let mut turn = 1_u32;
    let order: Vec<_> = (0..FRAMES)
        .map(|_| {
            turn = turn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (turn >> 16) as usize % made.len()
        })
        .collect();
    assert!(
        matches!(classifier.classify(&made[1]), Verdict::Client(client) if client.index() == 1)
    );
    bencher.counter(ItemsCount::new(FRAMES)).bench_local(|| {
        for at in &order {
            black_box(classifier.classify(&made[*at]));
        }
    });
}
