//! The report for people.

use std::fmt::Write;
use std::path::Path;

use forebay_run_felix::check::{ByName, ElinkReport, Report};
use forebay_wire::felix::{Elink, Kind};

use crate::output::counted;
use forebay_report::text::bytes;

/// Columns in front of those of the subchunks.
const COLUMNS: [&str; 9] = [
    "E-link", "blocks", "chunks", "bytes", "smallest", "mean", "largest", "flagged", "errors",
];

/// What the file has, a line for each E-link, and what is wrong.
pub(super) fn summary(file: &Path, report: &Report) -> String {
    let verdict = match report.error_count() {
        0 if report.is_sound() => "sound".to_owned(),
        count => counted(count, "error"),
    };
    let mut text = format!("{}: {verdict}\n", file.display());
    line(
        &mut text,
        "blocks",
        &format!("{} ({})", report.blocks, report.blocks_format),
    );
    let size = bytes(report.bytes as f64);
    line(&mut text, "bytes", &format!("{} ({size})", report.bytes));
    for (name, count) in [
        ("skipped", report.skipped_bytes),
        ("tail", report.tail_bytes),
    ] {
        if count > 0 {
            line(&mut text, name, &counted(count, "byte"));
        }
    }
    let size = bytes(report.chunk_bytes as f64);
    line(&mut text, "chunks", &format!("{} ({size})", report.chunks));
    if report.missing_blocks > 0 {
        line(
            &mut text,
            "missing",
            &format!("{} at least", counted(report.missing_blocks, "block")),
        );
    }
    if !report.elinks.is_empty() {
        text.push('\n');
        table(&mut text, &report.elinks);
        text.push('\n');
    }
    for (title, counts) in [("flagged", &report.flagged), ("errors", &report.errors)] {
        if !counts.is_empty() {
            line(&mut text, title, &list(counts));
        }
    }
    let residual = &report.residual;
    if !residual.is_zero() {
        line(
            &mut text,
            "residual",
            &format!("{residual:?}: THE BOOKS DO NOT CLOSE"),
        );
    }
    for finding in &report.first_errors {
        let _ = writeln!(text, "  {finding}");
    }
    let listed = report.first_errors.len() as u64;
    let rest = report.error_count() - listed.min(report.error_count());
    if rest > 0 && listed > 0 {
        let _ = writeln!(text, "  … and {rest} more: --errors N lists N of them");
    }
    text
}

fn line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name:<8} {value}");
}

fn list(counts: &ByName) -> String {
    let all: Vec<String> = counts
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    all.join(", ")
}

fn table(text: &mut String, elinks: &[ElinkReport]) {
    let kinds: Vec<&str> = Kind::ALL
        .into_iter()
        .map(Kind::name)
        .filter(|name| elinks.iter().any(|link| link.subchunks.contains_key(name)))
        .collect();
    let head = COLUMNS
        .iter()
        .chain(&kinds)
        .map(ToString::to_string)
        .collect();
    let rows = elinks.iter().map(|link| row(link, &kinds));
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:>width$}"))
            .collect();
        let _ = writeln!(text, "{}", cells.join("  "));
    }
}

fn row(link: &ElinkReport, kinds: &[&str]) -> Vec<String> {
    let errors: u64 = link.errors.values().sum();
    let mut row = vec![
        Elink::from_bits(link.elink).to_string(),
        link.blocks.to_string(),
        link.chunks.to_string(),
        link.bytes.to_string(),
        link.chunk_bytes_min.to_string(),
        format!("{:.1}", link.chunk_bytes_mean),
        link.chunk_bytes_max.to_string(),
        link.flagged.to_string(),
        errors.to_string(),
    ];
    let counts = kinds
        .iter()
        .map(|kind| link.subchunks.get(kind).copied().unwrap_or(0));
    row.extend(counts.map(|count| count.to_string()));
    row
}
