//! F6 and F7: link readout over the size of chunks, on one link in real time and on twelve links in a time in which this host keeps up.

use super::published;
use super::scan::{Scan, ScanPoint, Task};
use super::series::{by_point, column, median};
use crate::readout::{Setup, Slower};
use forebay_report::plot::{Axis, Chart, Point, Scale, Series};
use forebay_report::rows::Row;

const BYTES: [u32; 11] = [16, 32, 64, 128, 256, 512, 768, 948, 1024, 1536, 2048];
/// Of them with `--quick`: the smallest, and both sides of where a link's budget ends.
const BYTES_QUICK: [u32; 3] = [16, 948, 1024];
const TRIGGER_HZ: u64 = 1_000_000;
/// Links, DMA buffers, and how they are called.
const WIDTHS: [(u16, u16, &str); 2] = [(1, 1, "one link"), (12, 4, "twelve links")];

pub(super) fn scan(quick: bool) -> Scan {
    let sizes: &[u32] = if quick { &BYTES_QUICK } else { &BYTES };
    let point = |bytes: &u32, links: u16, dma_buffers: u16, name: &str| ScanPoint {
        name: format!("{name}, chunks of {bytes} B"),
        labels: Row::default(),
        task: Task::Readout(
            Setup {
                links,
                dma_buffers,
                trigger_hz: TRIGGER_HZ,
                chunk_bytes: *bytes,
                real_ms: if quick { 400 } else { 2000 },
                card_ms_min: if quick { 20 } else { 100 },
                dilation: 1,
            },
            if links == 1 {
                Slower::NEVER
            } else if quick {
                Slower { by: 4, most: 256 }
            } else {
                Slower { by: 2, most: 256 }
            },
        ),
    };
    let of_size = |bytes| WIDTHS.map(|(links, buffers, name)| point(bytes, links, buffers, name));
    Scan {
        name: "chunks",
        points: sizes.iter().flat_map(of_size).collect(),
    }
}

/// Whether this host was the limit in any of the runs.
fn host_limited(repeats: &[&Row]) -> bool {
    repeats.iter().any(|row| row.number("host_limited") != 0.0)
}

/// What was measured on so many links: a line of the points at which the host kept up, and those at which it did not, which no line joins.
fn lines(rows: &[Row], links: u16, name: &str, (cell, scale): (&str, f64)) -> [Series; 2] {
    let (mut line, mut apart) = (Vec::new(), Vec::new());
    for repeats in by_point(rows).values() {
        let at = (
            column(repeats, "chunk_bytes"),
            column(repeats, cell).filter(|_| repeats[0].number("links") == f64::from(links)),
        );
        let (Some(x), Some(y)) = at else { continue };
        let point = Point {
            x: x.median,
            y: y.median * scale,
            low: y.low * scale,
            high: y.high * scale,
        };
        if host_limited(repeats) {
            apart.push(point);
            line.push(Point::gap(x.median));
        } else {
            line.push(point);
        }
    }
    if line.len() == apart.len() {
        line.clear();
    }
    [
        Series::measured(name, line),
        Series::apart(format!("{name}: this host was the limit"), apart),
    ]
}

fn chart(rows: &[Row], title: &str, y: Axis, cell: (&str, f64)) -> Chart {
    let of_width = |(links, _, name): (u16, u16, &str)| lines(rows, links, name, cell);
    let series = WIDTHS.into_iter().flat_map(of_width);
    Chart {
        title: title.to_owned(),
        x: Axis::new("chunk [B]", Scale::Log),
        y,
        series: series
            // Nothing of it would be a name without a mark.
            .filter(|series| series.joined || !series.points.is_empty())
            .collect(),
    }
}

pub(super) fn charts(rows: &[Row]) -> Vec<Chart> {
    let of = |title: &str, unit: &str, cell, scale| {
        chart(rows, title, Axis::new(unit, Scale::Linear), (cell, scale))
    };
    let with_published = |mut chart: Chart| {
        chart.series.push(published::link_rate());
        chart
    };
    let percent = |title: &str, unit: &str, cell| {
        let axis = Axis::new(unit, Scale::Linear).from_to(0.0, 105.0);
        chart(rows, title, axis, (cell, 1.0))
    };
    let factor = Axis::new("times slower than real time", Scale::Log);
    let dilation = "Time of the card: so many times slower than real time";
    vec![
        with_published(of("Triggers", "[kHz] of card time", "trigger_hz", 1e-3)),
        with_published(of(
            "Chunks of each E-link",
            "[kHz] of card time",
            "elink_chunks_hz",
            1e-3,
        )),
        chart(rows, dilation, factor, ("dilation", 1.0)),
        of("Mean chunk", "[B]", "mean_chunk_bytes", 1.0),
        percent(
            "Least free space in the fullest DMA buffer",
            "free [%]",
            "dma_free_percent_min",
        ),
        of(
            "Most bytes waiting in network buffers",
            "[KiB]",
            "net_held_bytes_max",
            1.0 / 1024.0,
        ),
        cut_off(of("Chunks cut off", "chunks", "chunks_truncated", 1.0)),
        percent("BUSY", "share of card time [%]", "busy_percent"),
    ]
}

/// Of nothing an axis that fits has no ticks to read.
fn cut_off(mut chart: Chart) -> Chart {
    let mut points = chart.series.iter().flat_map(|series| &series.points);
    if !points.any(|point| point.high > 0.0) {
        chart.y = chart.y.from_to(0.0, 10.0);
    }
    chart
}

/// How much slower the card's time was, and whether that was enough.
fn manner(repeats: &[&Row]) -> String {
    let time = match column(repeats, "dilation") {
        Some(dilation) if dilation.high > 1.0 && dilation.low < dilation.high => format!(
            "time {:.0} to {:.0} times slower",
            dilation.low, dilation.high
        ),
        Some(dilation) if dilation.high > 1.0 => format!("time {:.0} times slower", dilation.high),
        _ => "real time".to_owned(),
    };
    if host_limited(repeats) {
        format!("{time}, THIS HOST WAS THE LIMIT")
    } else {
        time
    }
}

fn name(repeats: &[&Row]) -> String {
    let links = repeats[0].number("links");
    let width = WIDTHS.iter().find(|width| f64::from(width.0) == links);
    format!(
        "{} B, {}",
        repeats[0].number("chunk_bytes"),
        width.map_or("?", |width| width.2)
    )
}

pub(super) fn compare(rows: &[Row]) -> Vec<String> {
    let line = |repeats: &Vec<&Row>| {
        let of = |cell: &str, scale, digits| median(repeats, cell, scale, digits);
        let bytes = repeats[0].number("chunk_bytes");
        format!(
            "{}: published {:.0} kHz; here {} kHz of triggers, {} % of a DMA buffer free at least, {} KiB waiting in network buffers at most, {} cut off, \
             mean chunk {} B; {}",
            name(repeats),
            published::link_rate_hz(bytes) * 1e-3,
            of("trigger_hz", 1e-3, 1),
            of("dma_free_percent_min", 1.0, 1),
            of("net_held_bytes_max", 1.0 / 1024.0, 0),
            of("chunks_truncated", 1.0, 0),
            of("mean_chunk_bytes", 1.0, 0),
            manner(repeats),
        )
    };
    by_point(rows).values().map(line).collect()
}

/// Processes, and what they are in a legend.
const PROCESSES: [(&str, &str); 3] = [
    ("tohost", "to-host"),
    ("card", "emulated card"),
    ("swrod", "subscriber"),
];

pub(super) fn cpu_charts(rows: &[Row]) -> Vec<Chart> {
    let of_width = |(links, _, name): (u16, u16, &str)| {
        let of_process = |(process, name): (&str, &str)| {
            let cell = format!("cpu_{process}_percent_of_card_time");
            lines(rows, links, name, (&cell, 1.0))
        };
        let series = PROCESSES.into_iter().flat_map(of_process);
        Chart {
            title: format!("CPU, {name}, 1 MHz asked"),
            x: Axis::new("chunk [B]", Scale::Log),
            y: Axis::new("CPU s per s of card time [% of a core]", Scale::Linear),
            series: series
                .filter(|series| series.joined || !series.points.is_empty())
                .collect(),
        }
    };
    let factor = Axis::new("times slower than real time", Scale::Log);
    let dilation = chart(
        rows,
        "Time of the card: so many times slower than real time",
        factor,
        ("dilation", 1.0),
    );
    WIDTHS.into_iter().map(of_width).chain([dilation]).collect()
}

pub(super) fn compare_cpu(rows: &[Row]) -> Vec<String> {
    let line = |repeats: &Vec<&Row>| {
        let of_process = |(process, name): (&str, &str)| {
            let cell = format!("cpu_{process}_percent_of_card_time");
            format!("{name} {} %", median(repeats, &cell, 1.0, 0))
        };
        let told: Vec<String> = PROCESSES.into_iter().map(of_process).collect();
        format!(
            "{}: published \"not very resource-intensive\"; here of a core, per second of card time: {}; {} kHz; {}",
            name(repeats),
            told.join(", "),
            median(repeats, "trigger_hz", 1e-3, 0),
            manner(repeats),
        )
    };
    by_point(rows).values().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(point: usize, bytes: f64, khz: f64, limited: bool) -> Row {
        let mut row = Row::default();
        row.add("point", point);
        row.add("links", 12.0);
        row.add("chunk_bytes", bytes);
        row.add("trigger_hz", khz * 1e3);
        row.add("host_limited", limited);
        row.add("dilation", 16.0);
        row
    }

    #[test]
    fn a_point_at_which_the_host_was_the_limit_is_on_no_line() {
        let rows = [
            row(0, 16.0, 1000.0, false),
            row(1, 512.0, 700.0, true),
            row(2, 1024.0, 926.0, false),
        ];
        let [line, apart] = lines(&rows, 12, "twelve", ("trigger_hz", 1e-3));
        assert_eq!(apart.points, [Point::exact(512.0, 700.0)]);
        assert!(line.joined && !apart.joined);
        let drawn: Vec<bool> = line.points.iter().map(|at| at.y.is_finite()).collect();
        assert_eq!(drawn, [true, false, true]);
        let said = compare(&rows);
        assert!(said[1].ends_with("time 16 times slower, THIS HOST WAS THE LIMIT"));
        assert!(
            said[2].contains("published 938 kHz; here 926.0 kHz"),
            "{}",
            said[2]
        );
        let [none, _] = lines(&rows[1..2], 12, "twelve", ("trigger_hz", 1e-3));
        assert!(none.points.is_empty());
    }
}
