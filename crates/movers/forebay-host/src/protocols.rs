//! `/proc/net/snmp`, `/proc/net/netstat` and `/proc/net/snmp6`: counters of the protocols (`net/ipv4/proc.c`, `net/ipv6/proc.c`).

use std::collections::BTreeMap;

/// Counters by protocol and name.
pub(super) type Protocols = BTreeMap<String, BTreeMap<String, u64>>;

/// Settings and levels among the counters: they do not count anything up.
const NO_COUNTERS: [(&str, &str); 7] = [
    ("Ip", "Forwarding"),
    ("Ip", "DefaultTTL"),
    ("Tcp", "RtoAlgorithm"),
    ("Tcp", "RtoMin"),
    ("Tcp", "RtoMax"),
    ("Tcp", "MaxConn"),
    ("Tcp", "CurrEstab"),
];
/// Protocols of IPv6, the longer name first.
const PROTOCOLS_6: [&str; 4] = ["UdpLite6", "Icmp6", "Udp6", "Ip6"];

/// Reads pairs of lines, headings and values; what has no partner is left out.
pub(super) fn parse_tables(text: &str) -> Protocols {
    let mut protocols = Protocols::new();
    let mut headings: Option<(&str, &str)> = None;
    for line in text.lines() {
        let Some((protocol, rest)) = line.split_once(':') else {
            continue;
        };
        match headings.take() {
            Some((of, names)) if of == protocol => {
                let into = protocols.entry(protocol.to_owned()).or_default();
                into.extend(pairs(protocol, names, rest));
            }
            _ => headings = Some((protocol, rest)),
        }
    }
    protocols.retain(|_, counters| !counters.is_empty());
    protocols
}

fn pairs<'a>(
    protocol: &'a str,
    names: &'a str,
    values: &'a str,
) -> impl Iterator<Item = (String, u64)> + 'a {
    let both = names.split_whitespace().zip(values.split_whitespace());
    both.filter(move |(name, _)| !NO_COUNTERS.contains(&(protocol, name)))
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
}

/// Reads a name and a value in each line.
pub(super) fn parse_snmp6(text: &str) -> Protocols {
    let mut protocols = Protocols::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(Ok(value))) = (words.next(), words.next().map(str::parse)) else {
            continue;
        };
        let split = PROTOCOLS_6
            .into_iter()
            .find_map(|protocol| Some((protocol, name.strip_prefix(protocol)?)));
        if let Some((protocol, counter)) = split.filter(|(_, counter)| !counter.is_empty()) {
            let into = protocols.entry(protocol.to_owned()).or_default();
            into.insert(counter.to_owned(), value);
        }
    }
    protocols
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Linux 3.2: neither `InCsumErrors` nor `MemErrors`.
    const OLD: &str = "\
Ip: Forwarding DefaultTTL InReceives InHdrErrors ReasmTimeout ReasmReqds ReasmOKs ReasmFails
Ip: 1 64 1000 2 0 44 11 3
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens CurrEstab RetransSegs
Tcp: 1 200 120000 -1 12 4 5
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors
Udp: 900 7 20 950 18 0
";
    /// Linux 6.12.
    const NEW: &str = "\
Ip: Forwarding DefaultTTL InReceives OutNoRoutes ReasmFails OutTransmits
Ip: 2 64 4088 0 18446744073709551615 3457
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
Udp: 221 0 0 222 0 0 0 0 6
";
    const NETSTAT: &str = "\
TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPBacklogDrop TCPRcvQDrop
TcpExt: 0 3 4 5 6
IpExt: InNoRoutes InOctets
IpExt: 0 118756199
";
    const SNMP6: &str = "\
Ip6InReceives                   \t1
Ip6ReasmFails                   \t9
Icmp6InErrors                   \t1
Udp6RcvbufErrors                \t17
UdpLite6InErrors                \t2
";

    #[test]
    fn tables_of_several_kernels() {
        let old = parse_tables(OLD);
        assert_eq!(
            (old["Udp"]["RcvbufErrors"], old["Ip"]["ReasmFails"]),
            (18, 3)
        );
        assert!(!old["Udp"].contains_key("MemErrors"));
        let new = parse_tables(NEW);
        assert_eq!(
            (new["Udp"]["MemErrors"], new["Ip"]["ReasmFails"]),
            (6, u64::MAX)
        );
        let netstat = parse_tables(NETSTAT);
        assert_eq!(netstat["TcpExt"]["ListenDrops"], 4);
        assert_eq!(netstat["IpExt"]["InOctets"], 118_756_199);
    }

    #[test]
    fn what_is_no_counter_is_left_out() {
        let old = parse_tables(OLD);
        assert_eq!(
            old["Tcp"].keys().collect::<Vec<_>>(),
            ["ActiveOpens", "RetransSegs"]
        );
        assert!(!old["Ip"].contains_key("Forwarding"));
    }

    #[test]
    fn protocols_of_version_6_keep_their_own_names() {
        let six = parse_snmp6(SNMP6);
        assert_eq!(
            (
                six["Udp6"]["RcvbufErrors"],
                six["UdpLite6"]["InErrors"],
                six["Ip6"]["ReasmFails"]
            ),
            (17, 2, 9)
        );
    }

    #[test]
    fn headings_without_values_are_left_out() {
        let text = format!("Sctp: InErrors\n{OLD}");
        assert_eq!(parse_tables(&text), parse_tables(OLD));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "(Ip:|Udp:|Udp6|[ -~]|[ \n]){0,120}") {
            let _ = (parse_tables(&text), parse_snmp6(&text));
        }

        #[test]
        fn a_value_is_found_under_its_name(names in proptest::collection::btree_set("[A-Z][a-z]{1,8}", 1..20), first in 0_u64..1_000_000) {
            let headings: Vec<_> = names.iter().cloned().collect();
            let values: Vec<_> = (first..).take(names.len()).map(|value| value.to_string()).collect();
            let text = format!("X: {}\nX: {}\n", headings.join(" "), values.join(" "));
            let parsed = parse_tables(&text);
            for (name, value) in headings.iter().zip(first..) {
                prop_assert_eq!(parsed["X"][name], value);
            }
        }
    }
}
