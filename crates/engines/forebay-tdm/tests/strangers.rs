//! Hellos alone take no place from senders that come.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic"
)]

mod world;

use std::net::SocketAddr;

use forebay_tdm::sender::{Over, Phase};
use forebay_wire::tdm::{Carries, Hello, Message, Mode, NO_SENDER, Packet};
use world::{BEGIN_NS, Input, MS, SECOND, Setup, World};

/// A hello as anybody can say it.
fn hello(name: &str, nonce: u64, packet_bytes_max: u16) -> Vec<u8> {
    let packet = Packet {
        session: 0,
        sender: NO_SENDER,
        start: 0,
        message: Message::Hello(Hello {
            nonce,
            share: 1,
            packet_bytes_max,
            carries: Carries::Bytes,
            name,
        }),
        tag: None,
    };
    let mut out = [0; 256];
    let bytes = packet.emit(false, &mut out).unwrap();
    out[..bytes].to_vec()
}

fn stranger(number: u64) -> SocketAddr {
    let [.., high, low] = number.to_be_bytes();
    SocketAddr::from(([10, 1, high, low], 7))
}

fn world(seed: u64) -> World {
    World::new(Setup {
        bytes: 1_000_000,
        ..Setup::new(seed, 3, Mode::SlotsPaced, 2_500_000)
    })
}

#[test]
fn hellos_that_nobody_follows_up_take_no_place_from_those_that_come() {
    for seed in 1..=3 {
        let mut world = world(seed);
        let mut said = 0;
        // All places are asked for before the first sender speaks, and again and again while they join and send.
        for _ in 0..3 {
            world.inject(
                Some(stranger(said)),
                hello(&format!("x{said}"), said + 1, 256),
            );
            said += 1;
        }
        while !world.is_over() {
            let next_ns = world.now_ns() - BEGIN_NS + MS / 4;
            assert!(next_ns < 20 * SECOND, "{}", world.shows());
            world.run_until(next_ns);
            if !world.is_over() {
                world.inject(
                    Some(stranger(said)),
                    hello(&format!("x{said}"), said + 1, 256),
                );
                said += 1;
            }
        }
        for host in 0..3 {
            assert_eq!(world.sender(host).phase(), Phase::Over(Over::Complete));
        }
        world.check_streams();
        assert_eq!(world.lost().0, 0);
        assert_eq!(world.receiver().peers().len(), 3);
        // When all have their places, there is none for others; and a session that is over has none.
        let unanswered = world.receiver().hellos_unanswered();
        let refused: u64 = world.receiver().refused().map(|(_, count)| count).sum();
        println!("seed {seed}: of {said} strangers {unanswered} unanswered, {refused} refused");
        assert!(unanswered >= 3 && unanswered + refused <= said && refused > 1_000);
        // Nobody's datagrams became smaller for a stranger's that are.
        assert!(world.receiver().plan().unwrap().packet_bytes > 256);
    }
}

#[test]
fn a_hello_in_the_name_and_from_the_address_of_a_sender_that_is_at_work_changes_nothing() {
    for seed in 1..=3 {
        let mut world = world(seed);
        world.run_to_start();
        for nonce in 1..=20 {
            let next_ns = world.now_ns() - BEGIN_NS + MS;
            world.run_until(next_ns);
            let address = world.hosts[1].address;
            world.inject(Some(address), hello("s1", nonce, 1472));
        }
        world.run(20 * SECOND);
        assert_eq!(world.sender(1).phase(), Phase::Over(Over::Complete));
        world.check_streams();
        assert_eq!(world.receiver().peers().nth(1).unwrap().restarts, 0);
        assert_eq!(world.receiver().hellos_unanswered(), 20);
    }
}

#[test]
fn the_place_of_one_that_answered_and_never_began_is_free_when_it_is_silent() {
    let mut world = World::new(Setup {
        planned: 3,
        wait_ns: 300 * MS,
        ..Setup::new(1, 2, Mode::SlotsPaced, 2_500_000)
    });
    for host in 0..2 {
        world.hosts[host].input = Input {
            bytes: 60_000_000,
            bytes_per_s: 10_000_000,
            ..Input::of(0)
        };
    }
    world.run_to_start();
    // It answers, and says nothing more.
    let third = world.add_host();
    while world.receiver().peers().len() < 3 {
        assert!(world.step(), "{}", world.shows());
    }
    world.hosts[third].sender = None;
    world.run_until(world.now_ns() - BEGIN_NS + 1_500 * MS);
    let fourth = world.add_host();
    world.run(60 * SECOND);
    for host in [0, 1, fourth] {
        assert_eq!(world.sender(host).phase(), Phase::Over(Over::Complete));
    }
    world.check_streams();
    let names: Vec<&str> = (world.receiver().peers())
        .map(|peer| peer.name.as_str())
        .collect();
    assert_eq!((names.len(), names[2]), (3, "s3"));
}
