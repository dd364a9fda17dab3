//! C4: what the flow probe loses with its offload off and on, where it has too little CPU for all packets.

use std::path::Path;

use anyhow::{Context, Result};
use forebay_run::Stop;
use forebay_sys::sched;
use tempfile::TempDir;

use super::published::PROBE_LOST_PERCENT;
use super::scan::{Scan, ScanPoint, Task};
use super::series::{by_point, column, median};
use crate::live_pair::{self, Offload, OneCpu, Options, Side};
use crate::net::{Interrupted, Skipped};
use forebay_report::plot::{Bar, Bars, Group};
use forebay_report::rows::Row;

const PACKETS: u64 = 1_000_000;
const PACKETS_QUICK: u64 = 100_000;
/// Fewest packets of a profile: for a trial.
const PACKETS_TRIAL: u64 = 1_000;
/// How much less CPU than the generator the probe gets, from as much to nearly none.
const NICENESS: [u8; 5] = [0, 5, 8, 10, 12];
const NICENESS_QUICK: [u8; 2] = [0, 12];
/// More packets a second than any generator makes: it sends as fast as it can.
const FLAT_OUT_HZ: f64 = 1e9;
/// The longest packet of the profile, in bytes.
const MTU_BYTES: u32 = 9_020;
const PLUGINS: &str = "tls,dns,http,quic,pstats";
/// What cannot be measured where there is no wire or no program for the kernel.
pub(super) const WIRE: &str = "the offload on a virtual wire";

/// One run of generator and probe.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    niceness: u8,
    offload: Offload,
    packets: u64,
}

pub(super) fn scan(quick: bool) -> Scan {
    let (packets, niceness) = match quick {
        true => (PACKETS_QUICK, &NICENESS_QUICK[..]),
        false => (PACKETS, &NICENESS[..]),
    };
    let pairs = niceness.iter().flat_map(|niceness| {
        [Offload::Off, Offload::Xdp].map(|offload| Pair {
            niceness: *niceness,
            offload,
            packets,
        })
    });
    let point = |pair: Pair| ScanPoint {
        name: format!(
            "niceness {}, offload {}",
            pair.niceness,
            pair.offload.name()
        ),
        labels: Row::default(),
        task: Task::Offload(pair),
    };
    Scan {
        name: "offload",
        points: pairs.map(point).collect(),
    }
}

impl Pair {
    /// Why no such run can be done here, if so: a small one is tried.
    pub(super) fn trial(self, directory: &Path, stop: &Stop) -> Option<Skipped> {
        let small = Self {
            packets: PACKETS_TRIAL,
            offload: Offload::Xdp,
            ..self
        };
        let tried = small.run(directory, 1, stop);
        tried.err().map(|error| Skipped {
            what: WIRE.to_owned(),
            reason: format!("{error:#}"),
        })
    }

    /// About how long it takes, in seconds.
    pub(super) fn seconds(self) -> f64 {
        self.packets as f64 / 400e3 + 1.0
    }

    /// The row of a run; the seed is its number.
    pub(super) fn measure(self, directory: &Path, run: usize, stop: &Stop) -> Result<Row> {
        let side = self.run(directory, run, stop)?;
        if side.interrupted {
            return Err(Interrupted.into());
        }
        Ok(self.row(&side, run))
    }

    fn run(self, directory: &Path, run: usize, stop: &Stop) -> Result<Side> {
        let out = TempDir::new_in(directory).context("making a place for ledgers")?;
        let options = Options {
            program: std::env::current_exe().context("finding this program")?,
            profile: "geant-like-morning".to_owned(),
            packet_rate_hz: FLAT_OUT_HZ,
            packets: Some(self.packets),
            seed: run as u64,
            mtu_bytes: MTU_BYTES,
            probe_args: vec!["--plugins".to_owned(), PLUGINS.to_owned()],
            one_cpu: Some(OneCpu {
                cpu: *sched::cpus()
                    .last()
                    .context("this process may use no CPU")?,
                niceness: self.niceness,
            }),
            collects: false,
            out: out.path().to_owned(),
        };
        live_pair::run_one(&options, self.offload, stop)
    }

    fn row(self, side: &Side, run: usize) -> Row {
        let mut row = Row::default();
        row.add("niceness", f64::from(self.niceness));
        row.add("offload", self.offload.name());
        row.add("seed", run);
        row.add("packets_sent", side.sent.packets);
        row.add("octets_sent", side.sent.octets);
        row.add("packet_rate_hz", side.packet_rate_hz);
        row.add("packets_in", side.taken.packets);
        row.add("octets_in", side.taken.octets);
        row.add("packets_recorded", side.recorded.packets);
        row.add("packets_lost", side.ring_lost.packets);
        row.add("lost_percent", side.ring_lost_percent);
        row.add("lost_octets_percent", side.ring_lost_octets_percent);
        row.add("packets_wire_dropped", side.wire_dropped_packets);
        row.add("packets_offloaded", side.offloaded.packets);
        let [offloaded_percent, _] = side.offloaded.percent_of(side.sent);
        row.add("offloaded_percent", offloaded_percent);
        row.add("flows", side.flows);
        row.add("cpu_probe_s", side.probe_cpu_s);
        row.add("cpu_generator_s", side.generator_cpu_s);
        // Parties that do not agree are as books that do not close.
        let differ = side.disagreements.len() as u64;
        row.add(
            "residual_items",
            side.residual[0] + side.residual[1] + differ,
        );
        // It has a comma in it: a reader that knows no quotes finds what is before it.
        row.add(
            "offload_kind",
            side.offload_kind.as_deref().unwrap_or("none"),
        );
        row
    }
}

/// The points of a niceness, in order.
fn pairs(rows: &[Row]) -> Vec<Vec<&Row>> {
    by_point(rows).into_values().collect()
}

/// A bar for each point, and those that are published where there are some.
fn group(title: &str, rows: &[Row], of: &str, published: &[(&str, f64)]) -> Group {
    let reference = published.iter().map(|(name, percent)| Bar {
        name: (*name).to_owned(),
        parts: vec![*percent],
        reference: true,
    });
    let measured = pairs(rows).into_iter().filter_map(|repeats| {
        let percent = column(&repeats, of)?.median;
        let first = repeats.first()?;
        Some(Bar {
            name: format!(
                "niceness {}, {}",
                first.number("niceness"),
                first.text("offload")
            ),
            parts: vec![(percent * 1e3).round() / 1e3],
            reference: false,
        })
    });
    Group {
        title: title.to_owned(),
        bars: reference.chain(measured).collect(),
    }
}

pub(super) fn bars(rows: &[Row]) -> Bars {
    let [off, on] = PROBE_LOST_PERCENT;
    let published = [("CESNET, off: 5.17 %", off), ("CESNET, on: 0.01 %", on)];
    Bars {
        parts: vec!["lost by the probe's ring"],
        groups: vec![
            group(
                "Packets [% of those sent]",
                rows,
                "lost_percent",
                &published,
            ),
            group("Octets [% of those sent]", rows, "lost_octets_percent", &[]),
        ],
        ..Bars::default()
    }
}

pub(super) fn compare(rows: &[Row]) -> Vec<String> {
    let mut lines: Vec<String> = pairs(rows)
        .chunks(2)
        .filter_map(|pair| match pair {
            [off, on] => Some(line(off, on)),
            _ => None,
        })
        .collect();
    lines.extend(verdict(rows));
    lines
}

/// Both runs of a niceness.
fn line(off: &[&Row], on: &[&Row]) -> String {
    let lost = |repeats: &[&Row]| {
        format!(
            "{} % of packets, {} % of octets",
            median(repeats, "lost_percent", 1.0, 3),
            median(repeats, "lost_octets_percent", 1.0, 3),
        )
    };
    let both = |name: &str, scale: f64, digits: usize| {
        [off, on].map(|repeats| median(repeats, name, scale, digits))
    };
    let [rate_off, rate_on] = both("packet_rate_hz", 1e-3, 0);
    let [cpu_off, cpu_on] = both("cpu_probe_s", 1.0, 2);
    format!(
        "niceness {}: off {} lost of {rate_off} k packets/s, {cpu_off} s of CPU; on {} lost of {rate_on} k packets/s, {cpu_on} s of CPU, {} % counted below user space",
        off.first().map_or(f64::NAN, |row| row.number("niceness")),
        lost(off),
        lost(on),
        median(on, "offloaded_percent", 1.0, 1),
    )
}

/// Whether the shape of what is published is here.
fn verdict(rows: &[Row]) -> Option<String> {
    let points = pairs(rows);
    let lost = |of: &str| -> Vec<f64> {
        let of_kind = points
            .iter()
            .filter(|repeats| repeats[0].text("offload") == of);
        of_kind
            .filter_map(|repeats| Some(column(repeats, "lost_percent")?.median))
            .collect()
    };
    let most = |percents: &[f64]| percents.iter().copied().reduce(f64::max);
    let (off, on) = (most(&lost("off"))?, most(&lost("xdp"))?);
    let shape = match (off >= 1.0, on <= 0.1) {
        (true, true) => "as published, much is lost without it and next to nothing with it",
        (true, false) => "less with it, but more than the published hundredth of a per cent",
        (false, _) => "this probe kept up without it, so that nothing is shown",
    };
    Some(format!(
        "most that was lost: off {off:.3} %, on {on:.3} %: {shape}; how much is lost without it follows from the niceness, and is no property of the probe"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(point: usize, niceness: u8, offload: &str, lost: f64) -> Row {
        let mut row = Row::default();
        row.add("point", point);
        row.add("niceness", f64::from(niceness));
        row.add("offload", offload);
        row.add("lost_percent", lost);
        row.add("lost_octets_percent", lost * 2.0);
        row.add("packet_rate_hz", 5e5);
        row.add("cpu_probe_s", 0.5);
        row.add("offloaded_percent", 90.0);
        row
    }

    #[test]
    fn losses_are_beside_what_is_published() {
        let rows = [
            row(0, 10, "off", 5.0),
            row(0, 10, "off", 7.0),
            row(0, 10, "off", 6.0004),
            row(1, 10, "xdp", 0.02),
        ];
        let drawn = bars(&rows);
        let parts = |group: &Group| -> Vec<(f64, bool)> {
            let bars = group.bars.iter();
            bars.map(|bar| (bar.parts[0], bar.reference)).collect()
        };
        let published = [(5.17, true), (0.01, true)];
        assert_eq!(
            parts(&drawn.groups[0]),
            [&published[..], &[(6.0, false), (0.02, false)]].concat()
        );
        assert_eq!(parts(&drawn.groups[1]), [(12.001, false), (0.04, false)]);
        let said = compare(&rows);
        assert!(
            said[0].contains("off 6.000 % of packets, 12.001 % of octets"),
            "{said:?}"
        );
        assert!(said[1].contains("as published"), "{said:?}");
        assert!(compare(&[]).is_empty());
    }

    #[test]
    fn what_is_not_shown_is_not_claimed() {
        let said = |off: f64, on: f64| verdict(&[row(0, 0, "off", off), row(1, 0, "xdp", on)]);
        assert!(said(0.5, 0.0).unwrap().contains("nothing is shown"));
        assert!(said(20.0, 3.0).unwrap().contains("less with it, but more"));
        assert_eq!(verdict(&[]), None);
    }
}
