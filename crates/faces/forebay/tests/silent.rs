//! A source that stops is named with its numbers in every place that tells of a run, held against what the emulator says it sent.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod rig;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rig::{
    Run, audit, audit_json, files, forebay, free_ports, hld, number, scrape, signal, start,
    wait_for,
};
use serde_json::Value;
use tempfile::TempDir;

const SOURCES: u16 = 20;
const TRIGGERS: u64 = 2_400;
const RATE_HZ: u64 = 600;
/// Two sources stop for good, the second one later; the third comes back.
const FAULTS: [&str; 3] = [
    "17:silent,from=400",
    "5:silent,from=1500",
    "9:silent,from=600,to=1800",
];

fn unix_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_secs_f64()
}

/// `forebay evb` with text for people.
fn builder(out: &Path, base_port: u16) -> Run {
    let mut command = forebay();
    command.args([
        "evb",
        "--sources",
        &SOURCES.to_string(),
        "--timeout",
        "500ms",
    ]);
    command.args(["--base-port", &base_port.to_string()]);
    command.args(["--metrics", "127.0.0.1:0", "--out"]).arg(out);
    let run = start(&mut command);
    run.wait_stages(&["receiver", "builder"]);
    run
}

fn emulator(out: &Path, base_port: u16) -> Run {
    let mut command = forebay();
    command.args(["emulate", "hades", "--group", &format!("{SOURCES}:116")]);
    command.args(["--rate", &RATE_HZ.to_string(), "--water-mark", "2Ki"]);
    command.args(["--events", &TRIGGERS.to_string(), "--duration", "60s"]);
    command.args(["--base-port", &base_port.to_string(), "--format", "json"]);
    FAULTS.iter().for_each(|fault| {
        command.args(["--fault", fault]);
    });
    start(command.arg("--out").arg(out))
}

/// Sub-events that the emulator's own books say each source has sent.
fn sent(out: &Path) -> Vec<u64> {
    let audit = audit_json(out);
    let lines = audit["balance"]["accounts"].as_array().unwrap();
    let of = |source: u16| {
        let owner = format!("source{source}");
        let line = lines
            .iter()
            .find(|line| line["owner"] == owner.as_str() && line["unit"] == "subevents");
        let line = line.unwrap_or_else(|| panic!("{owner} is not in {audit}"));
        line["outgoing"]["items"].as_u64().unwrap()
    };
    (0..SOURCES).map(of).collect()
}

/// The value of a gauge of one source on a page of metrics.
fn last_seen(page: &str, source: u16) -> f64 {
    let name = format!(
        "\nforebay_source_last_seen_seconds{{group=\"builder\",owner=\"source{source}\"}} "
    );
    let (_, rest) = page
        .split_once(&name)
        .unwrap_or_else(|| panic!("{name} is not in\n{page}"));
    rest.lines().next().unwrap().parse().unwrap()
}

/// What the run says of source 17 while it is silent and the others go on.
fn told_live(run: &Run, out: &Path, began_s: f64) {
    let said = wait_for("the silence in the running line", || {
        let said = run.said();
        said.contains("source17 silent for ").then_some(said)
    });
    assert!(said.contains("(since trigger "), "{said}");
    let address = said
        .lines()
        .find_map(|line| line.strip_prefix("metrics at http://"))
        .and_then(|rest| rest.strip_suffix("/metrics"));
    let page = scrape(address.unwrap());
    let now_s = unix_s();
    let (dead_s, alive_s) = (last_seen(&page, 17), last_seen(&page, 0));
    assert!(
        began_s < dead_s && dead_s < alive_s && alive_s < now_s,
        "{began_s} {dead_s} {alive_s} {now_s}"
    );
    assert!(page.contains("Unix time of the last message"), "{page}");
    let mut top = forebay();
    top.args(["top", "--once", "--sources", "--interval", "50ms"]);
    let top = start(top.arg(out)).end().stdout;
    assert!(top.contains("\nsource17 silent for "), "{top}");
    assert_eq!(rows(&top)[0], "source17", "{top}");
}

/// Sources in the order of the table.
fn rows(top: &str) -> Vec<&str> {
    let table = top.lines().skip_while(|line| !line.starts_with("source  "));
    let names = table.skip(1).filter_map(|line| line.split(' ').next());
    names.collect()
}

#[test]
fn a_source_that_stops_is_named_with_its_numbers_everywhere() {
    let folder = TempDir::new().unwrap();
    let [to, from] = ["run", "sender"].map(|name| folder.path().join(name));
    let base_port = free_ports(SOURCES);
    let run = builder(&to, base_port);
    let began_s = unix_s();
    let emulator = emulator(&from, base_port);
    told_live(&run, &to, began_s);
    emulator.end().json_of(0);
    let sent = sent(&from);
    // Two sources are silent to the end: what the others sent last is built when it comes.
    wait_for("the last event", || {
        let triggers = &audit_json(&to)["triggers"];
        (triggers["triggers_span"] == TRIGGERS).then_some(())
    });
    wait_for("the return in the running line", || {
        run.said()
            .contains("\nsource9 sends again after ")
            .then_some(())
    });
    signal("INT", run.pid());
    let ended = run.end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    let record = std::fs::read(to.join("run.json")).unwrap();
    let record: Value = serde_json::from_slice(&record).unwrap();
    told_in_the_record(&record, &sent);
    let lines = [17_usize, 5].map(|source| {
        let without = TRIGGERS - sent[source];
        let thousands = format!("{},{:03}", without / 1000, without % 1000);
        let without = if without < 1000 {
            without.to_string()
        } else {
            thousands
        };
        (
            format!("\nsource{source} silent for "),
            format!("): {without} events without it\n"),
        )
    });
    for text in [&ended.stdout, &audit(&to).stdout] {
        let at = lines.each_ref().map(|(start, end)| {
            let at = text.find(start.as_str());
            let at = at.unwrap_or_else(|| panic!("{start:?} is not in\n{text}"));
            let line = &text[at..=at + 1 + text[at + 1..].find('\n').unwrap()];
            assert!(
                line.contains(" s (since trigger ") && line.ends_with(end.as_str()),
                "{line}"
            );
            at
        });
        let back = text.find("\nsource9 sends again after ").unwrap();
        assert!(at[0] < at[1] && at[1] < back, "largest first:\n{text}");
    }
    let audited = audit(&to).stdout;
    let inferred = audited
        .lines()
        .skip_while(|line| !line.starts_with("inferred lost before"));
    let owners: Vec<_> = inferred
        .map(|line| line.split_whitespace().nth(1))
        .collect();
    assert_eq!(owners[1], Some("source17"), "{audited}");
    let audited = audit_json(&to);
    assert_eq!(audited["silent_sources"], record["silent_sources"]);
    let mut top = forebay();
    let top = start(top.args(["top", "--once", "--sources"]).arg(&to)).end();
    assert_eq!(
        rows(&top.stdout)[..2],
        ["source17", "source5"],
        "{}",
        top.stdout
    );
}

/// The typed fields of each source, against the emulator's books and the events in the files.
fn told_in_the_record(record: &Value, sent: &[u64]) {
    let events = hld::events(&files(record));
    assert_eq!(events.len() as u64, TRIGGERS);
    let ids = &events[0].subs;
    assert_eq!(ids.len(), usize::from(SOURCES));
    for (source, sent) in sent.iter().enumerate() {
        let told = &record["sources"][source];
        assert_eq!(told["source"], format!("source{source}"));
        let id = ids[source].0;
        let with = events
            .iter()
            .filter(|event| event.subs.iter().any(|sub| sub.0 == id));
        let with = with.count() as u64;
        assert_eq!(number(told, "events_without"), TRIGGERS - with, "{told}");
        assert!(told["last_seen_unix_s"].as_f64().unwrap() > 1e9, "{told}");
        let stopped = [5, 17].contains(&source);
        assert_eq!(told["silent"], stopped, "{told}");
        if source == 9 {
            assert_eq!(number(told, "silences_ended"), 1, "{told}");
            // Its first message after the silence may come too late for some events.
            let silent = number(told, "silences_ended_events");
            let pause = TRIGGERS - sent;
            assert!(
                (1..=pause).contains(&silent) && pause <= TRIGGERS - with,
                "{silent} of {pause}: {told}"
            );
            continue;
        }
        // All that was sent is in an event.
        assert_eq!(with, *sent, "{told}");
        let (silent_events, last) = match stopped {
            true => (TRIGGERS - sent, sent - 1),
            false => (0, TRIGGERS - 1),
        };
        assert_eq!(number(told, "silent_events"), silent_events, "{told}");
        assert_eq!(number(told, "last_trigger"), last, "{told}");
        assert_eq!(number(told, "silences_ended"), 0, "{told}");
    }
    // A silence is as long as its triggers took, but for the time that a message is filled and an emulator that lags.
    let silent_s = record["sources"][17]["silent_s"].as_f64().unwrap();
    let triggers_s = (TRIGGERS - sent[17]) as f64 / RATE_HZ as f64;
    assert!(
        (triggers_s * 0.8..triggers_s + 20.0).contains(&silent_s),
        "{silent_s} of {triggers_s}"
    );
    let named = record["silent_sources"].as_array().unwrap();
    let named: Vec<&str> = named
        .iter()
        .map(|of| of["source"].as_str().unwrap())
        .collect();
    assert_eq!(named, ["source17", "source5", "source9"]);
}
