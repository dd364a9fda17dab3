//! C5: what each part of the flow probe takes of CPU time and memory.

use std::path::Path;

use anyhow::Result;
use forebay_flow::plugins::PluginKind;

use super::scan::{Scan, ScanPoint, Task};
use super::series::{by_point, column};
use crate::probe::{Capture, Part};
use forebay_report::plot::{Bar, Bars, Group};
use forebay_report::rows::Row;

const PACKETS: u64 = 500_000;
const PACKETS_QUICK: u64 = 100_000;
const EXPORTS: [&str; 4] = ["jsonl", "csv", "parquet", "ipfix"];
const MIB: f64 = 1_048_576.0;

/// A part over a capture, which all points of a scan share.
#[derive(Debug, Clone)]
pub(super) struct Component {
    part: Part,
    capture: Capture,
}

pub(super) fn scan(quick: bool) -> Scan {
    let capture = Capture::new(if quick { PACKETS_QUICK } else { PACKETS });
    let parts = [
        Part::Frames,
        Part::Decode,
        Part::Table,
        Part::FewFlows,
        Part::Program,
    ];
    let plugins = PluginKind::ALL.into_iter().map(Part::Plugin);
    let parts = parts.into_iter().chain(plugins);
    let parts = parts.chain(EXPORTS.map(Part::Export));
    let point = |part: Part| ScanPoint {
        name: name(part),
        labels: Row::default(),
        task: Task::Component(Component {
            part,
            capture: capture.clone(),
        }),
    };
    Scan {
        name: "components",
        points: parts.map(point).collect(),
    }
}

fn name(part: Part) -> String {
    match part {
        Part::Frames => "frames".into(),
        Part::Decode => "decode".into(),
        Part::Table => "table".into(),
        Part::FewFlows => "few flows".into(),
        Part::Program => "program".into(),
        Part::Plugin(kind) => format!("plugin {}", kind.name()),
        Part::Export(ending) => format!("export {ending}"),
    }
}

impl Component {
    /// The row of a run.
    pub(super) fn measure(&self, directory: &Path, stop: &dyn Fn() -> bool) -> Result<Row> {
        let cost = self.part.measure(&self.capture, directory, stop)?;
        let mut row = Row::default();
        row.add("run_of", name(self.part));
        row.add("packets", cost.packets);
        row.add("flows", cost.flows);
        row.add("cpu_ns", cost.cpu_ns);
        row.add(
            "cpu_ns_per_packet",
            cost.cpu_ns as f64 / cost.packets.max(1) as f64,
        );
        let resident = cost.resident_bytes.map_or(f64::NAN, |bytes| bytes as f64);
        row.add("peak_resident_bytes", resident);
        row.add("residual_items", cost.residual_items);
        Ok(row)
    }
}

/// The median of a column over the runs of a part.
fn median(rows: &[Row], run_of: &str, of: &str) -> Option<f64> {
    let mut points = by_point(rows).into_values();
    let repeats = points.find(|repeats| repeats[0].text("run_of") == run_of)?;
    column(&repeats, of).map(|spread| spread.median)
}

/// What a part takes more than what it is set against.
fn more(rows: &[Row], run_of: &str, than: &str, of: &str) -> Option<f64> {
    Some(median(rows, run_of, of)? - median(rows, than, of)?)
}

/// Plugins and exports that were run.
fn additions(rows: &[Row]) -> Vec<String> {
    let names = by_point(rows).into_values();
    let names = names.map(|repeats| repeats[0].text("run_of").to_owned());
    let is_addition = |name: &String| name.starts_with("plugin ") || name.starts_with("export ");
    names.filter(is_addition).collect()
}

/// CPU time of each component, ns a packet.
fn cpu(rows: &[Row]) -> Vec<(String, f64)> {
    const OF: &str = "cpu_ns_per_packet";
    let of = |name: &str, run_of: &str, than: &str| {
        more(rows, run_of, than, OF).map(|ns| (name.to_owned(), ns))
    };
    let mut components = Vec::new();
    components.extend(of("decode", "decode", "frames"));
    components.extend(of("table", "table", "decode"));
    components.extend(of("reading and all else", "program", "table"));
    for name in additions(rows) {
        components.extend(of(&name, &name, "program"));
    }
    components
}

/// Memory of each component, MiB.
fn memory(rows: &[Row]) -> Vec<(String, f64)> {
    const OF: &str = "peak_resident_bytes";
    let mut components = Vec::new();
    let own = median(rows, "few flows", OF);
    components.extend(own.map(|bytes| ("program without table".to_owned(), bytes / MIB)));
    let mut add = |name: &str, run_of: &str, than: &str| {
        let more = more(rows, run_of, than, OF);
        components.extend(more.map(|bytes| (name.to_owned(), bytes / MIB)));
    };
    add("table", "program", "few flows");
    for name in additions(rows) {
        add(&name, &name, "program");
    }
    components
}

/// A bar for each component; what is below the noise is none.
fn group(title: &str, components: Vec<(String, f64)>) -> Group {
    let bar = |(name, value): (String, f64)| Bar {
        name,
        parts: vec![(value.max(0.0) * 10.0).round() / 10.0],
        reference: false,
    };
    Group {
        title: title.to_owned(),
        bars: components.into_iter().map(bar).collect(),
    }
}

pub(super) fn bars(rows: &[Row]) -> Bars {
    Bars {
        parts: vec!["more than without it"],
        groups: vec![
            group("CPU time [ns a packet]", cpu(rows)),
            group("Most memory that was resident [MiB]", memory(rows)),
        ],
        ..Bars::default()
    }
}

pub(super) fn compare(rows: &[Row]) -> Vec<String> {
    let Some(all_ns) = median(rows, "program", "cpu_ns_per_packet") else {
        return Vec::new();
    };
    let list = |components: Vec<(String, f64)>| {
        let told = components
            .iter()
            .map(|(name, value)| format!("{name} {value:.1}"));
        told.collect::<Vec<_>>().join(", ")
    };
    let flows = median(rows, "program", "flows").unwrap_or_default();
    let packets = median(rows, "program", "packets").unwrap_or_default();
    let of_record = |ending: &str| {
        let name = format!("export {ending}");
        let ns = more(rows, &name, "program", "cpu_ns")?;
        Some(format!("{ending} {:.0}", ns / flows.max(1.0)))
    };
    let exports: Vec<String> = EXPORTS.into_iter().filter_map(of_record).collect();
    vec![
        format!(
            "here {packets} packets of {flows} flows; the whole program without plugins, to nobody: {all_ns:.1} ns of CPU time a packet"
        ),
        format!("CPU time of each, ns a packet: {}", list(cpu(rows))),
        format!("of exports, ns a record: {}", exports.join(", ")),
        format!("most memory that was resident, MiB: {}", list(memory(rows))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(point: usize, run_of: &str, cpu_ns: f64, mib: f64) -> Row {
        let mut row = Row::default();
        row.add("point", point);
        row.add("run_of", run_of);
        row.add("packets", 100_u64);
        row.add("flows", 10_u64);
        row.add("cpu_ns", cpu_ns);
        row.add("cpu_ns_per_packet", cpu_ns / 100.0);
        row.add("peak_resident_bytes", mib * MIB);
        row
    }

    #[test]
    fn each_component_is_what_it_takes_more() {
        let rows = [
            row(0, "frames", 100.0, f64::NAN),
            row(1, "decode", 1_100.0, f64::NAN),
            row(2, "table", 3_100.0, f64::NAN),
            row(3, "few flows", 9_000.0, 8.0),
            row(4, "program", 5_000.0, 28.0),
            row(5, "plugin tls", 7_000.0, 78.5),
            row(6, "export jsonl", 4_900.0, 29.0),
        ];
        let values = |components: Vec<(String, f64)>| -> Vec<f64> {
            components.into_iter().map(|(_, value)| value).collect()
        };
        assert_eq!(values(cpu(&rows)), [10.0, 20.0, 19.0, 20.0, -1.0]);
        assert_eq!(values(memory(&rows)), [8.0, 20.0, 50.5, 1.0]);
        let drawn = bars(&rows);
        assert_eq!(drawn.groups[0].bars[4].parts, [0.0]);
        let said = compare(&rows);
        assert!(
            said[1].contains("table 20.0") && said[1].contains("export jsonl -1.0"),
            "{said:?}"
        );
        assert!(said[2].contains("jsonl -10"), "{said:?}");
        assert!(compare(&[]).is_empty());
        assert!(bars(&[]).groups.iter().all(|group| group.bars.is_empty()));
    }

    #[test]
    fn every_plugin_and_every_file_is_a_point() {
        let points = scan(true).points;
        assert_eq!(points.len(), 5 + PluginKind::ALL.len() + EXPORTS.len());
    }
}
