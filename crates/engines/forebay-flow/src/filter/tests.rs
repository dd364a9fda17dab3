use core::net::IpAddr;

use forebay_wire::packet::link::LinkType;
use proptest::prelude::*;

use super::*;
use crate::config::DecodeConfig;
use crate::decode::Decoder;
use crate::key::FlowKey;

fn rule(text: &str) -> Rule {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn filter(rules: &[&str]) -> Filter {
    let rules: Vec<Rule> = rules.iter().map(|text| rule(text)).collect();
    Filter::new(&rules).unwrap()
}

fn packet(key: FlowKey, octets: u32) -> Packet<'static> {
    Packet {
        time_ns: 1,
        key,
        octets,
        tcp_flags: 0,
        header: &[],
        payload: &[],
        payload_bytes: 0,
        hop_limit: 64,
        fragment: None,
        tunnel: None,
    }
}

const NO_FRAME: Frame<'static> = Frame {
    time_ns: 1,
    link: None,
    bytes: &[],
    wire_bytes: 0,
};

/// Passes, by the rule that matched.
fn judged(filter: &mut Filter, key: FlowKey) -> (bool, Option<u16>) {
    let verdict = filter.judge(&NO_FRAME, &mut packet(key, 100));
    (verdict.passes, verdict.rule)
}

fn key(source: &str, destination: &str, ports: (u16, u16), protocol: u8) -> FlowKey {
    let address = |text: &str| text.parse().unwrap();
    FlowKey::new(address(source), address(destination), protocol).with_ports(ports.0, ports.1)
}

#[test]
fn a_filter_is_empty_without_rules_alone() {
    assert!(filter(&[]).is_empty());
    assert!(!filter(&["pass udp"]).is_empty());
}

#[test]
fn the_first_rule_that_matches_wins_and_counts() {
    let mut filter = filter(&[
        "pass src 10.1.0.0/16 udp",
        "drop src 10.0.0.0/8 port 53 udp",
        "drop net 2001:db8::/32",
        "sample 1/3 tcp",
    ]);
    let four = |source, ports, protocol| key(source, "192.0.2.1", ports, protocol);
    for (key, right) in [
        (four("10.1.2.3", (9, 53), 17), (true, Some(0))),
        (four("10.2.2.3", (9, 53), 17), (false, Some(1))),
        (four("10.2.2.3", (53, 9), 17), (false, Some(1))),
        (four("10.2.2.3", (54, 9), 17), (true, None)),
        (four("11.0.0.1", (9, 53), 17), (true, None)),
        (key("2001:db8::1", "::1", (0, 0), 58), (false, Some(2))),
        (key("::1", "2001:db8:ff::", (1, 1), 6), (false, Some(2))),
        (key("::1", "2001:db9::", (1, 1), 6), (true, Some(3))),
        (four("1.1.1.1", (1, 1), 6), (false, Some(3))),
        (four("1.1.1.1", (1, 1), 6), (false, Some(3))),
        (four("1.1.1.1", (1, 1), 6), (true, Some(3))),
    ] {
        assert_eq!(judged(&mut filter, key), right, "{key:?}");
    }
    let volume = |packets| Volume {
        packets,
        octets: 100 * packets,
    };
    let counts: Vec<_> = filter
        .rules()
        .map(|(_, counts)| (counts.matched, counts.discarded))
        .collect();
    let right = [(1, 0), (2, 2), (2, 2), (4, 2)].map(|(a, b)| (volume(a), volume(b)));
    assert_eq!(counts, right);
    assert_eq!(filter.discarded(), volume(6));
}

#[test]
fn versions_and_protocols_without_ports_are_not_taken_for_others() {
    let mapped = key("::ffff:10.0.0.1", "::1", (1, 2), 6);
    let icmp = key("10.0.0.1", "10.0.0.2", (0, 0), 1);
    assert!(!rule("drop net 10.0.0.0/8").matches(&mapped));
    assert!(!rule("drop net 0.0.0.0/0").matches(&mapped));
    assert!(rule("drop net ::ffff:0:0/96").matches(&mapped));
    assert!(rule("drop net ::/0").matches(&mapped));
    assert!(!rule("drop net ::/0").matches(&icmp));
    assert!(!rule("drop port 0-65535").matches(&icmp));
    assert!(rule("drop net 0.0.0.0/0 icmp").matches(&icmp));
    assert!(rule("drop").matches(&icmp));
}

#[test]
fn a_trimmed_packet_keeps_flow_and_octets_and_loses_bytes() {
    // 10.0.0.1:50000 → 10.0.0.2:50001, "hi", in an Ethernet frame with padding.
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0, 0, 30, 0, 7, 0x40, 0, 64, 17, 0, 0]);
    frame.extend([
        10, 0, 0, 1, 10, 0, 0, 2, 0xc3, 0x50, 0xc3, 0x51, 0, 10, 0, 0,
    ]);
    frame.extend(*b"hi");
    frame.resize(60, 0);
    let mut decoder = Decoder::new(&DecodeConfig::default()).unwrap();
    let frame = Frame {
        time_ns: 5,
        link: LinkType::of(1),
        bytes: &frame,
        wire_bytes: 60,
    };
    let whole = decoder.handle_frame(&frame).unwrap();
    assert_eq!((whole.header.len(), whole.payload), (8, &b"hi"[..]));
    for (bytes, header, payload, left, trimmed) in [
        (0, 0, 0, 0, 1),
        (34, 0, 0, 34, 1),
        (40, 6, 0, 40, 1),
        (43, 8, 1, 43, 1),
        (44, 8, 2, 44, 1),
        (60, 8, 2, 60, 0),
        (262_144, 8, 2, 60, 0),
    ] {
        let mut filter = filter(&[&format!("trim {bytes}")]);
        let mut packet = whole;
        let verdict = filter.judge(&frame, &mut packet);
        assert_eq!((verdict.passes, verdict.frame_bytes), (true, left));
        assert_eq!(packet.header, &whole.header[..header], "{bytes}");
        assert_eq!(packet.payload, &whole.payload[..payload], "{bytes}");
        let same = Packet {
            header: whole.header,
            payload: whole.payload,
            ..packet
        };
        assert_eq!(same, whole);
        let (_, counts) = filter.rules().next().unwrap();
        assert_eq!((counts.trimmed, counts.matched.octets), (trimmed, 30));
    }
}

#[test]
fn what_is_exported_is_as_long_as_its_rule_says() {
    let key = key("10.0.0.1", "10.0.0.2", (1, 2), 6);
    for (text, right) in [
        ("export", Some(u32::MAX)),
        ("export tcp", Some(u32::MAX)),
        ("export 96 tcp", Some(96)),
        ("export udp", None),
        ("pass", None),
    ] {
        let verdict = filter(&[text]).judge(&NO_FRAME, &mut packet(key, 9));
        assert_eq!(
            (verdict.passes, verdict.export_bytes),
            (true, right),
            "{text}"
        );
    }
}

#[test]
fn more_rules_than_are_tried_are_refused() {
    let rules = vec![rule("drop"); RULES_MAX];
    assert!(Filter::new(&rules).is_ok());
    let error = Filter::new(&vec![rule("drop"); RULES_MAX + 1]).unwrap_err();
    assert_eq!((error.value, error.high), (257, 256));
}

#[test]
fn each_mistake_says_what_came_and_what_to_do() {
    for (text, wrong, remedy) in [
        ("", "empty", "drop src"),
        ("  ", "empty", "begin with"),
        ("block tcp", "\"block\"", "begin with"),
        ("drop 10.0.0.0/8", "\"10.0.0.0/8\"", "write src, dst or net"),
        ("drop src", "\"src\"", "src 10.0.0.0/8"),
        ("drop port", "\"port\"", "port 53"),
        ("sample", "\"sample\"", "sample 1/100"),
        ("sample 10", "\"10\"", "1/N"),
        ("sample 1/0", "\"1/0\"", "from 1 to"),
        ("sample 1/1000001", "1/1000001", "from 1 to 1000000"),
        ("sample 1/+3", "1/+3", "1/N"),
        ("trim -1", "\"-1\"", "from 0 to 262144"),
        ("trim 262145", "262145", "from 0 to 262144"),
        ("export 1x", "\"1x\"", "from 0 to"),
        ("drop src 10.0.0.0/33", "10.0.0.0/33", "in numbers"),
        ("drop src ::1/129", "::1/129", "in numbers"),
        ("drop src host", "\"host\"", "in numbers"),
        (
            "drop src 10.0.0.1/8",
            "behind its prefix",
            "write 10.0.0.0/8",
        ),
        ("drop net 2001:db8::1/32", "behind", "write 2001:db8::/32"),
        ("drop port 65536", "65536", "0 to 65535"),
        ("drop port 9-8", "9-8", "smaller first"),
        ("drop port 1-2-3", "1-2-3", "two as"),
        ("drop tcp udp", "twice", "take one"),
        ("drop src 1.1.1.1 src 2.2.2.2", "\"src\"", "two rules"),
        ("drop proto 256", "256", "0 to 255"),
        ("drop icmp port 3", "without ports", "take the port out"),
    ] {
        let error = text.parse::<Rule>().unwrap_err();
        assert!(error.to_string().contains(wrong), "{text}: {error}");
        assert!(error.remedy().contains(remedy), "{text}: {error}");
    }
}

/// A rule as this test thinks of it, and a matcher that compares texts of bits.
#[derive(Clone, Debug)]
struct Plain {
    action: u8,
    number: u32,
    networks: Vec<(u8, IpAddr, u8)>,
    ports: Vec<(u8, u16, u16)>,
    protocol: Option<u8>,
}

fn bits(address: IpAddr) -> String {
    let octets = match address {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
    };
    octets.iter().map(|octet| format!("{octet:08b}")).collect()
}

impl Plain {
    fn text(&self) -> String {
        let mut text = match self.action {
            0 => "pass".to_owned(),
            1 => "drop".to_owned(),
            2 => format!("sample 1/{}", self.number),
            3 => format!("trim {}", self.number),
            _ => "export".to_owned(),
        };
        for (side, address, length) in &self.networks {
            let of_first: String = bits(*address)
                .char_indices()
                .map(|(at, bit)| if at < usize::from(*length) { bit } else { '0' })
                .collect();
            let first: IpAddr = match address {
                IpAddr::V4(_) => IpAddr::V4(u32::from_str_radix(&of_first, 2).unwrap().into()),
                IpAddr::V6(_) => IpAddr::V6(u128::from_str_radix(&of_first, 2).unwrap().into()),
            };
            let word = ["src", "dst", "net"][usize::from(*side)];
            text += &format!(" {word} {first}/{length}");
        }
        for (side, first, last) in &self.ports {
            let word = ["src-port", "dst-port", "port"][usize::from(*side)];
            text += &format!(" {word} {first}-{last}");
        }
        if let Some(protocol) = self.protocol {
            text += &format!(" proto {protocol}");
        }
        text
    }

    fn matches(&self, (ends, ports, protocol): (&[IpAddr; 2], &[u16; 2], u8)) -> bool {
        let of_side = |side: u8| match side {
            0 => vec![0],
            1 => vec![1],
            _ => vec![0, 1],
        };
        let networks = self.networks.iter().all(|(side, address, length)| {
            of_side(*side).into_iter().any(|end: usize| {
                let (own, other) = (bits(*address), bits(ends[end]));
                own.len() == other.len() && other.starts_with(&own[..usize::from(*length)])
            })
        });
        let has_ports = [6, 17, 132].contains(&protocol);
        let ports = self.ports.iter().all(|(side, first, last)| {
            let mut ends = of_side(*side).into_iter();
            has_ports && ends.any(|end| ports[end] >= *first && ports[end] <= *last)
        });
        networks && ports && self.protocol.is_none_or(|own| own == protocol)
    }
}

/// Few addresses, so that prefixes match often.
fn address() -> impl Strategy<Value = IpAddr> {
    let four = [0_u8, 10, 0x80, 255];
    let octet = move || prop::sample::select(four.to_vec());
    prop_oneof![
        (octet(), octet(), octet(), octet()).prop_map(|(a, b, c, d)| [a, b, c, d].into()),
        (octet(), octet(), octet()).prop_map(|(a, b, c)| {
            let mut octets = [0; 16];
            (octets[0], octets[4], octets[15]) = (a, b, c);
            octets.into()
        }),
        // Of the addresses of IPv6 that have those of IPv4.
        (octet(), octet())
            .prop_map(|(a, b)| { std::net::Ipv4Addr::new(a, 0, 0, b).to_ipv6_mapped().into() }),
    ]
}

fn port() -> impl Strategy<Value = u16> {
    prop::sample::select(vec![0_u16, 1, 52, 53, 54, 65_535])
}

fn protocol() -> impl Strategy<Value = u8> {
    prop::sample::select(vec![1_u8, 6, 17, 47, 58, 132])
}

fn sides<T: core::fmt::Debug + Clone>(
    of: impl Strategy<Value = T>,
) -> impl Strategy<Value = Vec<(u8, T)>> {
    prop::collection::vec(prop::option::weighted(0.3, of), 3).prop_map(|all| {
        let of_side = |(side, one): (usize, Option<T>)| Some((side as u8, one?));
        all.into_iter().enumerate().filter_map(of_side).collect()
    })
}

fn plain() -> impl Strategy<Value = Plain> {
    let network = (address(), 0..=128_u8);
    let ports = (port(), port());
    let heads = (0..5_u8, 1..5_u32);
    (
        heads,
        sides(network),
        sides(ports),
        prop::option::of(protocol()),
    )
        .prop_map(|((action, number), networks, ports, protocol)| {
            let networks = networks.into_iter().map(|(side, (address, length))| {
                let most = if address.is_ipv4() { 32 } else { 128 };
                (side, address, length.min(most))
            });
            let may_have_ports = protocol.is_none_or(|own| [6, 17, 132].contains(&own));
            let ports = ports.into_iter().filter(|_| may_have_ports);
            Plain {
                action,
                number,
                networks: networks.collect(),
                ports: ports
                    .map(|(side, (a, b))| (side, a.min(b), a.max(b)))
                    .collect(),
                protocol,
            }
        })
}

type Seen = (IpAddr, IpAddr, u16, u16, u8);

fn seen() -> impl Strategy<Value = Seen> {
    (address(), address(), port(), port(), protocol())
}

proptest! {
    /// What a filter does with packets is what texts of bits say, rule by rule.
    #[test]
    fn a_filter_is_what_a_matcher_of_texts_says(
        rules in prop::collection::vec(plain(), 0..6),
        packets in prop::collection::vec(seen(), 1..60),
    ) {
        let texts: Vec<String> = rules.iter().map(Plain::text).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut filter = filter(&texts);
        // Of each rule, the octets that it matched, one entry a packet.
        let mut matched = vec![Vec::new(); rules.len()];
        let mut discarded = vec![Volume::default(); rules.len()];
        for (n, (source, destination, from, to, protocol)) in packets.into_iter().enumerate() {
            let destination = if source.is_ipv4() == destination.is_ipv4() { destination } else { source };
            let told = (&[source, destination], &[from, to], protocol);
            let right = rules.iter().position(|rule| rule.matches(told));
            let octets = 20 + n as u32;
            let passes = right.is_none_or(|at| {
                matched[at].push(octets);
                match rules[at].action {
                    1 => false,
                    2 => (matched[at].len() - 1).is_multiple_of(rules[at].number as usize),
                    _ => true,
                }
            });
            if let (false, Some(at)) = (passes, right) {
                discarded[at] += Volume { packets: 1, octets: octets.into() };
            }
            let key = FlowKey::new(source, destination, protocol).with_ports(from, to);
            let verdict = filter.judge(&NO_FRAME, &mut packet(key, octets));
            prop_assert_eq!((verdict.passes, verdict.rule.map(usize::from)), (passes, right), "{:?}", key);
        }
        for ((_, counts), (matched, discarded)) in filter.rules().zip(matched.iter().zip(&discarded)) {
            let octets: u32 = matched.iter().sum();
            prop_assert_eq!(counts.matched, Volume { packets: matched.len() as u64, octets: octets.into() });
            prop_assert_eq!(counts.discarded, *discarded);
        }
    }

    /// A rule that is shown is the rule.
    #[test]
    fn a_rule_reads_what_it_writes(plain in plain()) {
        let rule = rule(&plain.text());
        prop_assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule));
    }

    /// Words that may stand in a rule in any order, and any texts: a rule or a mistake with a remedy.
    #[test]
    fn garbage_is_a_rule_or_a_named_mistake(
        words in prop::collection::vec(prop_oneof![
            prop::sample::select(vec![
                "drop", "pass", "sample", "trim", "export", "src", "dst", "net", "src-port", "port",
                "tcp", "udp", "icmp", "proto", "1/3", "1/", "/", "0", "53", "53-", "-", "::/0", "10.0.0.0/8",
                "10.1.0.0/8", "99999999999999999999", "\u{e9}",
            ]).prop_map(str::to_owned),
            ".{0,6}",
        ], 0..8),
    ) {
        let text = words.join(" ");
        match text.parse::<Rule>() {
            Ok(rule) => prop_assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule)),
            Err(error) => {
                prop_assert!(!error.remedy().is_empty());
                prop_assert!(error.to_string().len() < 200, "{}", error);
            }
        }
    }
}

proptest! {
    /// A rule that treats flows alike says the same of both directions.
    #[test]
    fn a_rule_that_treats_flows_alike_does_so_both_ways(plain in plain(), seen in seen()) {
        let rule = rule(&plain.text());
        let (source, destination, from, to, protocol) = seen;
        let destination = if source.is_ipv4() == destination.is_ipv4() { destination } else { source };
        let there = FlowKey::new(source, destination, protocol).with_ports(from, to);
        if rule.treats_flows_alike() {
            prop_assert_eq!(rule.matches(&there), rule.matches(&there.turned()));
        }
    }
}

#[test]
fn rules_that_tell_packets_of_a_flow_apart_are_known() {
    for (text, alike) in [
        ("drop", true),
        ("drop net 10.0.0.0/8 port 53 udp", true),
        ("trim 64 udp", true),
        ("drop src 10.0.0.0/8", false),
        ("drop dst-port 53", false),
        ("sample 1/10", false),
        ("export", false),
    ] {
        assert_eq!(rule(text).treats_flows_alike(), alike, "{text}");
    }
}
