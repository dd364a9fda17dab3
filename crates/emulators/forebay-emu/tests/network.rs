//! The world's network: what it does is counted, follows from its seed, and wakes the consumer.
#![allow(clippy::unwrap_used, reason = "a test may stop at what must not be")]

use forebay_emu::world::{Arrival, Consumer, Layer, NetworkTotals, World};
use forebay_emu::{Config, Group, SoftReadouts};

fn world(seed: u64, layers: Vec<Layer>) -> World {
    let mut config = Config::new(4, vec![Group::new(5, 200, 20.0)], 10_000.0);
    config.transport.water_mark_bytes = None;
    config.limit.events = Some(4000);
    World::new(seed, SoftReadouts::new(&config).unwrap(), layers)
}

type Datagram = (u64, usize, Vec<u8>);
type Came = Vec<Datagram>;

fn run(seed: u64, layers: &[Layer]) -> (Came, NetworkTotals) {
    let mut world = world(seed, layers.to_vec());
    let mut came = Vec::new();
    world.run(&mut |a: Arrival<'_>| came.push((a.now_ns, a.source, a.bytes.to_vec())));
    assert_eq!(world.in_flight(), 0);
    let mut all = NetworkTotals::default();
    for source in 0..5 {
        let network = world.network(source);
        assert_eq!(
            network.taken + network.duplicated,
            network.delivered + network.lost
        );
        all.taken += network.taken;
        all.lost += network.lost;
        all.duplicated += network.duplicated;
        all.corrupted += network.corrupted;
        all.reordered += network.reordered;
        all.delivered += network.delivered;
    }
    assert_eq!(all.taken, world.readouts.totals().all.datagrams_sent.items);
    assert_eq!(all.delivered, came.len() as u64);
    (came, all)
}

/// 20,000 datagrams at 5 %: 1000 expected, five standard deviations are 154.
#[test]
fn loss_and_duplication_at_their_rates() {
    let (_, totals) = run(1, &[Layer::Lose(0.05), Layer::Duplicate(0.05)]);
    assert!(totals.lost.abs_diff(1000) < 154, "{totals:?}");
    assert!(totals.duplicated.abs_diff(950) < 154, "{totals:?}");
}

#[test]
fn corruption_flips_one_bit() {
    let (plain, _) = run(1, &[]);
    let (spoiled, totals) = run(1, &[Layer::Corrupt(0.1)]);
    let flipped = |(a, b): (&Datagram, &Datagram)| {
        let bits = a.2.iter().zip(&b.2).map(|(x, y)| (x ^ y).count_ones());
        bits.sum::<u32>()
    };
    let flips: Vec<u32> = plain.iter().zip(&spoiled).map(flipped).collect();
    assert!(flips.iter().all(|&n| n <= 1));
    assert_eq!(
        flips.iter().map(|&n| u64::from(n)).sum::<u64>(),
        totals.corrupted
    );
    assert!(totals.corrupted.abs_diff(2000) < 213);
}

#[test]
fn delay_keeps_the_order_and_reordering_does_not() {
    let (delayed, _) = run(1, &[Layer::Delay { ns: 12_345 }]);
    let (plain, _) = run(1, &[]);
    assert!(
        plain
            .iter()
            .zip(&delayed)
            .all(|(p, d)| d.0 == p.0 + 12_345 && d.2 == p.2)
    );
    let (mixed, totals) = run(
        1,
        &[Layer::Reorder {
            chance: 0.1,
            ns: 1_000_000,
        }],
    );
    assert!(totals.reordered > 1000);
    let bytes = |came: &Came| came.iter().map(|c| c.2.clone()).collect::<Vec<_>>();
    assert!(bytes(&mixed) != bytes(&plain));
    let (mut a, mut b) = (bytes(&mixed), bytes(&plain));
    a.sort();
    b.sort();
    assert!(a == b);
}

#[test]
fn the_same_seed_is_the_same_network() {
    let layers = [
        Layer::Lose(0.1),
        Layer::Reorder {
            chance: 0.3,
            ns: 500_000,
        },
    ];
    assert!(run(7, &layers) == run(7, &layers));
    assert!(run(7, &layers) != run(8, &layers));
}

#[test]
fn a_consumer_is_woken_at_its_time() {
    #[derive(Default)]
    struct Clock {
        next_ns: u64,
        woken: Vec<u64>,
    }
    impl Consumer for Clock {
        fn handle_datagram(&mut self, _: Arrival<'_>) {}
        fn handle_time(&mut self, now_ns: u64) {
            if now_ns >= self.next_ns {
                self.woken.push(now_ns);
                self.next_ns += 70_000;
            }
        }
        fn poll_timeout(&self) -> Option<u64> {
            Some(self.next_ns)
        }
    }
    let mut clock = Clock::default();
    world(1, Vec::new()).run(&mut clock);
    assert!(clock.woken.len() > 5000);
    assert!(
        clock
            .woken
            .iter()
            .enumerate()
            .all(|(i, &t)| t == i as u64 * 70_000)
    );
}
