//! Pictures of a session: travel time, overlaps, its first packets, and all that is told of windows, for any number of senders.

use std::collections::BTreeMap;

use super::seen::{Bin, FIRST_NS, OVERLAP_KINDS, Seen, Spread};
use crate::plot::{Axis, Chart, Form, Point, Scale, Series};

/// Up to so many senders have a line each; of more there is one for all, and the chart by sender.
const LINES: usize = 12;

const WINDOW: &str = "window of the sender";

fn point(x: f64, spread: &Spread, scale: f64) -> Point {
    Point {
        x,
        y: spread.mean() * scale,
        low: spread.low * scale,
        high: spread.high * scale,
    }
}

fn is_seen(spread: &Spread) -> bool {
    spread.mean().is_finite()
}

/// What is shown of a bin, and its unit against that of the axis.
type Of = (fn(&Bin) -> &Spread, f64);

/// The middle of a bin's windows.
fn middle(seen: &Seen, at: usize) -> f64 {
    let windows = seen.windows(at);
    f64::midpoint(windows.start as f64, windows.end as f64 - 1.0)
}

/// A line for each sender over its windows, or one for all.
fn lines(seen: &Seen, form: Form, (of, scale): Of) -> Vec<Series> {
    if seen.names.len() <= LINES {
        return each(seen, form, (of, scale));
    }
    let all = |at: usize| {
        let mut spread = Spread::default();
        let bins = seen.senders().filter_map(|(_, bins)| bins.get(at));
        bins.for_each(|bin| spread.merge(of(bin)));
        is_seen(&spread).then(|| point(middle(seen, at), &spread, scale))
    };
    let points = (0..seen.bins()).filter_map(all).collect();
    let name = format!("all {} senders", seen.names.len());
    vec![Series::many(name, form, points)]
}

/// A line for each sender, however many there are.
fn each(seen: &Seen, form: Form, (of, scale): Of) -> Vec<Series> {
    let line = |(name, bins): (&str, &[Bin])| {
        let bins = bins.iter().enumerate();
        let points = bins
            .filter(|(_, bin)| is_seen(of(bin)))
            .map(|(at, bin)| point(middle(seen, at), of(bin), scale));
        Series::many(name, form, points.collect())
    };
    seen.senders().map(line).collect()
}

/// An axis on which all these can be read: by ratios where they span more than 20 and none is 0 or less.
fn fitting(label: &str, series: &[Series]) -> Axis {
    let points = || series.iter().flat_map(|series| &series.points);
    let low = points()
        .map(|point| point.low)
        .fold(f64::INFINITY, f64::min);
    let high = points().map(|point| point.high).fold(0.0, f64::max);
    let scale = if low > 0.0 && high > 20.0 * low {
        Scale::Log
    } else {
        Scale::Linear
    };
    let axis = Axis::new(label, scale);
    // Nothing but zeroes has no scale of its own.
    if low == 0.0 && high == 0.0 {
        axis.from_to(0.0, 1.0)
    } else {
        axis
    }
}

fn over_windows(title: &str, label: &str, series: Vec<Series>) -> Chart {
    Chart {
        title: title.to_owned(),
        x: Axis::new(WINDOW, Scale::Linear),
        y: fitting(label, &series),
        series,
    }
}

fn travel(seen: &Seen) -> Chart {
    let series = lines(seen, Form::Range, (|bin| &bin.travel_us, 1.0));
    over_windows(
        "Travel time: mean, shortest and longest",
        "from kernel to kernel [µs]",
        series,
    )
}

/// Travel time and its jitter of each sender over its windows, and of all senders side by side.
pub fn of_travel(seen: &Seen) -> Vec<Chart> {
    let jitter = lines(seen, Form::Range, (|bin| &bin.jitter_us, 1.0));
    let whole = |(number, (_, bins)): (usize, (&str, &[Bin]))| {
        let mut spread = Spread::default();
        bins.iter().for_each(|bin| spread.merge(&bin.travel_us));
        is_seen(&spread).then(|| point(number as f64, &spread, 1.0))
    };
    let whole = seen.senders().enumerate().filter_map(whole).collect();
    let whole = vec![Series::apart("mean, shortest and longest", whole)];
    vec![
        travel(seen),
        over_windows(
            "Jitter: longest less shortest travel time of a window",
            "jitter [µs]",
            jitter,
        ),
        Chart {
            title: "Travel time of the whole session".into(),
            x: Axis::new("sender, by its number", Scale::Linear)
                .from_to(-0.5, seen.names.len().max(1) as f64 - 0.5)
                .named(numbers(seen.names.len())),
            y: fitting("from kernel to kernel [µs]", &whole),
            series: whole,
        },
    ]
}

/// At most eight of so many numbers.
fn numbers(count: usize) -> Vec<(f64, String)> {
    let step = count.div_ceil(8).max(1);
    (0..count.max(1))
        .step_by(step)
        .map(|number| (number as f64, number.to_string()))
        .collect()
}

/// Overlaps over windows, and how many windows have how many.
pub fn of_overlaps(seen: &Seen) -> Vec<Chart> {
    let series = lines(seen, Form::Range, (|bin| &bin.overlaps, 1.0));
    vec![
        over_windows("Overlaps", "packets of a window in overlaps", series),
        overlap_histogram(seen),
    ]
}

fn overlap_histogram(seen: &Seen) -> Chart {
    let used = seen.overlaps.iter().rposition(|windows| *windows > 0);
    let kinds = used.map_or(0, |last| last + 1).clamp(4, OVERLAP_KINDS);
    let points = (0..kinds).filter(|kind| seen.overlaps[*kind] > 0);
    let points: Vec<Point> = points
        .flat_map(|kind| {
            // As wide as it is told from the next ones.
            let bar = |part: u32| Point {
                x: kind as f64 + (f64::from(part) - 20.0) / 60.0,
                y: seen.overlaps[kind] as f64,
                low: 0.1,
                high: seen.overlaps[kind] as f64,
            };
            (0..=40).map(bar).collect::<Vec<_>>()
        })
        .collect();
    let name = |kind: usize| match kind {
        0 | 1 => kind.to_string(),
        _ => format!("{}–{}", 1_u64 << (kind - 1), (1_u64 << kind) - 1),
    };
    let most = seen.overlaps.iter().max().copied().unwrap_or(0).max(1);
    Chart {
        title: "Windows by the packets in their overlaps".into(),
        x: Axis::new("packets of a window in overlaps", Scale::Linear)
            .from_to(-0.6, kinds as f64 - 0.4)
            .named((0..kinds).map(|kind| (kind as f64, name(kind))).collect()),
        y: Axis::new("windows", Scale::Log).from_to(0.5, most as f64 * 2.0),
        series: vec![Series::many("all senders", Form::Stroke, points)],
    }
}

/// Each of the first packets as two dots: when it was sent, above, and when it came, below; each sender has a lane in both rows.
pub fn of_packets(seen: &Seen, title: &str) -> Chart {
    let mut lanes: BTreeMap<u16, Vec<Point>> = BTreeMap::new();
    let senders = seen.names.len().max(1) as f64;
    for dot in &seen.dots {
        let lane = 0.8 * (senders - 1.0 - f64::from(dot.sender)) / senders;
        let points = lanes.entry(dot.sender).or_default();
        points.push(Point::exact(f64::from(dot.sent_ns) / 1e6, 1.0 + lane));
        points.push(Point::exact(f64::from(dot.came_ns) / 1e6, lane));
    }
    let name = |sender: u16| seen.names.get(usize::from(sender)).cloned();
    let series = lanes
        .into_iter()
        .map(|(sender, points)| Series::many(name(sender).unwrap_or_default(), Form::Dot, points));
    let until_ms = seen.dots_until_ns as f64 / 1e6;
    Chart {
        title: title.to_owned(),
        x: Axis::new("since the first window's start [ms]", Scale::Linear)
            .from_to(-0.5, until_ms.max(1.0)),
        y: Axis::new("packets", Scale::Linear)
            .from_to(-0.1, 1.9)
            .named(vec![(0.4, "came".into()), (1.4, "sent".into())]),
        series: series.collect(),
    }
}

/// What is said below dots.
pub fn said_of_packets(seen: &Seen) -> String {
    let mut said = format!(
        "{} packets that were sent in the first {} ms and came; of one that was lost nobody knows when it was sent.",
        seen.dots.len(),
        FIRST_NS / 1_000_000
    );
    if seen.more_dots > 0 {
        said += &format!(
            " {} more are not kept: the picture ends at {:.3} ms.",
            seen.more_dots,
            seen.dots_until_ns as f64 / 1e6
        );
    }
    said
}

/// What is said below everything that is drawn over windows.
pub fn said_of_bins(seen: &Seen) -> String {
    let width = seen.windows_of_bin;
    let of = if width > 1 {
        format!(
            "Memory does not grow with the session: {width} windows of a sender are one point, with mean, smallest and largest of them all."
        )
    } else {
        "Each window is a point.".to_owned()
    };
    let many = if seen.names.len() > LINES {
        " All senders are one line: mean, smallest and largest."
    } else {
        ""
    };
    of + many
}

/// All that is told of windows.
pub fn of_windows(seen: &Seen) -> Vec<Chart> {
    let over =
        |title: &str, label: &str, of: Of| over_windows(title, label, lines(seen, Form::Range, of));
    let band = |title: &str, of: fn(&Bin) -> &Spread| Chart {
        title: title.to_owned(),
        x: Axis::new(WINDOW, Scale::Linear),
        y: Axis::new(
            if seen.has_cycle() {
                "from the start of the cycle [ms]"
            } else {
                "from the start of the session [ms]"
            },
            Scale::Linear,
        ),
        series: each(seen, Form::Stroke, (of, 1.0)),
    };
    let mut charts = vec![
        over(
            "Packets that came",
            "packets of a window",
            (|bin| &bin.received, 1.0),
        ),
        over(
            "Packets that are missing",
            "packets of a window",
            (|bin| &bin.missing, 1.0),
        ),
        travel(seen),
        over(
            "Rate while a window is sent",
            "payload [Mb/s]",
            (|bin| &bin.rate_bps, 1e-6),
        ),
        band(
            "From a window's first packet to its last, as they were sent",
            |bin| &bin.sent_ms,
        ),
        band("The same, as they came", |bin| &bin.came_ms),
    ];
    charts.splice(2..2, of_overlaps(seen));
    charts
}

#[cfg(test)]
mod tests {
    use forebay_run_tdm::receive::{Came, Row};

    use super::*;

    fn seen(senders: u16) -> Seen {
        let mut seen = Seen::new(senders.into());
        seen.planned(0, 10_000_000);
        for sender in 0..senders {
            seen.joined(sender, &format!("s{sender}"));
            for window in 0..5_u32 {
                let begin_ns = u64::from(window) * 10_000_000 + u64::from(sender) * 1_000;
                seen.window(&Row {
                    sender,
                    window,
                    sent: 3,
                    received: 2,
                    payload_bytes: 2_000,
                    first_sent_ns: begin_ns + 1,
                    last_sent_ns: begin_ns + 800,
                    first_came_ns: begin_ns + 501,
                    last_came_ns: begin_ns + 1_300,
                    travel_min_ns: 500,
                    travel_max_ns: 700,
                    travel_sum_ns: 1_200,
                    overlap_front: u64::from(window),
                    ..Row::default()
                });
                seen.packet(&Came {
                    sender,
                    window,
                    packet: 0,
                    sent_ns: begin_ns,
                    came_ns: begin_ns + 500,
                });
            }
        }
        seen
    }

    #[test]
    fn few_senders_have_a_line_each_and_many_have_one_and_a_place_each() {
        for senders in [1, 12, 13, 1024] {
            let seen = seen(senders);
            let charts = of_travel(&seen);
            let lines = if senders <= 12 { senders } else { 1 };
            assert_eq!(charts[0].series.len(), usize::from(lines));
            assert_eq!(charts[2].series[0].points.len(), usize::from(senders));
            let first = charts[0].series[0].points[0];
            assert_eq!((first.low, first.high), (0.5, 0.7));
            assert!((first.y - 0.6).abs() < 1e-9);
        }
    }

    #[test]
    fn every_packet_has_two_dots_in_the_lane_of_its_sender() {
        let seen = seen(3);
        let chart = of_packets(&seen, "");
        // Windows at 0, 10 and 20 ms; 30 ms are not any more of the first 30.
        assert_eq!(chart.series.len(), 3);
        for (sender, series) in chart.series.iter().enumerate() {
            assert_eq!((series.form, series.points.len()), (Form::Dot, 6));
            let (sent, came) = (series.points[0], series.points[1]);
            assert!((sent.y - came.y - 1.0).abs() < 1e-9);
            assert!((came.x - sent.x - 0.0005).abs() < 1e-9);
            assert!(came.y <= chart.series[0].points[1].y, "{sender}");
        }
        assert!(said_of_packets(&seen).starts_with("9 packets"));
    }

    #[test]
    fn the_panel_has_all_that_the_original_shows_of_windows() {
        let seen = seen(2);
        let charts = of_windows(&seen);
        assert_eq!(charts.len(), 8);
        assert_eq!(charts[0].series[0].points.len(), 5);
        let tops: Vec<f64> = [0.0, 1.0, 2.0, 3.0]
            .into_iter()
            .map(|x| {
                let of = charts[3].series[0].points.iter();
                of.filter(|point| point.x == x)
                    .map(|point| point.high)
                    .sum()
            })
            .collect();
        // Overlaps of 0, 1, 2, 3 and 4 packets, for both senders.
        assert_eq!(tops, [2.0, 2.0, 4.0, 2.0]);
        // 1,000 bytes in 799 ns.
        let rate = charts[5].series[0].points[0].y;
        assert!((rate - 8e3 / 0.799).abs() < 1.0, "{rate}");
        let band = charts[6].series[1].points[2];
        assert!((band.low - 0.001_001).abs() < 1e-9 && (band.high - 0.0018).abs() < 1e-9);
    }
}
