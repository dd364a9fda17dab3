//! F10: memory over the number of tags, on one connection and on one for each tag.

use std::time::Duration;

use super::scan::{Scan, ScanPoint, Task};
use super::series::{by_point, median, points, values};
use crate::net::perf::{Pattern, Perf};
use forebay_report::plot::{Axis, Chart, Scale, Series};
use forebay_report::rows::Row;

/// The backends, and most connections that are made over each: libfabric has queues and threads for every one.
const BACKENDS: [(&str, u32); 3] = [("tcp", 1000), ("shm", 1000), ("fabric+tcp", 100)];
const TAGS: [u32; 5] = [1, 10, 100, 1000, 10_000];
const BUFFER_BYTES: u32 = 64 << 10;
const BUFFERS: u32 = 4;
const MESSAGE_BYTES: u32 = 1 << 10;

pub(super) fn scan(quick: bool) -> Scan {
    let tags = TAGS
        .iter()
        .enumerate()
        .filter(|(index, _)| !quick || index % 2 == 0);
    let mut points = Vec::new();
    for (_, &tags) in tags {
        for (number, (backend, most)) in BACKENDS.into_iter().enumerate() {
            points.push(point(number, backend, tags, 1, quick));
            let each = !quick || tags <= 100;
            if each && tags > 1 && tags <= most {
                points.push(point(number, backend, tags, tags, quick));
            }
        }
    }
    Scan {
        name: "memory",
        points,
    }
}

fn point(number: usize, backend: &str, tags: u32, connections: u32, quick: bool) -> ScanPoint {
    let mut labels = Row::default();
    labels.add("backend_number", number);
    labels.add("tags", f64::from(tags));
    labels.add("connections", f64::from(connections));
    let perf = Perf {
        backend: backend.to_owned(),
        buffer_bytes: BUFFER_BYTES,
        buffer_count: BUFFERS,
        message_bytes: MESSAGE_BYTES,
        pattern: Pattern::PubSub {
            tags: tags.into(),
            subscribers: connections,
            deal_tags: true,
        },
        duration: Duration::from_millis(if quick { 200 } else { 1000 }),
    };
    ScanPoint {
        name: format!("{backend}, {tags} tags on {connections} connections"),
        labels,
        task: Task::Net(perf),
    }
}

const X: (&str, f64) = ("tags", 1.0);
const MIB: f64 = 1.0 / 1_048_576.0;

/// Tags of one connection, or one tag on each.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Connections {
    One,
    Each,
}

impl Connections {
    /// A single tag on a single connection is both.
    fn has(self, row: &Row) -> bool {
        let connections = row.number("connections");
        match self {
            Self::One => connections == 1.0,
            Self::Each => connections == row.number("tags"),
        }
    }
}

fn chart(rows: &[Row], title: &str, connections: Connections, name: &str, y: Axis) -> Chart {
    let line = |number: f64| {
        let choose = |row: &Row| {
            row.number("backend_number") == number
                && connections.has(row)
                // A logarithm has no place for nothing.
                && row.number(name) > 0.0
        };
        Series::measured(
            BACKENDS[number as usize].0,
            points(rows, choose, X, (name, MIB)),
        )
    };
    let lines = values(rows, "backend_number").into_iter().map(line);
    Chart {
        title: title.to_owned(),
        x: Axis::new("tags", Scale::Log),
        y,
        series: lines.filter(|series| !series.points.is_empty()).collect(),
    }
}

pub(super) fn charts(rows: &[Row]) -> Vec<Chart> {
    let resident = || Axis::new("resident [MiB]", Scale::Log);
    let registered = || Axis::new("registered [MiB]", Scale::Log);
    let of = |title, connections, name, axis| chart(rows, title, connections, name, axis);
    vec![
        of(
            "Publisher, all tags on one connection",
            Connections::One,
            "publisher_used_resident_bytes",
            resident(),
        ),
        of(
            "Publisher, a connection for each tag",
            Connections::Each,
            "publisher_used_resident_bytes",
            resident(),
        ),
        of(
            "Subscribers, all tags on one connection",
            Connections::One,
            "subscriber_used_resident_bytes",
            resident(),
        ),
        of(
            "Subscribers, a connection for each tag",
            Connections::Each,
            "subscriber_used_resident_bytes",
            resident(),
        ),
        of(
            "Registered by the publisher, all tags on one connection",
            Connections::One,
            "publisher_connected_registered_bytes",
            registered(),
        ),
        of(
            "Registered by the publisher, a connection for each tag",
            Connections::Each,
            "publisher_connected_registered_bytes",
            registered(),
        ),
    ]
}

pub(super) fn compare(rows: &[Row]) -> Vec<String> {
    let line = |repeats: &Vec<&Row>| {
        let first = repeats[0];
        let side = |side: &str| {
            let mib = |name: &str| median(repeats, &format!("{side}_{name}_bytes"), MIB, 1);
            format!(
                "{side} {} MiB resident ({} connected), {} registered, {} locked",
                mib("used_resident"),
                mib("connected_resident"),
                mib("connected_registered"),
                mib("connected_locked"),
            )
        };
        format!(
            "{}, {} tags on {} connections: here {}; {}",
            first.text("backend"),
            first.number("tags"),
            first.number("connections"),
            side("publisher"),
            side("subscriber"),
        )
    };
    by_point(rows).values().map(line).collect()
}
