//! A session as one page: its pictures, its numbers and its ledger, without anything from elsewhere.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use forebay_ledger::{Balance, DropLine};
use forebay_run::record::Record;
use forebay_run::whole_file::WholeFile;
use forebay_run_tdm::receive::{Came, ReceiveSummary, Row, SenderSummary, Watch, closing};
use forebay_run_tdm::{Mode, Plan};
use serde_json::Value;

use super::picture;
use super::seen::Seen;
use crate::conditions::Conditions;
use crate::plot::{self, Chart, Picture, escaped};

/// What asks for the file.
const OPTION: &str = "--report";
/// A browser is told to fetch nothing, whatever stands in the page.
const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
    <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
    <meta name=\"viewport\" content=\"width=device-width\">\n<title>Forebay: time-division UDP</title>\n<style>\n\
    body{font:15px/1.5 sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#202020;background:#fff}\n\
    svg{max-width:100%;height:auto}figure{margin:1.5em 0}figcaption{color:#555}\n\
    .wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px}th,td{padding:.2em .6em;border-bottom:1px solid #ddd;text-align:right;vertical-align:top}\n\
    th{text-align:left}td.word{text-align:left}\n</style>\n</head>\n<body>\n";

/// A page about a session, which is written when that has ended. It keeps windows in bins, and so does not grow.
pub struct SessionReport {
    file: Option<WholeFile>,
    conditions: Conditions,
    seen: Seen,
    /// Number, value and why of what was planned.
    planned: Vec<[String; 3]>,
}

impl SessionReport {
    /// Begins the page `path` about a session of at most so many senders.
    ///
    /// # Errors
    /// There is such a file, or it cannot be created.
    pub fn create(path: &Path, senders: u16) -> Result<Self> {
        Ok(Self {
            file: Some(WholeFile::create(path, OPTION)?),
            conditions: Conditions::now(),
            seen: Seen::new(senders.into()),
            planned: Vec::new(),
        })
    }

    fn page(&self, record: &Record<ReceiveSummary>, balance: &Balance) -> Result<String> {
        let told = serde_json::to_value(record).context("telling the record")?;
        let summary = &record.summary;
        let mut page = HEAD.to_owned();
        let end = escaped(summary.end);
        let closed = escaped(&closing(record, None));
        page += &format!(
            "<h1>Time-division UDP: a session of {} senders, {end}</h1>\n<p>{}. {closed}</p>\n",
            summary.by_sender.len(),
            escaped(&self.conditions.line()),
        );
        if let Some(failed) = &record.envelope.failed {
            page += &format!("<p><strong>{}</strong></p>\n", escaped(failed));
        }
        page += "<h2>Summary</h2>\n";
        let scheme = told["schemes"].as_array().and_then(|all| all.first());
        let of_scheme = numbers(scheme.unwrap_or(&Value::Null));
        let of_session = numbers(&told);
        let rows = of_scheme.into_iter().chain(of_session);
        page += &table("summary", &[], rows.map(|(name, value)| vec![name, value]));
        page += "<h2>Plan</h2>\n";
        page += &table(
            "plan",
            &["what", "value", "why"],
            self.planned.iter().map(|row| row.to_vec()),
        );
        page += "<h2>Senders</h2>\n";
        page += &senders(&told);
        let told_of = |sender: &SenderSummary| sender.not_known.clone();
        let notes = summary.by_sender.iter().filter_map(told_of);
        for note in notes.chain(summary.of_lost()) {
            page += &format!("<p>{}</p>\n", escaped(&note));
        }
        for (id, title, caption, charts) in self.figures() {
            page += &figure(id, title, &caption, charts);
        }
        page += "<h2>Ledger</h2>\n<p>Of each account: in = out + dropped + held; what is left over is its residual.</p>\n";
        page += &ledger(balance);
        page += "</body>\n</html>\n";
        Ok(page)
    }

    /// The four pictures: identifier, title, what is said below, charts.
    fn figures(&self) -> [(&'static str, &'static str, String, Vec<Chart>); 4] {
        let seen = &self.seen;
        let bins = picture::said_of_bins(seen);
        let of_travel = format!(
            "Travel time is from the sender's kernel to the receiver's, with the clock that the sender was measured to have. {bins}"
        );
        let packets = picture::of_packets(seen, "");
        [
            ("travel", "Travel time", of_travel, picture::of_travel(seen)),
            (
                "overlaps",
                "Overlaps",
                format!(
                    "A packet that came between those of another window counts in both. {bins}"
                ),
                picture::of_overlaps(seen),
            ),
            (
                "packets",
                "Every packet of the first 30 ms",
                picture::said_of_packets(seen),
                vec![packets],
            ),
            ("windows", "Windows", bins, picture::of_windows(seen)),
        ]
    }
}

impl Watch for SessionReport {
    fn joined(&mut self, sender: u16, name: &str) {
        self.seen.joined(sender, name);
    }

    fn planned(&mut self, plan: &Plan, start_ns: u64) {
        // Grants come when they come.
        let cycle_ns = if plan.mode == Mode::Credit {
            0
        } else {
            plan.cycle_ns
        };
        self.seen.planned(start_ns, cycle_ns);
        let reasons = plan.reasons.iter();
        let told = reasons.map(|it| [it.what.to_owned(), it.value.clone(), it.why.clone()]);
        self.planned = told.collect();
    }

    fn packet(&mut self, came: &Came) {
        self.seen.packet(came);
    }

    fn window(&mut self, row: &Row, _: i64) -> Result<(), String> {
        self.seen.window(row);
        Ok(())
    }

    fn finish(&mut self, record: &Record<ReceiveSummary>, balance: &Balance) -> Result<(), String> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        let path = file.path().display().to_string();
        let write = || -> Result<()> {
            let page = self.page(record, balance)?;
            file.handle()?.write_all(page.as_bytes())?;
            Ok(file.finish()?)
        };
        write().map_err(|error| {
            format!("writing the report to {path}: {error:#}; see whether the disk is full")
        })
    }
}

fn figure(id: &str, title: &str, caption: &str, charts: Vec<Chart>) -> String {
    let picture = Picture {
        title: title.to_owned(),
        charts,
        caption: Vec::new(),
    };
    // A page of HTML knows what an svg is.
    let svg = plot::svg(&picture).replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1);
    format!(
        "<h2>{title}</h2>\n<figure id=\"{id}\">\n{svg}<figcaption>{}</figcaption>\n</figure>\n",
        escaped(caption)
    )
}

/// Names and values of an object, those of objects within it with both names; lists are left out.
fn numbers(object: &Value) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        match value {
            Value::Array(_) | Value::Null => {}
            Value::Object(_) => {
                let within = numbers(value);
                all.extend(
                    within
                        .into_iter()
                        .map(|(of, it)| (format!("{name}, {of}"), it)),
                );
            }
            Value::String(word) => all.push((name.clone(), word.clone())),
            Value::Number(number) if number.is_f64() => {
                all.push((
                    name.clone(),
                    format!("{:.4}", number.as_f64().unwrap_or(0.0)),
                ));
            }
            other => all.push((name.clone(), other.to_string())),
        }
    }
    all
}

/// A table; without a heading the first cell of each row is one.
fn table(id: &str, heading: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = format!("<div class=\"wide\"><table id=\"{id}\">\n");
    if !heading.is_empty() {
        let cells = heading
            .iter()
            .map(|cell| format!("<th>{}</th>", escaped(cell)));
        table += &format!("<tr>{}</tr>\n", cells.collect::<String>());
    }
    for row in rows {
        table += "<tr>";
        for (number, cell) in row.iter().enumerate() {
            let text = escaped(cell);
            // Writing to a string does not fail.
            let _ = if number == 0 {
                write!(table, "<th>{text}</th>")
            } else if cell.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
                write!(table, "<td>{text}</td>")
            } else {
                write!(table, "<td class=\"word\">{text}</td>")
            };
        }
        table += "</tr>\n";
    }
    table + "</table></div>\n"
}

fn senders(told: &Value) -> String {
    let all: Vec<Vec<(String, String)>> = told["by_sender"]
        .as_array()
        .into_iter()
        .flatten()
        .map(numbers)
        .collect();
    // What a sender is called stands first, whatever the order of names is.
    let mut names: Vec<&str> = vec!["name", "state", "windows", "sent", "received"];
    let first = all.first().into_iter().flatten();
    for (name, _) in first {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let row = |sender: &Vec<(String, String)>| {
        let cell = |name: &&str| {
            let found = sender.iter().find(|(of, _)| of == name);
            found.map_or_else(String::new, |(_, value)| value.clone())
        };
        names.iter().map(cell).collect()
    };
    table("senders", &names, all.iter().map(row))
}

fn ledger(balance: &Balance) -> String {
    let heading = [
        "place",
        "owner",
        "unit",
        "in",
        "out",
        "dropped",
        "held",
        "residual",
        "in, bytes",
        "out, bytes",
        "by reason",
    ];
    let rows = balance.accounts.iter().map(|account| {
        let dropped: u64 = account.dropped.iter().map(|it| it.items).sum();
        let reason = |it: &DropLine| format!("{} {}", it.reason, it.items);
        let reasons: Vec<String> = account.dropped.iter().map(reason).collect();
        vec![
            account.place.clone(),
            account.owner.clone(),
            account.unit.name().to_owned(),
            account.incoming.items.to_string(),
            account.outgoing.items.to_string(),
            dropped.to_string(),
            account.held.items.to_string(),
            account.residual.items.to_string(),
            account.incoming.bytes.to_string(),
            account.outgoing.bytes.to_string(),
            reasons.join(", "),
        ]
    });
    table("ledger", &heading, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report of so many windows of each sender, as a page would hold it.
    fn pictures(senders: u16, windows: u32) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.html");
        let mut report = SessionReport::create(&path, senders).unwrap();
        for sender in 0..senders {
            report.joined(sender, &format!("<s{sender}>"));
        }
        report.seen.planned(0, 1_000_000);
        for window in 0..windows {
            for sender in 0..senders {
                let begin_ns = u64::from(window) * 1_000_000 + 1 + u64::from(sender);
                let row = Row {
                    sender,
                    window,
                    sent: 100,
                    received: 99,
                    payload_bytes: 99_000,
                    first_sent_ns: begin_ns,
                    last_sent_ns: begin_ns + 800_000,
                    first_came_ns: begin_ns + 3_000,
                    last_came_ns: begin_ns + 803_000,
                    travel_min_ns: 2_000,
                    travel_max_ns: 9_000 + i64::from(window % 1000),
                    travel_sum_ns: 99 * 3_000,
                    ..Row::default()
                };
                report.window(&row, 0).unwrap();
            }
        }
        let figures = report.figures().into_iter();
        figures
            .map(|(id, title, caption, charts)| figure(id, title, &caption, charts))
            .collect()
    }

    #[test]
    fn a_page_is_no_larger_after_a_long_session() {
        let short = pictures(3, 256).len();
        let page = pictures(3, 60_000);
        assert!(page.len() < short * 2, "{} after {short}", page.len());
        assert!(page.contains("256 windows of a sender are one point"));
        assert!(page.contains("&lt;s2&gt;") && !page.contains("<s2>"));
    }

    #[test]
    fn a_thousand_senders_fit_into_a_page_that_a_browser_shows() {
        let page = pictures(1024, 100);
        assert!(page.len() < 4_000_000, "{}", page.len());
        assert!(page.contains("all 1024 senders"));
        assert!(page.contains("… and 1010 more"));
    }
}
