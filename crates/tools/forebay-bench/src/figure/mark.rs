//! H16: what a small water mark costs.

use super::scan::{Scan, ScanPoint, Task};
use super::series::{by_point, median, points};
use crate::chain::Setup;
use forebay_report::plot::{Axis, Chart, Scale, Series};
use forebay_report::rows::Row;

/// The largest just fits into one datagram with trailer and padding.
const MARKS_KIB: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
const RATE_HZ: f64 = 4000.0;

pub(super) fn scan(quick: bool) -> Scan {
    let marks = MARKS_KIB
        .iter()
        .enumerate()
        .filter(|(index, _)| !quick || index % 2 == 0);
    Scan {
        name: "mark",
        points: marks.map(|(_, kib)| point(*kib, quick)).collect(),
    }
}

fn point(kib: u32, quick: bool) -> ScanPoint {
    let mut setup = Setup {
        water_mark_bytes: Some(kib << 10),
        ..Setup::test2(RATE_HZ)
    };
    if quick {
        (setup.warm_s, setup.measure_s) = (0.5, 1.5);
    }
    let mut labels = Row::default();
    labels.add("water_mark_kib", f64::from(kib));
    ScanPoint {
        name: format!("water mark {kib} KiB"),
        labels,
        task: Task::Chain(setup),
    }
}

const X: (&str, f64) = ("water_mark_kib", 1.0);

pub(super) fn charts(rows: &[Row]) -> Vec<Chart> {
    let all = |name: &str, scale: f64| points(rows, |_| true, X, (name, scale));
    let axis = || Axis::new("water mark [KiB]", Scale::Log);
    let cpu = Chart {
        title: "CPU at 4 kHz, 102 MB/s".into(),
        x: axis(),
        y: Axis::new("CPU [% of a core]", Scale::Linear),
        series: vec![
            Series::measured("builder", all("cpu_builder_percent", 1.0)),
            Series::measured("receiver", all("cpu_receiver_percent", 1.0)),
        ],
    };
    let datagrams = Chart {
        title: "Datagrams".into(),
        x: axis(),
        y: Axis::new("datagrams received [1/s]", Scale::Log),
        series: vec![Series::measured("all sources", all("datagrams_hz", 1.0))],
    };
    vec![cpu, datagrams]
}

pub(super) fn compare(rows: &[Row]) -> Vec<String> {
    let line = |repeats: &Vec<&Row>| {
        let gigabyte = |row: &&Row| {
            (row.number("cpu_builder_percent") + row.number("cpu_receiver_percent"))
                / 100.0
                / (row.number("built_bytes_per_s") / 1e9)
        };
        let seconds = forebay_report::statistics::spread(repeats.iter().map(gigabyte))
            .map_or(f64::NAN, |spread| spread.median);
        format!(
            "{} KiB: CPU builder {} %, receiver {} %, {seconds:.2} s of CPU per GB, {} datagrams/s, {} % discarded",
            repeats[0].number("water_mark_kib"),
            median(repeats, "cpu_builder_percent", 1.0, 1),
            median(repeats, "cpu_receiver_percent", 1.0, 1),
            median(repeats, "datagrams_hz", 1.0, 0),
            median(repeats, "discarded_percent", 1.0, 2),
        )
    };
    by_point(rows).values().map(line).collect()
}
