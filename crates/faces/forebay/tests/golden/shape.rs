//! The shape of a JSON object: its keys, and what kind of value each has.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// Objects whose keys are data: `*` stands for any of them.
const OPEN: [&str; 4] = ["chunks_dropped", "drops", "event_ids", "ids"];

/// Lists and objects that have something in them only on some hosts, or when something went wrong: looked into where a run is made to have it.
const NOW_AND_THEN: &str = "alarms appeared bad_payload blocks_dropped broken chunks_dropped chunks_flagged counters damage dropped \
                            dropped_bytes dropped_packets drops errors faults findings first_errors flagged hellos_refused host_counters.lost offenders parted \
                            records refused restarted silent_sources standing taints triggers_missing_ranges turned_away unconfirmed underway unknown_links \
                            unread vanished warnings";

/// Values that are there or not by chance or by the host, with all kinds that they can be of: a connection that was tried once more has no peer that tells.
const BY_CHANCE: [(&str, [&str; 2]); 6] = [
    ("cpus_may_sleep", ["null", "text"]),
    ("discipline_error_ns", ["integer", "null"]),
    ("dropped_at_peer", ["integer", "null"]),
    ("missing_at_peer", ["integer", "null"]),
    ("missing_bytes_at_peer", ["integer", "null"]),
    ("why_not", ["null", "text"]),
];

/// Whether the last keys of a path are these.
fn ends(path: &str, keys: &str) -> bool {
    path.strip_suffix(keys)
        .is_some_and(|front| front.is_empty() || front.ends_with('.'))
}

/// Kinds of value by the path of their key.
struct Shape<'a> {
    kinds: BTreeMap<String, BTreeSet<&'static str>>,
    /// Of those that have something in them now and then: those that surely have it here.
    sure: &'a [&'a str],
}

impl Shape<'_> {
    fn is_looked_into(&self, path: &str) -> bool {
        let among = |mut names: std::str::SplitWhitespace<'_>| names.any(|keys| ends(path, keys));
        !among(NOW_AND_THEN.split_whitespace()) || self.sure.iter().any(|keys| ends(path, keys))
    }

    fn add(&mut self, path: &str, value: &Value) {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "float",
            Value::Number(_) => "integer",
            Value::String(_) => "text",
            Value::Array(_) => "list",
            Value::Object(_) => "object",
        };
        let kinds = self.kinds.entry(path.to_owned()).or_default();
        kinds.insert(kind);
        if let Some((_, all)) = BY_CHANCE.iter().find(|(keys, _)| ends(path, keys)) {
            kinds.extend(all);
        }
        if !self.is_looked_into(path) {
            return;
        }
        for item in value.as_array().into_iter().flatten() {
            self.add(&format!("{path}[]"), item);
        }
        let is_open = OPEN.iter().any(|keys| ends(path, keys));
        for (key, value) in value.as_object().into_iter().flatten() {
            let key = if is_open { "*" } else { key };
            self.add(&format!("{path}.{key}"), value);
        }
    }
}

/// A line for each key, sorted: its path and the kinds of its values. `sure`: what else is to be looked into.
pub(crate) fn of(value: &Value, sure: &[&str]) -> String {
    let kinds = BTreeMap::new();
    let mut shape = Shape { kinds, sure };
    shape.add("", value);
    let line = |(path, kinds): (&String, &BTreeSet<&str>)| {
        let kinds: Vec<&str> = kinds.iter().copied().collect();
        let path = path.trim_start_matches('.');
        format!("{path}: {}\n", kinds.join(" or "))
    };
    let keys = shape.kinds.iter().filter(|(path, _)| !path.is_empty());
    keys.map(line).collect()
}

/// An object none of whose keys stands there twice: a key of the summary that is one of the envelope, too, would be lost in silence.
pub(crate) struct NoKeyTwice;

impl<'de> Deserialize<'de> for NoKeyTwice {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Keys).map(|()| Self)
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys = BTreeSet::new();
        while let Some((key, _)) = map.next_entry::<String, IgnoredAny>()? {
            if keys.contains(&key) {
                return Err(serde::de::Error::custom(format!(
                    "{key:?} stands there twice"
                )));
            }
            keys.insert(key);
        }
        Ok(())
    }
}

#[test]
fn a_key_that_stands_twice_is_found() {
    let parse = |text: &str| serde_json::from_str::<NoKeyTwice>(text);
    assert!(parse(r#"{"a": 1, "b": {"a": 2}}"#).is_ok());
    assert!(parse(r#"{"a": 1, "b": 2, "a": 3}"#).is_err());
}
