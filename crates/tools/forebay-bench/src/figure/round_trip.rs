//! F5: round-trip times of every backend over the size of a message.

use std::time::Duration;

use super::scan::{Scan, ScanPoint, Task};
use super::series::{by_point, column, points, values};
use crate::net::perf::{Pattern, Perf};
use forebay_report::plot::{Axis, Chart, Scale, Series};
use forebay_report::rows::Row;

const BACKENDS: [&str; 3] = ["tcp", "shm", "fabric+tcp"];
const MESSAGES_BYTES: [u32; 7] = [16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10];
const BUFFER_BYTES: u32 = 64 << 10;
const BUFFERS: u32 = 64;

pub(super) fn scan(quick: bool) -> Scan {
    let sizes = MESSAGES_BYTES
        .iter()
        .enumerate()
        .filter(|(index, _)| !quick || index % 2 == 0);
    let points = sizes.flat_map(|(_, bytes)| {
        BACKENDS
            .iter()
            .enumerate()
            .map(move |(number, backend)| point(number, backend, *bytes, quick))
    });
    Scan {
        name: "round_trip",
        points: points.collect(),
    }
}

fn point(number: usize, backend: &str, message_bytes: u32, quick: bool) -> ScanPoint {
    let mut labels = Row::default();
    labels.add("backend_number", number);
    let perf = Perf {
        backend: backend.to_owned(),
        buffer_bytes: BUFFER_BYTES,
        buffer_count: BUFFERS,
        message_bytes,
        pattern: Pattern::RoundTrip,
        duration: Duration::from_millis(if quick { 200 } else { 1000 }),
    };
    ScanPoint {
        name: format!("{backend}, round trips of {message_bytes} B"),
        labels,
        task: Task::Net(perf),
    }
}

const X: (&str, f64) = ("message_bytes", 1.0);

fn chart(rows: &[Row], title: &str, name: &str) -> Chart {
    let line = |number: f64| {
        let of_backend = points(
            rows,
            |row| row.number("backend_number") == number,
            X,
            (name, 1e-3),
        );
        Series::measured(BACKENDS[number as usize], of_backend)
    };
    Chart {
        title: title.to_owned(),
        x: Axis::new("message [B]", Scale::Log),
        y: Axis::new("round trip [µs]", Scale::Log),
        series: values(rows, "backend_number")
            .into_iter()
            .map(line)
            .collect(),
    }
}

pub(super) fn charts(rows: &[Row]) -> Vec<Chart> {
    vec![
        chart(rows, "Median", "rtt_ns_p50"),
        chart(rows, "99 % are below", "rtt_ns_p99"),
    ]
}

pub(super) fn compare(rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    for bytes in values(rows, X.0) {
        let of_backend = |repeats: Vec<&Row>| {
            let chosen = repeats[0].number(X.0) == bytes;
            let rtt = column(&repeats, "rtt_ns_p50").filter(|_| chosen)?;
            Some(format!(
                "{} {:.1} µs",
                repeats[0].text("backend"),
                rtt.median * 1e-3
            ))
        };
        let told: Vec<String> = by_point(rows)
            .into_values()
            .filter_map(of_backend)
            .collect();
        lines.push(format!("{bytes} B: here {}", told.join(", ")));
    }
    lines
}
