//! Senders that share a port, in each mode: what is lost, and how much of the port is used.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may panic, and prints its seed"
)]

mod world;

use std::collections::HashMap;

use forebay_tdm::sender::{Over, Phase};
use forebay_wire::tdm::Mode;
use world::{Input, MS, SECOND, Setup, World};

/// Runs a session in which nobody dies, to its end.
fn finished(setup: Setup) -> World {
    let mut world = World::new(setup);
    world.run(60 * SECOND);
    for host in 0..world.hosts.len() {
        assert_eq!(world.sender(host).phase(), Phase::Over(Over::Complete));
    }
    world.check_streams();
    world
}

fn tell(world: &World, what: &str) {
    let (lost, sent) = world.lost();
    let plan = world.receiver().plan().unwrap();
    println!(
        "{what}: seed {}, {lost} of {sent} packets lost, port {:.4} used (planned {:.4}), guard {} ns, clock error p99 {} ns, buffer {} B",
        world.setup.seed,
        world.utilisation(),
        plan.utilisation,
        plan.guard_ns,
        world.clock_error_ns_p99(),
        world.port.highest_bytes(),
    );
}

fn slots_paced(senders: usize, window_ns: u64) {
    for seed in 1..=3 {
        let setup = Setup {
            // A second.
            windows: (SECOND / window_ns / senders as u64 + 1) as u32,
            bytes: 1_000_000_000,
            ..Setup::new(seed, senders, Mode::SlotsPaced, window_ns)
        };
        let world = finished(setup);
        tell(
            &world,
            &format!("{senders} senders, slots-paced, {window_ns} ns"),
        );
        assert_eq!(world.lost().0, 0);
        assert!(world.utilisation() >= 0.97, "{}", world.utilisation());
        assert!(world.clock_error_ns_p99() <= 1_000);
        assert!(world.receiver().peers().all(|peer| peer.overlaps == 0));
        let plan = world.receiver().plan().unwrap();
        assert!(world.utilisation() <= plan.utilisation + 0.001);
    }
}

#[test]
fn three_senders_in_paced_slots_lose_nothing_at_97_per_cent() {
    slots_paced(3, 2_500_000);
    slots_paced(3, 10 * MS);
}

#[test]
fn eight_senders_in_paced_slots_lose_nothing_at_97_per_cent() {
    slots_paced(8, 2_500_000);
    slots_paced(8, 10 * MS);
}

#[test]
fn thirty_two_senders_in_paced_slots_lose_nothing_at_97_per_cent() {
    slots_paced(32, 2_500_000);
    slots_paced(32, 10 * MS);
}

#[test]
fn without_a_schedule_or_without_a_pace_tens_of_per_cent_are_lost_by_name() {
    for (mode, least) in [(Mode::Slots, 0.2), (Mode::Incast, 0.3)] {
        for seed in 1..=2 {
            let setup = Setup {
                bytes: 10_000_000,
                ..Setup::new(seed, 3, mode, 2_500_000)
            };
            let world = finished(setup);
            tell(&world, mode.name());
            let (lost, sent) = world.lost();
            assert!(lost as f64 >= least * sent as f64, "{lost} of {sent}");
            let dropped: u64 = world.hosts.iter().map(|host| host.data_dropped).sum();
            assert_eq!(lost, dropped, "each is one that the port dropped");
            assert!(dropped <= world.port.counts().dropped.packets);
        }
    }
}

#[test]
fn credit_loses_nothing() {
    for seed in 1..=3 {
        let world = finished(Setup::new(seed, 3, Mode::Credit, 2_500_000));
        tell(&world, "credit");
        assert_eq!(world.lost().0, 0);
        assert!(world.utilisation() > 0.9, "{}", world.utilisation());
    }
}

#[test]
fn who_has_no_input_gives_its_turn_back_at_once() {
    for seed in 1..=3 {
        let setup = Setup {
            bytes: 2_000_000,
            windows: 40,
            ..Setup::new(seed, 3, Mode::Credit, 2_500_000)
        };
        let mut world = World::new(setup);
        // Nothing comes of 1 for the first 600 ms; 2 has all of it.
        world.hosts[1].input = Input {
            bytes_per_s: 10_000_000,
            pause_ns: (0, 600 * MS),
            ..Input::of(2_000_000)
        };
        world.run(20 * SECOND);
        world.check_streams();
        assert_eq!(world.lost().0, 0);
        let site = world.site.as_ref().unwrap();
        let last_of = |sender: u16| {
            let rows = site.rows.iter().filter(move |row| row.sender == sender);
            rows.map(|row| row.last_came_ns).max().unwrap() - site.receiver.start_ns()
        };
        // Two windows of 2.5 ms take no longer than their turns: the third's cost nothing.
        assert!(
            last_of(0) < 60 * MS && last_of(2) < 60 * MS,
            "{} {}",
            last_of(0),
            last_of(2)
        );
        assert_eq!(world.sender(1).sent().late, 0);
    }
}

#[test]
fn streams_of_different_lengths_end_and_both_sides_agree() {
    for (seed, mode) in [(1, Mode::SlotsPaced), (2, Mode::Credit), (3, Mode::Slots)] {
        let mut world = World::new(Setup::new(seed, 4, mode, 2_500_000));
        for (host, bytes) in [0, 1, 123_457, 9_000_000].into_iter().enumerate() {
            world.hosts[host].input = Input::of(bytes);
        }
        world.run(20 * SECOND);
        world.check_streams();
        for (host, bytes) in [0, 1, 123_457, 9_000_000].into_iter().enumerate() {
            assert_eq!(world.sender(host).offset(), bytes);
            let ended = world.sender(host).received().unwrap();
            if mode != Mode::Slots {
                assert_eq!((ended.payload_bytes, ended.errors), (bytes, 0));
            }
        }
    }
}

#[test]
fn a_number_of_windows_ends_the_session() {
    for (seed, mode) in [(1, Mode::SlotsPaced), (2, Mode::Credit)] {
        let setup = Setup {
            bytes: 1_000_000_000,
            windows: 25,
            ..Setup::new(seed, 3, mode, 2_500_000)
        };
        let world = finished(setup);
        for peer in world.receiver().peers() {
            assert_eq!((peer.windows, peer.unreported), (25, 0), "{peer:?}");
        }
        assert_eq!(world.lost().0, 0);
    }
}

#[test]
fn who_waits_for_input_loses_nothing_and_is_not_late() {
    for seed in 1..=3 {
        let mut world = World::new(Setup::new(seed, 3, Mode::SlotsPaced, 2_500_000));
        // Less than its part of the port, and nothing at all for a while.
        world.hosts[0].input = Input {
            bytes_per_s: 15_000_000,
            pause_ns: (2_500 * MS, 2_900 * MS),
            ..Input::of(45_000_000)
        };
        world.run(30 * SECOND);
        world.check_streams();
        assert_eq!(world.lost().0, 0);
        let sent = world.sender(0).sent();
        assert_eq!((sent.late, sent.preempted), (0, 0), "{sent:?}");
        let site = world.site.as_ref().unwrap();
        let rows = || site.rows.iter().filter(|row| row.sender == 0);
        assert!(rows().all(|row| row.lateness_ns <= 20_000));
        let gap = rows().zip(rows().skip(1)).map(|(a, b)| b.window - a.window);
        assert!(gap.max().unwrap() >= 40, "windows without input are none");
    }
}

/// As the formats' table defines it: a packet whose predecessor belonged to an earlier window, and that is not the first of its own, counts one overlap
/// at the front here and one at the back there.
#[test]
fn overlaps_are_counted_as_they_are_defined() {
    let mut all = 0;
    for (seed, mode, guard_ns) in [
        (1, Mode::SlotsPaced, None),
        (2, Mode::SlotsPaced, Some(0)),
        (3, Mode::Incast, None),
        (4, Mode::Slots, Some(0)),
    ] {
        let mut setup = Setup {
            bytes: 3_000_000,
            ..Setup::new(seed, 3, mode, 2_500_000)
        };
        setup.port.guard_ns = guard_ns;
        // Windows begin up to 300 us late, which no guard of this plan covers.
        setup.lateness.one_in = 30;
        setup.lateness.most_ns = 300_000;
        let world = finished(setup);
        let site = world.site.as_ref().unwrap();
        let senders = world.hosts.len() as u64;
        let place = |(sender, window): (u16, u32)| u64::from(window) * senders + u64::from(sender);
        let mut came: HashMap<(u16, u32), u64> = HashMap::new();
        let mut fronts: HashMap<(u16, u32), u64> = HashMap::new();
        let mut backs: HashMap<(u16, u32), u64> = HashMap::new();
        for (at, this) in site.order.iter().enumerate() {
            let nth = came.entry(*this).or_default();
            *nth += 1;
            let before = at.checked_sub(1).map(|at| site.order[at]);
            if let Some(before) = before
                && place(before) < place(*this)
                && *nth > 1
            {
                *fronts.entry(*this).or_default() += 1;
                *backs.entry(before).or_default() += 1;
            }
        }
        for row in &site.rows {
            let key = (row.sender, row.window);
            let expected = (
                fronts.get(&key).copied().unwrap_or(0),
                backs.get(&key).copied().unwrap_or(0),
            );
            assert_eq!((row.overlap_front, row.overlap_back), expected, "{row:?}");
        }
        let overlaps: u64 = fronts.values().sum();
        println!("{mode}, guard {guard_ns:?}: {overlaps} overlaps");
        all += overlaps;
    }
    assert!(all > 100, "there is something to count: {all}");
}
