//! The rows of a sweep on disk: each point whole as soon as it is measured, and all of them as Parquet at the end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::directory;
use super::grid::LABELS;
use crate::net::peer::Peer;
use forebay_report::conditions::Conditions;
use forebay_report::rows::{Cell, Column, CsvFile, Row, csv, parquet};
use forebay_report::statistics::spread;

/// Columns with words.
const WORDS: [&str; 16] = [
    "program",
    "pattern",
    "backend",
    "network",
    "books",
    "version",
    "host",
    "kernel",
    "cpu",
    "commit",
    "profile",
    "date",
    "peer_host",
    "peer_kernel",
    "peer_cpu",
    "peer_commit",
];
/// Columns with numbers between the labels and the conditions.
const MEASURED: [&str; 21] = [
    "repeat",
    "repeats",
    "messages",
    "bytes",
    "elapsed_s",
    "message_rate_hz",
    "goodput_bps",
    "rtt_samples",
    "rtt_ns_min",
    "rtt_ns_p50",
    "rtt_ns_p90",
    "rtt_ns_p99",
    "rtt_ns_p999",
    "rtt_ns_max",
    "cpu_sender_s",
    "cpu_receiver_s",
    "dropped",
    "unconfirmed",
    "residual_items",
    "residual_bytes",
    "books",
];
/// Columns after the ratios.
const CONDITIONS: [&str; 16] = [
    "load_before",
    "seed",
    "version",
    "host",
    "kernel",
    "cpu",
    "cpus",
    "memory_bytes",
    "commit",
    "profile",
    "date",
    "peer_host",
    "peer_kernel",
    "peer_cpu",
    "peer_cpus",
    "peer_commit",
];

/// All columns, the same in every file.
fn columns() -> Vec<Column> {
    let ratios = Peer::ALL.map(Peer::ratio_column);
    let names = LABELS
        .iter()
        .chain(&MEASURED)
        .chain(&ratios)
        .chain(&CONDITIONS);
    names
        .map(|name| Column {
            name: (*name).to_owned(),
            text: WORDS.contains(name),
        })
        .collect()
}

/// The rows of a directory.
pub(super) struct Store {
    directory: PathBuf,
    columns: Vec<Column>,
    rows: Vec<Row>,
    file: CsvFile,
}

impl Store {
    /// Begins in `path`, or goes on there with `resume`; points that are not whole are left out.
    pub(super) fn open(path: &Path, resume: bool) -> Result<Self> {
        let directory = directory(path)?;
        let columns = columns();
        let csv = directory.join("rows.csv");
        let rows = if csv.exists() {
            whole(csv::read(&csv, &columns)?)
        } else {
            Vec::new()
        };
        if !rows.is_empty() && !resume {
            bail!(
                "{} has rows already: give --resume to go on with them, or choose another directory",
                directory.display()
            );
        }
        csv::write(&csv, &columns, &rows)?;
        let file = CsvFile::append(&csv, &columns)?;
        Ok(Self {
            directory,
            columns,
            rows,
            file,
        })
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(super) fn csv(&self) -> PathBuf {
        self.directory.join("rows.csv")
    }

    pub(super) fn parquet(&self) -> PathBuf {
        self.directory.join("rows.parquet")
    }

    /// Whether a point with these labels has been measured as often as that.
    pub(super) fn has(&self, labels: &Row, repeats: usize) -> bool {
        let key = key(labels);
        self.rows.iter().filter(|row| self::key(row) == key).count() >= repeats
    }

    /// Adds the rows of one point, in the place of earlier ones with fewer repeats.
    pub(super) fn add(&mut self, rows: Vec<Row>) -> Result<()> {
        self.file.write_all(&rows)?;
        if let Some(first) = rows.first() {
            let key = key(first);
            self.rows.retain(|row| self::key(row) != key);
        }
        self.rows.extend(rows);
        Ok(())
    }

    /// Sets our results beside those of other programs, and writes both files whole.
    pub(super) fn finish(&mut self) -> Result<()> {
        set_ratios(&mut self.rows);
        csv::write(&self.csv(), &self.columns, &self.rows)?;
        parquet::write(&self.parquet(), &self.columns, &self.rows)
    }

    /// What rows from an earlier call make doubtful.
    pub(super) fn foreign(&self, now: &Conditions) -> Option<String> {
        let foreign = |row: &&Row| row.text("commit") != now.commit || row.text("host") != now.host;
        let count = self.rows.iter().filter(foreign).count();
        (count > 0)
            .then(|| format!("{count} rows were measured by another build or on another host"))
    }
}

/// What distinguishes the point of a row.
pub(super) fn key(row: &Row) -> Vec<Option<Cell>> {
    LABELS.iter().map(|name| row.cell(name).cloned()).collect()
}

/// The rows of points that have all their repeats; of a point that was measured twice, the later ones.
fn whole(rows: Vec<Row>) -> Vec<Row> {
    let mut points: Vec<(Vec<Option<Cell>>, Vec<Row>)> = Vec::new();
    for row in rows {
        let key = key(&row);
        match points.iter_mut().find(|point| point.0 == key) {
            Some(point) if row.number("repeat") == 1.0 => point.1 = vec![row],
            Some(point) => point.1.push(row),
            None => points.push((key, vec![row])),
        }
    }
    points.retain(|point| point.1.len() as f64 >= point.1[0].number("repeats"));
    points.into_iter().flat_map(|point| point.1).collect()
}

/// Goodput over goodput, round-trip time over round-trip time: of one of our rows over the median of the other program's at the same size of
/// messages.
fn set_ratios(rows: &mut [Row]) {
    let mut theirs: BTreeMap<(Peer, String, u64), Vec<f64>> = BTreeMap::new();
    for row in rows.iter() {
        let of_peer = |peer: &&Peer| {
            row.text("program") == peer.program() && row.text("pattern") == peer.pattern()
        };
        if let Some(peer) = Peer::ALL.iter().find(of_peer) {
            let place = (
                *peer,
                network_and_backend(row, *peer),
                row.number("message_bytes") as u64,
            );
            theirs
                .entry(place)
                .or_default()
                .push(result(row, peer.is_answered()));
        }
    }
    for row in rows
        .iter_mut()
        .filter(|row| row.text("program") == "forebay")
    {
        let answered = row.text("pattern") == "rtt";
        for peer in Peer::ALL {
            let place = (
                peer,
                network_and_backend(row, peer),
                row.number("message_bytes") as u64,
            );
            let fits = peer.fits(row.text("backend")) && peer.is_answered() == answered;
            let their = theirs.get(&place).filter(|_| fits);
            if let Some(their) = their.and_then(|values| spread(values.iter().copied())) {
                let ratio = result(row, answered) / their.median;
                row.set(peer.ratio_column(), ratio);
            }
        }
    }
}

/// Where a peer's result counts; copying in memory counts everywhere.
fn network_and_backend(row: &Row, peer: Peer) -> String {
    match peer {
        Peer::Memcpy => String::new(),
        _ => format!("{} {}", row.text("network"), row.text("backend")),
    }
}

fn result(row: &Row, answered: bool) -> f64 {
    row.number(if answered {
        "rtt_ns_p50"
    } else {
        "goodput_bps"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(program: &str, pattern: &str, repeat: usize, goodput_bps: f64) -> Row {
        let mut row = Row::default();
        row.add("program", program);
        row.add("pattern", pattern);
        row.add("backend", "tcp");
        row.add("message_bytes", 64.0);
        row.add("repeat", repeat);
        row.add("repeats", 2.0);
        row.add("goodput_bps", goodput_bps);
        row
    }

    #[test]
    fn ratios_are_over_the_median_of_the_other_program() {
        let mut rows = vec![
            row("iperf3", "stream", 1, 100.0),
            row("iperf3", "stream", 2, 300.0),
            row("forebay", "stream", 1, 400.0),
        ];
        set_ratios(&mut rows);
        assert_eq!(rows[2].number("ratio_iperf3"), 2.0);
        assert!(rows[2].number("ratio_memcpy").is_nan());
        assert!(rows[0].number("ratio_iperf3").is_nan());
    }

    #[test]
    fn what_is_written_is_gone_on_with_and_half_a_point_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::open(directory.path(), false).unwrap();
        let point = vec![
            row("forebay", "stream", 1, 0.1),
            row("forebay", "stream", 2, 7.0),
        ];
        store.add(point.clone()).unwrap();
        store.add(vec![row("forebay", "rtt", 1, 9.0)]).unwrap();
        assert!(Store::open(directory.path(), false).is_err());
        let store = Store::open(directory.path(), true).unwrap();
        assert_eq!(store.rows(), point);
        assert!(store.has(&point[0], 2) && !store.has(&point[0], 3));
    }

    #[test]
    fn no_column_stands_there_twice() {
        let mut names: Vec<String> = columns().into_iter().map(|column| column.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(
            WORDS
                .iter()
                .all(|word| names.iter().any(|name| name == word))
        );
    }
}
