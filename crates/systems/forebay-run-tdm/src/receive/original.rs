//! The original's CSV: 17 columns for each window or 6 for each packet, in a file of the original's name.
//!
//! It has no heading, counts from 0, and tells times in seconds (of the Unix epoch, where they are no spans). It is written as it comes, so that memory does not grow with the run.

use std::io::{self, Write};
use std::path::Path;

use forebay_run::whole_file::BeginError;
use forebay_tdm::plan::Plan;
use forebay_tdm::receiver::Row;
use forebay_wire::tdm::DATA_HEAD_BYTES;

use super::super::TdmError;
use super::found::{Found, Kind};
use super::lines::Lines;
use super::streams::create_new;
use super::watch::Came;

/// What gives it another name.
const OPTION: &str = "--csv-prefix";

/// What a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CsvOf {
    /// Each closed window.
    Windows,
    /// Each packet that came.
    Packets,
}

/// A file in the original's form, for its users' scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginalCsv {
    /// What its lines are for.
    pub of: CsvOf,
    /// Begin of its name.
    pub prefix: String,
}

/// The file.
pub(super) struct OriginalFile {
    file: Lines,
    of: CsvOf,
    rows: u64,
    /// Bytes of a packet that are its keyed hash.
    tag_bytes: u64,
}

/// Its name: what the original puts into it are windows of each sender (0: without end), window and dead time in us, and senders.
fn name(prefix: &str, windows: u32, plan: &Plan) -> String {
    let window_ns = plan.slots.iter().map(|slot| slot.window_ns).max();
    let us = |ns: u64| ns.saturating_add(500) / 1_000;
    format!(
        "{prefix}_N{windows}_W{}_D{}_T{}.csv",
        us(window_ns.unwrap_or(0)),
        us(plan.guard_ns),
        plan.slots.len()
    )
}

/// Tells whether the file of such a plan is there, before anybody is waited for.
///
/// # Errors
/// It is there.
pub(super) fn look_for(
    directory: &Path,
    csv: &OriginalCsv,
    windows: u32,
    plan: &Plan,
) -> Result<(), TdmError> {
    let path = directory.join(name(&csv.prefix, windows, plan));
    if path.symlink_metadata().is_ok() {
        let option = OPTION;
        return Err(BeginError::Taken { path, option }.into());
    }
    Ok(())
}

/// A time or a span in seconds, to the nanosecond.
struct Seconds(i128);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sign, ns) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        write!(f, "{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
    }
}

impl OriginalFile {
    /// `keyed`: packets carry a keyed hash.
    pub(super) fn create(
        directory: &Path,
        csv: &OriginalCsv,
        windows: u32,
        plan: &Plan,
        keyed: bool,
    ) -> Result<Self, TdmError> {
        let path = directory.join(name(&csv.prefix, windows, plan));
        let file = create_new(&path, OPTION)?;
        let file = Lines::new(file, &path, "").map_err(TdmError::file("writing", &path))?;
        let tag_bytes = if keyed {
            forebay_wire::tdm::TAG_BYTES as u64
        } else {
            0
        };
        Ok(Self {
            file: file.gathering(1 << 20),
            of: csv.of,
            rows: 0,
            tag_bytes,
        })
    }

    /// What an error was about.
    pub(super) fn told(&self, error: &io::Error) -> String {
        format!("writing {}: {error}", self.file.path().display())
    }

    /// Times are told by the wall clock, which shows so much more than the one that they were taken by.
    pub(super) fn packet(&mut self, came: &Came, wall_ns: i64) -> io::Result<()> {
        if self.of != CsvOf::Packets {
            return Ok(());
        }
        let wall = |at_ns: u64| Seconds(i128::from(at_ns) + i128::from(wall_ns));
        write!(
            self.file,
            "{},{},{},{},{},{}",
            self.rows,
            came.sender,
            came.window,
            came.packet,
            wall(came.sent_ns),
            wall(came.came_ns)
        )?;
        self.rows += 1;
        self.file.end_line()
    }

    /// The same of a window; one in which nothing was sent or came has zeroes.
    pub(super) fn window(&mut self, row: &Row, wall_ns: i64) -> io::Result<()> {
        if self.of != CsvOf::Windows {
            return Ok(());
        }
        let wall = |at_ns: u64| {
            Seconds(if at_ns == 0 {
                0
            } else {
                i128::from(at_ns) + i128::from(wall_ns)
            })
        };
        let span = |first_ns: u64, last_ns: u64| last_ns.saturating_sub(first_ns);
        let sent_ns = span(row.first_sent_ns, row.last_sent_ns);
        let heads = row.received * (DATA_HEAD_BYTES as u64 + self.tag_bytes);
        let bits = 8.0 * (row.payload_bytes + heads) as f64;
        let gibibits_per_s = if sent_ns > 0 {
            bits / f64::from(1 << 30) / (sent_ns as f64 / 1e9)
        } else {
            0.0
        };
        let travel = |ns: i64| Seconds(i128::from(ns));
        write!(
            self.file,
            "{},{},{},{},{},{},{},{gibibits_per_s:.6},{},{},{},{},{},{},{},{},{}",
            self.rows,
            row.sender,
            row.window,
            row.received,
            row.lost.total(),
            Seconds(i128::from(span(row.first_came_ns, row.last_came_ns))),
            Seconds(i128::from(sent_ns)),
            travel(row.travel_mean_ns()),
            travel(row.travel_min_ns),
            travel(row.travel_max_ns),
            row.overlap_front,
            row.overlap_back,
            wall(row.first_sent_ns),
            wall(row.last_sent_ns),
            wall(row.first_came_ns),
            wall(row.last_came_ns),
        )?;
        self.rows += 1;
        self.file.end_line()
    }

    pub(super) fn look(&mut self, found: &mut Found) {
        found.add(Kind::Lines, self.file.look(), self.file.notes());
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use forebay_tdm::plan::PlanInput;
    use forebay_tdm::receiver::{LossCause, Lost};

    use super::*;

    fn written(of: CsvOf, keyed: bool, write: impl Fn(&mut OriginalFile)) -> String {
        let directory = tempfile::tempdir().unwrap();
        let plan = Plan::compute(&PlanInput {
            window_ns: Some(2_500_400),
            guard_ns: Some(100_000),
            ..PlanInput::default()
        })
        .unwrap();
        let csv = OriginalCsv {
            of,
            prefix: "run".into(),
        };
        let mut file = OriginalFile::create(directory.path(), &csv, 3, &plan, keyed).unwrap();
        write(&mut file);
        file.finish().unwrap();
        std::fs::read_to_string(directory.path().join("run_N3_W2500_D100_T2.csv")).unwrap()
    }

    #[test]
    fn a_window_has_the_seventeen_columns_of_the_original() {
        let row = Row {
            sender: 1,
            window: 4,
            sent: 12,
            received: 10,
            payload_bytes: 10 * (1 << 10),
            first_sent_ns: 1_000_000_000,
            last_sent_ns: 1_001_000_000,
            first_came_ns: 1_000_002_000,
            last_came_ns: 1_001_002_500,
            travel_min_ns: -200,
            travel_max_ns: 2_500,
            travel_sum_ns: 10_000,
            overlap_front: 2,
            overlap_back: 3,
            ..Row::default()
        };
        let row = Row {
            lost: Lost::from([(LossCause::Inside, 2)]),
            ..row
        };
        let text = written(CsvOf::Windows, false, |file| {
            file.window(&row, 5_000_000_000).unwrap();
            file.window(&Row::default(), 5).unwrap();
            let came = Came {
                sender: 0,
                window: 0,
                packet: 0,
                sent_ns: 1,
                came_ns: 2,
            };
            file.packet(&came, 0).unwrap();
        });
        let lines: Vec<&str> = text.lines().collect();
        // 10 packets of 1,080 bytes in a millisecond.
        assert_eq!(
            lines[0],
            "0,1,4,10,2,0.001000500,0.001000000,0.080466,0.000001000,-0.000000200,0.000002500,2,3,6.000000000,6.001000000,6.000002000,6.001002500"
        );
        assert_eq!(lines.len(), 2, "packets are not asked for");
        assert_eq!(lines[1].split(',').count(), 17);
        assert!(lines[1].starts_with("1,0,0,0,0,0.000000000,"));
        // A keyed hash is bytes of the datagram, too.
        let keyed = written(CsvOf::Windows, true, |file| file.window(&row, 0).unwrap());
        let rate: f64 = keyed.split(',').nth(7).unwrap().parse().unwrap();
        assert!(rate > 0.0805, "{rate}");
    }

    #[test]
    fn a_packet_has_the_six_columns_of_the_original() {
        let text = written(CsvOf::Packets, false, |file| {
            for packet in 7..9 {
                let came = Came {
                    sender: 2,
                    window: 4,
                    packet,
                    sent_ns: 1_000_000_000,
                    came_ns: 1_000_000_001,
                };
                file.packet(&came, 500_000_000).unwrap();
            }
            file.window(&Row::default(), 0).unwrap();
        });
        assert_eq!(
            text,
            "0,2,4,7,1.500000000,1.500000001\n1,2,4,8,1.500000000,1.500000001\n"
        );
    }
}
