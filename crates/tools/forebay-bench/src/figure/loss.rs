//! H14: what UDP loses between one sender and one socket.

use super::published::LOSS;
use super::scan::{Scan, ScanPoint, Task};
use super::series::{by_point, column, points, values};
use crate::udp::Offer;
use forebay_report::plot::{Axis, Chart, Point, Scale, Series};
use forebay_report::rows::Row;

const RATES_GBIT: [f64; 12] = [
    0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0,
];
/// Datagram, whether the sender lets the kernel cut, highest rate that is tried.
const SENDERS: [(usize, bool, f64); 3] = [
    (1472, false, 12.0),
    (1472, true, 64.0),
    (32_768, false, 64.0),
];
const BUFFER_BYTES: usize = 4 << 20;

pub(super) fn scan(quick: bool) -> Scan {
    let mut all = Vec::new();
    for (datagram_bytes, segmented, most) in SENDERS {
        let rates = RATES_GBIT
            .into_iter()
            .enumerate()
            .filter(|(index, rate)| *rate <= most && (!quick || index % 2 == 1));
        all.extend(rates.map(|(_, rate)| point(datagram_bytes, segmented, rate, quick)));
    }
    Scan {
        name: "loss",
        points: all,
    }
}

fn point(datagram_bytes: usize, segmented: bool, gbit: f64, quick: bool) -> ScanPoint {
    let seconds = if quick { 0.5 } else { 2.0 };
    let offer = Offer {
        bits_per_s: gbit * 1e9,
        datagram_bytes,
        segmented,
        seconds,
        buffer_bytes: BUFFER_BYTES,
    };
    let mut labels = Row::default();
    labels.add(
        "sender",
        if segmented { f64::from(1) } else { 0.0 } + datagram_bytes as f64,
    );
    ScanPoint {
        name: format!("{} at {gbit} Gb/s", sender(datagram_bytes, segmented)),
        labels,
        task: Task::Loss(offer),
    }
}

fn sender(datagram_bytes: usize, segmented: bool) -> String {
    format!(
        "{datagram_bytes} B datagrams{}",
        if segmented {
            ", cut by the kernel (GSO)"
        } else {
            ""
        }
    )
}

const X: (&str, f64) = ("sent_bits_per_s", 1e-9);

pub(super) fn charts(rows: &[Row]) -> Vec<Chart> {
    let line = |key: f64| {
        let of_line = rows.iter().find(|row| row.number("sender") == key);
        let name = of_line.map_or_else(String::new, |row| {
            sender(
                row.number("datagram_bytes") as usize,
                row.number("segmented") != 0.0,
            )
        });
        Series::measured(
            name,
            points(
                rows,
                |row| row.number("sender") == key,
                X,
                ("lost_percent", 1.0),
            ),
        )
    };
    let mut series: Vec<Series> = values(rows, "sender").into_iter().map(line).collect();
    series.push(Series::published(
        "HADES",
        LOSS.iter()
            .map(|(rate, lost)| Point::exact(*rate, *lost))
            .collect(),
    ));
    let x = Axis::new("payload sent [Gb/s]", Scale::Log);
    vec![Chart {
        title: String::new(),
        x,
        y: Axis::new("datagrams lost [%]", Scale::Linear),
        series,
    }]
}

pub(super) fn compare(rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    for key in values(rows, "sender") {
        let of_line: Vec<Row> = rows
            .iter()
            .filter(|row| row.number("sender") == key)
            .cloned()
            .collect();
        let Some(one) = of_line.first() else { continue };
        let name = sender(
            one.number("datagram_bytes") as usize,
            one.number("segmented") != 0.0,
        );
        let mut tried: Vec<(f64, f64)> = by_point(&of_line)
            .into_values()
            .filter_map(|repeats| {
                Some((
                    column(&repeats, X.0)?.median * X.1,
                    column(&repeats, "lost_percent")?.median,
                ))
            })
            .collect();
        tried.sort_by(|a, b| a.0.total_cmp(&b.0));
        let good = tried
            .iter()
            .take_while(|point| point.1 == 0.0)
            .last()
            .map_or(0.0, |point| point.0);
        let bad: Vec<String> = tried
            .iter()
            .filter(|point| point.1 > 0.0)
            .map(|(rate, lost)| format!("{lost:.1} % at {rate:.1}"))
            .collect();
        let bad = if bad.is_empty() {
            "and the sender can do no more".to_owned()
        } else {
            bad.join(", ")
        };
        lines.push(format!("here, {name}: 0 % to {good:.1} Gb/s, {bad}"));
    }
    let unexplained: f64 = rows
        .iter()
        .map(|row| row.number("residual_items").abs())
        .sum();
    lines.push(format!(
        "sent − received − dropped by the kernel, all {} runs together: {unexplained}",
        rows.len()
    ));
    lines
}
