//! Clocks that are off, drift and are set.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may panic, and prints its seed"
)]

mod world;

use forebay_emu::affine_clock::AffineClock;
use forebay_tdm::clock::Base;
use forebay_tdm::sender::{Over, Phase};
use forebay_wire::tdm::Mode;
use world::{Lateness, SECOND, Setup, World};

/// Three senders on a slow port: few packets, many windows.
fn slow(seed: u64, bytes: u64) -> Setup {
    let mut setup = Setup {
        bytes,
        ..Setup::new(seed, 3, Mode::SlotsPaced, 2_500_000)
    };
    setup.port.link_rate_bps = 200_000_000;
    setup
}

#[test]
fn windows_begin_when_they_should_whatever_clocks_show() {
    let day = 86_400 * SECOND as i64;
    for (seed, offset_ns, skew_ppb) in [
        (1, 5_000_000, 100_000),
        (2, -3_600 * SECOND as i64, -100_000),
        (3, 1_000 * day, 99_999),
        (4, 0, 0),
    ] {
        let mut world = World::new(slow(seed, 35_000_000));
        // The sender begins after its clock was set.
        world.hosts[0].clock = AffineClock::new(offset_ns, skew_ppb);
        world.start_sender(0);
        world.run(60 * SECOND);
        world.check_streams();
        assert_eq!(world.lost().0, 0);
        let p99 = world.clock_error_ns_p99();
        println!("seed {seed}: clock error p99 {p99} ns");
        assert!(p99 <= 1_000, "{p99}");
        for host in &world.hosts {
            assert!(host.starts.len() > 100);
            let bounds = host.errors.iter().map(|(_, bound)| *bound);
            let bound = bounds.max().unwrap().cast_signed();
            let late = host.lateness.most_ns.cast_signed();
            for start in &host.starts {
                assert!(
                    -bound <= *start && *start <= late + bound,
                    "{start} of {bound}"
                );
            }
        }
        let steps: u64 = (0..3).map(|host| world.sender(host).clock().steps).sum();
        assert_eq!(steps, 0);
    }
}

#[test]
fn a_clock_that_is_set_costs_some_windows_and_nothing_else() {
    for (seed, by_ns) in [
        (1, 1_000_000),
        (2, -1_000_000),
        (3, 3_600 * SECOND as i64),
        (4, -60 * SECOND as i64),
    ] {
        let mut world = World::new(slow(seed, 35_000_000));
        world.run_until(2 * SECOND);
        world.step_clock(1, by_ns, by_ns.abs() > 1_000_000);
        // A burst sees it, the next one believes it.
        world.run_until(4 * SECOND);
        for host in &mut world.hosts {
            host.errors.clear();
            host.starts.clear();
        }
        world.run(60 * SECOND);
        world.check_streams();
        let (lost, sent) = world.lost();
        let withheld = world.sender(1).sent().withheld;
        println!(
            "seed {seed}, by {by_ns} ns: {lost} of {sent} lost, {withheld} windows withheld, p99 afterwards {} ns",
            world.clock_error_ns_p99()
        );
        assert_eq!(world.sender(1).clock().steps, 1);
        assert!(world.clock_error_ns_p99() <= 1_000);
        assert!(withheld > 0, "nobody knew whose turn it was");
        // Until the step is seen its packets meet the others': what the port's buffer does not hold.
        let dropped: u64 = world.hosts.iter().map(|host| host.data_dropped).sum();
        assert_eq!(lost, dropped);
        assert!(lost * 50 < sent, "{lost} of {sent}");
        for host in [0, 2] {
            assert_eq!(world.sender(host).sent().withheld, 0);
            assert_eq!(world.sender(host).phase(), Phase::Over(Over::Complete));
        }
    }
}

#[test]
fn a_host_that_wakes_up_late_sends_only_what_fits_and_carries_the_rest() {
    for seed in 1..=3 {
        let mut setup = Setup {
            bytes: 20_000_000,
            ..Setup::new(seed, 3, Mode::SlotsPaced, 2_500_000)
        };
        setup.port.lateness_ns = 50_000;
        let mut world = World::new(setup);
        // It measured 20 us, and is late by up to 20 ms, which is more than a cycle.
        world.run_to_start();
        world.hosts[0].lateness = Lateness {
            usual_ns: 1_000,
            one_in: 100,
            most_ns: 20_000_000,
        };
        world.run(60 * SECOND);
        world.check_streams();
        let sent = world.sender(0).sent();
        println!("seed {seed}: {sent:?}");
        assert!(
            sent.late > 0 && sent.preempted > 0 && sent.carried > 0,
            "{sent:?}"
        );
        assert_eq!(world.lost().0, 0, "nobody else's window was touched");
        let peers: Vec<_> = world.receiver().peers().collect();
        let preempted: u64 = world.sender(0).sent().preempted;
        assert!(peers[0].preempted <= preempted && peers[0].preempted > 0);
        assert_eq!(peers[0].carried, sent.carried);
    }
}

#[test]
fn what_is_given_ahead_leaves_at_its_instant_however_late_a_host_wakes_up() {
    for seed in 1..=3 {
        let (lead_ns, late_ns) = (600_000, 500_000);
        let mut setup = slow(seed, 20_000_000);
        setup.lateness = Lateness {
            usual_ns: 200_000,
            one_in: 20,
            most_ns: late_ns,
        };
        let lateness = setup.lateness;
        let mut world = World::new(setup);
        for host in &mut world.hosts {
            let sender = host.sender.as_mut().unwrap();
            // The queue is exact.
            sender.give_ahead(lead_ns, 1_000);
        }
        world.run(60 * SECOND);
        world.check_streams();
        assert_eq!(world.lost().0, 0);
        let guard_ns = world.sender(0).welcome().unwrap().guard_ns;
        assert!(guard_ns < late_ns / 2, "planned for the queue: {guard_ns}");
        for (at, host) in world.hosts.iter().enumerate() {
            let bounds = host.errors.iter().map(|(_, bound)| *bound);
            let bound = bounds.max().unwrap().cast_signed();
            assert!(host.starts.len() > 100);
            for start in &host.starts {
                assert!(start.abs() <= bound + 1, "{start} of {bound}");
            }
            let sent = world.sender(at).sent();
            assert_eq!((sent.late, sent.preempted, sent.cut), (0, 0, 0));
        }
        let overlaps: u64 = world.receiver().peers().map(|peer| peer.overlaps).sum();
        assert_eq!(overlaps, 0);

        // Without it the same hosts begin their windows late.
        let mut setup = slow(seed, 20_000_000);
        setup.lateness = lateness;
        let mut world = World::new(setup);
        world.run(60 * SECOND);
        assert!(world.sender(0).sent().late > 100);
    }
}

#[test]
fn disciplined_wall_clocks_narrow_the_bound_and_are_left_out_where_they_lie() {
    for (off_ns, error_ns, expected) in [
        (700, 1_000, Base::Disciplined),
        (-700, 1_000, Base::Disciplined),
        (5_000_000, 10_000_000, Base::Exchanges),
        (5_000_000, 1_000, Base::Contradicted),
    ] {
        let mut world = World::new(Setup {
            walls: Some((off_ns, error_ns)),
            ..slow(7, 10_000_000)
        });
        // What disciplines a wall clock disciplines the monotonic one with it.
        world.site.as_mut().unwrap().clock = AffineClock::new(77 * SECOND as i64, 0);
        for (at, host) in world.hosts.iter_mut().enumerate() {
            host.clock = AffineClock::new(at as i64 * SECOND as i64, 0);
        }
        for at in 0..3 {
            world.start_sender(at);
        }
        world.run(60 * SECOND);
        world.check_streams();
        assert_eq!(world.lost().0, 0);
        let plan = world.site.as_ref().unwrap().receiver.plan().unwrap();
        let reason = plan
            .reasons
            .iter()
            .find(|reason| reason.what == "clock")
            .unwrap();
        let narrowed = reason
            .why
            .contains("3 of 3 senders the bounds of both hosts' disciplined");
        assert_eq!(narrowed, expected == Base::Disciplined, "{}", reason.why);
        for at in 0..3 {
            assert_eq!(world.sender(at).clock().base(), expected, "{off_ns}");
        }
        for host in &world.hosts {
            for (error, bound) in &host.errors {
                assert!(error <= bound, "{error} of {bound}");
                let both = 2 * error_ns + 1_000;
                assert!(expected != Base::Disciplined || *bound <= both, "{bound}");
            }
        }
    }
}
