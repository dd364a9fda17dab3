//! Named profiles against the aggregates that are published of the real ones: counted in the frames, by a reader of their own.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::HashMap;

use forebay_traffic::{
    Config, NAMED, NamedProfile, PACKETS, Profile, Row, Sizes, Traffic, WINDOW_PACKETS, named,
};

/// Ethernet, IPv6 and the ports behind it.
const CAPTURED_BYTES: usize = 14 + 40 + 4;

/// What is read in a frame, byte by byte.
#[derive(Clone, Copy, Debug)]
struct Seen {
    is_ipv6: bool,
    protocol: u8,
    octets: u64,
    /// Both ends with their ports, the smaller one first; and whether it sent.
    flow: ([u8; 18], [u8; 18]),
    is_from_first: bool,
    ports: (u16, u16),
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from(bytes[at]) << 8 | u16::from(bytes[at + 1])
}

fn see(frame: &[u8]) -> Seen {
    let is_ipv6 = word(frame, 12) == 0x86dd;
    let ip = &frame[14..];
    let (protocol, octets, addresses, size, header) = match is_ipv6 {
        true => (ip[6], 40 + u64::from(word(ip, 4)), 8, 16, 40),
        false => (ip[9], u64::from(word(ip, 2)), 12, 4, 20),
    };
    let ports = match protocol {
        6 | 17 => (word(ip, header), word(ip, header + 2)),
        _ => (0, 0),
    };
    let end = |at: usize, port: u16| {
        let mut end = [0; 18];
        end[..size].copy_from_slice(&ip[at..at + size]);
        end[16..].copy_from_slice(&port.to_be_bytes());
        end
    };
    let (source, destination) = (end(addresses, ports.0), end(addresses + size, ports.1));
    let is_from_first = source < destination;
    let flow = if is_from_first {
        (source, destination)
    } else {
        (destination, source)
    };
    Seen {
        is_ipv6,
        protocol,
        octets,
        flow,
        is_from_first,
        ports,
    }
}

#[derive(Default)]
struct Flow {
    packets: u64,
    /// Of this window.
    recent: u64,
    directions: [bool; 2],
    of: Option<(bool, u8, u16)>,
    octets: u64,
}

/// What was counted in all frames.
#[derive(Default)]
struct Count {
    packets: u64,
    octets: u64,
    jumbo: u64,
    small: u64,
    from_ns: u64,
    to_ns: u64,
    flows: Vec<Flow>,
    /// Packets of each window that are of flows with 1,000 packets and more in it.
    heavy: Vec<u64>,
}

impl Count {
    fn share(&self, is: impl Fn(&Flow) -> bool) -> f64 {
        self.flows.iter().filter(|flow| is(flow)).count() as f64 / self.flows.len() as f64
    }

    fn mean(&self) -> f64 {
        self.octets as f64 / self.packets as f64
    }

    fn rate_hz(&self) -> f64 {
        self.packets as f64 * 1e9 / (self.to_ns - self.from_ns) as f64
    }
}

fn count(profile: &NamedProfile, packets: u64, config: &Config) -> Count {
    let mut traffic = Traffic::new(profile.rows(packets, config.seed).map(Ok), config);
    let mut frame = [0; CAPTURED_BYTES];
    let (mut count, mut flows) = (Count::default(), HashMap::<_, Flow>::new());
    while let Some(packet) = traffic.poll_packet(&mut frame).unwrap() {
        let seen = see(&frame[..packet.captured_bytes]);
        if count.packets == 0 {
            count.from_ns = packet.at_ns;
        }
        count.to_ns = packet.at_ns;
        count.packets += 1;
        count.octets += seen.octets;
        count.jumbo += u64::from(seen.octets > 1_500);
        count.small += u64::from(seen.octets <= 512);
        let flow = flows.entry(seen.flow).or_default();
        flow.packets += 1;
        flow.recent += 1;
        flow.octets += seen.octets;
        flow.directions[usize::from(seen.is_from_first)] = true;
        let server = seen.ports.0.min(seen.ports.1);
        flow.of = Some((seen.is_ipv6, seen.protocol, server));
        if count.packets.is_multiple_of(WINDOW_PACKETS) {
            let heavy = flows
                .values_mut()
                .map(|flow| std::mem::take(&mut flow.recent));
            count
                .heavy
                .push(heavy.filter(|packets| *packets >= 1_000).sum());
        }
    }
    count.flows = flows.into_values().collect();
    count.flows.sort_by_key(|flow| flow.packets);
    count
}

/// Whether it is there, give or take a share of it.
fn near(found: f64, published: f64, share: f64) -> bool {
    (found / published - 1.0).abs() <= share
}

/// Rates and sizes within 2 %; jumbo packets within 3 percentage points; shares of protocols, ports and directions within 3 points; packets of a flow within a tenth at the median,
/// a fifth above.
fn holds(profile: &NamedProfile, seed: u64) {
    let config = Config {
        seed,
        timing: profile.timing,
        ..Config::default()
    };
    let count = count(profile, PACKETS, &config);
    let name = format!("{} with seed {seed}", profile.name);
    assert_eq!(count.packets, PACKETS, "{name}");
    let rate_hz = count.rate_hz();
    assert!(
        near(rate_hz, f64::from(profile.packet_rate_hz), 0.02),
        "{name}: {rate_hz} packets/s"
    );
    let mean = count.mean();
    assert!(
        near(mean, f64::from(profile.packet_bytes), 0.02),
        "{name}: {mean} octets"
    );
    let jumbo = count.jumbo as f64 / count.packets as f64;
    let jumbo_published = if profile.stands_for.starts_with('G') {
        0.52
    } else {
        0.0
    };
    assert!(
        (jumbo - jumbo_published).abs() < 0.03,
        "{name}: {jumbo} of packets are jumbo"
    );
    let of = |is_ipv6, protocol| {
        count.share(|flow| {
            flow.of
                .is_some_and(|of| (of.0, of.1) == (is_ipv6, protocol))
        })
    };
    let port = |port| count.share(|flow| flow.of.is_some_and(|of| of.2 == port));
    for (what, found, published) in [
        ("TCP on IPv4", of(false, 6), 0.756),
        ("TCP on IPv6", of(true, 6), 0.145),
        ("UDP on IPv4", of(false, 17), 0.078),
        ("UDP on IPv6", of(true, 17), 0.007),
        ("ICMP", of(false, 1) + of(true, 58), 0.014),
        ("port 443", port(443), 0.63),
        ("port 53", port(53), 0.18),
        (
            "one direction",
            count.share(|flow| flow.directions != [true; 2]),
            0.617,
        ),
    ] {
        assert!(
            (found - published).abs() < 0.03,
            "{name}: {what} {found}, published {published}"
        );
    }
    let at = |share: f64| count.flows[(count.flows.len() as f64 * share) as usize].packets as f64;
    for (share, published, tolerance) in [(0.5, 9.0, 0.12), (0.9, 30.0, 0.2), (0.99, 488.0, 0.2)] {
        let found = at(share);
        assert!(
            near(found, published, tolerance),
            "{name}: {found} packets at {share}, published {published}"
        );
    }
    // The heaviest flows have the share that was set for them; and it is no constant, which is what makes a table drop.
    let shares: Vec<f64> = count
        .heavy
        .iter()
        .map(|heavy| *heavy as f64 / WINDOW_PACKETS as f64)
        .collect();
    let share = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!(
        (share - f64::from(profile.elephant_permille) / 1_000.0).abs() < 0.03,
        "{name}: {shares:?}"
    );
    let least = shares.iter().copied().fold(1.0, f64::min);
    let most = shares.iter().copied().fold(0.0, f64::max);
    assert!(most - least > 0.2, "{name}: {shares:?}");
}

#[test]
fn profiles_like_geant_have_the_published_aggregates() {
    let geant = NAMED
        .iter()
        .filter(|profile| profile.stands_for.starts_with('G'));
    geant
        .zip(1..)
        .for_each(|(profile, seed)| holds(profile, seed));
}

#[test]
fn profiles_like_an_exchange_have_the_published_aggregates() {
    let nix = NAMED
        .iter()
        .filter(|profile| profile.stands_for.starts_with('N'));
    nix.zip(1..)
        .for_each(|(profile, seed)| holds(profile, seed));
}

#[test]
fn small_packets_are_as_many_and_small() {
    let profile = named("geant-like-morning").unwrap();
    let config = Config {
        sizes: Sizes::Small,
        timing: profile.timing,
        ..Config::default()
    };
    let count = count(profile, PACKETS, &config);
    assert_eq!((count.packets, count.small), (PACKETS, PACKETS));
    assert!((130.0..155.0).contains(&count.mean()), "{}", count.mean());
}

#[test]
fn packets_of_a_flow_come_in_trains() {
    let profile = named("nix-like-morning").unwrap();
    // How many packets have one of their flow within the 400 packets before them.
    let close = |timing| {
        let config = Config {
            timing,
            ..Config::default()
        };
        let mut traffic = Traffic::new(profile.rows(300_000, 1).map(Ok), &config);
        let (mut last, mut close) = (HashMap::new(), 0);
        for at in 0_u64.. {
            let Some(packet) = traffic.poll_packet(&mut []).unwrap() else {
                break;
            };
            let before = last.insert(packet.row, at);
            close += u64::from(before.is_some_and(|before| at - before <= 400));
        }
        close
    };
    let (trains, uniform) = (
        close(profile.timing),
        close(forebay_traffic::Timing::Uniform),
    );
    assert!(
        trains > uniform + 30_000,
        "{trains} with trains, {uniform} without"
    );
}

#[test]
fn rows_that_are_written_are_read_again() {
    for profile in &NAMED {
        let rows: Vec<Row> = profile.rows(30_000, 3).collect();
        let lines: Vec<String> = rows.iter().map(ToString::to_string).collect();
        let text = [&[Row::HEADER.to_owned()], &lines[..]].concat().join("\n");
        let read: Result<Vec<Row>, _> = Profile::new(text.as_bytes()).unwrap().collect();
        assert_eq!(read.unwrap(), rows);
    }
}

#[test]
fn names_are_different_and_say_that_they_are_like_something() {
    let names: std::collections::BTreeSet<_> = NAMED.iter().map(|profile| profile.name).collect();
    assert_eq!(names.len(), NAMED.len());
    assert!(
        NAMED
            .iter()
            .all(|profile| profile.name.contains("-like-") && profile.says.contains("like"))
    );
    assert!(named("geant").is_none());
}

#[test]
fn any_number_of_packets_is_met() {
    for packets in [1_000, 1_001, 124_999, 125_000, 125_001, 700_003] {
        for profile in &NAMED {
            let rows: Vec<Row> = profile.rows(packets, packets).collect();
            let sum: u64 = rows
                .iter()
                .map(|row| row.packets + row.packets_reverse)
                .sum();
            assert_eq!(sum, packets, "{}", profile.name);
            assert!(
                rows.windows(2)
                    .all(|pair| pair[0].start_ms <= pair[1].start_ms)
            );
            assert!(
                rows.iter()
                    .all(|row| row.start_ms <= row.end_ms && row.packets > 0)
            );
        }
    }
}
