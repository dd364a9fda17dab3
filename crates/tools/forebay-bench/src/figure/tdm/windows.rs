//! T1, T3 and T4: windows and packets of a session, each of them.

use std::time::Duration;

use anyhow::{Context, Result};
use forebay_run_tdm::receive::{Came, LossCause, Lost, Row as Window};

use super::{PORT_BUFFER_BYTES, TdmTask, options};
use crate::figure::published;
use crate::figure::scan::{Scan, ScanPoint, Task};
use crate::figure::series::{column, values};
use crate::tdm::{Bench, Kept, Options, Scheme, packets};
use forebay_report::plot::Chart;
use forebay_report::rows::Row;
use forebay_report::tdm::seen::{FIRST_NS, Seen, rate_bps};
use forebay_report::tdm::{picture, windows};

/// Senders of the sessions; T4 shows the first.
const SENDERS: [u16; 2] = [3, 8];

/// One session.
#[derive(Debug, Clone, Copy)]
pub(in crate::figure) struct Recorded {
    scheme: Scheme,
    senders: u16,
    /// How long senders send.
    duration: Duration,
    /// A row for each packet of the first 30 ms; else for each window.
    packets: bool,
}

fn point(recorded: Recorded) -> ScanPoint {
    let mut labels = Row::default();
    labels.add("scheme", recorded.scheme.name());
    labels.add("senders", usize::from(recorded.senders));
    ScanPoint {
        name: format!("{}, {} senders", recorded.scheme.name(), recorded.senders),
        labels,
        task: Task::Tdm(TdmTask::Recorded(recorded)),
    }
}

/// Sessions in paced slots, a row for each window.
pub(in crate::figure) fn scan(quick: bool) -> Scan {
    let session = |senders: u16| {
        point(Recorded {
            scheme: Scheme::SlotsPaced,
            senders,
            duration: Duration::from_millis(if quick { 300 } else { 2000 }),
            packets: false,
        })
    };
    let senders = SENDERS.into_iter().take(if quick { 1 } else { 2 });
    Scan {
        name: "tdm_windows",
        points: senders.map(session).collect(),
    }
}

/// Short sessions, a row for each packet.
pub(in crate::figure) fn scan_packets(quick: bool) -> Scan {
    let [few, many] = SENDERS;
    let sessions = [
        (Scheme::SlotsPaced, few),
        (Scheme::Incast, few),
        (Scheme::SlotsPaced, many),
    ];
    let session = |(scheme, senders)| {
        point(Recorded {
            scheme,
            senders,
            duration: Duration::from_millis(60),
            packets: true,
        })
    };
    Scan {
        name: "tdm_packets",
        points: sessions
            .into_iter()
            .take(if quick { 1 } else { 3 })
            .map(session)
            .collect(),
    }
}

fn us(ns: i64) -> f64 {
    ns as f64 / 1e3
}

impl Recorded {
    pub(super) fn seconds(self) -> f64 {
        self.duration.as_secs_f64() * 1.5 + 1.5
    }

    /// A row for each window, or for each packet.
    pub(super) fn measure(self, run: u32) -> Result<Vec<Row>> {
        let bench = Bench::make(&Options {
            senders: self.senders,
            ..options(self.duration, PORT_BUFFER_BYTES)?
        })?;
        let kept = tempfile::tempdir().context("making a directory for a session's files")?;
        if self.packets {
            let directory = kept.path().join("packets");
            let kept = Kept::Packets(directory.clone());
            let session = bench.kept_session(self.scheme, run, &kept)?;
            Ok(of_packets(&session, &packets::read(&directory)?))
        } else {
            let path = kept.path().join("windows.parquet");
            let kept = Kept::Windows(path.clone());
            let session = bench.kept_session(self.scheme, run, &kept)?;
            Ok(of_windows(&session, &windows::read::read(&path)?))
        }
    }
}

/// What all rows of a session have in common.
fn of_session(session: &serde_json::Value) -> Row {
    let number = |key: &str| session[key].as_f64().unwrap_or(f64::NAN);
    let mut row = Row::default();
    row.add("window_us", number("window_ns") / 1e3);
    row.add("guard_us", number("guard_ns") / 1e3);
    let turn_us = (number("window_ns") + number("guard_ns")) / 1e3;
    row.add("cycle_us", turn_us * number("senders"));
    row.add("residual_items", number("residual_items"));
    row
}

fn of_windows(session: &serde_json::Value, read: &[windows::read::ReadWindow]) -> Vec<Row> {
    let common = of_session(session);
    let cycle_ns = (common.number("cycle_us") * 1e3) as u64;
    let begin_ns = |window: &Window| {
        let before_ns = u64::from(window.window) * cycle_ns;
        (window.first_sent_ns > 0).then(|| window.first_sent_ns.saturating_sub(before_ns))
    };
    // The first slot begins with the cycle.
    let origin_ns = read.iter().filter_map(|it| begin_ns(&it.row)).min();
    let origin_ns = origin_ns.unwrap_or(0);
    let row = |it: &windows::read::ReadWindow| {
        let window = &it.row;
        let since_us = |at_ns: u64| {
            if at_ns == 0 {
                f64::NAN
            } else {
                us(at_ns.cast_signed() - origin_ns.cast_signed())
            }
        };
        let mut row = common.clone();
        row.add("sender", usize::from(window.sender));
        row.add("sender_name", it.name.as_str());
        row.add("window", u64::from(window.window));
        row.add("sent", window.sent);
        row.add("received", window.received);
        row.add("lost", window.lost.total());
        for (cause, packets) in window.lost.iter() {
            row.add(&format!("lost_{}", cause.name()), packets);
        }
        row.add("payload_bytes", window.payload_bytes);
        let there = window.received > 0;
        let travel_us = |ns: i64| if there { us(ns) } else { f64::NAN };
        row.add("travel_us_min", travel_us(window.travel_min_ns));
        row.add("travel_us_mean", travel_us(window.travel_mean_ns()));
        row.add("travel_us_max", travel_us(window.travel_max_ns));
        row.add(
            "jitter_us",
            travel_us(window.travel_max_ns.saturating_sub(window.travel_min_ns)),
        );
        row.add("rate_bps", rate_bps(window).unwrap_or(f64::NAN));
        row.add("overlap_front", window.overlap_front);
        row.add("overlap_back", window.overlap_back);
        row.add("first_sent_us", since_us(window.first_sent_ns));
        row.add("last_sent_us", since_us(window.last_sent_ns));
        row.add("first_came_us", since_us(window.first_came_ns));
        row.add("last_came_us", since_us(window.last_came_ns));
        row.add("lateness_us", us(i64::from(window.lateness_ns)));
        row.add("clock_bound_us", us(i64::from(window.clock_error_ns)));
        row
    };
    read.iter().map(row).collect()
}

fn of_packets(session: &serde_json::Value, came: &[Came]) -> Vec<Row> {
    let common = of_session(session);
    let origin_ns = came.iter().map(|packet| packet.sent_ns).min().unwrap_or(0);
    let first = came
        .iter()
        .filter(|packet| packet.sent_ns - origin_ns < FIRST_NS);
    let row = |packet: &Came| {
        let since_us = |at_ns: u64| us(at_ns.cast_signed() - origin_ns.cast_signed());
        let mut row = common.clone();
        row.add("sender", usize::from(packet.sender));
        row.add("window", u64::from(packet.window));
        row.add("packet", packet.packet);
        row.add("sent_us", since_us(packet.sent_ns));
        row.add("came_us", since_us(packet.came_ns));
        row.add(
            "travel_us",
            us(packet.came_ns.cast_signed() - packet.sent_ns.cast_signed()),
        );
        row
    };
    first.map(row).collect()
}

/// Where a time of the rows begins: so late that nothing is before it.
const ORIGIN_NS: u64 = 1 << 40;

fn at_ns(row: &Row, name: &str) -> u64 {
    let us = row.number(name);
    if us.is_nan() {
        0
    } else {
        ORIGIN_NS.saturating_add_signed((us * 1e3).round() as i64)
    }
}

/// Points, in their order: scheme, senders and rows.
fn sessions(rows: &[Row]) -> Vec<(String, f64, Vec<&Row>)> {
    let of = |point: f64| {
        let of: Vec<&Row> = rows
            .iter()
            .filter(|row| row.number("point") == point)
            .collect();
        (of[0].text("scheme").to_owned(), of[0].number("senders"), of)
    };
    values(rows, "point").into_iter().map(of).collect()
}

fn empty(senders: f64, cycle_us: f64) -> Seen {
    let mut seen = Seen::new(senders as usize);
    seen.planned(ORIGIN_NS, (cycle_us * 1e3) as u64);
    for sender in 0..senders as u16 {
        seen.joined(sender, &format!("sender {sender}"));
    }
    seen
}

/// All runs of a point in one.
fn seen(senders: f64, rows: &[&Row]) -> Seen {
    let mut seen = empty(senders, rows[0].number("cycle_us"));
    for row in rows {
        let count = |name: &str| row.number(name) as u64;
        let ns = |name: &str| (row.number(name) * 1e3).round() as i64;
        let received = count("received");
        seen.window(&Window {
            sender: row.number("sender") as u16,
            window: row.number("window") as u32,
            sent: count("sent"),
            received,
            payload_bytes: count("payload_bytes"),
            lost: Lost::from([(LossCause::Inside, count("lost"))]),
            travel_min_ns: ns("travel_us_min"),
            travel_max_ns: ns("travel_us_max"),
            travel_sum_ns: ns("travel_us_mean") * received.cast_signed(),
            overlap_front: count("overlap_front"),
            overlap_back: count("overlap_back"),
            first_sent_ns: at_ns(row, "first_sent_us"),
            last_sent_ns: at_ns(row, "last_sent_us"),
            first_came_ns: at_ns(row, "first_came_us"),
            last_came_ns: at_ns(row, "last_came_us"),
            ..Window::default()
        });
    }
    seen
}

pub(in crate::figure) fn travel_charts(rows: &[Row]) -> Vec<Chart> {
    let charts = |(_, senders, of): (String, f64, Vec<&Row>)| {
        let mut charts = picture::of_travel(&seen(senders, &of));
        for chart in &mut charts {
            chart.title = format!("{senders} senders: {}", chart.title);
        }
        let until = charts[0].series.iter().flat_map(|series| &series.points);
        let until = until.map(|point| point.x).fold(1.0, f64::max);
        charts[0].series.extend(published::travel_us(until));
        charts
    };
    sessions(rows).into_iter().flat_map(charts).collect()
}

pub(in crate::figure) fn panel_charts(rows: &[Row]) -> Vec<Chart> {
    let first = sessions(rows).into_iter().next();
    first.map_or_else(Vec::new, |(_, senders, of)| {
        picture::of_windows(&seen(senders, &of))
    })
}

/// Packets of the first run of a point.
fn first_packets(senders: f64, rows: &[&Row]) -> Seen {
    let mut seen = empty(senders, rows[0].number("cycle_us"));
    for row in rows.iter().filter(|row| row.number("run") == 1.0) {
        seen.packet(&Came {
            sender: row.number("sender") as u16,
            window: row.number("window") as u32,
            packet: row.number("packet") as u64,
            sent_ns: at_ns(row, "sent_us"),
            came_ns: at_ns(row, "came_us"),
        });
    }
    seen
}

pub(in crate::figure) fn packet_charts(rows: &[Row]) -> Vec<Chart> {
    let chart = |(scheme, senders, of): (String, f64, Vec<&Row>)| {
        let title = format!("{scheme}, {senders} senders");
        picture::of_packets(&first_packets(senders, &of), &title)
    };
    sessions(rows).into_iter().map(chart).collect()
}

pub(in crate::figure) fn compare_travel(rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    for (_, senders, of) in sessions(rows) {
        for sender in values(rows, "sender").into_iter().take(senders as usize) {
            let of: Vec<&Row> = of
                .iter()
                .filter(|row| row.number("sender") == sender)
                .copied()
                .collect();
            let spread = |name: &str| column(&of, name);
            let (Some(least), Some(mean), Some(most)) = (
                spread("travel_us_min"),
                spread("travel_us_mean"),
                spread("travel_us_max"),
            ) else {
                continue;
            };
            let of_windows = |name: &str| spread(name).map_or(f64::NAN, |it| it.median);
            lines.push(format!(
                "{senders} senders, sender {sender}: travel time {:.1} us (median of windows' means; {:.1} to {:.1} of all packets), jitter of a window {:.1} us, begun late by {:.1} us, clock within {:.2} us",
                mean.median,
                least.low,
                most.high,
                of_windows("jitter_us"),
                of_windows("lateness_us"),
                of_windows("clock_bound_us"),
            ));
        }
    }
    lines
}

pub(in crate::figure) fn compare_packets(rows: &[Row]) -> Vec<String> {
    let line = |(scheme, senders, of): (String, f64, Vec<&Row>)| {
        let seen = first_packets(senders, &of);
        let mut came: Vec<_> = seen.dots.clone();
        came.sort_by_key(|dot| dot.came_ns);
        let turns = came
            .windows(2)
            .filter(|pair| pair[0].sender != pair[1].sender)
            .count();
        format!(
            "{scheme}, {senders} senders: {} After {turns} of them another sender's came.",
            picture::said_of_packets(&seen)
        )
    };
    sessions(rows).into_iter().map(line).collect()
}

pub(in crate::figure) fn compare_panel(rows: &[Row]) -> Vec<String> {
    let line = |(scheme, senders, of): (String, f64, Vec<&Row>)| {
        let sum = |name: &str| of.iter().map(|row| row.number(name)).sum::<f64>();
        let causes = LossCause::ALL.iter().map(|cause| cause.name());
        let by_cause = causes.map(|cause| (cause, sum(&format!("lost_{cause}"))));
        let by_cause = by_cause.filter(|(_, packets)| *packets > 0.0);
        let by_cause: Vec<String> = by_cause
            .map(|(cause, packets)| format!("{cause} {packets}"))
            .collect();
        let by_cause = if by_cause.is_empty() {
            String::new()
        } else {
            format!(" ({})", by_cause.join(", "))
        };
        let rate = column(&of, "rate_bps").map_or(f64::NAN, |it| it.median);
        format!(
            "{scheme}, {senders} senders: {} windows, {} packets sent, {} came, {} missing{by_cause}, {} in overlaps; {:.0} Mb/s of payload while a window is sent. {}",
            of.len(),
            sum("sent"),
            sum("received"),
            sum("lost"),
            sum("overlap_front") + sum("overlap_back"),
            rate / 1e6,
            picture::said_of_bins(&seen(senders, &of))
        )
    };
    sessions(rows).into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let read = |sender: u16, window: u32| windows::read::ReadWindow {
            name: format!("s{sender}"),
            row: Window {
                sender,
                window,
                sent: 4,
                received: 3,
                payload_bytes: 300,
                lost: Lost::from([(LossCause::Tail, 1)]),
                first_sent_ns: 1_700_000_000_000_000_000
                    + u64::from(sender) * 1_100_000
                    + u64::from(window) * 2_200_000,
                last_sent_ns: 1_700_000_000_000_900_000
                    + u64::from(sender) * 1_100_000
                    + u64::from(window) * 2_200_000,
                travel_min_ns: 2_000,
                travel_max_ns: 9_000,
                travel_sum_ns: 12_000,
                lateness_ns: 3_000,
                ..Window::default()
            },
        };
        let session = serde_json::json!({"window_ns": 1_000_000, "guard_ns": 100_000, "senders": 2, "residual_items": 0});
        let all: Vec<_> = (0..4)
            .flat_map(|window| [read(0, window), read(1, window)])
            .collect();
        let mut rows = of_windows(&session, &all);
        for row in &mut rows {
            row.add("point", 0.0);
            row.add("run", 1.0);
            row.add("senders", 2.0);
            row.add("scheme", "slots-paced");
        }
        rows
    }

    #[test]
    fn rows_of_windows_become_the_pictures_of_the_session() {
        let rows = rows();
        let last = rows.last().unwrap();
        assert_eq!(last.number("first_sent_us"), 1_100.0 + 3.0 * 2_200.0);
        let charts = travel_charts(&rows);
        let point = charts[0].series[1].points[3];
        assert_eq!((point.low, point.y, point.high), (2.0, 4.0, 9.0));
        assert!(charts[0].series.iter().any(|series| series.reference));
        // In each cycle the second sender begins after the first one's window and the guard.
        let band = panel_charts(&rows)[6].series[1].points[2];
        assert!((band.low - 1.1).abs() < 1e-6 && (band.high - 2.0).abs() < 1e-6);
        assert!(compare_travel(&rows)[1].contains("sender 1: travel time 4.0 us"));
        let told = &compare_panel(&rows)[0];
        assert!(
            told.contains("8 windows, 32 packets sent, 24 came, 8 missing (tail 8)"),
            "{told}"
        );
    }

    #[test]
    fn each_packet_of_the_first_30_ms_is_a_row_and_two_dots() {
        let session = serde_json::json!({"residual_items": 0, "senders": 2});
        let came: Vec<Came> = (0..40)
            .map(|number: u64| Came {
                sender: (number % 2) as u16,
                window: 0,
                packet: number,
                sent_ns: 1_700_000_000_000_000_000 + number * 1_000_000,
                came_ns: 1_700_000_000_000_002_500 + number * 1_000_000,
            })
            .collect();
        let mut rows = of_packets(&session, &came);
        assert_eq!(rows.len(), 30);
        for row in &mut rows {
            row.add("point", 0.0);
            row.add("run", 1.0);
            row.add("senders", 2.0);
            row.add("scheme", "slots");
        }
        assert_eq!(rows[29].number("travel_us"), 2.5);
        let chart = &packet_charts(&rows)[0];
        let dots = chart.series.iter().map(|series| series.points.len());
        assert_eq!(dots.sum::<usize>(), 60);
        assert!(compare_packets(&rows)[0].contains("30 packets"));
        assert!(compare_packets(&rows)[0].contains("After 29 of them"));
    }
}
