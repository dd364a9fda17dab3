//! What is drawn for a row: packets, protocol, ports, and the share of the heaviest flows. Additions, multiplications and divisions alone, which are the same on every machine.

use forebay_emu::rng::Xoshiro256;
use forebay_wire::packet::{ICMP, ICMPV6, TCP, UDP};

/// Packets of a flow at some of its quantiles, in thousandths, and linear between them: the published 9 (median), 30 (90 %), 488 (99 %); others are assumed.
const PACKETS_AT: [(u32, u32); 9] = [
    (0, 1),
    (250, 4),
    (500, 9),
    (750, 16),
    (900, 30),
    (950, 70),
    (970, 130),
    (990, 488),
    (1_000, 1_000),
];

/// Flows of 999 published ones: version is 6, protocol, how many.
const PROTOCOLS: [(bool, u8, u64); 6] = [
    (false, TCP, 755),
    (true, TCP, 145),
    (false, UDP, 78),
    (true, UDP, 7),
    (false, ICMP, 12),
    (true, ICMPV6, 2),
];

/// Ports of servers, of a thousand flows of TCP: with those of UDP 63 % of all are 443, and 18 % 53, as published; others are assumed.
const TCP_PORTS: [(u16, u64); 8] = [
    (443, 667),
    (53, 143),
    (80, 60),
    (22, 30),
    (25, 30),
    (853, 30),
    (3_389, 20),
    (5_938, 20),
];
const UDP_PORTS: [(u16, u64); 4] = [(53, 600), (443, 350), (123, 30), (5_353, 20)];
/// First port of those that clients have.
const CLIENT_PORT: u16 = 32_768;

/// Of 1,000 flows so many have one direction alone, as published.
const ONE_DIRECTION_PERMILLE: u64 = 617;
/// Of 1,000 flows so many have one packet alone, by [`PACKETS_AT`].
const ONE_PACKET_PERMILLE: u64 = 83;

/// By how much the odds of a packet to be of the heaviest flows change from window to window: exp(0.7 z), z being the middles of sixteen equal parts of the normal distribution. The
/// width is assumed, the same for all profiles.
const ODDS: [f64; 16] = [
    0.2715, 0.3975, 0.4931, 0.5807, 0.6667, 0.7546, 0.8470, 0.9466, 1.0564, 1.1806, 1.3252, 1.4999,
    1.7220, 2.0279, 2.5158, 3.6837,
];

/// A draw of 0 to 999.
fn permille(random: &mut Xoshiro256) -> u64 {
    random.below(1_000)
}

/// One of several, by their weights.
fn weighted<T: Copy>(random: &mut Xoshiro256, all: &[T], weight: impl Fn(&T) -> u64) -> T {
    let mut draw = random.below(all.iter().map(&weight).sum());
    for one in all {
        if draw < weight(one) {
            return *one;
        }
        draw -= weight(one);
    }
    all[all.len() - 1]
}

/// Packets of a flow; `top` of 1, which are heavier than all these, are left out.
pub(super) fn packets(random: &mut Xoshiro256, top: f64) -> u64 {
    let at = (1.0 - random.unit()) * (1.0 - top) * 1_000.0;
    for pair in PACKETS_AT.windows(2) {
        let ((from, low), (to, high)) = (pair[0], pair[1]);
        if at < f64::from(to) {
            let within = (at - f64::from(from)) / f64::from(to - from);
            return (f64::from(low) + within * f64::from(high - low)) as u64;
        }
    }
    1_000
}

/// Packets of a flow, in the mean.
pub(super) fn packets_mean() -> f64 {
    let part = |pair: &[(u32, u32)]| {
        let share = f64::from(pair[1].0 - pair[0].0) / 1_000.0;
        // Half a packet less, as they are rounded down.
        share * (f64::from(pair[0].1 + pair[1].1) / 2.0 - 0.5)
    };
    PACKETS_AT.windows(2).map(part).sum()
}

/// Whether it is of IPv6, its protocol, and the ports of client and server.
pub(super) fn protocol(random: &mut Xoshiro256) -> (bool, u8, (u16, u16)) {
    let (is_ipv6, protocol, _) = weighted(random, &PROTOCOLS, |one| one.2);
    let server = match protocol {
        TCP => weighted(random, &TCP_PORTS, |one| one.1).0,
        UDP => weighted(random, &UDP_PORTS, |one| one.1).0,
        _ => return (is_ipv6, protocol, (0, 0)),
    };
    let client = CLIENT_PORT + random.below(u64::from(u16::MAX - CLIENT_PORT)) as u16;
    (is_ipv6, protocol, (client, server))
}

/// Whether a flow of so many packets has one direction alone.
pub(super) fn is_one_direction(random: &mut Xoshiro256, packets: u64) -> bool {
    let others =
        (ONE_DIRECTION_PERMILLE - ONE_PACKET_PERMILLE) * 1_000 / (1_000 - ONE_PACKET_PERMILLE);
    packets == 1 || permille(random) < others
}

/// The shares of the heaviest flows in sixteen windows, which are `mean` in the mean, in (0, 1).
pub(super) fn shares(mean: f64) -> [f64; 16] {
    let with = |odds: f64| ODDS.map(|change| odds * change / (1.0 + odds * change));
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        match with(middle).iter().sum::<f64>() < mean * 16.0 {
            true => low = middle,
            false => high = middle,
        }
    }
    with(low)
}

/// Changes their order.
pub(super) fn shuffle<T>(random: &mut Xoshiro256, all: &mut [T]) {
    for at in (1..all.len()).rev() {
        all.swap(at, random.below(at as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_their_mean_and_are_each_another() {
        for mean in [0.05, 0.18, 0.5, 0.86, 0.95] {
            let all = shares(mean);
            let found = all.iter().sum::<f64>() / 16.0;
            assert!((found - mean).abs() < 1e-9, "{found}");
            assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(all[0] > 0.0 && all[15] < 1.0);
        }
    }

    #[test]
    fn means_are_those_of_the_draws() {
        let mut random = Xoshiro256::new(3);
        let draws: Vec<u64> = (0..200_000).map(|_| packets(&mut random, 0.0)).collect();
        let mean = draws.iter().sum::<u64>() as f64 / draws.len() as f64;
        assert!(
            (mean / packets_mean() - 1.0).abs() < 0.02,
            "{mean} {}",
            packets_mean()
        );
        let ones = draws.iter().filter(|packets| **packets == 1).count() * 1_000 / draws.len();
        assert!((80..87).contains(&ones), "{ones}");
        assert!(draws.iter().all(|packets| (1..1_000).contains(packets)));
    }
}
