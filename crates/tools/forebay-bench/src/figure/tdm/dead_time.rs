//! T2: overlaps and losses over the dead time between windows.

use std::time::Duration;

use anyhow::Result;

use super::{PORT_BUFFER_BYTES, TdmTask, cells, options};
use crate::figure::scan::{Scan, ScanPoint, Task};
use crate::figure::series::{by_point, column, median, points};
use crate::tdm::{Bench, Scheme};
use forebay_report::plot::{Axis, Chart, Point as At, Scale, Series};
use forebay_report::rows::Row;

const DEAD_TIMES_US: [u64; 8] = [0, 50, 100, 200, 500, 1000, 2000, 5000];
const SCHEMES: [Scheme; 3] = [Scheme::SlotsPaced, Scheme::Slots, Scheme::Incast];
/// Up to where the second chart shows overlaps, in us.
const NEAR_US: f64 = 500.0;

/// One session.
#[derive(Debug, Clone, Copy)]
pub(in crate::figure) struct Point {
    scheme: Scheme,
    /// None: the guard is computed.
    dead_time: Option<Duration>,
    /// How long senders send, dead times left out: so each point has as many windows.
    duration: Duration,
}

pub(in crate::figure) fn scan(quick: bool) -> Scan {
    let mut points = Vec::new();
    for us in DEAD_TIMES_US {
        if quick && ![0, 1000].contains(&us) {
            continue;
        }
        let dead_time = Some(Duration::from_micros(us));
        points.push(point(Scheme::SlotsPaced, dead_time, quick));
        if !quick || us == 0 {
            points.push(point(Scheme::Slots, dead_time, quick));
        }
    }
    points.push(point(Scheme::SlotsPaced, None, quick));
    // Without a schedule all windows overlap: what is counted then shows that overlaps are seen.
    points.push(point(Scheme::Incast, Some(Duration::ZERO), quick));
    Scan {
        name: "tdm_dead_time",
        points,
    }
}

fn point(scheme: Scheme, dead_time: Option<Duration>, quick: bool) -> ScanPoint {
    let name = dead_time.map_or("computed".to_owned(), |time| {
        format!("{} us", time.as_micros())
    });
    let mut labels = Row::default();
    labels.add("computed", dead_time.is_none());
    let point = Point {
        scheme,
        dead_time,
        duration: Duration::from_millis(if quick { 150 } else { 1000 }),
    };
    ScanPoint {
        name: format!("{}, dead time {name}", scheme.name()),
        labels,
        task: Task::Tdm(TdmTask::Session(point)),
    }
}

impl Point {
    pub(super) fn seconds(self) -> f64 {
        self.duration.as_secs_f64() * 2.0 + 1.5
    }

    pub(super) fn measure(self, run: u32) -> Result<Row> {
        let bench = Bench::make(&options(self.duration, PORT_BUFFER_BYTES)?)?;
        let session = bench.session(self.scheme, self.dead_time, run)?;
        let mut row = Row::default();
        row.add("port_buffer_bytes", PORT_BUFFER_BYTES);
        row.extend(&cells(self.scheme, &session));
        Ok(row)
    }
}

const X: (&str, f64) = ("guard_us", 1.0);

/// The median of the computed guards, in us.
fn computed_us(rows: &[Row]) -> Option<f64> {
    let computed: Vec<&Row> = rows
        .iter()
        .filter(|row| row.number("computed") == 1.0)
        .collect();
    column(&computed, X.0).map(|guard| guard.median)
}

fn chart(rows: &[Row], title: &str, y: (&str, &str), until_us: f64) -> Chart {
    let line = |scheme: &Scheme| {
        let chosen = |row: &Row| {
            row.text("scheme") == scheme.name()
                && row.number("computed") == 0.0
                && row.number(X.0) <= until_us
        };
        Series::measured(scheme.name(), points(rows, chosen, X, (y.1, 1.0)))
    };
    let mut series: Vec<Series> = SCHEMES.iter().map(line).collect();
    let highest = series
        .iter()
        .flat_map(|series| &series.points)
        .map(|point| point.high);
    let top = highest.fold(1.0, f64::max);
    if let Some(guard_us) = computed_us(rows).filter(|guard_us| *guard_us <= until_us) {
        let measured = points(rows, |row| row.number("computed") == 1.0, X, (y.1, 1.0));
        // A line upwards at the guard, and what was measured with it.
        let mark = vec![At::exact(guard_us, 0.0), At::exact(guard_us, top)];
        series.push(Series::measured(
            format!("computed guard: {guard_us:.0} µs"),
            mark,
        ));
        series.push(Series::apart("slots-paced with it", measured));
    }
    Chart {
        title: title.to_owned(),
        x: Axis::new("dead time [µs]", Scale::Linear).from_to(0.0, until_us),
        y: Axis::new(y.0, Scale::Linear).from_to(0.0, top * 1.05),
        series,
    }
}

pub(in crate::figure) fn charts(rows: &[Row]) -> Vec<Chart> {
    let last_us = 5000.0;
    let overlaps = ("packets in overlaps [of a session]", "overlaps");
    vec![
        chart(rows, "Overlaps", overlaps, last_us),
        chart(rows, "Overlaps, short dead times", overlaps, NEAR_US),
        chart(
            rows,
            "Lost packets",
            ("lost [% of those sent]", "lost_percent"),
            last_us,
        ),
        chart(
            rows,
            "The port",
            ("used [% of its rate]", "port_used_percent"),
            last_us,
        ),
    ]
}

pub(in crate::figure) fn compare(rows: &[Row]) -> Vec<String> {
    let line = |repeats: &Vec<&Row>| {
        let first = repeats[0];
        let computed = if first.number("computed") == 1.0 {
            " (computed)"
        } else {
            ""
        };
        format!(
            "{}, dead time {} us{computed}: {} overlaps, {} % lost ({} of the port's drops), {} % of the port used",
            first.text("scheme"),
            median(repeats, X.0, 1.0, 0),
            median(repeats, "overlaps", 1.0, 0),
            median(repeats, "lost_percent", 1.0, 2),
            median(repeats, "port_drops", 1.0, 0),
            median(repeats, "port_used_percent", 1.0, 1),
        )
    };
    by_point(rows).values().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_computed_guard_is_a_mark_and_no_point_of_a_line() {
        let row = |point: usize, guard_us: f64, computed: bool| {
            let mut row = Row::default();
            row.add("point", point);
            row.add("computed", computed);
            row.add("scheme", "slots-paced");
            row.add("guard_us", guard_us);
            row.add("overlaps", 7.0);
            row
        };
        let rows = [
            row(0, 0.0, false),
            row(1, 2000.0, false),
            row(2, 60.0, true),
        ];
        let charts = charts(&rows);
        let lines = &charts[0].series;
        assert_eq!(
            lines[0].points,
            [At::exact(0.0, 7.0), At::exact(2000.0, 7.0)]
        );
        assert_eq!(
            lines[3].points,
            [At::exact(60.0, 0.0), At::exact(60.0, 7.0)]
        );
        assert_eq!(
            (lines[4].joined, &lines[4].points[..]),
            (false, &[At::exact(60.0, 7.0)][..])
        );
        assert_eq!(charts[1].series[0].points.len(), 1, "near dead times alone");
    }
}
