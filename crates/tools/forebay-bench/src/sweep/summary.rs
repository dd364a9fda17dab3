//! What a sweep found: medians, quartiles and extremes of each point, and what makes them doubtful.

use std::path::PathBuf;

use super::Options;
use super::grid::LABELS;
use super::store::key;
use crate::net::Skipped;
use crate::net::peer::Peer;
use forebay_report::conditions::Conditions;
use forebay_report::rows::{Cell, Row};
use forebay_report::statistics::{Quartiles, quartiles, spread};

/// A run that is shorter says little.
const DURATION_S_MIN: f64 = 0.5;

/// One point over all its runs.
#[derive(Debug, Clone, serde::Serialize)]
pub struct PointSummary {
    /// What distinguishes it.
    pub labels: serde_json::Value,
    /// Messages per second.
    pub message_rate_hz: Option<Quartiles>,
    /// Payload in bits per second.
    pub goodput_bps: Option<Quartiles>,
    /// Median round-trip times, in ns.
    pub rtt_ns_p50: Option<Quartiles>,
    /// Our result over that of other programs, by column, of the medians.
    pub ratios: serde_json::Value,
    /// Runs in which the books did not close; 0 when all is well.
    pub runs_with_residual: usize,
}

/// What came of a sweep.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Report {
    /// The conditions.
    pub conditions: Conditions,
    /// Decided the order.
    pub seed: u64,
    /// All points of the directory.
    pub points: Vec<PointSummary>,
    /// What cannot be measured here.
    pub skipped: Vec<Skipped>,
    /// Points that gave no result.
    pub failed: Vec<Skipped>,
    /// Rows in which the books did not close; 0 when all is well.
    pub rows_with_residual: usize,
    /// What makes the numbers doubtful.
    pub warnings: Vec<String>,
    /// Ended before all points were measured.
    pub interrupted: bool,
    /// Rows.
    pub csv: PathBuf,
    /// The same.
    pub parquet: PathBuf,
}

/// The points of `rows`, in the order of their labels.
pub(super) fn points(rows: &[Row]) -> Vec<PointSummary> {
    let mut groups: Vec<(Vec<Option<Cell>>, Vec<&Row>)> = Vec::new();
    for row in rows {
        let key = key(row);
        match groups.iter_mut().find(|group| group.0 == key) {
            Some(group) => group.1.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    groups.sort_by(|a, b| {
        order(a.1[0])
            .partial_cmp(&order(b.1[0]))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    groups.iter().map(|group| point(&group.1)).collect()
}

/// Programs, patterns and backends together, sizes from small to large.
fn order(row: &Row) -> (bool, String, [f64; 3]) {
    let words = ["pattern", "backend", "program", "network"].map(|name| row.text(name));
    let numbers = ["message_bytes", "buffer_bytes", "buffer_count"].map(|name| {
        let number = row.number(name);
        if number.is_nan() { 0.0 } else { number }
    });
    (row.text("program") != "forebay", words.join(" "), numbers)
}

fn point(rows: &[&Row]) -> PointSummary {
    let over = |name: &str| quartiles(rows.iter().map(|row| row.number(name)));
    let ratios = Peer::ALL.iter().filter_map(|peer| {
        let name = peer.ratio_column();
        let median = spread(rows.iter().map(|row| row.number(name)))?.median;
        Some((name.to_owned(), serde_json::json!(median)))
    });
    let labels = LABELS.iter().filter_map(|name| {
        let cell = rows[0].cell(name)?;
        Some(((*name).to_owned(), serde_json::json!(cell)))
    });
    PointSummary {
        labels: serde_json::Value::Object(labels.collect()),
        message_rate_hz: over("message_rate_hz"),
        goodput_bps: over("goodput_bps"),
        rtt_ns_p50: over("rtt_ns_p50"),
        ratios: serde_json::Value::Object(ratios.collect()),
        runs_with_residual: rows
            .iter()
            .filter(|row| !row.text("books").is_empty())
            .count(),
    }
}

/// What makes the numbers of these points doubtful.
pub(super) fn doubts(points: &[PointSummary], options: &Options) -> Vec<String> {
    let mut doubts = Vec::new();
    if options.duration.as_secs_f64() < DURATION_S_MIN {
        doubts.push(format!(
            "runs of {:?} are short: start and end are a good part of them",
            options.duration
        ));
    }
    if options.repeats < 5 {
        doubts.push(format!(
            "{} run(s) of each point: five tell a median from an accident",
            options.repeats
        ));
    }
    let out = points.iter().filter(|point| {
        [point.goodput_bps, point.rtt_ns_p50]
            .iter()
            .flatten()
            .any(|found| found.outliers > 0)
    });
    match out.count() {
        0 => {}
        count => doubts.push(format!(
            "{count} point(s) have runs far from the others: something else used the machine meanwhile"
        )),
    }
    doubts
}

impl PointSummary {
    /// For people, in one line.
    #[must_use]
    pub fn text(&self) -> String {
        let word = |name: &str| self.labels[name].as_str().unwrap_or_default();
        let bytes = |name: &str| self.labels[name].as_f64().unwrap_or_default();
        let mut text = format!(
            "{} {} {}",
            word("program"),
            word("pattern"),
            word("backend")
        );
        if self.labels["buffer_count"].is_number() {
            let (count, size) = (bytes("buffer_count"), bytes("buffer_bytes"));
            text += &format!(", {count} × {size} B");
        }
        text += &format!(", messages of {} B: ", bytes("message_bytes"));
        text += &match (&self.rtt_ns_p50, &self.goodput_bps, &self.message_rate_hz) {
            (Some(rtt), ..) => format!("round trip {}", shown(rtt, 1e-3, "µs")),
            (None, Some(goodput), Some(rate)) => format!(
                "{}, {}",
                shown(goodput, 1e-9, "Gb/s"),
                shown(rate, 1e-3, "kHz")
            ),
            _ => "no result".to_owned(),
        };
        for (name, ratio) in self.ratios.as_object().into_iter().flatten() {
            text += &format!(
                ", {} {:.2}",
                name.replace("ratio_", "/ "),
                ratio.as_f64().unwrap_or_default()
            );
        }
        if self.runs_with_residual > 0 {
            text += &format!(
                ", THE BOOKS DO NOT CLOSE in {} run(s)",
                self.runs_with_residual
            );
        }
        text
    }
}

fn shown(of: &Quartiles, scale: f64, unit: &str) -> String {
    let [median, q1, q3, min, max] =
        [of.median, of.q1, of.q3, of.min, of.max].map(|value| value * scale);
    format!("{median:.3} {unit} (quartiles {q1:.3}..{q3:.3}, all {min:.3}..{max:.3})")
}

impl Report {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines: Vec<String> = self.points.iter().map(PointSummary::text).collect();
        lines.push(format!(
            "medians, seed {}; {}",
            self.seed,
            self.conditions.line()
        ));
        lines.extend(self.skipped.iter().map(ToString::to_string));
        lines.extend(
            self.failed
                .iter()
                .map(|failed| format!("{}: FAILED: {}", failed.what, failed.reason)),
        );
        lines.extend(
            self.warnings
                .iter()
                .map(|warning| format!("WARNING: {warning}")),
        );
        if self.rows_with_residual > 0 {
            lines.push(format!(
                "THE BOOKS DO NOT CLOSE in {} row(s)",
                self.rows_with_residual
            ));
        }
        if self.interrupted {
            lines.push(
                "interrupted: the points so far are kept; --resume goes on with them".to_owned(),
            );
        }
        lines.extend([&self.csv, &self.parquet].map(|path| path.display().to_string()));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bytes: f64, goodput_bps: f64, books: &str) -> Row {
        let mut row = Row::default();
        row.add("program", "forebay");
        row.add("pattern", "stream");
        row.add("backend", "tcp");
        row.add("message_bytes", bytes);
        row.add("goodput_bps", goodput_bps);
        row.add("message_rate_hz", goodput_bps / 8.0 / bytes);
        row.add("books", books);
        row
    }

    #[test]
    fn points_come_from_small_to_large_with_the_spread_of_their_runs() {
        let rows = [
            row(2048.0, 5e9, ""),
            row(64.0, 1e9, ""),
            row(64.0, 3e9, "DO NOT CLOSE"),
        ];
        let points = points(&rows);
        assert_eq!(points.len(), 2);
        let goodput = points[0].goodput_bps.unwrap();
        assert_eq!([goodput.min, goodput.median, goodput.max], [1e9, 2e9, 3e9]);
        assert_eq!(points[0].runs_with_residual, 1);
        let text = points[0].text();
        assert!(
            text.contains("messages of 64 B: 2.000 Gb/s") && text.contains("DO NOT CLOSE in 1"),
            "{text}"
        );
    }
}
