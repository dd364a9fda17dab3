//! F1 to F4: messaging over size and number of its buffers, one message in each.

use std::time::Duration;

use super::published;
use super::scan::{Scan, ScanPoint, Task};
use super::series::{by_point, column, median, points, values};
use crate::net::perf::{Pattern, Perf};
use forebay_report::plot::{Axis, Chart, Point, Scale, Series};
use forebay_report::rows::Row;

/// Sizes of buffers in KiB.
const SIZES_KIB: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Numbers of buffers.
const COUNTS: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
/// Numbers of buffers over TCP: with seven sizes 28 combinations.
const TCP_COUNTS: [u32; 4] = [1, 2, 4, 8];
/// Of the fabric backend the provider that needs no hardware.
const FABRIC: &str = "fabric+tcp";

pub(super) fn scan_fabric_1_kib(quick: bool) -> Scan {
    scan("fabric_1_kib", FABRIC, &[1], &COUNTS, quick)
}

pub(super) fn scan_fabric_64_kib(quick: bool) -> Scan {
    scan("fabric_64_kib", FABRIC, &[64], &COUNTS, quick)
}

pub(super) fn scan_fabric(quick: bool) -> Scan {
    scan("fabric_buffers", FABRIC, &SIZES_KIB, &COUNTS, quick)
}

pub(super) fn scan_tcp(quick: bool) -> Scan {
    scan("tcp_buffers", "tcp", &SIZES_KIB, &TCP_COUNTS, quick)
}

/// Every second size and number with `quick`, the first and the largest ones included.
fn thinned(all: &[u32], quick: bool) -> Vec<u32> {
    let last = all.len() - 1;
    let kept = |index: usize| !quick || index.is_multiple_of(2) || index == last;
    let numbered = all.iter().enumerate().filter(|(index, _)| kept(*index));
    numbered.map(|(_, value)| *value).collect()
}

fn scan(name: &'static str, backend: &str, sizes_kib: &[u32], counts: &[u32], quick: bool) -> Scan {
    let counts = thinned(counts, quick);
    let mut points = Vec::new();
    for kib in thinned(sizes_kib, quick) {
        points.extend(
            counts
                .iter()
                .map(|count| point(backend, kib, *count, quick)),
        );
    }
    Scan { name, points }
}

fn point(backend: &str, kib: u32, count: u32, quick: bool) -> ScanPoint {
    let mut labels = Row::default();
    labels.add("buffer_kib", f64::from(kib));
    let perf = Perf {
        backend: backend.to_owned(),
        buffer_bytes: kib << 10,
        buffer_count: count,
        message_bytes: kib << 10,
        pattern: Pattern::Stream,
        duration: Duration::from_millis(if quick { 200 } else { 1000 }),
    };
    ScanPoint {
        name: format!("{backend}, {count} buffers of {kib} KiB"),
        labels,
        task: Task::Net(perf),
    }
}

const X: (&str, f64) = ("buffer_count", 1.0);
const GOODPUT: (&str, f64) = ("goodput_bps", 1e-9);
const RATE: (&str, f64) = ("message_rate_hz", 1e-3);

fn by_size(rows: &[Row], y: (&str, f64)) -> Vec<Series> {
    let line = |kib: f64| {
        let of_size = points(rows, |row| row.number("buffer_kib") == kib, X, y);
        Series::measured(format!("{kib} KiB"), of_size)
    };
    values(rows, "buffer_kib").into_iter().map(line).collect()
}

/// The same without the spread of the runs.
fn medians(series: Vec<Series>) -> Vec<Series> {
    let flat = |line: Series| Series {
        points: line
            .points
            .iter()
            .map(|point| Point::exact(point.x, point.y))
            .collect(),
        ..line
    };
    series.into_iter().map(flat).collect()
}

fn chart(title: &str, y: &str, series: Vec<Series>) -> Chart {
    Chart {
        title: title.to_owned(),
        x: Axis::new("buffers", Scale::Log),
        y: Axis::new(y, Scale::Log),
        series,
    }
}

fn with(mut series: Vec<Series>, reference: impl IntoIterator<Item = Series>) -> Vec<Series> {
    series.extend(reference);
    series
}

const GBPS: &str = "goodput [Gb/s]";
const KHZ: &str = "messages [kHz]";

/// Ranges on the left, medians on the right.
pub(super) fn charts_of_one_size(rows: &[Row]) -> Vec<Chart> {
    let (goodput, rate) = (by_size(rows, GOODPUT), by_size(rows, RATE));
    let line_rate = || [published::fabric_line_rate()];
    vec![
        chart(
            "Goodput, smallest to largest",
            GBPS,
            with(goodput.clone(), line_rate()),
        ),
        chart(
            "Goodput, medians",
            GBPS,
            with(medians(goodput), line_rate()),
        ),
        chart("Message rate, smallest to largest", KHZ, rate.clone()),
        chart("Message rate, medians", KHZ, medians(rate)),
    ]
}

pub(super) fn charts_of_fabric(rows: &[Row]) -> Vec<Chart> {
    let goodput = with(
        medians(by_size(rows, GOODPUT)),
        [published::fabric_line_rate()],
    );
    vec![
        chart("Goodput", GBPS, goodput),
        chart("Message rate", KHZ, medians(by_size(rows, RATE))),
    ]
}

pub(super) fn charts_of_tcp(rows: &[Row]) -> Vec<Chart> {
    let goodput = with(by_size(rows, GOODPUT), [published::tcp_goodput()]);
    vec![
        chart(
            "Message rate",
            KHZ,
            with(by_size(rows, RATE), published::tcp_rate()),
        ),
        chart("Goodput", GBPS, goodput),
    ]
}

/// How far the runs of each point lie apart.
pub(super) fn compare_spread(rows: &[Row]) -> Vec<String> {
    let line = |repeats: &Vec<&Row>| {
        let goodput = column(repeats, GOODPUT.0)?;
        Some(format!(
            "{} buffers: here {:.3} Gb/s ({:.3}..{:.3}, {:.0} % of the median apart), {} kHz",
            repeats[0].number(X.0),
            goodput.median * GOODPUT.1,
            goodput.low * GOODPUT.1,
            goodput.high * GOODPUT.1,
            (goodput.high - goodput.low) / goodput.median * 100.0,
            median(repeats, RATE.0, RATE.1, 1),
        ))
    };
    by_point(rows).values().filter_map(line).collect()
}

/// The median goodput of each point in bits per second, with its size in KiB and its number of buffers.
fn goodputs(rows: &[Row]) -> Vec<(f64, f64, f64)> {
    let of_point = |repeats: Vec<&Row>| {
        let goodput = column(&repeats, GOODPUT.0)?.median;
        Some((
            repeats[0].number("buffer_kib"),
            repeats[0].number(X.0),
            goodput,
        ))
    };
    by_point(rows).into_values().filter_map(of_point).collect()
}

pub(super) fn compare_regions(rows: &[Row]) -> Vec<String> {
    let all = goodputs(rows);
    let best_of = |choose: &dyn Fn(&(f64, f64, f64)) -> bool| {
        let chosen = all.iter().filter(|point| choose(point));
        chosen.max_by(|a, b| a.2.total_cmp(&b.2)).copied()
    };
    let said = |what: &str, point: Option<(f64, f64, f64)>| {
        point.map(|(kib, count, bps)| {
            format!(
                "{what}: here {:.2} Gb/s at most, with {count} buffers of {kib} KiB",
                bps * 1e-9
            )
        })
    };
    [
        said("all combinations", best_of(&|_| true)),
        said(
            "below 8 KiB (published: avoid)",
            best_of(&|point| point.0 < 8.0),
        ),
        said(
            "fewer than 16 buffers (published: avoid)",
            best_of(&|point| point.1 < 16.0),
        ),
        said(
            "from 8 KiB and 16 buffers on",
            best_of(&|point| point.0 >= 8.0 && point.1 >= 16.0),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

pub(super) fn compare_tcp(rows: &[Row]) -> Vec<String> {
    let all = goodputs(rows);
    let mut lines = Vec::new();
    for count in values(rows, X.0) {
        let rates: Vec<(f64, f64)> = all
            .iter()
            .filter(|point| point.1 == count)
            .map(|(kib, _, bps)| (*kib, bps / (kib * 1024.0 * 8.0) * RATE.1))
            .collect();
        let by_rate = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let (Some(low), Some(high)) = (rates.iter().min_by(by_rate), rates.iter().max_by(by_rate))
        else {
            continue;
        };
        lines.push(format!(
            "{count} buffers: published 70–90 kHz, small ones the faster; here {:.1} kHz ({} KiB) to {:.1} kHz ({} KiB)",
            low.1, low.0, high.1, high.0
        ));
    }
    if let Some(most) = all.iter().map(|point| point.2).max_by(f64::total_cmp) {
        lines.push(format!(
            "goodput: published below 10 Gb/s; here {:.1} Gb/s at most",
            most * 1e-9
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_combinations_as_were_published() {
        assert_eq!(scan_fabric(false).points.len(), 70);
        assert_eq!(scan_tcp(false).points.len(), 28);
        assert_eq!(thinned(&COUNTS, true), [1, 4, 16, 64, 256, 512]);
    }
}
