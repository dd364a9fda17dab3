//! M1 to M20: the multiplexer between network namespaces on a wire of 1 Gb/s, figure by figure of one table.

mod table;

use std::time::Duration;

use anyhow::{Context, Result};
use forebay_load::target_name;
use forebay_run::Stop;
use forebay_sys::sched;

use super::definition::{Definition, Drawing};
use super::scan::{Scan, ScanPoint, Task};
use super::series::{by_point, median, points};
use crate::mux::{self, ClientOptions, MuxBenchSummary, Options, Placement};
use crate::net::{Interrupted, Skipped};
use forebay_report::plot::{Axis, Chart, Point, Scale, Series};
use forebay_report::rows::Row;
use forebay_report::statistics::{Spread, spread};
use table::{Entry, Of, Place, Printed, Scenario, TABLE};

/// Bits of payload in a second that all clients are asked for together.
const LOADS_BPS: [u64; 5] = [
    100_000_000,
    300_000_000,
    500_000_000,
    700_000_000,
    960_000_000,
];
const LOADS_QUICK_BPS: [u64; 2] = [100_000_000, 960_000_000];
const DURATION: Duration = Duration::from_secs(3);
const DURATION_QUICK: Duration = Duration::from_secs(1);
const DURATION_TRIAL: Duration = Duration::from_millis(100);
const SIZE_BYTES: usize = 1_472;
const WIRE_BPS: u64 = 1_000_000_000;
/// What cannot be measured where there are no namespaces.
pub(super) const HOSTS: &str = "the multiplexer between network namespaces";
const REMARK: &str = "Generator, switch and the card's host are network namespaces on this machine, joined by virtual cables; token buckets (tbf) of 1 Gb/s on the switch's ports stand for the wire, and no card is there. The daemon has \
                      the driver packet; clients are processes of a user without rights, with an IP stack of their own. 1472 B of payload. All share this host's CPUs with the generator; CPU is of the whole host. B behind A means a niceness of 10 \
                      for its process, where the original has priorities of components. Each client's packets are counted hop by hop, and the books close.";

/// One load on one scenario.
#[derive(Debug, Clone, Copy)]
pub(super) struct MuxTask {
    scenario: &'static Scenario,
    load_bps: u64,
    duration: Duration,
    /// Clients that rows have columns for.
    columns: usize,
}

/// The figure of this number.
pub(super) const fn definition<const N: usize>() -> Definition {
    let entry = &TABLE[N - 1];
    Definition {
        id: entry.id,
        title: entry.title,
        published: entry.published,
        scan: scan::<N>,
        drawing: Drawing::Charts(charts::<N>),
        compare: compare::<N>,
        remark: REMARK,
    }
}

fn scan<const N: usize>(quick: bool) -> Scan {
    scan_of(&TABLE[N - 1], quick)
}

fn charts<const N: usize>(rows: &[Row]) -> Vec<Chart> {
    charts_of(&TABLE[N - 1], rows)
}

fn compare<const N: usize>(rows: &[Row]) -> Vec<String> {
    compared(&TABLE[N - 1], rows)
}

fn columns(entry: &Entry) -> usize {
    let clients = entry.scenarios.iter().map(|it| it.clients.len());
    clients.max().unwrap_or(0)
}

fn scan_of(entry: &'static Entry, quick: bool) -> Scan {
    let (loads, duration) = match quick {
        true => (&LOADS_QUICK_BPS[..], DURATION_QUICK),
        false => (&LOADS_BPS[..], DURATION),
    };
    let all = entry.scenarios.iter().flat_map(|scenario| {
        let task = move |load_bps: &u64| MuxTask {
            scenario,
            load_bps: *load_bps,
            duration,
            columns: columns(entry),
        };
        loads.iter().map(task)
    });
    let point = |task: MuxTask| {
        let mut labels = Row::default();
        labels.add("scenario", task.scenario.name);
        labels.add("requested_bps", task.load_bps);
        ScanPoint {
            name: format!(
                "{}, {} Mbit/s",
                task.scenario.name,
                task.load_bps / 1_000_000
            ),
            labels,
            task: Task::Mux(task),
        }
    };
    Scan {
        name: entry.scan,
        points: all.map(point).collect(),
    }
}

impl MuxTask {
    /// Why no such run can be done here, if so: a short one is tried.
    pub(super) fn trial(self, stop: &Stop) -> Option<Skipped> {
        let short = Self {
            load_bps: 1_000_000,
            duration: DURATION_TRIAL,
            ..self
        };
        let tried = short
            .options()
            .and_then(|options| mux::measure(&options, stop));
        tried.err().map(|error| Skipped {
            what: HOSTS.to_owned(),
            reason: format!("{error:#}"),
        })
    }

    /// About how long it takes, in seconds.
    pub(super) fn seconds(self) -> f64 {
        self.duration.as_secs_f64() + 1.5
    }

    fn options(self) -> Result<Options> {
        let scenario = self.scenario;
        let count = scenario.clients.len();
        let client = |said: &ClientOptions| ClientOptions {
            load_bps: self.load_bps / count as u64,
            ..said.clone()
        };
        let usual = mux::receive_buffers(count);
        Ok(Options {
            program: std::env::current_exe().context("finding this program")?,
            workload: scenario.workload,
            policy: scenario.policy,
            clients: scenario.clients.iter().map(client).collect(),
            size_bytes: SIZE_BYTES,
            duration: self.duration,
            receive_buffers: scenario.receive_buffers.unwrap_or(usual),
            wire_bps: Some(WIRE_BPS),
            link_bps: None,
            gather_us: None,
            real_time: None,
            is_raw: false,
            driver_threads: scenario.driver_threads,
            has_baseline: false,
            has_soaker: true,
            placement: scenario.place.on(&sched::cpus()),
        })
    }

    /// The row of a run.
    pub(super) fn measure(self, stop: &Stop) -> Result<Row> {
        let options = self.options()?;
        let mut row = Row::default();
        if self.scenario.is_sockets {
            let sockets = mux::measure_sockets(&options, stop)?;
            row.add("achieved_bps", sockets.achieved_bps);
            row.add("cpu_percent", 100.0 * sockets.cpu_fraction);
            let soaker = sockets.cpu_fraction_soaker.unwrap_or(f64::NAN);
            row.add("cpu_soaker_percent", 100.0 * soaker);
            let clients = sockets.clients.iter();
            let cells = clients.map(|it| (it.achieved_bps, &it.rtt_ns, f64::NAN, f64::NAN));
            self.add_clients(&mut row, cells);
            row.add("generator_limited", sockets.generator_limit.is_some());
            row.add("residual_items", sockets.residual_items);
        } else {
            let record = mux::measure(&options, stop)?;
            self.add_ours(&mut row, &record.summary);
            row.add("residual_items", record.envelope.books.residual_items);
        }
        if stop.is_asked() {
            return Err(Interrupted.into());
        }
        Ok(row)
    }

    fn add_ours(self, row: &mut Row, summary: &MuxBenchSummary) {
        row.add("achieved_bps", summary.achieved_bps);
        row.add("cpu_percent", 100.0 * summary.cpu_fraction);
        let soaker = summary.cpu_fraction_soaker.unwrap_or(f64::NAN);
        row.add("cpu_soaker_percent", 100.0 * soaker);
        let clients = summary.clients.iter();
        let cells = clients.map(|it| {
            let lost: u64 = it.drops.values().sum();
            let waited = it.sojourn_ns_max as f64 / 1e3;
            (it.achieved_bps, &it.rtt_ns, waited, lost as f64)
        });
        self.add_clients(row, cells);
        row.add("generator_limited", summary.generator_limit.is_some());
    }

    fn add_clients<'a>(
        self,
        row: &mut Row,
        mut clients: impl Iterator<Item = (f64, &'a serde_json::Value, f64, f64)>,
    ) {
        for name in (0..self.columns).map(target_name) {
            let none = (f64::NAN, &serde_json::Value::Null, f64::NAN, f64::NAN);
            let (achieved_bps, rtt_ns, waited_us, lost) = clients.next().unwrap_or(none);
            row.add(&format!("achieved_{name}_bps"), achieved_bps);
            for key in ["p50", "p99", "p999"] {
                let us = rtt_ns[key].as_f64().map_or(f64::NAN, |ns| ns / 1e3);
                row.add(&format!("rtt_{key}_{name}_us"), us);
            }
            row.add(&format!("wait_max_{name}_us"), waited_us);
            row.add(&format!("lost_{name}"), lost);
        }
    }
}

impl Place {
    /// On these CPUs.
    fn on(self, cpus: &[usize]) -> Placement {
        let (first, last) = (cpus.first().copied(), cpus.last().copied());
        let [daemon, clients, generator] = match self {
            Self::Anywhere => [None; 3],
            Self::Together => [last, last, first],
            Self::DaemonApart => [last, first, first],
            Self::ClientsApart => [first, last, first],
        };
        Placement {
            daemon,
            clients,
            generator,
        }
    }
}

/// The column of a value, and what it is divided by.
fn column_of(of: Of) -> (String, f64) {
    match of {
        Of::All => ("achieved_bps".to_owned(), 1e-6),
        Of::Client(at) => (format!("achieved_{}_bps", target_name(at)), 1e-6),
        Of::Cpu => ("cpu_percent".to_owned(), 1.0),
        Of::RoundTrip(at) => (format!("rtt_p50_{}_us", target_name(at)), 1.0),
    }
}

const X: (&str, f64) = ("requested_bps", 1e-6);

/// A chart of one kind of value; `of` has it for each client, or for all.
fn chart(entry: &Entry, rows: &[Row], (title, y): (&str, &str), of: &[Of]) -> Chart {
    let mut series = Vec::new();
    for printed in entry.printed.iter().filter(|it| of.contains(&it.of)) {
        let at = Point::exact(*LOADS_BPS.last().unwrap_or(&0) as f64 * 1e-6, printed.value);
        let name = format!("published, {}{}", printed.scenario, client_of(printed.of));
        series.push(Series::published(name, vec![at]));
    }
    for scenario in entry.scenarios {
        for of in of {
            let (column, scale) = column_of(*of);
            let is_of = |row: &Row| row.text("scenario") == scenario.name;
            let found = points(rows, is_of, X, (&column, scale));
            if found.iter().any(|point| point.y.is_finite()) {
                let name = format!("{}{}", scenario.name, client_of(*of));
                series.push(Series::measured(name, found));
            }
        }
    }
    Chart {
        title: title.into(),
        x: Axis::new("asked of all clients [Mbit/s]", Scale::Linear),
        y: Axis::new(y, Scale::Linear),
        series,
    }
}

fn client_of(of: Of) -> String {
    match of {
        Of::Client(at) | Of::RoundTrip(at) => format!(", {}", target_name(at)),
        Of::All | Of::Cpu => String::new(),
    }
}

fn charts_of(entry: &Entry, rows: &[Row]) -> Vec<Chart> {
    let count = columns(entry);
    let each: Vec<Of> = match count {
        2 => (0..count).map(Of::Client).collect(),
        _ => vec![Of::All],
    };
    let trips: Vec<Of> = (0..count.min(2)).map(Of::RoundTrip).collect();
    vec![
        chart(entry, rows, ("Throughput", "payload [Mbit/s]"), &each),
        chart(entry, rows, ("CPU", "CPU of the host [%]"), &[Of::Cpu]),
        chart(entry, rows, ("Round trip", "median [us]"), &trips),
    ]
}

fn compared(entry: &Entry, rows: &[Row]) -> Vec<String> {
    let at_most = rows.iter().map(|row| row.number("requested_bps"));
    let most = at_most.fold(0.0, f64::max);
    let all = by_point(rows);
    let at = |scenario: &str| {
        all.values().find(|repeats| {
            let first = repeats[0];
            first.text("scenario") == scenario && first.number("requested_bps") == most
        })
    };
    let value = |scenario: &str, of: Of| {
        let (column, scale) = column_of(of);
        at(scenario).map_or_else(|| "?".to_owned(), |it| median(it, &column, scale, 1))
    };
    let late = |scenario: &str, client: usize, key: &str| {
        let column = format!("rtt_{key}_{}_us", target_name(client));
        at(scenario).map_or_else(|| "?".to_owned(), |it| median(it, &column, 1.0, 1))
    };
    let mut lines = Vec::new();
    if rows.is_empty() {
        return lines;
    }
    for Printed {
        scenario,
        of,
        value: printed,
    } in entry.printed
    {
        let (what, unit) = match of {
            Of::All => ("all".to_owned(), "Mbit/s"),
            Of::Client(at) => (target_name(*at), "Mbit/s"),
            Of::Cpu => ("CPU".to_owned(), "%"),
            Of::RoundTrip(at) => (format!("median round trip of {}", target_name(*at)), "us"),
        };
        let ours = value(scenario, *of);
        lines.push(format!(
            "{scenario}, {what}: published {printed} {unit}, here {ours} {unit}"
        ));
    }
    for scenario in entry.scenarios {
        let name = scenario.name;
        let clients = (0..scenario.clients.len()).map(|client| {
            format!(
                "{} {} of {:.0} Mbit/s at {} us (99 %: {}, 99.9 %: {})",
                target_name(client),
                value(name, Of::Client(client)),
                most / 1e6 / scenario.clients.len() as f64,
                value(name, Of::RoundTrip(client)),
                late(name, client, "p99"),
                late(name, client, "p999"),
            )
        });
        let clients: Vec<String> = clients.collect();
        lines.push(format!(
            "{name}, {:.0} Mbit/s asked: {}; {} % of the host's CPUs",
            most / 1e6,
            clients.join(", "),
            value(name, Of::Cpu),
        ));
    }
    lines.push(entry.sentence.to_owned());
    lines.push(shares(rows));
    lines
}

/// How far both accounts of the CPU that was used are apart.
fn shares(rows: &[Row]) -> String {
    let apart = |row: &Row| row.number("cpu_percent") - row.number("cpu_soaker_percent");
    match spread(rows.iter().map(apart).filter(|it| it.is_finite())) {
        Some(Spread {
            low, high, runs, ..
        }) => format!(
            "CPU used by /proc/stat minus CPU used by the soaker's account: {low:.1} to {high:.1} % of the host ({runs} runs)."
        ),
        None => "CPU is by /proc/stat alone.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole_and_its_printed_values_have_scenarios() {
        for (at, entry) in TABLE.iter().enumerate() {
            assert_eq!(entry.id, format!("M{}", at + 1));
            for printed in entry.printed {
                let named = entry.scenarios.iter();
                let scenario = named.clone().find(|it| it.name == printed.scenario);
                let scenario = scenario.unwrap_or_else(|| panic!("{}", entry.id));
                if let Of::Client(at) | Of::RoundTrip(at) = printed.of {
                    assert!(at < scenario.clients.len(), "{}", entry.id);
                }
            }
            for other in TABLE.iter().filter(|it| it.scan == entry.scan) {
                let names =
                    |of: &Entry| -> Vec<&str> { of.scenarios.iter().map(|it| it.name).collect() };
                assert_eq!(names(entry), names(other), "{}", other.id);
            }
        }
    }

    #[test]
    fn a_driver_of_two_threads_has_a_row_beside_that_of_one() {
        let points = scan_of(&TABLE[18], true).points.into_iter();
        let threads = points.map(|point| match point.task {
            Task::Mux(task) => {
                let options = task.options().unwrap();
                (task.scenario.name, options.driver_threads)
            }
            _ => panic!("another task"),
        });
        let mut threads: Vec<_> = threads.collect();
        threads.dedup();
        let wanted = [("kernel's choice", 1), ("driver of two threads", 2)];
        assert_eq!(threads, wanted);
    }

    #[test]
    fn the_copy_on_sending_has_a_row_without_it() {
        let points = scan_of(&TABLE[19], true).points.into_iter();
        let trusted = points.filter_map(|point| match point.task {
            Task::Mux(task) if !task.scenario.is_sockets => {
                let options = task.options().unwrap();
                Some((task.scenario.name, options.clients[0].is_trusted))
            }
            _ => None,
        });
        let mut trusted: Vec<_> = trusted.collect();
        trusted.dedup();
        assert_eq!(trusted, [("copied", false), ("trusted", true)]);
    }

    #[test]
    fn printed_values_stand_beside_those_of_the_highest_load() {
        let row = |point: usize, load: f64, a: f64| {
            let mut row = Row::default();
            row.add("point", point);
            row.add("scenario", "two clients");
            row.add("requested_bps", load);
            row.add("achieved_bps", a * 2.0);
            row.add("cpu_percent", 50.0);
            row.add("achieved_A_bps", a);
            row.add("achieved_B_bps", a / 2.0);
            row.add("rtt_p50_A_us", 12.0);
            row.add("rtt_p50_B_us", 13.0);
            row
        };
        let rows = [
            row(0, 1e8, 5e7),
            row(1, 9.6e8, 4e8),
            row(1, 9.6e8, 4.2e8),
            row(1, 9.6e8, 4.1e8),
        ];
        let said = compared(&TABLE[1], &rows);
        assert_eq!(
            said[0],
            "two clients, A: published 482 Mbit/s, here 410.0 Mbit/s"
        );
        assert_eq!(
            said[1],
            "two clients, B: published 480 Mbit/s, here 205.0 Mbit/s"
        );
        assert!(
            said[2].contains("A 410.0 of 480 Mbit/s at 12.0 us"),
            "{said:?}"
        );
        assert_eq!(compared(&TABLE[1], &[]), Vec::<String>::new());
        let charts = charts_of(&TABLE[1], &rows);
        let measured = charts[0].series.iter().filter(|it| !it.reference);
        let ends: Vec<(String, usize, f64)> = measured
            .map(|it| (it.name.clone(), it.points.len(), it.points[1].y))
            .collect();
        let expected = [("two clients, A", 2, 410.0), ("two clients, B", 2, 205.0)];
        let expected = expected.map(|(name, points, y)| (name.to_owned(), points, y));
        assert_eq!(ends, expected);
    }
}
