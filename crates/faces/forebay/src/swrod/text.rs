//! The report for people.

use std::fmt::Write;

use forebay_run::record::Record;
use forebay_run_felix::swrod::{ByName, ElinkReport, SwrodReport};

use forebay_report::text::{bytes, si};

const COLUMNS: [&str; 8] = [
    "E-link", "chunks", "bytes", "missing", "jumps", "repeated", "bad", "flagged",
];

/// What came, a line for each E-link, and what was wrong.
pub(super) fn summary(report: &Record<SwrodReport>) -> String {
    let (chunks, size) = (report.chunks, bytes(report.bytes as f64));
    let rate = si(report.chunk_rate_hz, "chunks/s");
    let goodput = si(report.goodput_bps, "bit/s");
    let mut text = format!(
        "{chunks} chunks ({size}) in {:.3} s: {rate}, {goodput}; {:.2} s of CPU\n",
        report.elapsed_s,
        report.envelope.cpu_s()
    );
    table(&mut text, &report.elinks);
    let _ = writeln!(
        text,
        "missing {}, repeated {}, lost on the way {}, dropped by publishers {}, residual {}",
        report.missing,
        report.repeated,
        report.dropped,
        report.dropped_at_peers,
        report.envelope.books.residual_items
    );
    let lines = [
        ("bad payload", &report.bad_payload),
        ("flagged", &report.flagged),
        ("connections ended", &report.end_point.parted),
    ];
    for (title, counts) in lines.into_iter().filter(|(_, counts)| !counts.is_empty()) {
        let all = counts.iter().map(|(name, count)| format!("{name} {count}"));
        let _ = writeln!(text, "{title}: {}", all.collect::<Vec<_>>().join(", "));
    }
    if let Some(fragments) = &report.fragments {
        let _ = writeln!(
            text,
            "fragments: {} complete, {} incomplete, {} early, {} open; chunks: {} late, {} repeated",
            fragments.complete,
            fragments.incomplete,
            fragments.early,
            fragments.open,
            fragments.late_chunks,
            fragments.repeated_chunks
        );
    }
    if let Some(latency) = &report.latency_ns {
        let ms = |ns: u64| ns as f64 / 1e6;
        let _ = writeln!(
            text,
            "trigger to here: median {:.3} ms, 99 % {:.3} ms, 99.9 % {:.3} ms, most {:.3} ms, of {} chunks; unknown {}",
            ms(latency.p50),
            ms(latency.p99),
            ms(latency.p999),
            ms(latency.max),
            latency.count,
            latency.unknown
        );
    }
    if !report.is_closed() {
        text.push_str("THE BOOKS DO NOT CLOSE\n");
    }
    text
}

fn table(text: &mut String, elinks: &[ElinkReport]) {
    let head = COLUMNS.map(str::to_owned);
    let rows: Vec<[String; 8]> = std::iter::once(head)
        .chain(elinks.iter().map(row))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; 8] = std::array::from_fn(width);
    for row in &rows {
        let cells = row.iter().zip(widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:>width$}"))
            .collect();
        let _ = writeln!(text, "{}", cells.join("  "));
    }
}

fn row(link: &ElinkReport) -> [String; 8] {
    let sum = |counts: &ByName| counts.values().sum::<u64>().to_string();
    [
        link.fid.clone().unwrap_or_else(|| "all others".into()),
        link.chunks.to_string(),
        link.bytes.to_string(),
        link.missing.to_string(),
        link.jumps.to_string(),
        link.repeated.to_string(),
        sum(&link.bad_payload),
        sum(&link.flagged),
    ]
}
