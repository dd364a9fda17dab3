//! What happened between two readings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::meaning::is_loss;
use crate::reading::{Reading, Scope};

/// What these numbers are of.
pub const SCOPE: &str = "host-wide, not attributable to one run";

/// Differences between two readings, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Changes {
    /// What these numbers are of.
    pub scope: String,
    /// Counters of losses and errors that went up.
    pub lost: BTreeMap<String, u64>,
    /// All counters that were there at the end, also those that stood still.
    pub counters: BTreeMap<String, u64>,
    /// What was not there at the start: its counters are told from its own beginning.
    pub appeared: Vec<String>,
    /// What was not there at the end: what it counted is not known.
    pub vanished: Vec<String>,
    /// What began anew meanwhile, as an interface that was made again: its counters are told from that moment, and those before it are not known.
    pub restarted: Vec<String>,
    /// What could not be read, and why.
    pub unread: BTreeMap<String, String>,
}

impl Changes {
    /// What happened from `before` to `after`.
    #[must_use]
    pub fn between(before: &Reading, after: &Reading) -> Self {
        let mut changes = Self {
            scope: SCOPE.to_owned(),
            unread: before.unread.clone(),
            ..Self::default()
        };
        changes.unread.extend(after.unread.clone());
        for (name, now) in &after.scopes {
            match before.scopes.get(name) {
                Some(was) => changes.compare(name, was, now),
                None => {
                    changes.appeared.push(name.clone());
                    changes.since_begin(name, now);
                }
            }
        }
        let gone = before.scopes.keys();
        let gone = gone.filter(|name| !after.scopes.contains_key(*name));
        changes.vanished = gone.cloned().collect();
        let lost = changes.counters.iter();
        let lost = lost.filter(|(name, items)| **items > 0 && is_loss(name));
        changes.lost = lost.map(|(name, items)| (name.clone(), *items)).collect();
        changes
    }

    /// Takes the differences of counters that were there before, unless one of them says that all began anew.
    fn compare(&mut self, name: &str, was: &Scope, now: &Scope) {
        let differences = (was.identity == now.identity).then(|| {
            let counters = now.counters.iter();
            counters
                .map(|(counter, now_at)| {
                    let was_at = was.counters.get(counter).copied().unwrap_or(0);
                    Some((counter, difference(was_at, *now_at, now.bits)?))
                })
                .collect::<Option<Vec<_>>>()
        });
        let Some(differences) = differences.flatten() else {
            self.restarted.push(name.to_owned());
            self.since_begin(name, now);
            return;
        };
        let named = differences.into_iter();
        let named = named.map(|(counter, items)| (format!("{name}.{counter}"), items));
        self.counters.extend(named);
    }

    fn since_begin(&mut self, name: &str, now: &Scope) {
        let counters = now.counters.iter();
        let named = counters.map(|(counter, items)| (format!("{name}.{counter}"), *items));
        self.counters.extend(named);
    }

    /// What people are shown: losses and errors that occurred; nothing where there were none.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("Below the sockets ({SCOPE}):")];
        let mut lost: Vec<_> = self.lost.iter().collect();
        lost.sort_by_key(|(name, items)| (std::cmp::Reverse(**items), *name));
        lines.extend(lost.iter().map(|(name, items)| {
            let anew = self.restarted.iter().any(|scope| begins(name, scope));
            let least = if anew { ", or more: it began anew" } else { "" };
            format!("  {items:>12}  {name}{least}")
        }));
        let Some((name, _)) = lost.first() else {
            return Vec::new();
        };
        lines.push(format!(
            "  What it means, and what to do: forebay doctor --counter {name}"
        ));
        lines
    }
}

/// Whether the counter `name` is of `scope`.
fn begins(name: &str, scope: &str) -> bool {
    name.strip_prefix(scope)
        .is_some_and(|rest| rest.starts_with('.'))
}

/// How much a counter of so many bits went up; none when it went down for another reason than its own end.
fn difference(was: u64, now: u64, bits: u32) -> Option<u64> {
    if let Some(items) = now.checked_sub(was) {
        return Some(items);
    }
    // One that wraps is near its end before and near 0 behind; one that began anew is near 0 only.
    let span = 1_u64.checked_shl(bits).unwrap_or(0);
    let around = now.wrapping_add(span.wrapping_sub(was));
    let half = 1_u64 << (bits.clamp(1, 64) - 1);
    (was >= half && around < half).then_some(around)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Name, identity, bits and counters of a scope.
    type Told<'a> = (&'a str, u64, u32, &'a [(&'a str, u64)]);

    fn reading(scopes: &[Told<'_>]) -> Reading {
        let scopes = scopes.iter().map(|(name, identity, bits, counters)| {
            let counters = counters.iter();
            let counters = counters.map(|(name, value)| ((*name).to_owned(), *value));
            let scope = Scope {
                identity: *identity,
                bits: *bits,
                counters: counters.collect(),
            };
            ((*name).to_owned(), scope)
        });
        Reading {
            scopes: scopes.collect(),
            ..Reading::default()
        }
    }

    #[test]
    fn losses_are_told_apart_from_traffic() {
        let before = reading(&[(
            "interface.eth0",
            2,
            64,
            &[("rx_packets", 10), ("rx_dropped", 5)],
        )]);
        let after = reading(&[(
            "interface.eth0",
            2,
            64,
            &[("rx_packets", 30), ("rx_dropped", 8)],
        )]);
        let changes = Changes::between(&before, &after);
        assert_eq!(changes.counters["interface.eth0.rx_packets"], 20);
        assert_eq!(
            changes.lost.iter().collect::<Vec<_>>(),
            [(&"interface.eth0.rx_dropped".to_owned(), &3)]
        );
        let lines = changes.lines().join("\n");
        assert!(lines.contains("3  interface.eth0.rx_dropped"), "{lines}");
        assert!(!lines.contains("rx_packets"), "{lines}");
        assert!(lines.contains(SCOPE), "{lines}");
    }

    #[test]
    fn nothing_is_said_of_a_quiet_host() {
        let same = reading(&[("Udp", 0, 64, &[("RcvbufErrors", 5), ("InDatagrams", 7)])]);
        let changes = Changes::between(&same, &same);
        assert!(changes.lines().is_empty());
        assert_eq!(changes.counters["Udp.RcvbufErrors"], 0);
    }

    #[test]
    fn an_interface_that_was_made_again_counts_from_its_begin() {
        let before = reading(&[("interface.veth0", 7, 64, &[("rx_dropped", 5)])]);
        let after = reading(&[("interface.veth0", 9, 64, &[("rx_dropped", 6)])]);
        let changes = Changes::between(&before, &after);
        assert_eq!(changes.restarted, ["interface.veth0"]);
        assert_eq!(changes.lost["interface.veth0.rx_dropped"], 6);
        let lines = changes.lines().join("\n");
        assert!(
            lines.contains("6  interface.veth0.rx_dropped, or more"),
            "{lines}"
        );
    }

    #[test]
    fn what_comes_and_goes_is_named() {
        let before = reading(&[("interface.a", 1, 64, &[("rx_dropped", 5)])]);
        let after = reading(&[("interface.b", 2, 64, &[("rx_dropped", 4)])]);
        let changes = Changes::between(&before, &after);
        assert_eq!(
            (&changes.vanished, &changes.appeared),
            (
                &vec!["interface.a".to_owned()],
                &vec!["interface.b".to_owned()]
            )
        );
        assert_eq!(changes.lost["interface.b.rx_dropped"], 4);
    }

    #[test]
    fn a_counter_of_32_bits_wraps_and_one_that_was_reset_does_not() {
        assert_eq!(difference(u64::from(u32::MAX) - 4, 10, 32), Some(15));
        assert_eq!(difference(1000, 10, 32), None);
        assert_eq!(difference(u64::MAX - 4, 10, 64), Some(15));
        assert_eq!(difference(1 << 40, 10, 64), None);
        // A reset near the end of a counter that is half full cannot be told from a wrap of more than half of it.
        assert_eq!(difference(u64::from(u32::MAX) - 4, 1 << 31, 32), None);
    }

    #[test]
    fn one_counter_that_went_back_makes_all_of_its_scope_begin_anew() {
        let before = reading(&[("driver.eth0", 2, 64, &[("rx_drops", 100), ("tx_drops", 1)])]);
        let after = reading(&[("driver.eth0", 2, 64, &[("rx_drops", 3), ("tx_drops", 2)])]);
        let changes = Changes::between(&before, &after);
        assert_eq!(changes.restarted, ["driver.eth0"]);
        assert_eq!(changes.lost["driver.eth0.rx_drops"], 3);
        assert_eq!(changes.lost["driver.eth0.tx_drops"], 2);
    }

    proptest! {
        #[test]
        fn what_went_up_comes_out(was in any::<u32>(), up in 0_u32..1 << 31) {
            let now = was.wrapping_add(up);
            prop_assert_eq!(difference(was.into(), now.into(), 32), Some(up.into()));
        }

        #[test]
        fn any_two_readings_are_compared_without_a_panic(was in any::<u64>(), now in any::<u64>(), bits in prop_oneof![Just(32_u32), Just(64)], same in any::<bool>()) {
            let before = reading(&[("x", 1, bits, &[("drops", was)])]);
            let after = reading(&[("x", u64::from(same), bits, &[("drops", now)])]);
            let changes = Changes::between(&before, &after);
            let told = changes.counters["x.drops"];
            // Never more than what a counter can have counted.
            prop_assert!(told == now || told == now.wrapping_sub(was) || bits == 32);
            let _ = changes.lines();
        }
    }
}
