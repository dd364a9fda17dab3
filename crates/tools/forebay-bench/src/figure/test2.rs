//! H7: HADES' Test-2 at 1 to 4 kHz, and on.

use super::published::{TEST2, Test};
use super::scan::{Scan, ScanPoint, Task};
use super::series::{by_point, median, points};
use crate::chain::Setup;
use forebay_report::plot::{Axis, Chart, Point, Scale, Series};
use forebay_report::rows::Row;

pub(super) fn scan(quick: bool) -> Scan {
    let rates: &[f64] = if quick {
        &[1.0, 4.0, 16.0]
    } else {
        &[1.0, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0]
    };
    Scan {
        name: "test2",
        points: rates.iter().map(|khz| point(*khz, quick)).collect(),
    }
}

fn point(khz: f64, quick: bool) -> ScanPoint {
    let mut setup = Setup::test2(khz * 1e3);
    if quick {
        (setup.warm_s, setup.measure_s) = (0.5, 1.5);
    }
    let mut labels = Row::default();
    labels.add("event_rate_khz", khz);
    ScanPoint {
        name: format!("Test-2 at {khz} kHz"),
        labels,
        task: Task::Chain(setup),
    }
}

const X: (&str, f64) = ("event_rate_khz", 1.0);

pub(super) fn charts(rows: &[Row]) -> Vec<Chart> {
    let all = |name: &str, scale: f64| points(rows, |_| true, X, (name, scale));
    let published = |of: fn(&Test) -> Option<f64>| {
        TEST2
            .iter()
            .filter_map(|test| Some(Point::exact(test.khz, of(test)?)))
            .collect::<Vec<_>>()
    };
    let axis = || Axis::new("event rate [kHz]", Scale::Log);
    let rate = Chart {
        title: "Data rate".into(),
        x: axis(),
        y: Axis::new("data rate built [MB/s]", Scale::Log),
        series: vec![
            Series::measured("here", all("built_bytes_per_s", 1e-6)),
            Series::published("HADES", published(|test| Some(test.mb_per_s))),
        ],
    };
    let cpu = Chart {
        title: "CPU".into(),
        x: axis(),
        y: Axis::new("CPU [% of a core]", Scale::Linear),
        series: vec![
            Series::measured("builder", all("cpu_builder_percent", 1.0)),
            Series::measured("receiver", all("cpu_receiver_percent", 1.0)),
            Series::published("HADES builder", published(|test| Some(test.cpu?[0]))),
            Series::published("HADES receiver", published(|test| Some(test.cpu?[1]))),
        ],
    };
    vec![rate, cpu]
}

pub(super) fn compare(rows: &[Row]) -> Vec<String> {
    let line = |repeats: &Vec<&Row>| {
        let khz = repeats[0].number("event_rate_khz");
        let published =
            TEST2
                .iter()
                .find(|test| test.khz == khz)
                .map_or_else(String::new, |test| {
                    let cpu = test.cpu.map_or_else(String::new, |[builder, receiver]| {
                        format!(", CPU {builder}+{receiver} %")
                    });
                    format!("published {} MB/s, 0 % discarded{cpu}; ", test.mb_per_s)
                });
        let of = |name: &str, scale: f64, digits: usize| median(repeats, name, scale, digits);
        format!(
            "{khz} kHz: {published}here {} MB/s, {} % discarded, CPU {}+{} %, {} µs of CPU per event",
            of("built_bytes_per_s", 1e-6, 1),
            of("discarded_percent", 1.0, 2),
            of("cpu_builder_percent", 1.0, 1),
            of("cpu_receiver_percent", 1.0, 1),
            of("cpu_us_per_event", 1.0, 1),
        )
    };
    by_point(rows).values().map(line).collect()
}
