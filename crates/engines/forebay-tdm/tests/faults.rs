//! A network that loses, repeats, overtakes and damages, and datagrams of strangers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may panic, and prints its seed"
)]

mod world;

use forebay_emu::world::Layer;
use forebay_ledger::OneOf;
use forebay_tdm::key::Key;
use forebay_tdm::receiver::{Drop, LossCause, Malformed, PeerState};
use forebay_tdm::sender::{Over, Phase};
use forebay_wire::tdm::{Data, EndReason, Kind, Message, Mode, Packet, TAG_BYTES};
use world::{MS, SECOND, Setup, World};

fn setup(seed: u64, mode: Mode) -> Setup {
    Setup {
        bytes: 6_000_000,
        ..Setup::new(seed, 3, mode, 2_500_000)
    }
}

fn run(setup: Setup) -> World {
    let mut world = World::new(setup);
    world.run(60 * SECOND);
    world.check_streams();
    world
}

#[test]
fn what_is_lost_on_the_way_is_counted_to_the_packet() {
    for (seed, chance, mode) in [
        (1, 0.001, Mode::SlotsPaced),
        (2, 0.05, Mode::SlotsPaced),
        (3, 0.3, Mode::SlotsPaced),
        (4, 0.05, Mode::Credit),
    ] {
        let world = run(Setup {
            forth: vec![Layer::Lose(chance)],
            back: vec![Layer::Lose(chance)],
            ..setup(seed, mode)
        });
        let (lost, sent) = world.lost();
        println!("seed {seed}: {lost} of {sent}");
        assert!(lost as f64 > 0.5 * chance * sent as f64);
        let by_place = world
            .receiver()
            .peers()
            .map(|peer| peer.lost[LossCause::Inside])
            .sum::<u64>();
        assert!(by_place > 0);
        for host in 0..3 {
            assert_eq!(world.sender(host).phase(), Phase::Over(Over::Complete));
        }
    }
}

#[test]
fn what_kernels_say_of_losses_is_charged_to_them_to_the_packet() {
    for (seed, mode) in [(1, Mode::SlotsPaced), (2, Mode::Credit)] {
        let mut world = World::new(Setup {
            forth: vec![Layer::Lose(0.02)],
            ..setup(seed, mode)
        });
        world.hosts.iter_mut().for_each(|host| host.refuses = 97);
        let receiver = &mut world.site.as_mut().unwrap().receiver;
        receiver.handle_socket_drops(5);
        receiver.handle_reassembly_failures(7);
        world.run(60 * SECOND);
        world.check_streams();
        let (mut overflow, mut reassembly) = (0, 0);
        for peer in world.receiver().peers() {
            let host = world.hosts.iter().find(|host| host.name == peer.name);
            let host = host.unwrap();
            assert!(host.data_refused > 10 && peer.unreported == 0, "{peer:?}");
            assert_eq!(
                peer.lost[LossCause::SenderError],
                host.data_refused,
                "{peer:?}"
            );
            overflow += peer.lost[LossCause::SocketOverflow];
            reassembly += peer.lost[LossCause::Reassembly];
        }
        assert_eq!((overflow, reassembly), (5, 7), "seed {seed}");
    }
}

#[test]
fn what_comes_twice_is_taken_once() {
    for (seed, mode) in [(1, Mode::SlotsPaced), (2, Mode::Credit)] {
        let world = run(Setup {
            forth: vec![
                Layer::Duplicate(0.2),
                Layer::Reorder {
                    chance: 0.2,
                    ns: 100_000,
                },
            ],
            back: vec![
                Layer::Duplicate(0.2),
                Layer::Reorder {
                    chance: 0.2,
                    ns: 100_000,
                },
            ],
            ..setup(seed, mode)
        });
        assert_eq!(world.lost().0, 0);
        let counts = world.receiver().counts();
        assert!(
            counts.dropped[OneOf::First(Drop::Duplicate)] > 1_000,
            "{counts:?}"
        );
        let in_windows: u64 = world.receiver().peers().map(|peer| peer.duplicates).sum();
        assert_eq!(in_windows, counts.dropped[OneOf::First(Drop::Duplicate)]);
        world.clock_error_ns_p99();
    }
}

#[test]
fn what_is_overtaken_is_no_loss() {
    for (seed, mode, ns) in [
        (1, Mode::SlotsPaced, 50_000),
        (2, Mode::SlotsPaced, 4_000_000),
        (3, Mode::Credit, 1_000_000),
    ] {
        let world = run(Setup {
            forth: vec![Layer::Reorder { chance: 0.3, ns }],
            back: vec![Layer::Reorder { chance: 0.3, ns }],
            ..setup(seed, mode)
        });
        assert_eq!(world.lost().0, 0, "windows settle for 5 ms");
        assert!(world.receiver().peers().all(|peer| peer.reordered > 100));
        assert_eq!(
            world
                .receiver()
                .peers()
                .map(|peer| peer.unreported)
                .sum::<u64>(),
            0
        );
        world.clock_error_ns_p99();
    }
}

#[test]
fn what_is_overtaken_for_too_long_is_late_and_lost_by_name() {
    for seed in 1..=2 {
        let mut world = World::new(Setup {
            forth: vec![Layer::Reorder {
                chance: 0.01,
                ns: 400 * MS,
            }],
            ..setup(seed, Mode::SlotsPaced)
        });
        world.run(60 * SECOND);
        world.check_books();
        // What is still under way comes after the end.
        let end_ns = world.now_ns() - world::BEGIN_NS;
        world.run_until(end_ns + SECOND);
        let counts = world.receiver().counts();
        assert!(counts.dropped[OneOf::First(Drop::Late)] > 0, "{counts:?}");
        assert_eq!(
            world.lost().0,
            counts.dropped[OneOf::First(Drop::Late)]
                + counts.dropped[OneOf::First(Drop::Unexpected)]
        );
    }
}

#[test]
fn damaged_datagrams_are_counted_by_what_is_wrong() {
    for seed in 1..=2 {
        let world = run(Setup {
            forth: vec![Layer::Corrupt(0.05)],
            back: vec![Layer::Corrupt(0.05)],
            ..setup(seed, Mode::SlotsPaced)
        });
        let counts = world.receiver().counts();
        let of_format = |why: &Malformed| counts.dropped[OneOf::Second(*why)];
        let malformed: u64 = Malformed::ALL.iter().map(of_format).sum();
        let damaged = of_format(&Malformed::Check);
        println!("seed {seed}: {:?}", counts.dropped);
        assert!(malformed > 10 && damaged > 0, "{counts:?}");
        assert!(world.lost().0 > 0);
        let not_taken: u64 = (0..3).map(|host| world.sender(host).sent().not_taken).sum();
        assert!(not_taken > 0, "answers are damaged, too");
    }
}

#[test]
fn with_a_key_any_damage_and_any_stranger_is_refused() {
    for seed in 1..=2 {
        let key = Key::new(b"a key of twenty-some bytes");
        let mut world = World::new(Setup {
            forth: vec![Layer::Corrupt(0.02)],
            key,
            ..setup(seed, Mode::SlotsPaced)
        });
        let stranger = world.add_host();
        world.hosts[stranger].key = Key::new(b"another key of some bytes");
        world.setup.sender_wait_ns = 2 * SECOND;
        world.start_sender(stranger);
        let nobody = world.add_host();
        world.hosts[nobody].key = None;
        world.start_sender(nobody);
        world.run(60 * SECOND);
        assert_eq!(
            world.sender(stranger).phase(),
            Phase::Over(Over::NoReceiver)
        );
        let why = forebay_wire::tdm::RefuseReason::Key;
        assert_eq!(
            world.sender(nobody).phase(),
            Phase::Over(Over::Refused(why))
        );
        world.check_streams();
        let counts = world.receiver().counts();
        assert!(counts.dropped[OneOf::First(Drop::Key)] > 100, "{counts:?}");
        assert_eq!(world.receiver().peers().count(), 3);
    }
}

#[test]
fn datagrams_of_another_session_or_sender_are_none_of_this_one() {
    for seed in 1..=2 {
        let mut world = World::new(setup(seed, Mode::SlotsPaced));
        world.run_to_start();
        let home = world.hosts[0].address;
        let mut forged = 0;
        for at in 0..400 {
            world.run_until(380 * MS + at * MS / 4);
            let data = Data {
                packet: at,
                offset: at * 100,
                sent_ns: 0,
                window: (at / 100) as u32,
                index: 0,
                payload: &[0xee; 100],
            };
            // Another session from the right address, and the right session from another address.
            let session = if at % 2 == 0 { 77 } else { 1 };
            let from = (at % 2 == 0).then_some(home);
            let packet = Packet {
                session,
                sender: (at % 5) as u16,
                start: 0,
                message: Message::Data(data),
                tag: None,
            };
            let mut out = [0; 512];
            let bytes = packet.emit(false, &mut out).unwrap();
            world.inject(from, out[..bytes].to_vec());
            forged += 1;
        }
        world.run(60 * SECOND);
        world.check_streams();
        let counts = world.receiver().counts();
        assert_eq!(
            counts.dropped[OneOf::First(Drop::Foreign)]
                + counts.dropped[OneOf::First(Drop::Unexpected)],
            forged,
            "{counts:?}"
        );
        assert_eq!(
            (counts.dropped[OneOf::First(Drop::Foreign)], world.lost().0),
            (forged / 2, 0)
        );
    }
}

/// Loses each control datagram of a kind this often before it lets one through.
fn losing(world: &mut World, what: Kind, times: u32) {
    let mut left = 0;
    world.loses = Box::new(move |kind, _| {
        if kind != what {
            return false;
        }
        left = if left == 0 { times } else { left - 1 };
        left > 0
    });
}

const CONTROL: [Kind; 11] = [
    Kind::Hello,
    Kind::Welcome,
    Kind::Probe,
    Kind::Reply,
    Kind::FollowUp,
    Kind::Ready,
    Kind::Report,
    Kind::Reported,
    Kind::End,
    Kind::Ended,
    Kind::Grant,
];

/// All senders have ended as they should, what was sent came or is lost by name, and only reports may be missed.
fn all_is_told(world: &mut World, kind: Kind) {
    world.check_streams();
    for host in 0..3 {
        let phase = world.sender(host).phase();
        assert_eq!(phase, Phase::Over(Over::Complete), "{kind}");
    }
    let unreported: u64 = world.receiver().peers().map(|peer| peer.unreported).sum();
    assert!(
        unreported == 0 || kind == Kind::Report,
        "{kind}: {unreported}"
    );
}

#[test]
fn every_control_datagram_may_be_lost_several_times() {
    for kind in CONTROL {
        for mode in [Mode::SlotsPaced, Mode::Credit] {
            let mut world = World::new(setup(5, mode));
            losing(&mut world, kind, 3);
            world.run(120 * SECOND);
            println!(
                "{mode} without three of four {kind}: {} ms",
                (world.now_ns() - world::BEGIN_NS) / MS
            );
            all_is_told(&mut world, kind);
            assert_eq!(world.lost().0, 0, "{kind}");
        }
    }
}

#[test]
fn so_many_windows_are_had_whatever_control_datagrams_are_lost() {
    const WINDOWS: u32 = 20;
    for kind in CONTROL {
        for mode in [Mode::Incast, Mode::Slots, Mode::SlotsPaced, Mode::Credit] {
            let mut world = World::new(Setup {
                bytes: 1_000_000_000,
                windows: WINDOWS,
                ..setup(6, mode)
            });
            losing(&mut world, kind, 3);
            world.run(120 * SECOND);
            let windows = [0, 1, 2].map(|host| world.sender(host).sent().windows);
            println!(
                "{mode} without three of four {kind}: {windows:?} windows, {} ms",
                (world.now_ns() - world::BEGIN_NS) / MS
            );
            all_is_told(&mut world, kind);
            if matches!(mode, Mode::SlotsPaced | Mode::Credit) {
                assert_eq!(world.lost().0, 0, "{mode} {kind}");
            }
            for had in windows {
                // A sender that learns too late when it is its turn has missed windows of a schedule; a grant waits.
                let all = u64::from(WINDOWS);
                let may_miss = mode != Mode::Credit && kind == Kind::Welcome && had < all;
                assert!(had == all || may_miss, "{mode} {kind}: {windows:?}");
            }
        }
    }
}

/// The windows that a sender is to have are its own to count: a grant that did not come, or came too late, is none of them.
#[test]
fn half_of_all_grants_lost_costs_time_and_no_window() {
    let mut world = World::new(Setup {
        bytes: 1_000_000_000,
        windows: 30,
        ..setup(7, Mode::Credit)
    });
    let mut grants = 0_u32;
    world.loses = Box::new(move |kind, _| {
        grants += u32::from(kind == Kind::Grant);
        kind == Kind::Grant && grants.is_multiple_of(2)
    });
    world.run(60 * SECOND);
    world.check_streams();
    for host in 0..3 {
        let sender = world.sender(host);
        assert_eq!(sender.phase(), Phase::Over(Over::Complete));
        assert_eq!(sender.sent().windows, 30);
    }
    assert_eq!(world.lost().0, 0);
}

#[test]
fn without_any_reports_the_numbers_of_packets_tell_what_was_sent() {
    for (seed, chance) in [(1, 0.0), (2, 0.05)] {
        let mut world = World::new(Setup {
            forth: vec![Layer::Lose(chance)],
            ..setup(seed, Mode::SlotsPaced)
        });
        world.loses = Box::new(|kind, _| kind == Kind::Report);
        world.run(60 * SECOND);
        world.check_streams();
        for peer in world.receiver().peers() {
            assert!(peer.unreported > 0 && peer.state == PeerState::Ended);
        }
    }
}

#[test]
fn an_end_that_is_never_answered_ends_the_sender_nevertheless() {
    let mut world = World::new(setup(1, Mode::SlotsPaced));
    world.loses = Box::new(|kind, _| kind == Kind::Ended);
    world.run(60 * SECOND);
    for host in 0..3 {
        let unconfirmed = Phase::Over(Over::Unconfirmed(EndReason::Complete));
        assert_eq!(world.sender(host).phase(), unconfirmed);
        let (sender, sessions) = (world.sender(host), world.sender(host).sessions());
        assert_eq!((sessions.all, sessions.unconfirmed), (1, 1));
        assert_eq!(sessions.unconfirmed_packets, sender.sent().packets);
    }
    world.check_streams();
}

#[test]
fn an_end_that_never_comes_leaves_a_dead_sender_and_books_that_close() {
    let mut world = World::new(setup(1, Mode::SlotsPaced));
    world.loses = Box::new(|kind, _| kind == Kind::End);
    world.run(60 * SECOND);
    world.check_books();
    for (host, peer) in world.receiver().peers().enumerate() {
        assert_eq!((peer.state, peer.lost.total()), (PeerState::Dead, 0));
        assert_eq!(peer.sent, world.hosts[host].data_sent);
    }
}

#[test]
fn a_tag_is_no_payload() {
    let world = run(Setup {
        key: Key::new(&[7; 16]),
        ..setup(9, Mode::SlotsPaced)
    });
    let wire = world.receiver().plan().unwrap().packet_bytes as usize;
    let whole = forebay_wire::tdm::DATA_HEAD_BYTES + TAG_BYTES + world.sender(0).payload_bytes();
    assert_eq!((whole, world.lost().0), (wire, 0));
}
