//! H8 and H10: Test-2 with a 100 kB sub-event now and then in every source, each at a time of its own.

use super::scan::{Scan, ScanPoint, Task};
use super::series::{by_point, column, median, points};
use crate::chain::{Setup, TEST2};
use forebay_report::plot::{Axis, Chart, Scale, Series};
use forebay_report::rows::Row;

const HUGE_BYTES: u32 = 100_000;

pub(super) fn scan_rare(quick: bool) -> Scan {
    scan("huge10000", 10_000, quick)
}

pub(super) fn scan_frequent(quick: bool) -> Scan {
    scan("huge1000", 1_000, quick)
}

fn scan(name: &'static str, every: u32, quick: bool) -> Scan {
    let rates: &[f64] = if quick {
        &[1.0, 4.0, 16.0]
    } else {
        &[1.0, 2.0, 3.0, 4.0, 8.0, 16.0, 24.0]
    };
    Scan {
        name,
        points: rates.iter().map(|khz| point(*khz, every, quick)).collect(),
    }
}

fn point(khz: f64, every: u32, quick: bool) -> ScanPoint {
    // Long enough that each source sends several huge ones while looked at.
    let mut setup = Setup {
        huge: Some((every, HUGE_BYTES)),
        measure_s: 5.0,
        ..Setup::test2(khz * 1e3)
    };
    if quick {
        (setup.warm_s, setup.measure_s) = (0.5, 2.5);
    }
    let mut labels = Row::default();
    labels.add("event_rate_khz", khz);
    ScanPoint {
        name: format!("Test-2 at {khz} kHz, 100 kB once per {every}"),
        labels,
        task: Task::Chain(setup),
    }
}

const X: (&str, f64) = ("event_rate_khz", 1.0);

fn class(group: usize) -> String {
    TEST2
        .get(group)
        .map_or_else(String::new, |(count, bytes, _)| {
            format!("{count} × {bytes} B")
        })
}

pub(super) fn charts(rows: &[Row]) -> Vec<Chart> {
    let axis = || Axis::new("event rate [kHz]", Scale::Log);
    let fill = |kind: &str, group: usize| {
        points(
            rows,
            |_| true,
            X,
            (&format!("ring_fill_mb_group{group}_{kind}"), 1.0),
        )
    };
    let groups = || 0..TEST2.len();
    let mut series: Vec<Series> = groups()
        .map(|group| Series::measured(format!("{}, mean", class(group)), fill("mean", group)))
        .collect();
    series.extend(
        groups().map(|group| {
            Series::measured(format!("{}, largest", class(group)), fill("max", group))
        }),
    );
    let fills = Chart {
        title: "Waiting in the rings, by class of sources".into(),
        x: axis(),
        y: Axis::new("fill [MB]", Scale::Linear),
        series,
    };
    let lost = Chart {
        title: "Complete events".into(),
        x: axis(),
        y: Axis::new("complete events [%]", Scale::Linear).from_to(0.0, 105.0),
        series: vec![
            Series::measured(
                "here",
                points(rows, |_| true, X, ("efficiency_percent", 1.0)),
            ),
            Series::measured("fullest ring [% of its size]", fullest(rows)),
        ],
    };
    vec![fills, lost]
}

/// The fullest ring in percent of one source's ring.
fn fullest(rows: &[Row]) -> Vec<forebay_report::plot::Point> {
    let share = |row: &Row| {
        let mut row = row.clone();
        let ring = row.number("ring_capacity_bytes") / row.number("sources");
        row.add(
            "fullest_percent",
            row.number("fullest_ring_bytes_max") / ring * 100.0,
        );
        row
    };
    let rows: Vec<Row> = rows.iter().map(share).collect();
    points(&rows, |_| true, X, ("fullest_percent", 1.0))
}

pub(super) fn compare(rows: &[Row]) -> Vec<String> {
    let line = |repeats: &Vec<&Row>| {
        let khz = repeats[0].number("event_rate_khz");
        let published = match (repeats[0].number("huge_every") as u64, khz <= 4.0) {
            (10_000, true) => "published 0 % discarded; ",
            (1_000, true) => "published: blocked; ",
            _ => "",
        };
        let fills: Vec<String> = (0..TEST2.len())
            .map(|group| {
                format!(
                    "{} {} MB",
                    class(group),
                    median(repeats, &format!("ring_fill_mb_group{group}_mean"), 1.0, 1)
                )
            })
            .collect();
        format!(
            "{khz} kHz: {published}here {} MB/s offered, {} % discarded, {} items lost in all runs together; fill {}",
            median(repeats, "offered_bytes_per_s", 1e-6, 0),
            median(repeats, "discarded_percent", 1.0, 2),
            column(repeats, "lost_items").map_or(f64::NAN, |_| repeats
                .iter()
                .map(|row| row.number("lost_items"))
                .sum()),
            fills.join(", "),
        )
    };
    by_point(rows).values().map(line).collect()
}
