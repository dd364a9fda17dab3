//! T6: what a faster way through the socket is worth, one sender to one receiver.

use anyhow::{Context, Result};

use super::TdmTask;
use crate::figure::published;
use crate::figure::scan::{Scan, ScanPoint, Task};
use crate::figure::series::{by_point, column};
use crate::tdm::loopback;
use forebay_report::plot::{Bar, Bars, Group};
use forebay_report::rows::Row;

/// Names of both, the plain one first.
const PATHS: [&str; 2] = ["plain", "GSO + GRO"];

/// One session.
#[derive(Debug, Clone, Copy)]
pub(in crate::figure) struct Path {
    plain: bool,
    /// How long it sends.
    pub(super) seconds: f64,
}

pub(in crate::figure) fn scan(quick: bool) -> Scan {
    let point = |(number, name): (usize, &str)| {
        let mut labels = Row::default();
        labels.add("path", name);
        ScanPoint {
            name: format!("one sender over loopback, {name}"),
            labels,
            task: Task::Tdm(TdmTask::Path(Path {
                plain: number == 0,
                seconds: if quick { 0.5 } else { 2.0 },
            })),
        }
    };
    Scan {
        name: "tdm_path",
        points: PATHS.into_iter().enumerate().map(point).collect(),
    }
}

impl Path {
    pub(super) fn measure(self) -> Result<Row> {
        let program = std::env::current_exe().context("finding this program")?;
        let came = loopback::one_sender(&program, self.seconds, self.plain)?;
        let per_gigabyte = |seconds: f64| seconds * 1e3 / (came.bytes() / 1e9);
        let mut row = Row::default();
        row.add("seconds", self.seconds);
        row.add("datagram_bytes", loopback::DATAGRAM_BYTES);
        row.add("sent", came.sent);
        row.add("received", came.received);
        row.add("rate_bps", came.rate_bps);
        row.add("lost_percent", came.lost_part * 100.0);
        row.add("sender_cpu_ms_per_gb", per_gigabyte(came.sender_cpu_s));
        row.add("receiver_cpu_ms_per_gb", per_gigabyte(came.receiver_cpu_s));
        row.add("residual_items", came.residual_items);
        Ok(row)
    }
}

/// Medians of a column, of both paths.
fn medians(rows: &[Row], name: &str) -> Vec<(String, f64)> {
    let of = |repeats: Vec<&Row>| {
        let value = column(&repeats, name)?.median;
        Some((repeats[0].text("path").to_owned(), value))
    };
    by_point(rows).into_values().filter_map(of).collect()
}

pub(in crate::figure) fn bars(rows: &[Row]) -> Bars {
    let bar = |name: String, parts: Vec<f64>, reference| Bar {
        name,
        parts,
        reference,
    };
    let theirs = published::FASTER_PATH_GBPS
        .into_iter()
        .map(|(name, gbps)| bar(name.to_owned(), vec![gbps], true));
    let rates = medians(rows, "rate_bps")
        .into_iter()
        .map(|(name, bps)| bar(name, vec![bps / 1e9], false));
    let lost = medians(rows, "lost_percent");
    let lost = lost
        .into_iter()
        .map(|(name, percent)| bar(name, vec![0.0, 0.0, percent], false));
    let cpu = medians(rows, "sender_cpu_ms_per_gb")
        .into_iter()
        .zip(medians(rows, "receiver_cpu_ms_per_gb"))
        .map(|((name, sender), (_, receiver))| bar(name, vec![sender, receiver], false));
    let group = |title: &str, bars: Vec<Bar>| Group {
        title: title.to_owned(),
        bars,
    };
    Bars {
        parts: vec!["rate, or the sender's CPU", "the receiver's CPU", "lost"],
        groups: vec![
            group(
                "Datagrams of 1472 B that came [Gb/s]",
                theirs.chain(rates).collect(),
            ),
            group("CPU time of both processes [ms per GB]", cpu.collect()),
            group("Lost in the receiver's socket [%]", lost.collect()),
        ],
        ..Bars::default()
    }
}

pub(in crate::figure) fn compare(rows: &[Row]) -> Vec<String> {
    let [rate, lost, sender, receiver] = [
        "rate_bps",
        "lost_percent",
        "sender_cpu_ms_per_gb",
        "receiver_cpu_ms_per_gb",
    ]
    .map(|name| medians(rows, name));
    let mut lines: Vec<String> = rate
        .iter()
        .zip(lost.iter().zip(sender.iter().zip(&receiver)))
        .map(|((name, bps), ((_, lost), ((_, sender), (_, receiver))))| {
            format!(
                "{name}: {:.2} Gb/s came, {lost:.1} % lost, CPU {sender:.0} ms per GB at the sender and {receiver:.0} at the receiver",
                bps / 1e9
            )
        })
        .collect();
    if let [(_, plain), (_, fast)] = rate.as_slice() {
        let [(_, before), (_, after)] = published::FASTER_PATH_GBPS;
        lines.push(format!(
            "published: {before} to {after} Gb/s, {:.1} times; here {:.1} times",
            after / before,
            fast / plain
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_stands_beside_what_was_published() {
        let row = |point: usize, gbps: f64| {
            let mut row = Row::default();
            row.add("point", point);
            row.add("path", PATHS[point]);
            row.add("rate_bps", gbps * 1e9);
            for name in [
                "lost_percent",
                "sender_cpu_ms_per_gb",
                "receiver_cpu_ms_per_gb",
            ] {
                row.add(name, 5.0);
            }
            row
        };
        let rows = [row(0, 3.0), row(1, 12.0)];
        let bars = bars(&rows);
        let rates: Vec<_> = bars.groups[0]
            .bars
            .iter()
            .map(|bar| (bar.reference, bar.parts[0]))
            .collect();
        assert_eq!(
            rates,
            [(true, 12.0), (true, 41.0), (false, 3.0), (false, 12.0)]
        );
        assert!(
            compare(&rows)[2].ends_with("here 4.0 times"),
            "{:?}",
            compare(&rows)
        );
    }
}
