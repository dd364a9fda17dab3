//! Which senders and receivers take part: deaths, restarts, late joiners, too many, two of one name, two receivers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may panic, and prints its seed"
)]

mod world;

use forebay_ledger::OneOf;
use forebay_tdm::plan::PlanError;
use forebay_tdm::receiver::{Drop, PeerState, Phase as Session, Unwritten};
use forebay_tdm::sender::{Over, Phase};
use forebay_wire::tdm::{EndReason, Kind, Mode, RefuseReason};
use world::{BEGIN_NS, Input, MS, SECOND, Setup, World};

fn setup(seed: u64, mode: Mode) -> Setup {
    Setup {
        bytes: 20_000_000,
        ..Setup::new(seed, 3, mode, 2_500_000)
    }
}

/// On a slow port, so that a session lasts some seconds.
fn slow(seed: u64, mode: Mode) -> Setup {
    let mut setup = Setup {
        bytes: 15_000_000,
        ..Setup::new(seed, 3, mode, 2_500_000)
    };
    setup.port.link_rate_bps = 100_000_000;
    setup
}

fn since_ns(world: &World) -> u64 {
    world.now_ns() - BEGIN_NS
}

/// Runs until a sender that was started in mid-session has windows.
fn run_to_windows(world: &mut World, host: usize) {
    while world.sender(host).phase() != Phase::Running {
        assert!(
            world.step() && since_ns(world) < 20 * SECOND,
            "{}",
            world.shows()
        );
    }
}

fn kill(world: &mut World, host: usize) {
    world.hosts[host].sender = None;
}

#[test]
fn a_sender_is_told_as_lost_what_came_and_is_not_written() {
    let mut world = World::new(setup(11, Mode::SlotsPaced));
    world.confirm_by_hand();
    // The first answers are lost: those that follow say the same.
    let mut answers = [0; 3];
    world.loses = Box::new(move |kind, host| {
        let is_answer = kind == Kind::Ended;
        answers[host] += u32::from(is_answer);
        is_answer && answers[host] < 3
    });
    let unwritten = |sender: u16| Unwritten {
        packets: u64::from(sender) * 7,
        bytes: u64::from(sender) * 900,
    };
    while (0..3).any(|host| !matches!(world.sender(host).phase(), Phase::Over(_))) {
        assert!(
            world.step() && since_ns(&world) < 60 * SECOND,
            "{}",
            world.shows()
        );
        let receiver = &mut world.site.as_mut().unwrap().receiver;
        while let Some(sender) = receiver.poll_ended() {
            receiver.confirm(sender, unwritten(sender));
        }
    }
    let names: Vec<String> = (world.receiver().peers())
        .map(|peer| peer.name.clone())
        .collect();
    for (sender, name) in (0..).zip(&names) {
        let host = world
            .hosts
            .iter()
            .position(|host| host.name == *name)
            .unwrap();
        let (told, sent) = (world.sender(host).sessions(), world.hosts[host].data_sent);
        let away = unwritten(sender).packets;
        assert_eq!((told.received, told.lost), (sent - away, away), "{name}");
        assert_eq!((told.residual_packets, told.unconfirmed), (0, 0));
        let end = world.sender(host).received().unwrap();
        assert_eq!(end.payload_bytes, 20_000_000 - unwritten(sender).bytes);
    }
}

#[test]
fn a_receiver_that_fails_says_so_to_its_senders() {
    for begins in [false, true] {
        let mut world = World::new(slow(12, Mode::SlotsPaced));
        if begins {
            world.run_to_start();
            while world.hosts[1].data_sent < 100 {
                world.step();
            }
        } else {
            while world.receiver().peers().count() < 3 {
                world.step();
            }
        }
        let now_ns = world.now_ns();
        let site = world.site.as_mut().unwrap();
        site.receiver.fail(site.clock.shows(now_ns));
        world.run(30 * SECOND);
        for host in 0..3 {
            let phase = world.sender(host).phase();
            assert_eq!(phase, Phase::Over(Over::Stopped(EndReason::Failed)));
        }
        assert_eq!(*world.receiver().phase(), Session::Over(EndReason::Failed));
    }
}

#[test]
fn a_sender_killed_in_its_window_is_dead_and_others_complete() {
    for (seed, mode) in [
        (1, Mode::SlotsPaced),
        (2, Mode::SlotsPaced),
        (3, Mode::Credit),
    ] {
        let mut world = World::new(setup(seed, mode));
        world.run_to_start();
        while world.hosts[1].data_sent < 1_000 {
            world.step();
        }
        kill(&mut world, 1);
        world.run(30 * SECOND);
        world.check_books();
        assert_eq!(*world.receiver().phase(), Session::Over(EndReason::Failed));
        let peers: Vec<_> = world.receiver().peers().cloned().collect();
        assert_eq!(peers[1].state, PeerState::Dead);
        assert_eq!(
            (peers[1].lost.total(), peers[1].sent),
            (0, world.hosts[1].data_sent)
        );
        // It may have sent more than what came: nobody here can know.
        assert!(!peers[1].sent_is_known() && peers[1].last_window.is_some());
        for host in [0, 2] {
            assert!(peers[host].sent_is_known());
            assert_eq!(world.sender(host).phase(), Phase::Over(Over::Complete));
            assert_eq!(peers[host].payload_bytes, 20_000_000);
        }
    }
}

#[test]
fn a_sender_killed_and_started_again_goes_on_in_its_place() {
    for (seed, mode) in [(1, Mode::SlotsPaced), (2, Mode::Credit)] {
        let mut world = World::new(Setup {
            repeat: true,
            ..setup(seed, mode)
        });
        world.setup.repeat = false;
        world.run_to_start();
        while world.hosts[1].data_sent < 1_000 {
            world.step();
        }
        let before = world.hosts[1].data_sent;
        kill(&mut world, 1);
        // At once, from the same address: nobody else can have that one.
        world.start_sender(1);
        while world.sender(1).phase() != Phase::Ending {
            assert!(world.step());
        }
        let sent = world.sender(1).sent().packets;
        for host in [0, 2] {
            world.stop_sender(host);
        }
        // A sender that was started with repeat says hello for the next session.
        let mut limit = 0;
        while !matches!(world.receiver().phase(), Session::Over(_)) {
            limit += 1;
            assert!(world.step() && limit < 1_000_000, "{}", world.shows());
        }
        world.check_books();
        let peer = world.receiver().peers().nth(1).unwrap().clone();
        assert_eq!((peer.restarts, peer.state), (1, PeerState::Ended));
        assert_eq!((peer.starts_untold, peer.sent_is_known()), (1, false));
        assert_eq!(
            (peer.sent, peer.lost.total()),
            (before + sent, 0),
            "its account goes on"
        );
        let site = world.site.as_ref().unwrap();
        assert_eq!(site.streams[&(1, 1)].list(), [(0, 20_000_000)]);
        assert_eq!(site.lost, []);
    }
}

#[test]
fn who_was_killed_and_is_started_again_at_once_waits_until_it_counts_as_dead() {
    for seed in 1..=2 {
        let mut world = World::new(slow(seed, Mode::SlotsPaced));
        world.run_to_start();
        kill(&mut world, 1);
        world.start_sender(1);
        run_to_windows(&mut world, 1);
        world.run(60 * SECOND);
        assert_eq!(world.sender(1).phase(), Phase::Over(Over::Complete));
    }
}

#[test]
fn a_name_is_taken_as_long_as_its_sender_lives_and_free_when_it_is_silent() {
    for seed in 1..=2 {
        let mut world = World::new(slow(seed, Mode::SlotsPaced));
        world.run_to_start();
        world.setup.sender_wait_ns = 600 * MS;
        let twin = world.add_host();
        world.hosts[twin].name = "s1".to_owned();
        world.start_sender(twin);
        // It may be the last start of the same, that was killed: it asks again.
        world.run_until(since_ns(&world) + 100 * MS);
        assert_eq!(world.sender(twin).phase(), Phase::Hello);
        world.run_until(since_ns(&world) + 600 * MS);
        assert_eq!(
            world.sender(twin).phase(),
            Phase::Over(Over::Refused(RefuseReason::NameTaken))
        );
        world.setup.sender_wait_ns = 0;
        kill(&mut world, 1);
        // It runs on another host now, and is patient.
        world.setup.repeat = true;
        world.start_sender(twin);
        run_to_windows(&mut world, twin);
        world.hosts[twin].input = Input::of(world.sender(twin).offset() + 3_000_000);
        while world.receiver().peers().nth(1).unwrap().state != PeerState::Ended {
            assert!(
                world.step() && since_ns(&world) < 20 * SECOND,
                "{}",
                world.shows()
            );
        }
        let silent = SECOND;
        assert!(since_ns(&world) > silent);
        // With repeat it would take part in the next session, never in this one again.
        world.run_until(since_ns(&world) + 2 * SECOND);
        assert_eq!(world.sender(twin).phase(), Phase::Hello);
        kill(&mut world, twin);
        world.run(30 * SECOND);
        world.check_books();
        assert_eq!(world.receiver().peers().nth(1).unwrap().restarts, 1);
    }
}

#[test]
fn a_late_joiner_finds_its_place_and_has_missed_nothing() {
    for (seed, mode) in [
        (1, Mode::SlotsPaced),
        (2, Mode::SlotsPaced),
        (3, Mode::Credit),
    ] {
        let mut world = World::new(Setup {
            planned: 4,
            wait_ns: 700 * MS,
            ..setup(seed, mode)
        });
        world.run_to_start();
        assert!(since_ns(&world) > 700 * MS);
        let late = world.add_host();
        world.run(30 * SECOND);
        world.check_streams();
        assert_eq!(
            *world.receiver().phase(),
            Session::Over(EndReason::Complete)
        );
        assert_eq!(world.sender(late).phase(), Phase::Over(Over::Complete));
        assert_eq!(world.lost().0, 0);
        let sent = world.sender(late).sent();
        assert_eq!((sent.preempted, sent.withheld), (0, 0), "{sent:?}");
        println!(
            "seed {seed}: clock error p99 {} ns",
            world.clock_error_ns_p99()
        );
    }
}

#[test]
fn who_is_not_planned_is_refused_and_waits_for_the_next_session() {
    for seed in 1..=2 {
        let mut world = World::new(Setup {
            planned: 2,
            ..setup(seed, Mode::SlotsPaced)
        });
        world.run_until(SECOND);
        let full = Phase::Over(Over::Refused(RefuseReason::Full));
        let refused = (0..3).find(|host| world.sender(*host).phase() == full);
        let refused = refused.unwrap();
        let counted = world.receiver().refused().filter(|(_, count)| *count > 0);
        assert_eq!(counted.collect::<Vec<_>>(), [(RefuseReason::Full, 1)]);
        world.setup.repeat = true;
        world.start_sender(refused);
        while !matches!(world.receiver().phase(), Session::Over(_)) {
            assert!(world.step());
        }
        assert_eq!(world.sender(refused).phase(), Phase::Hello);
        world.check_books();
        world.setup.planned = 1;
        let before = world.start_receiver(2);
        assert_eq!(before.unwrap().data_bytes, 40_000_000);
        while !matches!(world.receiver().phase(), Session::Over(_)) {
            assert!(
                world.step() && since_ns(&world) < 30 * SECOND,
                "{}",
                world.shows()
            );
        }
        world.check_books();
        assert_eq!(world.site.as_ref().unwrap().data_bytes, 20_000_000);
        let peer = world.receiver().peers().next().unwrap();
        assert_eq!(
            (peer.name.clone(), peer.state),
            (format!("s{refused}"), PeerState::Ended)
        );
    }
}

#[test]
fn places_of_those_who_leave_before_the_start_are_free_again() {
    for (seed, dies) in [(1, true), (2, false)] {
        let mut world = World::new(Setup {
            planned: 4,
            ..setup(seed, Mode::SlotsPaced)
        });
        world.run_until(600 * MS);
        assert_eq!(*world.receiver().phase(), Session::Waiting);
        if dies {
            kill(&mut world, 1);
            world.run_until(2 * SECOND);
        } else {
            world.stop_sender(1);
            world.run_until(700 * MS);
            assert_eq!(world.sender(1).phase(), Phase::Over(Over::Interrupted));
        }
        // Two others: one for the place that was never taken.
        for _ in 0..2 {
            world.add_host();
        }
        world.run(30 * SECOND);
        world.check_streams();
        assert_eq!(
            *world.receiver().phase(),
            Session::Over(EndReason::Complete)
        );
        let names: Vec<_> = world
            .receiver()
            .peers()
            .map(|peer| peer.name.clone())
            .collect();
        assert_eq!(names.len(), 4);
        assert!(!names.contains(&"s1".to_owned()));
    }
}

#[test]
fn a_receiver_that_is_started_again_takes_the_streams_where_they_stand() {
    for (seed, mode, silent_ns) in [
        (1, Mode::SlotsPaced, 0),
        (2, Mode::SlotsPaced, 3 * SECOND),
        (3, Mode::Credit, 0),
    ] {
        let mut world = World::new(slow(seed, mode));
        world.run_to_start();
        while world.hosts[2].data_sent < 500 {
            world.step();
        }
        // Killed; started again at once, or after everybody has noticed.
        let before = world.site.take().unwrap();
        world.run_until(since_ns(&world) + silent_ns);
        world.start_receiver(2);
        world.run(30 * SECOND);
        world.check_books();
        assert_eq!(
            *world.receiver().phase(),
            Session::Over(EndReason::Complete)
        );
        let site = world.site.as_ref().unwrap();
        assert!(site.receiver.counts().dropped[OneOf::First(Drop::Foreign)] > 0 || silent_ns > 0);
        for host in 0..3 {
            let sender = world.sender(host);
            assert_eq!(sender.phase(), Phase::Over(Over::Complete));
            assert_eq!(
                (sender.sent().receivers_lost, sender.offset()),
                (1, 15_000_000)
            );
            let name = &world.hosts[host].name;
            let of = |site: &world::Site| {
                let at = site.receiver.peers().position(|peer| peer.name == *name);
                site.streams[&(at.unwrap() as u16, 0)].list()
            };
            let (first, second) = (of(&before), of(site));
            assert_eq!(first[0].0, 0);
            assert!(second.len() == 1 && second[0].1 == 15_000_000, "{second:?}");
            assert!(second[0].0 >= first.last().unwrap().1);
            // What the first one took, or lost, is missing in front.
            let at = site.receiver.peers().position(|peer| peer.name == *name);
            let lost = site
                .lost
                .iter()
                .filter(|lost| Some(usize::from(lost.sender)) == at);
            let lost: Vec<_> = lost.map(|lost| (lost.offset, lost.bytes)).collect();
            assert_eq!(lost, [(0, second[0].0)]);
        }
    }
}

#[test]
fn a_sender_that_was_cut_off_comes_back_into_its_session() {
    for seed in 1..=3 {
        let mut world = World::new(slow(seed, Mode::SlotsPaced));
        world.run_to_start();
        world.run_until(since_ns(&world) + 100 * MS);
        // Longer and shorter than the silence that both sides bear, and about as long: nothing goes between sender 0 and the receiver.
        let cut_ns = [1_500 * MS, 600 * MS, 1_010 * MS][seed as usize - 1];
        world.loses = Box::new(|_, host| host == 0);
        world.run_until(since_ns(&world) + cut_ns);
        world.loses = Box::new(|_, _| false);
        world.run(30 * SECOND);
        world.check_books();
        for (at, peer) in world.receiver().peers().enumerate() {
            let host = world
                .hosts
                .iter()
                .position(|host| host.name == peer.name)
                .unwrap();
            assert_eq!(
                world.sender(host).phase(),
                Phase::Over(Over::Complete),
                "{}",
                world.shows()
            );
            assert_eq!(u32::from(host == 0 && cut_ns >= SECOND), peer.restarts);
            let site = world.site.as_ref().unwrap();
            // What came and what is told as lost is the whole stream, for the last start of the sender.
            let key = (at as u16, peer.restarts);
            let mut all = site.streams[&key].clone();
            let of_it =
                |lost: &&forebay_tdm::receiver::LostRange| (lost.sender, lost.restarts) == key;
            for lost in site.lost.iter().filter(of_it) {
                assert!(all.add(lost.offset, lost.offset + lost.bytes), "{lost:?}");
            }
            assert_eq!(all.list(), [(0, 15_000_000)]);
        }
    }
}

#[test]
fn answers_of_a_second_receiver_are_foreign() {
    let mut world = World::new(setup(1, Mode::SlotsPaced));
    world.run_to_start();
    let first = world.site.take().unwrap();
    // Another one at the same address by mistake: it hears some datagrams of the first one's senders.
    world.start_receiver(2);
    let now_ns = since_ns(&world);
    let mut site = world.site.replace(first).unwrap();
    let mut heard = Vec::new();
    world.tape = Some(Vec::new());
    world.run_until(now_ns + 300 * MS);
    for (from, bytes) in world.tape.take().unwrap() {
        site.receiver.handle_datagram(SECOND, from, None, &bytes);
        let mut out = [0; 256];
        while let Some(transmit) = site.receiver.poll_transmit(SECOND, &mut out) {
            heard.push((transmit.to, out[..transmit.bytes].to_vec()));
        }
    }
    assert!(!heard.is_empty());
    let counts = site.receiver.counts();
    assert_eq!(
        (
            counts.dropped[OneOf::First(Drop::Foreign)],
            counts.residual()
        ),
        (counts.came, 0)
    );
    // Told by it that the session is not known, a sender says hello again, and its own receiver takes it back.
    let lost = |world: &World| {
        (0..3)
            .map(|host| world.sender(host).sent().receivers_lost)
            .sum::<u64>()
    };
    assert_eq!(lost(&world), 0);
    for (_, bytes) in &heard {
        assert_eq!(world::kind_of(bytes), Some(Kind::Refuse));
    }
    // A welcome of the other one is nothing to senders that have a receiver.
    let welcome = forebay_wire::tdm::Packet {
        session: 2,
        sender: 0,
        start: 0,
        message: forebay_wire::tdm::Message::Reported(forebay_wire::tdm::Reported::default()),
        tag: None,
    };
    let mut out = [0; 256];
    let bytes = welcome.emit(false, &mut out).unwrap();
    let before = world.sender(0).sent().foreign;
    let sender = world.hosts[0].sender.as_mut().unwrap();
    assert!(sender.handle_datagram(0, None, &out[..bytes]).is_err());
    assert_eq!(world.sender(0).sent().foreign, before + 1);
    world.run(30 * SECOND);
    world.check_streams();
    assert_eq!(world.lost().0, 0);
}

#[test]
fn a_stop_at_any_time_ends_all() {
    for (seed, after_ms) in [(1, 5), (2, 100), (3, 330), (4, 600), (5, 800)] {
        for mode in [Mode::SlotsPaced, Mode::Credit] {
            let mut world = World::new(setup(seed, mode));
            world.run_until(after_ms * MS);
            world.stop_receiver();
            world.run(10 * SECOND);
            world.check_books();
            assert_eq!(
                *world.receiver().phase(),
                Session::Over(EndReason::Interrupted)
            );
            for peer in world.receiver().peers() {
                assert!(!peer.interrupted, "the order was from here");
            }
            for host in 0..3 {
                let phase = world.sender(host).phase();
                let stopped = Phase::Over(Over::Stopped(EndReason::Interrupted));
                let away = Phase::Over(Over::Refused(RefuseReason::NoSession));
                assert!(phase == stopped || phase == away, "{phase:?}");
            }
            if world.receiver().plan().is_some() {
                world.check_streams();
                assert_eq!(world.lost().0, 0);
            }
        }
    }
}

#[test]
fn a_stop_of_one_sender_ends_that_one() {
    for (seed, after_ms) in [(1, 5), (2, 100), (3, 1_300)] {
        for mode in [Mode::SlotsPaced, Mode::Credit] {
            let mut world = World::new(setup(seed, mode));
            world.run_until(after_ms * MS);
            world.stop_sender(1);
            if after_ms < 300 {
                // It has not taken part: the others wait for another one.
                world.run_until(3 * SECOND);
                assert_eq!(*world.receiver().phase(), Session::Waiting);
                world.add_host();
            }
            world.run(30 * SECOND);
            world.check_streams();
            assert_eq!(world.sender(1).phase(), Phase::Over(Over::Interrupted));
            assert_eq!(world.sender(0).phase(), Phase::Over(Over::Complete));
            for peer in world.receiver().peers() {
                assert_eq!(peer.interrupted, peer.name == "s1", "{after_ms} ms");
            }
            assert_eq!(world.lost().0, 0);
        }
    }
}

/// A process that is stopped, or a host that swaps: what came meanwhile is read before anybody is judged.
#[test]
fn a_receiver_that_stands_still_takes_nobody_for_dead() {
    for (seed, ms) in [(1, 900), (2, 2_500), (3, 8_000)] {
        for mode in [Mode::SlotsPaced, Mode::Credit] {
            let mut world = World::new(setup(seed, mode));
            world.run_to_start();
            world.run_until(world.now_ns() - world::BEGIN_NS + 100 * MS);
            world.hold_receiver(ms * MS);
            world.run(120 * SECOND);
            // Senders that have given the receiver up meanwhile have begun anew, each with the rest of its stream.
            if ms < 2_000 {
                world.check_streams();
            } else {
                world.check_books();
            }
            assert_eq!(
                *world.receiver().phase(),
                Session::Over(EndReason::Complete),
                "{mode}, {ms} ms"
            );
            for host in 0..3 {
                // A sender that had sent all it had, and waited for the totals, waits for a time of silence.
                let phase = world.sender(host).phase();
                let unanswered =
                    ms > 2_000 && phase == Phase::Over(Over::Unconfirmed(EndReason::Complete));
                assert!(
                    unanswered || phase == Phase::Over(Over::Complete),
                    "{mode}, {ms} ms: {phase:?}"
                );
            }
        }
    }
}

#[test]
fn a_plan_that_cannot_be_ends_with_its_reason_and_senders_are_told() {
    for lost_stops in [false, true] {
        let mut setup = setup(1, Mode::SlotsPaced);
        setup.port.utilisation = 1.01;
        let mut world = World::new(setup);
        let mut left = 5;
        world.loses = Box::new(move |kind, _| {
            left -= i32::from(lost_stops && kind == Kind::Stop);
            lost_stops && kind == Kind::Stop && left > 0
        });
        world.run(10 * SECOND);
        world.check_books();
        let Session::Failed(PlanError::Overbooked { percent, most }) = world.receiver().phase()
        else {
            panic!("{}", world.shows());
        };
        assert_eq!((*percent, *most), (101.0, 100.0));
        for host in 0..3 {
            let told = Phase::Over(Over::Stopped(EndReason::Failed));
            assert_eq!(world.sender(host).phase(), told);
        }
    }
}

#[test]
fn who_waits_for_no_receiver_gives_up_in_time() {
    let mut world = World::new(Setup {
        sender_wait_ns: 700 * MS,
        ..setup(1, Mode::SlotsPaced)
    });
    world.site = None;
    world.start_sender(0);
    world.run(10 * SECOND);
    assert_eq!(world.sender(0).phase(), Phase::Over(Over::NoReceiver));
    assert!(since_ns(&world) < 701 * MS, "{}", since_ns(&world));
}

#[test]
fn totals_are_waited_for_no_longer_than_a_receiver() {
    for (wait_ns, within_ns) in [(300 * MS, 301 * MS), (0, SECOND + MS)] {
        let mut world = World::new(Setup {
            sender_wait_ns: wait_ns,
            ..setup(1, Mode::SlotsPaced)
        });
        // The receiver that dies here has answered all but the end.
        world.loses = Box::new(|kind, _| kind == Kind::End);
        while world.sender(0).phase() != Phase::Ending {
            assert!(world.step());
        }
        let began_ns = world.now_ns();
        world.site = None;
        while world.sender(0).phase() == Phase::Ending {
            assert!(world.step());
        }
        let unconfirmed = Phase::Over(Over::Unconfirmed(EndReason::Complete));
        assert_eq!(world.sender(0).phase(), unconfirmed);
        assert!(world.now_ns() - began_ns < within_ns, "{wait_ns}");
    }
}

#[test]
fn a_sender_that_repeats_adds_its_sessions_up() {
    let mut world = World::new(Setup {
        repeat: true,
        forth: vec![forebay_emu::world::Layer::Lose(0.01)],
        ..setup(1, Mode::SlotsPaced)
    });
    let (mut received, mut lost) = ([0; 3], [0; 3]);
    for session in 1..=3 {
        if session > 1 {
            world.start_receiver(session);
        }
        // The totals of the second one are lost.
        world.loses = Box::new(move |kind, _| kind == Kind::Ended && session == 2);
        let since = |world: &World| world.now_ns() - BEGIN_NS;
        let limit_ns = since(&world) + 30 * SECOND;
        while (0..3).any(|host| world.sender(host).sessions().all < session)
            || (0..3).any(|host| world.sender(host).phase() != Phase::Hello)
        {
            assert!(
                world.step() && since(&world) < limit_ns,
                "{}",
                world.shows()
            );
        }
        if session != 2 {
            for peer in world.receiver().peers() {
                let host: usize = peer.name[1..].parse().unwrap();
                received[host] += peer.received;
                lost[host] += peer.lost.total();
            }
        }
    }
    for host in 0..3 {
        let (sessions, sent) = (world.sender(host).sessions(), world.sender(host).sent());
        assert_eq!((sessions.all, sessions.unconfirmed), (3, 1));
        assert_eq!(
            (sessions.received, sessions.lost),
            (received[host], lost[host])
        );
        assert_eq!(sessions.residual_packets, 0);
        let told = sessions.received + sessions.lost + sessions.unconfirmed_packets;
        assert!(sessions.lost > 0);
        assert_eq!(told, sent.packets);
        let confirmed = sessions.confirmed_packets + sessions.unconfirmed_packets;
        assert_eq!((confirmed, sent.errors), (sent.packets, 0));
        assert!(sessions.confirmed_bytes < sent.payload_bytes);
    }
}
