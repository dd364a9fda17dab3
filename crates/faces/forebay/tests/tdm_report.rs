//! The page about a session: all of its parts, held against what the receiver says, and nothing from elsewhere.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;
use std::path::Path;

use rig::{Run, forebay, number, signal, start, wait_for};
use serde_json::Value;

/// A receiver at this address, with a port that is so slow that this host is never the limit.
fn receive(address: &str, report: &Path, more: &[&str]) -> Run {
    let mut receiver = forebay();
    receiver.args(["tdm", "receive", "--format", "json", "--bind", address]);
    receiver.args(["--link-rate", "100M", "--window", "5ms"]);
    receiver
        .args(["--dead-time", "2ms", "--report"])
        .arg(report);
    start(receiver.args(more))
}

/// A session of these senders: what the receiver says, and its page.
fn session(names: &[&str], more: &[&str]) -> (Value, String) {
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("session.html");
    let address = format!("127.0.0.1:{}", rig::free_ports(1));
    let count = names.len().to_string();
    let receiver = receive(&address, &report, &[&["--senders", &count], more].concat());
    let senders: Vec<Run> = names
        .iter()
        .map(|name| start(&mut rig::tdm_send(&address, name)))
        .collect();
    for sender in senders {
        sender.end().json_of(0);
    }
    let said = receiver.end().json_of(0);
    (said, fs::read_to_string(report).unwrap())
}

/// The text between `from` and the first `to` after it.
fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let begin = page.find(from).unwrap_or_else(|| panic!("no {from}"));
    let rest = &page[begin + from.len()..];
    &rest[..rest.find(to).unwrap()]
}

/// Cells of a table, row by row.
fn table(page: &str, id: &str) -> Vec<Vec<String>> {
    let table = between(page, &format!("<table id=\"{id}\">"), "</table>");
    let cells = |row: &str| -> Vec<String> {
        let cells = row.split("</t").filter_map(|cell| {
            let (_, text) = cell.rsplit_once('>').filter(|_| cell.contains("<t"))?;
            Some(text.to_owned())
        });
        cells.collect()
    };
    table
        .split("</tr>")
        .map(cells)
        .filter(|row| !row.is_empty())
        .collect()
}

/// The sum of a column, of those rows.
fn sum(rows: &[Vec<String>], heading: &str, place: &str) -> u64 {
    let at = rows[0].iter().position(|name| name == heading).unwrap();
    let of = rows[1..].iter().filter(|row| row[0] == place);
    of.map(|row| row[at].parse::<u64>().unwrap()).sum()
}

fn figure<'a>(page: &'a str, id: &str) -> &'a str {
    let figure = between(page, &format!("<figure id=\"{id}\">"), "</figure>");
    assert!(
        figure.contains("<svg ") && figure.contains("<figcaption>"),
        "{id}"
    );
    figure
}

/// A browser fetches nothing for it.
fn assert_alone(page: &str) {
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for outside in [
        "http:", "https:", "//", "src=", "href=", "url(", "@import", "<script", "<link",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(page.contains("<p>socket_overflow is a lower bound: "));
}

#[test]
fn a_page_has_all_pictures_and_the_numbers_of_the_books_and_nothing_from_elsewhere() {
    // A name with what HTML has a meaning for.
    let names = ["north", "a<b>&\"c\""];
    let (said, page) = session(&names, &["--windows", "12"]);
    assert_alone(&page);
    let scheme = &said["schemes"][0];
    let (sent, received) = (number(scheme, "sent"), number(scheme, "received"));
    let summary = table(&page, "summary");
    for (name, value) in [
        ("sent", sent),
        ("received", received),
        ("residual_items", 0),
    ] {
        assert!(
            summary.contains(&vec![name.to_owned(), value.to_string()]),
            "{name}: {summary:?}"
        );
    }
    let ledger = table(&page, "ledger");
    assert_eq!(sum(&ledger, "in", "windows"), sent);
    assert_eq!(sum(&ledger, "out", "windows"), received);
    assert_eq!(sum(&ledger, "dropped", "windows"), sent - received);
    assert_eq!(sum(&ledger, "residual", "windows"), 0);
    let senders = table(&page, "senders");
    assert_eq!(senders.len(), 3);
    let came = senders[0]
        .iter()
        .position(|name| name == "received")
        .unwrap();
    let of_all: u64 = senders[1..]
        .iter()
        .map(|row| row[came].parse::<u64>().unwrap())
        .sum();
    assert_eq!(of_all, received);
    assert!(page.contains("a&lt;b&gt;&amp;") && !page.contains("a<b>"));
    assert!(table(&page, "plan").iter().any(|row| row[0] == "guard"));

    for told in ["Travel time: mean, shortest and longest", "Jitter", "north"] {
        assert!(figure(&page, "travel").contains(told), "{told}");
    }
    assert!(figure(&page, "overlaps").contains("Windows by the packets in their overlaps"));
    for told in [
        "Packets that came",
        "are missing",
        "Rate while",
        "as they were sent",
        "as they came",
    ] {
        assert!(figure(&page, "windows").contains(told), "{told}");
    }
    // 30 ms have two turns of each sender: each packet is a dot where it was sent, and one where it came unless that is later.
    let packets = figure(&page, "packets");
    assert!(packets.contains(">sent<") && packets.contains(">came<"));
    let dots = packets.matches("h0").count() - names.len();
    let told = between(packets, "<figcaption>", " packets that were sent");
    let told: usize = told.parse().unwrap();
    assert!(told > 50 && told as u64 <= received, "{told}");
    assert!(told < dots && dots <= 2 * told, "{dots} of {told}");
}

#[test]
fn more_senders_than_a_chart_has_room_for_are_one_line_and_a_place_each() {
    let names: Vec<String> = (0..13).map(|number| format!("s{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (said, page) = session(&names, &["--windows", "4"]);
    assert_alone(&page);
    assert_eq!(table(&page, "senders").len(), 14);
    assert!(figure(&page, "travel").contains("all 13 senders"));
    let ledger = table(&page, "ledger");
    assert_eq!(
        sum(&ledger, "in", "windows"),
        number(&said["schemes"][0], "sent")
    );
}

#[test]
fn ctrl_c_leaves_a_whole_page_of_what_was_there() {
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("session.html");
    let out = directory.path().join("out");
    let address = format!("127.0.0.1:{}", rig::free_ports(1));
    let receiver = receive(
        &address,
        &report,
        &["--per-window", "--output", out.to_str().unwrap()],
    );
    let senders = ["north", "south"].map(|name| start(&mut rig::tdm_send(&address, name)));
    wait_for("windows", || {
        let text = fs::read_to_string(out.join("windows.csv")).unwrap_or_default();
        (text.lines().count() > 20).then_some(())
    });
    assert!(!report.exists());
    assert!(signal("INT", receiver.pid()));
    for sender in senders {
        sender.end();
    }
    let said = receiver.end().json_of(0);
    let page = fs::read_to_string(&report).unwrap();
    assert_alone(&page);
    assert!(page.contains("a session of 2 senders, interrupted"));
    let ledger = table(&page, "ledger");
    assert_eq!(
        sum(&ledger, "in", "windows"),
        number(&said["schemes"][0], "sent")
    );
}
