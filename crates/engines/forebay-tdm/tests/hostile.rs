//! Whatever comes: nothing panics, nobody hangs, the books close, and what a good sender sends arrives.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may panic, and prints its seed"
)]

mod world;

use std::net::SocketAddr;

use forebay_emu::rng::Xoshiro256;
use forebay_tdm::plan::PlanInput;
use forebay_tdm::receiver::{Arrival, PeerTotals, Receiver, ReceiverConfig, Row};
use forebay_tdm::sender::{Over, Phase, Sender, SenderConfig};
use forebay_wire::tdm::{
    Carries, Data, End, EndReason, Grant, Hello, Message, Mode, NO_SENDER, Packet, Probe, Ready,
    Refusal, RefuseReason, Reply, Report, Reported, Stop, Welcome,
};
use proptest::prelude::*;
use world::{BEGIN_NS, MS, SECOND, Setup, World};

/// One of the datagrams so far, as it was or with some bytes changed.
fn mutated(random: &mut Xoshiro256, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    match random.below(4) {
        0 => bytes.truncate(random.below(bytes.len() as u64 + 1) as usize),
        1 => bytes.push(random.bits() as u8),
        _ => {
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
            }
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Strangers send rubbish, damaged datagrams and old ones again, from their own addresses and from those of the senders, to all sides.
    #[test]
    fn rubbish_and_replays_hurt_nobody(seed: u64, credit: bool, every_us in 20_u64..500) {
        rubbish(seed, if credit { Mode::Credit } else { Mode::SlotsPaced }, every_us);
    }
}

/// A hello that came again to a sender's end was refused, and the sender took that for its own.
#[test]
fn a_refusal_of_a_hello_is_not_for_a_sender_that_takes_part() {
    rubbish(12_787_652_259_102_244_185, Mode::SlotsPaced, 28);
}

fn rubbish(seed: u64, mode: Mode, every_us: u64) {
    let mut world = World::new(Setup {
        bytes: 1_000_000,
        ..Setup::new(seed, 3, mode, 2_500_000)
    });
    world.tape = Some(Vec::new());
    world.answers_tape = Some(Vec::new());
    let mut random = Xoshiro256::new(!seed);
    while !world.is_over() {
        let next_ns = world.now_ns() - BEGIN_NS + random.below(2 * every_us * 1_000);
        assert!(next_ns < 20 * SECOND, "{}", world.shows());
        world.run_until(next_ns);
        let forth = world.tape.take().unwrap();
        let back = world.answers_tape.take().unwrap();
        let stranger = random.happens(0.5);
        if random.happens(0.2) {
            let length = random.below(300) as usize;
            let mut bytes: Vec<u8> = (0..length).map(|_| random.bits() as u8).collect();
            if random.happens(0.5) && length > 6 {
                bytes[..5].copy_from_slice(b"FTDM\x01");
            }
            world.inject(None, bytes);
        } else if random.happens(0.6) && !forth.is_empty() {
            let (from, bytes) = &forth[random.below(forth.len() as u64) as usize];
            let from = (!stranger).then_some(*from);
            if random.happens(0.5) {
                world.inject(from, bytes.clone());
            } else {
                let bytes = mutated(&mut random, bytes);
                // A payload that was changed is for UDP's checksum, or the key.
                if Packet::parse(&bytes).is_err() || stranger {
                    world.inject(from, bytes);
                }
            }
        } else if let Some((to, bytes)) = back.get(random.below(back.len() as u64 + 1) as usize) {
            let again = random.happens(0.5);
            let bytes = if again {
                bytes.clone()
            } else {
                mutated(&mut random, bytes)
            };
            world.inject_answer(*to, &bytes);
        }
        world.tape = Some(forth);
        world.answers_tape = Some(back);
    }
    for host in 0..3 {
        assert_eq!(world.sender(host).phase(), Phase::Over(Over::Complete));
    }
    world.check_streams();
    assert_eq!(world.lost().0, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A sender that is none: the right session, the right check, and fields that contradict each other.
    #[test]
    fn no_sender_opens_the_books(seed: u64) {
        for mode in [Mode::Incast, Mode::Slots, Mode::SlotsPaced, Mode::Credit] {
            for windows in [0, 20] {
                intrude(seed, mode, windows);
            }
        }
    }

    /// A receiver that is none.
    #[test]
    fn no_receiver_makes_a_sender_panic_or_spin(seed: u64) {
        let mut random = Xoshiro256::new(seed);
        let config = SenderConfig { name: "s".into(), nonce: 5, share: 1, packet_bytes_max: 1472, carries: Carries::Bytes, repeat: random.happens(0.5), wait_ns: 0, lateness_ns: 0, real_time: false, key: None };
        let mut now = SECOND;
        let mut sender = Sender::new(config, now);
        let mut out = [0; 2048];
        for _ in 0..600 {
            now += random.below(20 * MS);
            let message = any_answer(&mut random, now);
            let packet = Packet { session: 1 + u64::from(random.happens(0.02)), sender: 0, start: 0, message, tag: None };
            let bytes = packet.emit(false, &mut out).unwrap();
            let _ = sender.handle_datagram(now, None, &out[..bytes]);
            let mut said = 0;
            for _ in 0..3 {
                while let Some(transmit) = sender.poll_transmit(now, &mut out) {
                    said += 1;
                    prop_assert!(said < 1_000, "it does not stop talking");
                    if let Some(sequence) = transmit.stamp {
                        sender.handle_left(sequence, now);
                    }
                }
                let mut bursts = 0;
                while let forebay_tdm::sender::Next::Burst(packets) = sender.poll_burst(now, 1_000, false) {
                    bursts += 1;
                    prop_assert!(sender.front(now, 0, 0, 100, &mut out).is_some());
                    sender.burst_sent(now, packets, 0, 100 * u64::from(packets));
                    if bursts == 1_000 {
                        break;
                    }
                }
            }
            if let Some(due) = sender.poll_timeout() {
                prop_assert!(due > now, "{due} at {now}");
            }
            prop_assert!(sender.reports_waiting() <= forebay_tdm::sender::REPORTS_MAX);
        }
    }
}

/// Three senders that say what they like, until nobody says anything; gives packets that were taken, windows, and reports that were not.
fn intrude(seed: u64, mode: Mode, windows: u32) -> [u64; 3] {
    let mut random = Xoshiro256::new(seed);
    let mut receiver = Receiver::new(ReceiverConfig {
        windows,
        ..config(mode)
    });
    let mut sums = Row::default();
    let mut taken = 0;
    let mut now = SECOND;
    for step in 0..600 {
        now += random.below(3 * MS);
        let (from, packet) = if step < 6 {
            (step % 3, opening(step))
        } else {
            (
                random.below(3),
                Packet {
                    session: 1,
                    sender: random.below(3) as u16,
                    start: u8::from(random.happens(0.02)),
                    message: any_message(&mut random),
                    tag: None,
                },
            )
        };
        let mut out = [0; 2048];
        let bytes = packet.emit(false, &mut out).unwrap();
        let from = SocketAddr::from(([10, 0, 0, from as u8], 1));
        let arrival = receiver.handle_datagram(now, from, None, &out[..bytes]);
        taken += u64::from(matches!(arrival, Arrival::Data { .. }));
        drain(&mut receiver, now, &mut sums);
    }
    // Nobody says anything any more.
    for _ in 0..100 {
        now += 100 * MS;
        drain(&mut receiver, now, &mut sums);
    }
    let counts = receiver.counts();
    assert_eq!((counts.residual(), counts.data), (0, taken));
    assert!(
        !matches!(receiver.phase(), forebay_tdm::receiver::Phase::Running),
        "{:?}",
        receiver.phase()
    );
    let of = |value: fn(&PeerTotals) -> u64| receiver.peers().map(value).sum::<u64>();
    for peer in receiver.peers() {
        assert_eq!(peer.residual(), 0, "{:?}", peer);
    }
    assert_eq!(
        (sums.sent, sums.received, sums.lost.total()),
        (
            of(|it| it.sent),
            of(|it| it.received),
            of(|it| it.lost.total())
        )
    );
    assert_eq!(sums.received, taken);
    assert_eq!(sums.duplicates, of(|it| it.duplicates));
    [taken, of(|it| it.windows), of(|it| it.bad_reports)]
}

#[test]
fn intruders_get_far_enough_to_be_a_test() {
    let mut all = [0; 3];
    for seed in 0..50 {
        for (sum, of_one) in all.iter_mut().zip(intrude(seed, Mode::SlotsPaced, 0)) {
            *sum += of_one;
        }
    }
    println!("{all:?}");
    assert!(all[0] > 1_000 && all[1] > 300 && all[2] > 500, "{all:?}");
}

fn config(mode: Mode) -> ReceiverConfig {
    ReceiverConfig {
        session: 1,
        senders: 3,
        port: PlanInput {
            mode,
            ..PlanInput::default()
        },
        windows: 0,
        wait_ns: 10 * MS,
        lead_ns: MS,
        silence_ns: SECOND,
        settle_ns: 5 * MS,
        key: None,
    }
}

/// Three senders that join and are ready.
fn opening(step: u64) -> Packet<'static> {
    let names = ["a", "b", "c"];
    let hello = Hello {
        nonce: step + 1,
        share: 1,
        packet_bytes_max: 1472,
        carries: Carries::Bytes,
        name: names[step as usize % 3],
    };
    let message = if step < 3 {
        Message::Hello(hello)
    } else {
        Message::Ready(Ready::default())
    };
    // A sender that answers the first welcome, which names no place, gets one; welcomes are told apart by their starts.
    let (session, start) = if step < 3 {
        (0, 0)
    } else {
        (1, step as u8 - 3)
    };
    Packet {
        session,
        sender: NO_SENDER,
        start,
        message,
        tag: None,
    }
}

/// Small numbers, so that they meet each other, and now and then any.
fn number(random: &mut Xoshiro256, below: u64) -> u64 {
    if random.happens(0.03) {
        random.bits() >> random.below(64)
    } else {
        random.below(below)
    }
}

fn end(random: &mut Xoshiro256) -> End {
    End {
        reason: EndReason::Complete,
        windows: number(random, 50) as u32,
        packets: number(random, 400),
        errors: number(random, 3),
        payload_bytes: number(random, 10_000),
        stream_bytes: number(random, 10_000),
        heaps: number(random, 100),
    }
}

fn any_message(random: &mut Xoshiro256) -> Message<'static> {
    match random.below(100) {
        0 => Message::End(end(random)),
        1 => Message::Hello(Hello {
            nonce: number(random, 5),
            share: 1,
            packet_bytes_max: 1472,
            carries: Carries::Heaps,
            name: "a",
        }),
        2 => Message::Ready(Ready {
            offset: number(random, 1_000),
            lateness_ns: number(random, 100_000),
            ..Ready::default()
        }),
        3..10 => Message::Probe(Probe::default()),
        10..40 => Message::Report(Report {
            window: number(random, 20) as u32,
            packets: number(random, 30) as u32,
            errors: number(random, 2) as u32,
            first_packet: number(random, 200),
            carried: number(random, 5) as u32,
            preempted: number(random, 5) as u32,
            ..Report::default()
        }),
        _ => {
            let window = number(random, 20);
            let packet = if random.happens(0.7) {
                window.wrapping_mul(10).wrapping_add(random.below(12))
            } else {
                number(random, 300)
            };
            Message::Data(Data {
                packet: packet.min(u64::MAX / 4),
                offset: number(random, 30_000).min(u64::MAX / 4),
                sent_ns: random.bits() >> random.below(64),
                window: window as u32,
                index: number(random, 10) as u32,
                payload: &[0x77; 100],
            })
        }
    }
}

fn drain(receiver: &mut Receiver, now: u64, sums: &mut Row) {
    let mut out = [0; 256];
    let mut said = 0;
    while let Some(transmit) = receiver.poll_transmit(now, &mut out) {
        said += 1;
        assert!(said < 5_000, "it does not stop talking");
        if let Some(stamp) = transmit.stamp {
            receiver.handle_left(stamp, now);
        }
    }
    if let Some(due) = receiver.poll_timeout() {
        assert!(due > now, "{due} at {now}");
    }
    while let Some(row) = receiver.poll_row() {
        assert_eq!(row.residual(), 0, "{row:?}");
        sums.sent += row.sent;
        sums.received += row.received;
        sums.lost.add(&row.lost);
        sums.duplicates += row.duplicates;
    }
    while receiver.poll_lost().is_some() {}
    assert!(receiver.waiting().windows <= 3 * 1_024);
}

fn any_answer(random: &mut Xoshiro256, now: u64) -> Message<'static> {
    let window_ns = 1 + number(random, 3_000_000) % 3_600_000_000_000;
    match random.below(20) {
        0..6 => Message::Welcome(Welcome {
            nonce: if random.happens(0.9) {
                5
            } else {
                number(random, 10)
            },
            mode: Mode::ALL[random.below(4) as usize],
            senders: 3,
            packet_bytes: 1472,
            burst_packets: 1 + random.below(64) as u16,
            catch_up_packets: number(random, 100) as u16,
            window_packets: 1 + number(random, 300) as u32 % 1_000_000,
            windows: number(random, 1_000) as u32,
            start_ns: (now + number(random, SECOND)).min(u64::MAX / 4),
            window_ns,
            cycle_ns: window_ns.saturating_mul(3).min(3_600_000_000_000),
            guard_ns: number(random, 100_000) % 3_600_000_000_000,
            pace_ps: number(random, 20_000_000) % 3_600_000_000_000,
            silence_ns: 1 + number(random, SECOND) % 3_600_000_000_000,
            wall_ns: random.bits(),
            wall_error_ns: number(random, SECOND),
        }),
        6 => Message::Refuse(Refusal {
            nonce: 5,
            reason: RefuseReason::Full,
        }),
        7 => Message::Stop(Stop {
            reason: EndReason::Interrupted,
        }),
        8 => Message::Ended(end(random)),
        9 => Message::Reported(Reported {
            next: number(random, 20) as u32,
            highest: number(random, 20) as u32,
        }),
        10..13 => Message::Grant(Grant {
            window: number(random, 50) as u32,
            packets: number(random, 300) as u32,
            start_ns: now.wrapping_add(number(random, MS)),
        }),
        13..17 => Message::Reply(Reply {
            sequence: number(random, 40) as u32,
            answer: 0,
            came_ns: now.wrapping_add(number(random, 10_000)),
        }),
        _ => Message::FollowUp(forebay_wire::tdm::FollowUp {
            sequence: number(random, 40) as u32,
            answer: 0,
            left_ns: now.wrapping_add(number(random, 20_000)),
        }),
    }
}
