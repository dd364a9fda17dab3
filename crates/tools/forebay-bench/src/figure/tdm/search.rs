//! T5: the smallest dead time with which the port drops nothing, no windows overlap and windows carry what was planned for them, found by itself.
//!
//! Without the last of these no dead time at all would do: a sender that is late leaves out what no longer fits its window, and the port's buffer takes up
//! the rest. What a dead time is for is that windows are whole although hosts are late, but for one in a hundred, as the guard is computed.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;

use super::{TdmTask, options};
use crate::figure::scan::{Scan, ScanPoint, Task};
use crate::figure::series::{by_point, column, median, points};
use crate::net::Interrupted;
use crate::tdm::{Bench, Scheme};
use forebay_report::plot::{Axis, Chart, Scale, Series};
use forebay_report::rows::Row;

const BUFFERS_KIB: [u64; 3] = [16, 32, 128];
/// Beyond it nothing is looked for, in us.
const MOST_US: f64 = 5000.0;
/// Two ends of the search that are this close are one, of the upper one.
const CLOSE: f64 = 0.1;

/// Windows of which one may be short: what is computed covers 99 %, too.
const SHORT_IN: f64 = 100.0;

/// One search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Search {
    port_buffer_kib: u64,
    /// Sessions at each step: all of them must be clean.
    sessions: u32,
    /// How long senders send in each, dead times left out.
    duration: Duration,
    /// Two ends of the search that are this close are one, in us.
    resolution_us: f64,
}

pub(in crate::figure) fn scan(quick: bool) -> Scan {
    let point = |kib: u64| {
        let mut labels = Row::default();
        labels.add("port_buffer_kib", kib);
        let search = Search {
            port_buffer_kib: kib,
            sessions: if quick { 1 } else { 3 },
            duration: Duration::from_millis(if quick { 300 } else { 1000 }),
            resolution_us: if quick { 100.0 } else { 5.0 },
        };
        ScanPoint {
            name: format!("search with a port of {kib} KiB"),
            labels,
            task: Task::Tdm(TdmTask::Search(search)),
        }
    };
    Scan {
        name: "tdm_search",
        points: BUFFERS_KIB
            .into_iter()
            .filter(|kib| !quick || *kib == 32)
            .map(point)
            .collect(),
    }
}

/// Where a search ended.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Found {
    /// The smallest that was clean, in us; none up to the bound.
    smallest_us: Option<f64>,
    /// The largest below it that was not.
    too_short_us: Option<f64>,
}

/// Tries 0, then `first_us` and its doubles until one is clean, and then halves what is between the last two.
fn smallest(
    first_us: f64,
    resolution_us: f64,
    mut is_clean: impl FnMut(f64) -> Result<bool>,
) -> Result<Found> {
    if is_clean(0.0)? {
        return Ok(Found {
            smallest_us: Some(0.0),
            too_short_us: None,
        });
    }
    let mut low = 0.0;
    let mut high = first_us.clamp(resolution_us, MOST_US);
    while !is_clean(high)? {
        low = high;
        if high >= MOST_US {
            return Ok(Found {
                smallest_us: None,
                too_short_us: Some(low),
            });
        }
        high = (high * 2.0).min(MOST_US);
    }
    while high - low > resolution_us.max(high * CLOSE) {
        // To a tenth of a microsecond, as it is told to the receiver.
        let middle = (f64::midpoint(low, high) * 10.0).round() / 10.0;
        if is_clean(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(Found {
        smallest_us: Some(high),
        too_short_us: Some(low),
    })
}

/// What all sessions of a search have in common.
#[derive(Default)]
struct Sums {
    sessions: u32,
    sent: f64,
    lost: f64,
    residual: f64,
    /// What was tried, and what it brought.
    tried: String,
}

/// What went wrong in sessions with one dead time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Broken {
    port_drops: f64,
    overlaps: f64,
    /// Windows that were cut short or missed.
    short: f64,
    windows: f64,
}

impl Broken {
    fn add(&mut self, other: Self) {
        self.port_drops += other.port_drops;
        self.overlaps += other.overlaps;
        self.short += other.short;
        self.windows += other.windows;
    }

    /// One window in a hundred may be short, and one where there are fewer.
    fn is_clean(self) -> bool {
        let short_may_be = (self.windows / SHORT_IN).max(1.0);
        self.port_drops + self.overlaps == 0.0 && self.short <= short_may_be
    }
}

impl Search {
    /// The search of the bench: one long session at each step.
    pub(crate) const fn of_bench(quick: bool) -> Self {
        Self {
            port_buffer_kib: 128,
            sessions: 1,
            duration: Duration::from_millis(if quick { 500 } else { 2500 }),
            resolution_us: 5.0,
        }
    }

    pub(super) fn seconds(self) -> f64 {
        f64::from(self.sessions) * 8.0 * (self.duration.as_secs_f64() + 1.5)
    }

    /// One search; gives what was computed and what was found.
    pub(crate) fn measure(self, run: u32, stop: &dyn Fn() -> bool) -> Result<Row> {
        let bench = Bench::make(&options(self.duration, self.port_buffer_kib << 10)?)?;
        let mut sums = Sums::default();
        let mut computed = Vec::new();
        let mut round = run * 1000;
        let mut session = |dead_time: Option<f64>, sums: &mut Sums| -> Result<(f64, Broken)> {
            if stop() {
                return Err(Interrupted.into());
            }
            round += 1;
            let dead_time = dead_time.map(|us| Duration::from_nanos((us * 1e3).round() as u64));
            let told = bench.session(Scheme::SlotsPaced, dead_time, round)?;
            let number = |key: &str| told[key].as_f64().unwrap_or(f64::NAN);
            sums.sessions += 1;
            sums.sent += number("sent");
            sums.lost += number("sent") - number("received");
            sums.residual += number("residual_items").abs();
            let broken = Broken {
                port_drops: number("port_drops"),
                overlaps: number("overlaps"),
                short: number("cut") + number("preempted"),
                windows: number("windows"),
            };
            Ok((number("guard_ns") / 1e3, broken))
        };
        // What senders measure differs from session to session, and the guard with it.
        let mut with_computed = Broken::default();
        for _ in 0..self.sessions {
            let (guard_us, broken) = session(None, &mut sums)?;
            computed.push(guard_us);
            with_computed.add(broken);
        }
        let computed = forebay_report::statistics::spread(computed);
        let computed_us = computed.map_or(f64::NAN, |guard| guard.median);
        let found = smallest(computed_us, self.resolution_us, |dead_time_us| {
            let mut broken = Broken::default();
            for _ in 0..self.sessions {
                broken.add(session(Some(dead_time_us), &mut sums)?.1);
                if !broken.is_clean() {
                    break;
                }
            }
            // Writing to a string does not fail.
            let (drops, overlaps, short) = (broken.port_drops, broken.overlaps, broken.short);
            let _ = write!(sums.tried, "{dead_time_us}:{drops}/{overlaps}/{short} ");
            Ok(broken.is_clean())
        })?;
        let mut row = Row::default();
        row.add("port_buffer_bytes", self.port_buffer_kib << 10);
        row.add("sessions_per_step", f64::from(self.sessions));
        row.add("resolution_us", self.resolution_us);
        row.add("computed_us", computed_us);
        row.add(
            "computed_us_max",
            computed.map_or(f64::NAN, |guard| guard.high),
        );
        row.add("computed_port_drops", with_computed.port_drops);
        row.add("computed_overlaps", with_computed.overlaps);
        row.add("computed_short_windows", with_computed.short);
        row.add("smallest_us", found.smallest_us.unwrap_or(f64::NAN));
        row.add("too_short_us", found.too_short_us.unwrap_or(f64::NAN));
        // Nothing is a multiple of no dead time at all.
        let ratio = found
            .smallest_us
            .filter(|us| *us > 0.0)
            .map_or(f64::NAN, |us| computed_us / us);
        row.add("computed_over_smallest", ratio);
        row.add("sessions", f64::from(sums.sessions));
        row.add("sent", sums.sent);
        row.add("lost", sums.lost);
        row.add("residual_items", sums.residual);
        row.add("tried_us_port_drops_overlaps_short", sums.tried.trim_end());
        Ok(row)
    }
}

const X: (&str, f64) = ("port_buffer_kib", 1.0);

pub(in crate::figure) fn charts(rows: &[Row]) -> Vec<Chart> {
    let line =
        |name: &str, column: &str| Series::measured(name, points(rows, |_| true, X, (column, 1.0)));
    let axis = || Axis::new("buffer of the port [KiB]", Scale::Log);
    let times = Chart {
        title: "Dead time".into(),
        x: axis(),
        y: Axis::new("dead time [µs]", Scale::Linear),
        series: vec![
            line("smallest that was found", "smallest_us"),
            line("largest that was too short", "too_short_us"),
            line("computed guard", "computed_us"),
        ],
    };
    let ratio = Chart {
        title: "Computed guard over the smallest, where that is not 0".into(),
        x: axis(),
        y: Axis::new("ratio", Scale::Linear),
        series: vec![line("computed / found", "computed_over_smallest")],
    };
    vec![times, ratio]
}

pub(in crate::figure) fn compare(rows: &[Row]) -> Vec<String> {
    let line = |repeats: &Vec<&Row>| {
        let unfound = repeats
            .iter()
            .filter(|row| row.number("smallest_us").is_nan())
            .count();
        let unfound = if unfound > 0 {
            format!(
                "; none up to {MOST_US} us in {unfound} of {} searches",
                repeats.len()
            )
        } else {
            String::new()
        };
        let ratio = match column(repeats, "computed_over_smallest") {
            Some(ratio) => format!("{:.1} times as much", ratio.median),
            None => "and none was needed".to_owned(),
        };
        format!(
            "port of {} KiB: smallest dead time {} us (to {} us), computed guard {} us, {ratio}{unfound}",
            repeats[0].number(X.0),
            median(repeats, "smallest_us", 1.0, 1),
            repeats[0].number("resolution_us"),
            median(repeats, "computed_us", 1.0, 1),
        )
    };
    by_point(rows).values().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(edge_us: f64, first_us: f64) -> (Found, usize) {
        let mut steps = 0;
        let found = smallest(first_us, 5.0, |us| {
            steps += 1;
            Ok(us >= edge_us)
        });
        (found.unwrap(), steps)
    }

    #[test]
    fn one_window_in_a_hundred_may_be_short_and_nothing_else() {
        let of = |port_drops, overlaps, short, windows| Broken {
            port_drops,
            overlaps,
            short,
            windows,
        };
        for (broken, clean) in [
            (of(0.0, 0.0, 0.0, 10.0), true),
            (of(0.0, 0.0, 1.0, 10.0), true),
            (of(0.0, 0.0, 2.0, 199.0), false),
            (of(0.0, 0.0, 2.0, 200.0), true),
            (of(1.0, 0.0, 0.0, 1e6), false),
            (of(0.0, 1.0, 0.0, 1e6), false),
        ] {
            assert_eq!(broken.is_clean(), clean, "{broken:?}");
        }
    }

    #[test]
    fn the_edge_is_found_from_either_side_in_few_steps() {
        for edge_us in [3.0, 40.0, 77.0, 900.0, 4999.0] {
            for first_us in [20.0, 80.0, 2000.0] {
                let (found, steps) = search(edge_us, first_us);
                let (high, low) = (found.smallest_us.unwrap(), found.too_short_us.unwrap());
                assert!(low < edge_us && edge_us <= high, "{edge_us}: {found:?}");
                assert!(
                    high - low <= 5.0_f64.max(high * CLOSE),
                    "{edge_us}: {found:?}"
                );
                assert!(steps <= 16, "{steps} for {edge_us} from {first_us}");
            }
        }
    }

    #[test]
    fn a_search_ends_where_none_or_any_dead_time_does() {
        let (none, _) = search(f64::INFINITY, 80.0);
        assert_eq!((none.smallest_us, none.too_short_us), (None, Some(MOST_US)));
        let (any, steps) = search(0.0, 80.0);
        assert_eq!(
            (any.smallest_us, any.too_short_us, steps),
            (Some(0.0), None, 1)
        );
    }
}
