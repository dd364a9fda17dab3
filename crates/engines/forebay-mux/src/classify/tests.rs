use core::net::{IpAddr, Ipv6Addr};

use forebay_wire::packet::{ICMPV6, TCP, UDP};
use proptest::prelude::*;

use super::*;

const A: ClientId = ClientId::new(0);
const B: ClientId = ClientId::new(1);
const C: ClientId = ClientId::new(2);

/// A frame as the model knows it, which is made into bytes.
#[derive(Clone, Debug)]
struct Made {
    mac: [u8; 6],
    vlan: Option<u16>,
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    ports: (u16, u16),
}

impl Default for Made {
    fn default() -> Self {
        Self {
            mac: [2, 0, 0, 0, 0, 1],
            vlan: None,
            source: [10, 0, 0, 9].into(),
            destination: [10, 0, 0, 1].into(),
            protocol: UDP,
            ports: (5000, 7),
        }
    }
}

impl Made {
    fn bytes(&self) -> Vec<u8> {
        let mut frame = [&self.mac[..], &[2, 0, 0, 0, 0, 99]].concat();
        if let Some(vlan) = self.vlan {
            frame.extend([0x81, 0]);
            frame.extend(vlan.to_be_bytes());
        }
        let mut body = [self.ports.0.to_be_bytes(), self.ports.1.to_be_bytes()].concat();
        match self.protocol {
            UDP => body.extend([0, 8, 0, 0]),
            TCP => body.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]),
            _ => body.extend([0; 4]),
        }
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                frame.extend([8, 0, 0x45, 0, 0, 20 + body.len() as u8, 0, 0, 0, 0, 64]);
                frame.extend([self.protocol, 0, 0]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                frame.extend([
                    0x86,
                    0xdd,
                    0x60,
                    0,
                    0,
                    0,
                    0,
                    body.len() as u8,
                    self.protocol,
                    64,
                ]);
                frame.extend(source.octets());
                frame.extend(destination.octets());
            }
            _ => panic!("two versions"),
        }
        frame.extend(body);
        frame
    }

    /// Whether all that a rule says holds, by plain comparison.
    fn is_as(&self, rule: &Rule) -> bool {
        let within = |prefix: Prefix, address: IpAddr| {
            let bits = |address: IpAddr| -> Vec<bool> {
                let octets = match address {
                    IpAddr::V4(four) => four.octets().to_vec(),
                    IpAddr::V6(six) => six.octets().to_vec(),
                };
                octets
                    .iter()
                    .flat_map(|octet| (0..8).map(move |bit| octet >> (7 - bit) & 1 == 1))
                    .collect()
            };
            let (one, other) = (bits(prefix.address()), bits(address));
            one.len() == other.len() && one[..prefix.bits().into()] == other[..prefix.bits().into()]
        };
        let has_ports = matches!(self.protocol, UDP | TCP);
        rule.destination_mac.is_none_or(|mac| mac.0 == self.mac)
            && rule.vlan.is_none_or(|vlan| Some(vlan) == self.vlan)
            && rule.source.is_none_or(|prefix| within(prefix, self.source))
            && rule
                .destination
                .is_none_or(|prefix| within(prefix, self.destination))
            && rule
                .protocol
                .is_none_or(|protocol| protocol == self.protocol)
            && rule
                .source_port
                .is_none_or(|port| has_ports && port == self.ports.0)
            && rule
                .destination_port
                .is_none_or(|port| has_ports && port == self.ports.1)
    }
}

fn at(address: &str) -> Option<Prefix> {
    Some(Prefix::exact(address.parse().unwrap()))
}

fn classifier(rules: &[Rule]) -> Classifier {
    Classifier::new(rules, &[]).unwrap()
}

#[test]
fn the_more_specific_rule_goes_first_whatever_their_order() {
    let mac = Rule {
        destination_mac: Some(Mac([2, 0, 0, 0, 0, 1])),
        ..Rule::of(A)
    };
    let address = Rule {
        destination: at("10.0.0.1"),
        ..Rule::of(B)
    };
    let port = Rule {
        protocol: Some(UDP),
        destination_port: Some(7),
        ..address
    };
    let port = Rule { client: C, ..port };
    let frame = Made::default().bytes();
    for rules in [
        [mac, address, port],
        [port, address, mac],
        [address, port, mac],
    ] {
        assert_eq!(classifier(&rules).classify(&frame), Verdict::Client(C));
        let other = Made {
            ports: (5000, 8),
            ..Made::default()
        }
        .bytes();
        assert_eq!(classifier(&rules).classify(&other), Verdict::Client(A));
        let elsewhere = Made {
            mac: [2, 0, 0, 0, 0, 2],
            ports: (7, 8),
            ..Made::default()
        };
        assert_eq!(
            classifier(&rules).classify(&elsewhere.bytes()),
            Verdict::Client(B)
        );
        let unknown = Made {
            destination: [10, 0, 0, 2].into(),
            ..elsewhere
        };
        let dropped = Verdict::Dropped(FrameDrop::Unmatched);
        assert_eq!(classifier(&rules).classify(&unknown.bytes()), dropped);
    }
}

#[test]
fn a_tie_is_refused_and_names_both_rules() {
    let one = Rule {
        source: at("10.0.0.9"),
        ..Rule::of(A)
    };
    let other = Rule {
        destination: at("10.0.0.1"),
        ..Rule::of(B)
    };
    let error = Classifier::new(&[one, other], &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "'source 10.0.0.9/32 to client 0' and 'destination 10.0.0.1/32 to client 1' both take some frame and fix 32 bits each: make one of them more specific"
    );
    // The same again is a tie, too; two addresses of one field are none.
    assert!(matches!(
        Classifier::new(&[one, one], &[]),
        Err(RuleError::Tie { .. })
    ));
    let elsewhere = Rule {
        source: at("10.0.0.8"),
        ..Rule::of(B)
    };
    assert!(Classifier::new(&[one, elsewhere], &[]).is_ok());
    // An address of IPv6 in its first 32 bits meets none of IPv4.
    let six = Prefix::new("2001:db8::".parse().unwrap(), 32).unwrap();
    let six = Rule {
        destination: Some(six),
        ..Rule::of(B)
    };
    assert!(Classifier::new(&[one, six], &[]).is_ok());
    // The first bit of an address counts as any other.
    let [first, second] = [("fd00::", A), ("7d00::", B)].map(|(address, client)| Rule {
        destination: Some(Prefix::new(address.parse().unwrap(), 8).unwrap()),
        ..Rule::of(client)
    });
    assert!(Classifier::new(&[first, second], &[]).is_ok());
    assert_eq!(error.clients(), [A, B]);
}

#[test]
fn rules_that_make_no_sense_are_refused() {
    let rule = Rule::of(A);
    let refused = |rule: Rule| Classifier::new(&[rule], &[]).unwrap_err();
    assert_eq!(refused(rule), RuleError::Empty { client: A });
    let group = Rule {
        destination_mac: Some(Mac::BROADCAST),
        ..rule
    };
    assert_eq!(refused(group), RuleError::Group { rule: group });
    assert_eq!(refused(group).clients(), [A]);
    assert_eq!(refused(rule).clients(), [A]);
    let vlan = Rule {
        vlan: Some(4095),
        ..rule
    };
    assert_eq!(refused(vlan), RuleError::Vlan { vlan: 4095 });
    let port = Rule {
        destination_port: Some(7),
        ..rule
    };
    assert_eq!(refused(port), RuleError::PortOfWhat { rule: port });
    let both = Rule {
        source: at("::1"),
        destination: at("10.0.0.1"),
        ..rule
    };
    assert_eq!(refused(both), RuleError::Versions { rule: both });
    let address: IpAddr = [10, 0, 0, 1].into();
    for bits in [33, 31, 0] {
        let error = RuleError::Prefix {
            address,
            bits,
            most: 32,
        };
        assert_eq!(Prefix::new(address, bits), Err(error));
    }
    let rules = vec![rule; RULES_MAX + 1];
    let many = RuleError::TooMany {
        rules: RULES_MAX + 1,
    };
    assert_eq!(Classifier::new(&rules, &[]).unwrap_err(), many);
}

#[test]
fn a_group_goes_to_clients_that_asked_for_it_in_its_vlan() {
    let wish = |client, vlan, broadcast, multicast| Wish {
        client,
        vlan,
        broadcast,
        multicast,
    };
    let group = Mac([1, 0, 0x5e, 0, 0, 5]);
    let wishes = [
        wish(A, None, true, Multicast::All),
        wish(B, Some(7), true, Multicast::Nothing),
        wish(C, None, false, Multicast::Groups(vec![group])),
    ];
    let classifier = Classifier::new(&[], &wishes).unwrap();
    let to = |mac: Mac, vlan: Option<u16>| match classifier.classify(
        &Made {
            mac: mac.0,
            vlan,
            ..Made::default()
        }
        .bytes(),
    ) {
        Verdict::Group {
            is_question: false,
            clients,
        } => clients.iter().collect(),
        other => panic!("{other:?}"),
    };
    let got: Vec<ClientId> = to(Mac::BROADCAST, None);
    assert_eq!(got, [A]);
    assert_eq!(to(Mac::BROADCAST, Some(7)), [A, B]);
    assert_eq!(to(Mac::BROADCAST, Some(8)), [A]);
    assert_eq!(to(group, Some(7)), [A, C]);
    assert_eq!(to(Mac([1, 0, 0x5e, 0, 0, 6]), None), [A]);
    let without = Classifier::new(&[], &wishes[1..]).unwrap();
    let frame = Made {
        mac: [0xff; 6],
        ..Made::default()
    }
    .bytes();
    assert_eq!(
        without.classify(&frame),
        Verdict::Dropped(FrameDrop::GroupNotAsked)
    );
    let twice = Classifier::new(&[], &[wishes[0].clone(), wishes[0].clone()]);
    assert_eq!(twice.unwrap_err(), RuleError::AskedTwice { client: A });
    for mac in [Mac([2, 0, 0, 0, 0, 1]), Mac::BROADCAST] {
        let single = Classifier::new(&[], &[wish(A, None, true, Multicast::Groups(vec![mac]))]);
        assert_eq!(single.unwrap_err(), RuleError::NoGroup { client: A, mac });
    }
}

/// Asks for 10.0.0.1, or answers 10.0.0.9 at `to`.
fn arp(to: [u8; 6], operation: u8, target: u8) -> Vec<u8> {
    let mut frame = [
        &to[..],
        &[2, 0, 0, 0, 0, 99, 8, 6, 0, 1, 8, 0, 6, 4, 0, operation],
    ]
    .concat();
    frame.extend([
        2, 0, 0, 0, 0, 99, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 10, 0, 0, target,
    ]);
    frame
}

#[test]
fn questions_go_to_the_responder_and_answers_to_the_client_that_asked() {
    let wish = Wish {
        client: C,
        vlan: None,
        broadcast: true,
        multicast: Multicast::Nothing,
    };
    let address = Rule {
        destination: at("10.0.0.1"),
        ..Rule::of(B)
    };
    let classifier = Classifier::new(&[address], &[wish]).unwrap();
    let mut clients = ClientSet::EMPTY;
    clients.insert(C);
    let all = Verdict::Group {
        is_question: true,
        clients,
    };
    assert_eq!(classifier.classify(&arp([0xff; 6], 1, 1)), all);
    assert_eq!(
        classifier.classify(&arp([2, 0, 0, 0, 0, 1], 1, 1)),
        Verdict::Responder
    );
    assert_eq!(
        classifier.classify(&arp([2, 0, 0, 0, 0, 1], 2, 1)),
        Verdict::Client(B)
    );
    let short = &arp([2, 0, 0, 0, 0, 1], 2, 1)[..41];
    assert_eq!(
        classifier.classify(short),
        Verdict::Dropped(FrameDrop::Malformed)
    );
    // Neighbour solicitation to one station, and to its group.
    let ask = |mac: [u8; 6]| {
        let source: Ipv6Addr = "fe80::9".parse().unwrap();
        let destination = "fe80::1".parse::<Ipv6Addr>().unwrap();
        let ports = (0x8700, 0);
        let (source, destination) = (source.into(), destination.into());
        Made {
            mac,
            source,
            destination,
            protocol: ICMPV6,
            ports,
            vlan: None,
        }
        .bytes()
    };
    assert_eq!(
        classifier.classify(&ask([2, 0, 0, 0, 0, 1])),
        Verdict::Responder
    );
    let group = Verdict::Group {
        is_question: true,
        clients: ClientSet::EMPTY,
    };
    assert_eq!(
        classifier.classify(&ask([0x33, 0x33, 0xff, 0, 0, 1])),
        group
    );
}

#[test]
fn fragments_go_by_address_alone_all_of_them() {
    let port = Rule {
        protocol: Some(UDP),
        destination_port: Some(7),
        ..Rule::of(A)
    };
    let mut first = Made::default().bytes();
    first[20] = 0x20;
    let by_port = classifier(&[port]);
    assert_eq!(
        by_port.classify(&first),
        Verdict::Dropped(FrameDrop::Fragment)
    );
    let address = Rule {
        destination: at("10.0.0.1"),
        ..Rule::of(B)
    };
    let by_both = classifier(&[port, address]);
    assert_eq!(by_both.classify(&first), Verdict::Client(B));
    (first[20], first[21]) = (0, 100);
    assert_eq!(by_both.classify(&first), Verdict::Client(B));
}

#[test]
fn what_is_not_whole_is_malformed_even_where_its_station_is_known() {
    let mac = Rule {
        destination_mac: Some(Mac([2, 0, 0, 0, 0, 1])),
        ..Rule::of(A)
    };
    let classifier = classifier(&[mac]);
    for vlan in [None, Some(7)] {
        let frame = Made {
            vlan,
            ..Made::default()
        }
        .bytes();
        assert_eq!(classifier.classify(&frame), Verdict::Client(A));
        for end in 0..frame.len() {
            let cut = classifier.classify(&frame[..end]);
            assert_eq!(cut, Verdict::Dropped(FrameDrop::Malformed), "{end}");
        }
    }
    let mut other = Made::default().bytes();
    other[14] = 0x65;
    assert_eq!(
        classifier.classify(&other),
        Verdict::Dropped(FrameDrop::Malformed)
    );
    // What is no IP at all is the client's business.
    let raw = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0xb5, 1];
    assert_eq!(classifier.classify(&raw), Verdict::Client(A));
}

fn address() -> impl Strategy<Value = IpAddr> {
    let near = prop_oneof![
        Just([10, 0, 0, 1]),
        Just([10, 0, 0, 2]),
        Just([10, 128, 0, 1]),
        Just([11, 0, 0, 1])
    ];
    prop_oneof![
        3 => near.clone().prop_map(IpAddr::from),
        1 => near.prop_map(|[a, b, c, d]| IpAddr::from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d])),
    ]
}

fn made() -> impl Strategy<Value = Made> {
    let vlan = prop_oneof![Just(None), Just(Some(7_u16)), Just(Some(8))];
    let protocol = prop_oneof![Just(UDP), Just(TCP), Just(1)];
    let addresses = (address(), address()).prop_filter("one version", |(one, other)| {
        one.is_ipv4() == other.is_ipv4()
    });
    (1..3_u8, vlan, addresses, protocol, (6..9_u16, 6..9_u16)).prop_map(
        |(mac, vlan, (source, destination), protocol, ports)| {
            let mac = [2, 0, 0, 0, 0, mac];
            Made {
                mac,
                vlan,
                source,
                destination,
                protocol,
                ports,
            }
        },
    )
}

/// A rule that takes this frame or one like it: it fixes some of the frame's fields.
fn rule() -> impl Strategy<Value = Rule> {
    let prefix = |address: IpAddr, bits: u8| {
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = most.min(bits);
        let kept = match address {
            IpAddr::V4(four) => IpAddr::from(
                (four.to_bits() & u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0))
                    .to_be_bytes(),
            ),
            IpAddr::V6(six) => IpAddr::from(
                (six.to_bits() & u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0))
                    .to_be_bytes(),
            ),
        };
        Prefix::new(kept, bits).unwrap()
    };
    let bits = || prop_oneof![Just(0_u8), Just(8), Just(9), Just(31), Just(32), Just(128)];
    let set = any::<[bool; 7]>();
    (any::<u8>(), made(), set, bits(), bits()).prop_map(move |(client, made, set, near, far)| {
        Rule {
            client: ClientId::new(client),
            destination_mac: set[0].then_some(Mac(made.mac)),
            vlan: made.vlan.filter(|_| set[1]),
            source: set[2].then(|| prefix(made.source, near)),
            destination: set[3].then(|| prefix(made.destination, far)),
            protocol: set[4].then_some(made.protocol),
            source_port: (set[4] && set[5] && made.protocol != 1).then_some(made.ports.0),
            destination_port: (set[4] && set[6] && made.protocol != 1).then_some(made.ports.1),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Against a walk over all rules. Rules that cannot stand with those before them are left out, so that the rest can.
    #[test]
    fn tables_find_what_a_walk_over_all_rules_finds(
        rules in proptest::collection::vec(rule(), 0..24),
        frames in proptest::collection::vec(made(), 1..16),
    ) {
        let mut standing: Vec<Rule> = Vec::new();
        for rule in rules {
            standing.push(rule);
            if Classifier::new(&standing, &[]).is_err() {
                standing.pop();
            }
        }
        let classifier = classifier(&standing);
        for made in &frames {
            let takes = standing.iter().filter(|rule| made.is_as(rule));
            let mut takes: Vec<_> = takes.collect();
            takes.sort_by_key(|rule| rule.specificity_bits());
            if let [.., second, first] = takes[..] {
                prop_assert!(second.specificity_bits() < first.specificity_bits(), "{second} and {first}");
            }
            let verdict = match takes.last() {
                Some(rule) => Verdict::Client(rule.client),
                None => Verdict::Dropped(FrameDrop::Unmatched),
            };
            prop_assert_eq!(classifier.classify(&made.bytes()), verdict);
        }
    }

    #[test]
    fn garbage_has_a_verdict(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let mac = Rule { destination_mac: Some(Mac([2, 0, 0, 0, 0, 1])), ..Rule::of(A) };
        let verdict = classifier(&[mac]).classify(&bytes);
        prop_assert!(bytes.len() >= 14 || verdict == Verdict::Dropped(FrameDrop::Malformed));
    }
}
