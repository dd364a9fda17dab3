//! A link behind the card that takes less than the card does: what waits, waits where policies see it.

#![allow(clippy::unwrap_used, clippy::panic)]

mod world;

use forebay_mux::policy::{PerClient, PolicyConfig};
use forebay_mux::transmit::{Link, Next, Sender};
use world::{Full, Left, MS, SECOND_NS, SENDER, bytes_of, id, one_class, packet};

const CARD_BPS: u64 = 10_000_000_000;
const OVERHEAD_BYTES: u32 = 24;

/// What two clients whose queues are full sent within a second.
fn second(policy: PolicyConfig, rate_bps: u64, lengths: &[&[u32]]) -> Vec<Left> {
    let mut transmit = one_class(policy);
    for client in 0..2 {
        transmit.add_client(id(client), SENDER).unwrap();
    }
    let link = Link {
        rate_bps,
        overhead_bytes: OVERHEAD_BYTES,
    };
    transmit.set_link(Some(link)).unwrap();
    let full = Full {
        link_rate_bps: CARD_BPS,
        lengths,
        until_ns: SECOND_NS,
        depth: 4,
    };
    full.run(&mut transmit)
}

fn on_link(left: &Left) -> u64 {
    u64::from(left.bytes + OVERHEAD_BYTES)
}

fn favoured() -> PolicyConfig {
    PolicyConfig::Priority {
        level: PerClient::all(1).with(id(0), 0),
        guard_ns: None,
    }
}

#[test]
fn the_card_is_given_what_the_link_takes_and_no_more() {
    for rate_bps in [1_000_000, 100_000_000, 1_000_000_000] {
        for lengths in [&[&[1514_u32][..]; 2], &[&[60, 1514, 300][..]; 2]] {
            let left = second(PolicyConfig::RoundRobin, rate_bps, lengths);
            let sent: u64 = left.iter().map(on_link).sum();
            let burst = (rate_bps / 8_000).max(3_028) + 1_538;
            let most = rate_bps / 8 + burst;
            assert!(
                (rate_bps / 8 * 99 / 100..=most).contains(&sent),
                "{sent} bytes of {}",
                rate_bps / 8
            );
            // Over any stretch as well: how far what was sent is ahead of what the link took never rises by more than that.
            let (mut before, mut least) = (0_i128, i128::MAX);
            for packet in &left {
                let taken = u128::from(rate_bps) * u128::from(packet.at_ns) / 8;
                let ahead = before - (taken / u128::from(SECOND_NS)) as i128;
                least = least.min(ahead);
                before += i128::from(on_link(packet));
                let stretch = ahead + i128::from(on_link(packet)) - least;
                assert!(stretch <= i128::from(burst) + 1, "{packet:?}");
            }
        }
    }
}

#[test]
fn policies_decide_which_packets_wait_for_the_link() {
    let lengths = &[&[1514_u32][..]; 2];
    let left = second(favoured(), 100_000_000, lengths);
    assert_eq!(bytes_of(&left, 1), 0);
    let left = second(PolicyConfig::RoundRobin, 100_000_000, lengths);
    assert!(bytes_of(&left, 0).abs_diff(bytes_of(&left, 1)) <= 1514);
    // Half of the link is asked of the favoured client: it has all of that, and the other one what is left.
    let mut transmit = one_class(favoured());
    for client in 0..2 {
        transmit.add_client(id(client), SENDER).unwrap();
    }
    let link = Link {
        rate_bps: 100_000_000,
        overhead_bytes: OVERHEAD_BYTES,
    };
    transmit.set_link(Some(link)).unwrap();
    let (mut now_ns, mut asked, mut sent) = (0, 0_u64, [0_u64; 2]);
    while now_ns < SECOND_NS {
        while asked * 1514 * 8 <= now_ns / 20 {
            transmit.offer(id(0), packet(0, 1514), now_ns).unwrap();
            asked += 1;
        }
        while transmit.waiting(id(1)) < 4 {
            transmit.offer(id(1), packet(0, 1514), now_ns).unwrap();
        }
        match transmit.poll(now_ns, |_, _| {}) {
            Next::Send(client, packet) => {
                transmit.finish(client, packet, true);
                sent[client.index()] += 1;
            }
            Next::AskAt(at_ns) => now_ns = at_ns.min(now_ns + 10_000),
            Next::Idle => unreachable!("the other client always has packets"),
        }
    }
    assert!(asked - sent[0] <= 1, "{sent:?} of {asked}");
    assert!(sent[1] > asked * 9 / 10, "{sent:?}");
    assert!(transmit.counts(id(0)).sojourn_max_ns < MS);
}

#[test]
fn waits_are_bounded_while_the_link_is_busy_and_a_link_that_cannot_be_is_refused() {
    let mut transmit = one_class(PolicyConfig::RoundRobin);
    let sender = Sender {
        sojourn_max_ns: Some(MS),
        ..SENDER
    };
    transmit.add_client(id(0), sender).unwrap();
    let slow = Link {
        rate_bps: 8_000,
        overhead_bytes: 0,
    };
    transmit.set_link(Some(slow)).unwrap();
    for buffer in 0..6 {
        transmit.offer(id(0), packet(buffer, 1000), 0).unwrap();
    }
    let mut sent = 0;
    let at_ns = loop {
        match transmit.poll(0, |_, _| panic!("early")) {
            Next::Send(client, packet) => {
                transmit.finish(client, packet, true);
                sent += 1;
            }
            Next::AskAt(at_ns) => break at_ns,
            Next::Idle => panic!("some wait"),
        }
    };
    // A burst of 3,028 bytes, and the packet that overdraws it.
    assert_eq!((sent, at_ns), (4, MS + 1));
    let mut dropped = 0;
    assert_eq!(transmit.poll(at_ns, |_, _| dropped += 1), Next::Idle);
    assert_eq!(dropped, 2);
    for (rate_bps, overhead_bytes) in [(7_999, 0), (1_000_000_000_001, 0), (8_000, 257)] {
        let link = Link {
            rate_bps,
            overhead_bytes,
        };
        assert!(transmit.set_link(Some(link)).is_err());
    }
}
