//! H13: as many sources as the original could not have.

use super::scan::{Scan, ScanPoint, Task};
use super::series::{by_point, median, points};
use crate::chain::Setup;
use forebay_report::plot::{Axis, Chart, Scale, Series};
use forebay_report::rows::Row;

const COUNTS: [usize; 5] = [95, 96, 100, 128, 256];
const BYTES: u32 = 282;
const RATE_HZ: f64 = 4000.0;

pub(super) fn scan(quick: bool) -> Scan {
    Scan {
        name: "sources",
        points: COUNTS.iter().map(|count| point(*count, quick)).collect(),
    }
}

fn point(count: usize, quick: bool) -> ScanPoint {
    let mut setup = Setup {
        groups: vec![(count, BYTES, 0.0)],
        ..Setup::test2(RATE_HZ)
    };
    if quick {
        (setup.warm_s, setup.measure_s) = (0.5, 1.0);
    }
    let mut labels = Row::default();
    labels.add("source_count", count);
    ScanPoint {
        name: format!("{count} sources"),
        labels,
        task: Task::Chain(setup),
    }
}

const X: (&str, f64) = ("source_count", 1.0);

pub(super) fn charts(rows: &[Row]) -> Vec<Chart> {
    let all = |name: &str| points(rows, |_| true, X, (name, 1.0));
    let axis = || Axis::new("sources", Scale::Linear).from_to(80.0, 270.0);
    let broken = vec![
        forebay_report::plot::Point::exact(96.0, 0.0),
        forebay_report::plot::Point::exact(96.0, 100.0),
    ];
    let complete = Chart {
        title: "Complete events at 4 kHz".into(),
        x: axis(),
        y: Axis::new("complete events [%]", Scale::Linear).from_to(0.0, 105.0),
        series: vec![
            Series::measured("here", all("efficiency_percent")),
            Series::published("HADES: broke at 96", broken),
        ],
    };
    let cpu = Chart {
        title: "CPU of both stages for one event".into(),
        x: axis(),
        y: Axis::new("CPU per event [µs]", Scale::Linear),
        series: vec![Series::measured(
            "receiver + builder",
            all("cpu_us_per_event"),
        )],
    };
    vec![complete, cpu]
}

pub(super) fn compare(rows: &[Row]) -> Vec<String> {
    let line = |repeats: &Vec<&Row>| {
        let count = repeats[0].number("source_count");
        format!(
            "{count} sources: published {}; here {} % discarded at 4 kHz, {} MB/s, {} µs of CPU per event",
            if count < 96.0 { "works" } else { "breaks" },
            median(repeats, "discarded_percent", 1.0, 2),
            median(repeats, "built_bytes_per_s", 1e-6, 0),
            median(repeats, "cpu_us_per_event", 1.0, 1),
        )
    };
    by_point(rows).values().map(line).collect()
}
