//! What an audit says of items that vanished on purpose.

use serde_json::Value;

/// The verdict names that place alone, in that unit, and so many items.
pub(crate) fn assert_named(verdict: &Value, place: &str, unit: &str, items: i64) {
    assert_eq!(verdict["closed"], false, "{place}: {verdict}");
    let offenders = verdict["offenders"].as_array().unwrap();
    let is_there = |line: &Value| line["place"] == place && line["unit"] == unit;
    assert!(offenders.iter().all(is_there), "{place}: {offenders:?}");
    let items_of = |line: &Value| line["residual"]["items"].as_i64().unwrap();
    let sum: i64 = offenders.iter().map(items_of).sum();
    assert_eq!(sum, items, "{place}: {offenders:?}");
}
