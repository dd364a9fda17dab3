//! A long run of short windows: nothing of the engine grows with it.

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
use forebay_tdm::receiver::Waiting;
use forebay_tdm::sender::Over;
use forebay_tdm::sender::Phase;
use forebay_wire::tdm::Mode;
use world::{BEGIN_NS, MS, SECOND, Setup, World};

#[test]
fn a_hundred_thousand_windows_leave_nothing_behind() {
    let mut setup = Setup {
        windows: 33_400,
        bytes: u64::MAX / 8,
        // Some are lost and some overtaken, so that there are holes.
        forth: vec![
            Layer::Lose(0.01),
            Layer::Reorder {
                chance: 0.01,
                ns: 300_000,
            },
        ],
        ..Setup::new(1, 3, Mode::SlotsPaced, 100_000)
    };
    setup.port.link_rate_bps = 100_000_000;
    setup.port.packet_bytes = 200;
    let mut world = World::new(setup);
    world.site.as_mut().unwrap().keeps_rows = false;
    let mut most = Vec::new();
    while !world.is_over() {
        let until_ns = world.now_ns() - BEGIN_NS + 10 * MS;
        assert!(until_ns < 60 * SECOND, "{}", world.shows());
        world.run_until(until_ns);
        let waiting = world.receiver().waiting();
        let reports: usize = (0..3)
            .map(|host| world.sender(host).reports_waiting())
            .sum();
        most.push((waiting, reports));
        let site = world.site.as_mut().unwrap();
        site.lost.clear();
        for stream in site.streams.values_mut() {
            *stream = world::Ranges::default();
        }
    }
    let windows: u64 = world.receiver().peers().map(|peer| peer.windows).sum();
    assert!(windows > 100_000 - 1_000, "{windows}");
    for host in 0..3 {
        assert_eq!(world.sender(host).phase(), Phase::Over(Over::Complete));
    }
    // No more in the last tenth of the run than in the first one with windows.
    let highest = |part: &[(Waiting, usize)]| {
        let of = |value: fn(&(Waiting, usize)) -> usize| part.iter().map(value).max().unwrap();
        [
            of(|it| it.0.rows),
            of(|it| it.0.datagrams),
            of(|it| it.0.windows),
            of(|it| it.0.ranges),
            of(|it| it.1),
        ]
    };
    let tenth = most.len() / 10;
    let (first, last) = (
        highest(&most[tenth..2 * tenth]),
        highest(&most[9 * tenth - 20..]),
    );
    println!(
        "{windows} windows, {} packets: at most {first:?} at first, {last:?} at last",
        world.lost().1
    );
    for (first, last) in first.into_iter().zip(last) {
        assert!(last <= 2 * first + 64, "{first} at first, {last} at last");
    }
    assert!(last[2] <= 3 * 256 && last[4] <= 3 * 256, "{last:?}");
    assert_eq!(world.receiver().unsent(), 0);
    assert_eq!(world.receiver().waiting().windows, 0);
    for peer in world.receiver().peers() {
        assert_eq!((peer.residual(), peer.unreported), (0, 0), "{peer:?}");
    }
}
