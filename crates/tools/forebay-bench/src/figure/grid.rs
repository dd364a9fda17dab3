//! H1 to H6: one scan over event rate and data rate, seen from six sides.
//!
//! Event rates and sub-event sizes are powers of two apart, so that lines of constant event rate and lines of constant
//! size cross in the same points.

use super::published;
use super::scan::{Scan, ScanPoint, Task};
use super::series::{by_point, column, points, values};
use crate::chain::Setup;
use forebay_report::plot::{Axis, Chart, Scale, Series};
use forebay_report::rows::Row;

const SOURCES: usize = 90;
/// Data rate = 90 × 64 B × 1 kHz × 2^step.
const UNIT_BYTES: u32 = 64;
const UNIT_HZ: f64 = 1000.0;
/// Larger sub-events could not come at the least event rate: 1 kHz × 90 × 16 KiB is 1.5 GB/s.
const SIZE_STEP_MAX: u32 = 8;
const RATE_STEPS: [u32; 4] = [0, 2, 4, 6];
const DATA_STEPS: std::ops::RangeInclusive<u32> = 2..=10;

pub(super) fn scan(quick: bool) -> Scan {
    let steps: Vec<u32> = DATA_STEPS
        .filter(|step| !quick || step % 2 == 0 || *step == *DATA_STEPS.end())
        .collect();
    let pairs = RATE_STEPS
        .iter()
        .flat_map(|rate| steps.iter().map(move |data| (*rate, *data)));
    let points = pairs
        .filter_map(|(rate, data)| point(rate, data.checked_sub(rate)?, quick))
        .collect();
    Scan {
        name: "grid",
        points,
    }
}

fn point(rate_step: u32, size_step: u32, quick: bool) -> Option<ScanPoint> {
    if size_step > SIZE_STEP_MAX {
        return None;
    }
    let rate_hz = UNIT_HZ * f64::from(1 << rate_step);
    let bytes = UNIT_BYTES << size_step;
    let mut labels = Row::default();
    labels.add("event_rate_hz", rate_hz);
    labels.add("subevent_bytes", f64::from(bytes));
    let mut setup = Setup {
        groups: vec![(SOURCES, bytes, 0.0)],
        one_core: true,
        ..Setup::test2(rate_hz)
    };
    if quick {
        (setup.warm_s, setup.measure_s) = (0.4, 1.0);
    }
    let data = rate_hz * setup.event_bytes() / 1e6;
    Some(ScanPoint {
        name: format!(
            "{} kHz × {SOURCES} × {bytes} B = {data:.0} MB/s",
            rate_hz / 1e3
        ),
        labels,
        task: Task::Chain(setup),
    })
}

const X: (&str, f64) = ("offered_bytes_per_s", 1e-6);

fn by_rate(rows: &[Row], y: (&str, f64)) -> Vec<Series> {
    let line = |rate: f64| {
        let name = format!("{} kHz", rate / 1e3);
        Series::measured(
            name,
            points(rows, |row| row.number("event_rate_hz") == rate, X, y),
        )
    };
    values(rows, "event_rate_hz")
        .into_iter()
        .map(line)
        .collect()
}

fn by_size(rows: &[Row], y: (&str, f64)) -> Vec<Series> {
    let line = |bytes: f64| {
        let name = if bytes < 1024.0 {
            format!("{bytes} B")
        } else {
            format!("{} KiB", bytes / 1024.0)
        };
        Series::measured(
            name,
            points(rows, |row| row.number("subevent_bytes") == bytes, X, y),
        )
    };
    values(rows, "subevent_bytes")
        .into_iter()
        .map(line)
        .filter(|series| series.points.len() > 1)
        .collect()
}

fn chart(y: Axis, mut series: Vec<Series>, published: Vec<Series>) -> Vec<Chart> {
    series.extend(published);
    vec![Chart {
        title: String::new(),
        x: Axis::new("data rate offered [MB/s]", Scale::Log),
        y,
        series,
    }]
}

fn percent(label: &str) -> Axis {
    Axis::new(label, Scale::Linear)
}

const EFFICIENCY: (&str, f64) = ("efficiency_percent", 1.0);

pub(super) fn efficiency_by_rate(rows: &[Row]) -> Vec<Chart> {
    chart(
        percent("complete events [%]").from_to(0.0, 105.0),
        by_rate(rows, EFFICIENCY),
        published::efficiency(),
    )
}

pub(super) fn efficiency_by_size(rows: &[Row]) -> Vec<Chart> {
    chart(
        percent("complete events [%]").from_to(0.0, 105.0),
        by_size(rows, EFFICIENCY),
        published::efficiency(),
    )
}

pub(super) fn cpu_of_builder(rows: &[Row]) -> Vec<Chart> {
    let series = by_rate(rows, ("cpu_builder_percent", 1.0));
    chart(
        percent("CPU of the builder [% of a core]"),
        series,
        vec![published::cpu_over_data_rate(false)],
    )
}

pub(super) fn cpu_of_receiver(rows: &[Row]) -> Vec<Chart> {
    let series = by_rate(rows, ("cpu_receiver_percent", 1.0));
    chart(
        percent("CPU of the receiver [% of a core]"),
        series,
        vec![published::cpu_over_data_rate(true)],
    )
}

pub(super) fn fill_of_rings(rows: &[Row]) -> Vec<Chart> {
    chart(
        percent("fill of the rings, mean [%]"),
        by_rate(rows, ("ring_fill_percent_mean", 1.0)),
        published::fill(),
    )
}

pub(super) fn fill_of_sockets(rows: &[Row]) -> Vec<Chart> {
    chart(
        percent("fill of the socket buffers, mean [%]"),
        by_rate(rows, ("socket_fill_percent_mean", 1.0)),
        published::fill(),
    )
}

/// The highest data rate of each line at which every run was complete.
fn complete_up_to(rows: &[Row], label: &str, write: impl Fn(f64) -> String) -> Vec<String> {
    let line = |value: f64| {
        let of_line: Vec<Row> = rows
            .iter()
            .filter(|row| row.number(label) == value)
            .cloned()
            .collect();
        let mut tried: Vec<(f64, f64, bool)> = by_point(&of_line)
            .into_values()
            .filter_map(|repeats| {
                let limited = repeats
                    .iter()
                    .any(|row| row.number("generator_limited") != 0.0);
                Some((
                    column(&repeats, X.0)?.median * X.1,
                    column(&repeats, "efficiency_percent")?.low,
                    limited,
                ))
            })
            .collect();
        tried.sort_by(|a, b| a.0.total_cmp(&b.0));
        let good = tried.iter().take_while(|point| point.1 >= 99.995).last();
        let next = tried.iter().find(|point| point.1 < 99.995);
        let good = good.map_or_else(
            || "never complete".to_owned(),
            |point| format!("complete up to {:.0} MB/s", point.0),
        );
        let next = next.map_or_else(
            || match tried.last() {
                Some((_, _, true)) => "; there the emulated sources give no more".to_owned(),
                _ => "; more was not tried".to_owned(),
            },
            |point| {
                format!(
                    "; {:.2} % at {:.0} MB/s{}",
                    point.1,
                    point.0,
                    if point.2 {
                        " (the sources were behind, too)"
                    } else {
                        ""
                    }
                )
            },
        );
        format!("{}: here {good}{next}", write(value))
    };
    values(rows, label).into_iter().map(line).collect()
}

pub(super) fn compare_efficiency_by_rate(rows: &[Row]) -> Vec<String> {
    complete_up_to(rows, "event_rate_hz", |rate| format!("{} kHz", rate / 1e3))
}

pub(super) fn compare_efficiency_by_size(rows: &[Row]) -> Vec<String> {
    complete_up_to(rows, "subevent_bytes", |bytes| format!("{bytes} B"))
}

/// Our value at the point whose data rate is nearest to `mb_per_s`, for each event rate.
fn near(rows: &[Row], mb_per_s: f64, name: &str) -> String {
    let of_rate = |rate: f64| {
        let line = points(
            rows,
            |row| row.number("event_rate_hz") == rate,
            X,
            (name, 1.0),
        );
        let nearest = line.iter().min_by(|a, b| {
            (a.x / mb_per_s)
                .ln()
                .abs()
                .total_cmp(&(b.x / mb_per_s).ln().abs())
        })?;
        let close = (nearest.x / mb_per_s).ln().abs() < 0.75;
        close.then(|| {
            format!(
                "{:.1} % at {} kHz × {:.0} MB/s",
                nearest.y,
                rate / 1e3,
                nearest.x
            )
        })
    };
    values(rows, "event_rate_hz")
        .into_iter()
        .filter_map(of_rate)
        .collect::<Vec<_>>()
        .join(", ")
}

pub(super) fn compare_cpu_of_builder(rows: &[Row]) -> Vec<String> {
    let name = "cpu_builder_percent";
    vec![
        format!("23 MB/s: published 12 %, here {}", near(rows, 23.0, name)),
        format!("95 MB/s: published 44 %, here {}", near(rows, 95.0, name)),
        format!("737 MB/s: here {}", near(rows, 737.0, name)),
    ]
}

pub(super) fn compare_cpu_of_receiver(rows: &[Row]) -> Vec<String> {
    let name = "cpu_receiver_percent";
    vec![
        format!("23 MB/s: published 10 %, here {}", near(rows, 23.0, name)),
        format!("95 MB/s: published 32 %, here {}", near(rows, 95.0, name)),
        format!("737 MB/s: here {}", near(rows, 737.0, name)),
    ]
}

pub(super) fn compare_fill_of_rings(rows: &[Row]) -> Vec<String> {
    compare_fill(rows, "ring_fill_percent_mean")
}

pub(super) fn compare_fill_of_sockets(rows: &[Row]) -> Vec<String> {
    compare_fill(rows, "socket_fill_percent_mean")
}

fn compare_fill(rows: &[Row], name: &str) -> Vec<String> {
    let capacity = |name: &str| {
        rows.first().map_or(f64::NAN, |row| {
            row.number(name) / row.number("sources") / 1e6
        })
    };
    let (ring, socket) = (
        capacity("ring_capacity_bytes"),
        capacity("socket_capacity_bytes"),
    );
    vec![
        format!(
            "92 MB/s: published 10–20 %, here {}",
            near(rows, 92.0, name)
        ),
        format!("737 MB/s: here {}", near(rows, 737.0, name)),
        format!(
            "buffers here: for each source a ring of {ring:.1} MB and a socket buffer of {socket:.1} MB"
        ),
    ]
}
