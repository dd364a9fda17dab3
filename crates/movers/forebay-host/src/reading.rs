//! One look at all counters.

use std::collections::BTreeMap;
use std::fs;

use forebay_sys::driver_stats::driver_stats;
use forebay_sys::netlink::{self, Link, Qdisc};

use crate::protocols::{Protocols, parse_snmp6, parse_tables};
use crate::softnet;

/// Interfaces that are looked at; how many more there are is said.
const INTERFACES_MAX: usize = 256;
/// The parent of what hangs at the interface itself.
const ROOT: u32 = u32::MAX;

/// Counters that begin and end together: those of an interface, a CPU, a protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Another number means another thing of the same name, as an interface that was made again.
    pub identity: u64,
    /// They wrap at so many bits.
    pub bits: u32,
    /// By name.
    pub counters: BTreeMap<String, u64>,
}

/// All counters at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// By name of the scope, as `interface.eth0`.
    pub scopes: BTreeMap<String, Scope>,
    /// What could not be read, and why.
    pub unread: BTreeMap<String, String>,
}

impl Reading {
    /// Reads them all. What this host does not tell is named, not an error.
    #[must_use]
    pub fn take() -> Self {
        let mut reading = Self::default();
        reading.softnet();
        reading.protocols("/proc/net/snmp", parse_tables);
        reading.protocols("/proc/net/netstat", parse_tables);
        reading.protocols("/proc/net/snmp6", parse_snmp6);
        reading.interfaces();
        reading
    }

    fn text(&mut self, path: &str) -> Option<String> {
        let text = fs::read(path).map_err(|error| self.unread(path, &error));
        text.ok()
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn unread(&mut self, what: &str, error: &dyn std::fmt::Display) {
        self.unread.insert(what.to_owned(), error.to_string());
    }

    fn softnet(&mut self) {
        let Some(text) = self.text("/proc/net/softnet_stat") else {
            return;
        };
        for (cpu, counters) in softnet::parse(&text) {
            let scope = Scope {
                identity: 0,
                bits: 32,
                counters,
            };
            self.scopes.insert(format!("softnet.cpu{cpu}"), scope);
        }
    }

    fn protocols(&mut self, path: &str, parse: fn(&str) -> Protocols) {
        let Some(text) = self.text(path) else {
            return;
        };
        for (protocol, counters) in parse(&text) {
            let scope = Scope {
                identity: 0,
                // The kernel's `unsigned long`, and counters of 64 bits.
                bits: usize::BITS,
                counters,
            };
            self.scopes.insert(protocol, scope);
        }
    }

    fn interfaces(&mut self) {
        let links = match netlink::links() {
            Ok(links) => links,
            Err(error) => return self.unread("interfaces", &error),
        };
        if let Some(more @ 1..) = links.len().checked_sub(INTERFACES_MAX) {
            let text = format!("{more} more than the {INTERFACES_MAX} that are looked at");
            self.unread("interfaces", &text);
        }
        let links = &links[..links.len().min(INTERFACES_MAX)];
        for link in links {
            let counters = link.counters.iter();
            let counters = counters.map(|(name, value)| ((*name).to_owned(), *value));
            self.insert("interface", link, 64, counters.collect());
            // Most virtual interfaces have none, which is nothing to tell.
            if let Ok(counters) = driver_stats(&link.name)
                && !counters.is_empty()
            {
                self.insert("driver", link, 64, counters);
            }
        }
        match netlink::qdiscs() {
            Ok(qdiscs) => self.queues(links, &qdiscs),
            Err(error) => self.unread("qdiscs", &error),
        }
    }

    fn insert(&mut self, kind: &str, link: &Link, bits: u32, counters: BTreeMap<String, u64>) {
        let scope = Scope {
            identity: link.index.into(),
            bits,
            counters,
        };
        self.scopes.insert(format!("{kind}.{}", link.name), scope);
    }

    fn queues(&mut self, links: &[Link], qdiscs: &[Qdisc]) {
        for qdisc in qdiscs {
            let Some(link) = links.iter().find(|link| link.index == qdisc.interface) else {
                continue;
            };
            let place = match qdisc.parent {
                ROOT => "root".to_owned(),
                parent => format!("{:x}:{:x}", parent >> 16, parent & 0xffff),
            };
            let counters = [
                ("drops", qdisc.drops),
                ("overlimits", qdisc.overlimits),
                ("requeues", qdisc.requeues),
            ];
            let counters = counters.map(|(name, value)| (name.to_owned(), u64::from(value)));
            let scope = Scope {
                identity: u64::from(qdisc.interface) << 32 | u64::from(qdisc.handle),
                bits: 32,
                counters: counters.into(),
            };
            let name = format!("qdisc.{}.{place}.{}", link.name, qdisc.kind);
            self.scopes.insert(name, scope);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_all_kinds() {
        let reading = Reading::take();
        let has = |scope: &str, counter: &str| {
            reading
                .scopes
                .get(scope)
                .is_some_and(|scope| scope.counters.contains_key(counter))
        };
        assert!(has("interface.lo", "rx_dropped"), "{reading:?}");
        assert!(has("Udp", "RcvbufErrors"), "{reading:?}");
        assert!(has("TcpExt", "ListenDrops"), "{reading:?}");
        assert!(
            reading
                .scopes
                .keys()
                .any(|name| name.starts_with("softnet.cpu")),
            "{reading:?}"
        );
    }

    #[test]
    fn queues_have_names_of_their_places() {
        let links = [Link {
            index: 7,
            name: "veth0".to_owned(),
            counters: BTreeMap::new(),
        }];
        let qdisc = |parent, kind: &str| Qdisc {
            interface: 7,
            handle: 0x10000,
            parent,
            kind: kind.to_owned(),
            drops: 12,
            overlimits: 0,
            requeues: 0,
        };
        let mut reading = Reading::default();
        let of_nobody = Qdisc {
            interface: 8,
            ..qdisc(ROOT, "fq")
        };
        reading.queues(
            &links,
            &[qdisc(ROOT, "tbf"), qdisc(0x1_0002, "fq"), of_nobody],
        );
        assert_eq!(
            reading.scopes.keys().collect::<Vec<_>>(),
            ["qdisc.veth0.1:2.fq", "qdisc.veth0.root.tbf"]
        );
        assert_eq!(reading.scopes["qdisc.veth0.root.tbf"].counters["drops"], 12);
    }
}
