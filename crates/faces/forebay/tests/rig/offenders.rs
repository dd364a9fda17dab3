//! What an audit says of items that vanished on purpose.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::{forebay, start, wait_for};

/// The items of each line that an audit of `books` faults, all of which are of this place and unit; positive where they vanished.
fn items_at(books: &Path, place: &str, unit: &str) -> Vec<i64> {
    let mut audit = forebay();
    let ended = start(audit.args(["audit", "--format", "json"]).arg(books)).end();
    let verdict = ended.json_of(1);
    assert_eq!(verdict["closed"], false, "{place}: {verdict}");
    let offenders = verdict["offenders"].as_array().unwrap();
    let is_there = |line: &Value| line["place"] == place && line["unit"] == unit;
    assert!(offenders.iter().all(is_there), "{place}: {offenders:?}");
    let items_of = |line: &Value| line["residual"]["items"].as_i64().unwrap();
    offenders.iter().map(items_of).collect()
}

/// So many items vanished there, over all owners.
pub(crate) fn assert_named(books: &Path, place: &str, unit: &str, items: i64) {
    let found = items_at(books, place, unit);
    assert_eq!(found.iter().sum::<i64>(), items, "{place}: {found:?}");
}

/// So many vanished or appeared there, over all owners.
pub(crate) fn assert_leaked(books: &Path, place: &str, unit: &str, items: u64) {
    let found = items_at(books, place, unit);
    let sizes = found.iter().map(|items| items.unsigned_abs());
    assert_eq!(sizes.sum::<u64>(), items, "{place}: {found:?}");
}

/// So many vanished there, of one owner, and nothing else is faulted.
pub(crate) fn assert_only(books: &Path, place: &str, unit: &str, items: i64) {
    assert_eq!(items_at(books, place, unit), [items], "{place}");
}

/// Sends to an echo over TCP of which the first read vanishes, however much it has, until what comes behind goes back.
pub(crate) fn lose_first_read(address: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    let wait = Some(Duration::from_millis(20));
    stream.set_read_timeout(wait).unwrap();
    let mut sent = 0;
    let returned = wait_for("what comes behind", || {
        stream.write_all(b"x").unwrap();
        sent += 1;
        stream.read(&mut [0; 64]).ok()
    });
    assert!((1..sent).contains(&returned), "{returned} of {sent}");
}
