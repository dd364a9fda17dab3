//! What must hold of rules of the packet filter for any text. Shared by the fuzz target and by the test that replays its corpus.
//!
//! No panic; a line is a rule that reads what it writes, or a mistake with a remedy; a filter of the lines that are rules counts each packet once, and passes or discards it.

use forebay_flow::filter::{Filter, RULES_MAX, Rule};
use forebay_flow::{FlowKey, Frame, Packet};

fn packet(protocol: u8, ports: (u16, u16)) -> Packet<'static> {
    let key = FlowKey::new([10, 0, 0, 1].into(), [192, 0, 2, 7].into(), protocol);
    Packet {
        time_ns: 1,
        key: key.with_ports(ports.0, ports.1),
        octets: 40,
        tcp_flags: 0,
        header: &[],
        payload: &[],
        payload_bytes: 0,
        hop_limit: 64,
        fragment: None,
        tunnel: None,
    }
}

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut rules = Vec::new();
    for line in text.lines().take(RULES_MAX) {
        match line.parse::<Rule>() {
            Ok(rule) => {
                assert_eq!(rule.to_string().parse(), Ok(rule));
                rules.push(rule);
            }
            Err(mistake) => assert!(!mistake.remedy().is_empty()),
        }
    }
    let mut filter = Filter::new(&rules).expect("few rules");
    let frame = Frame {
        time_ns: 1,
        link: None,
        bytes: &[],
        wire_bytes: 0,
    };
    let (mut matched, mut discarded) = (0, 0);
    for (protocol, ports) in [(6, (50_000, 443)), (17, (53, 53)), (1, (0, 0))] {
        let verdict = filter.judge(&frame, &mut packet(protocol, ports));
        matched += u64::from(verdict.rule.is_some());
        discarded += u64::from(!verdict.passes);
    }
    let told: u64 = filter
        .rules()
        .map(|(_, counts)| counts.matched.packets)
        .sum();
    assert_eq!((told, filter.discarded().packets), (matched, discarded));
}
