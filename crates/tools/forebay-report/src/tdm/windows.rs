//! Windows of a session as Parquet, written while it runs.

pub mod read;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use forebay_ledger::Balance;
use forebay_rows::{Column, ParquetWriter};
use forebay_run::record::Record;
use forebay_run::whole_file::{BeginError, WholeFile};
use forebay_run_tdm::Plan;
use forebay_run_tdm::receive::{Came, LossCause, ReceiveSummary, Row, Watch};

/// What asks for the file.
const OPTION: &str = "--rows";
/// Windows of a group, of some 6 MB. One is gathered, one is written, and some may wait. Of each that is written a few KiB stay for the end of the file.
const GROUP_WINDOWS: usize = 32_768;
/// Groups that may wait for the disk: the thread that hands them over empties a socket, and waits for nothing. Windows that find no room are counted, and are not in the file.
const GROUPS_WAIT: usize = 4;
/// The end waits so long for a disk that takes nothing.
const END: Duration = Duration::from_secs(30);
/// From look to look at the end.
const LOOK: Duration = Duration::from_millis(5);

/// A closed window, with what its row needs beside it.
struct Closed {
    row: Row,
    wall_ns: i64,
    name: Arc<str>,
}

/// A Parquet file with a row for each window, which grows with the session. A thread of its own writes it.
pub struct WindowFile {
    path: PathBuf,
    gathered: Vec<Closed>,
    /// The name that each sender has now.
    names: Vec<Arc<str>>,
    most: usize,
    /// Windows that found no room.
    missed: usize,
    to_writer: Option<SyncSender<Vec<Closed>>>,
    writer: Option<JoinHandle<Result<(), String>>>,
}

impl WindowFile {
    /// Begins the file `path`, which appears when the session has ended.
    ///
    /// # Errors
    /// There is such a file, or it cannot be created.
    pub fn create(path: &Path) -> Result<Self> {
        Self::with_groups(path, GROUP_WINDOWS)
    }

    fn with_groups(path: &Path, most: usize) -> Result<Self> {
        let file = WholeFile::create(path, OPTION)?;
        let handle = file.handle().map_err(|source| BeginError::Place {
            path: path.to_path_buf(),
            option: OPTION,
            source,
        })?;
        let table = ParquetWriter::begin(handle, "window", columns())?;
        let (to_writer, groups) = sync_channel::<Vec<Closed>>(GROUPS_WAIT);
        let told = path.display().to_string();
        let writer = std::thread::Builder::new()
            .name("fb-rows".to_owned())
            .spawn(move || {
                let write = move || -> Result<()> {
                    let mut table = table;
                    for windows in groups {
                        table.write(&windows)?;
                    }
                    table.finish()?;
                    Ok(file.finish()?)
                };
                write().map_err(|error| {
                    format!(
                        "writing the windows to {told}: {error:#}; see whether the disk is full"
                    )
                })
            })
            .context("starting the thread that writes --rows")?;
        Ok(Self {
            path: path.to_path_buf(),
            gathered: Vec::new(),
            names: Vec::new(),
            most,
            missed: 0,
            to_writer: Some(to_writer),
            writer: Some(writer),
        })
    }

    /// What is gathered goes to the writer, if there is room for it within `patience`; else it is missed.
    fn hand_over(&mut self, patience: Duration) -> Result<(), String> {
        let windows = self.gathered.len();
        if windows == 0 {
            return Ok(());
        }
        let mut group = std::mem::take(&mut self.gathered);
        let begun = Instant::now();
        while let Some(to_writer) = &self.to_writer {
            match to_writer.try_send(group) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(back)) if begun.elapsed() < patience => {
                    group = back;
                    std::thread::sleep(LOOK);
                }
                Err(TrySendError::Full(_)) => {
                    self.missed += windows;
                    return Ok(());
                }
                Err(TrySendError::Disconnected(_)) => break,
            }
        }
        self.end()
    }

    /// Waits for the writer, and tells what failed there.
    fn end(&mut self) -> Result<(), String> {
        drop(self.to_writer.take());
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        let begun = Instant::now();
        while !writer.is_finished() {
            if begun.elapsed() > END {
                return Err(format!(
                    "the disk of {} has taken nothing for {END:?}: the file has no end",
                    self.path.display()
                ));
            }
            std::thread::sleep(LOOK);
        }
        let done = writer.join().unwrap_or_else(|_| {
            Err(format!(
                "the thread that writes {} is gone",
                self.path.display()
            ))
        });
        done.and(match self.missed {
            0 => Ok(()),
            missed => Err(format!(
                "{missed} windows are not in {}: its disk did not follow",
                self.path.display()
            )),
        })
    }
}

impl Watch for WindowFile {
    fn joined(&mut self, sender: u16, name: &str) {
        let sender = usize::from(sender);
        if self.names.get(sender).is_some_and(|known| **known == *name) {
            return;
        }
        if sender < self.names.len() {
            self.names[sender] = name.into();
        } else {
            self.names.push(name.into());
        }
    }

    fn planned(&mut self, _: &Plan, _: u64) {}

    fn packet(&mut self, _: &Came) {}

    fn window(&mut self, row: &Row, wall_ns: i64) -> Result<(), String> {
        let name = self.names.get(usize::from(row.sender)).cloned();
        self.gathered.push(Closed {
            row: *row,
            wall_ns,
            name: name.unwrap_or_default(),
        });
        if self.gathered.len() < self.most {
            return Ok(());
        }
        self.hand_over(Duration::ZERO)
    }

    fn finish(&mut self, _: &Record<ReceiveSummary>, _: &Balance) -> Result<(), String> {
        // Nothing is to be received any more: the last ones may wait.
        self.hand_over(END)?;
        self.end()
    }
}

/// The columns of a window: names with their units, in the order of the file.
fn columns() -> Vec<Column<Closed>> {
    let count = |name, of: fn(&Row) -> u64| Column::count(name, move |it: &Closed| of(&it.row));
    let came = |name, of: fn(&Row) -> i64| {
        let there = move |it: &Closed| (it.row.received > 0).then(|| of(&it.row));
        Column::optional(name, there)
    };
    let wall = |name, of: fn(&Row) -> u64| {
        let there = move |it: &Closed| {
            let at_ns = of(&it.row);
            (at_ns > 0).then(|| at_ns.saturating_add_signed(it.wall_ns))
        };
        Column::unix_ns(name, there)
    };
    let reported = |name, of: fn(&Row) -> u32| {
        let there = move |it: &Closed| it.row.reported.then(|| i64::from(of(&it.row)));
        Column::optional(name, there)
    };
    let mut columns = vec![
        count("sender", |row| row.sender.into()),
        Column::word("sender_name", |it: &Closed| Cow::Borrowed(&*it.name)),
        count("window", |row| row.window.into()),
        Column::flag("reported", |it: &Closed| it.row.reported),
        count("sent_packets", |row| row.sent),
        count("received_packets", |row| row.received),
        count("payload_bytes", |row| row.payload_bytes),
        count("duplicate_packets", |row| row.duplicates),
        count("reordered_packets", |row| row.reordered),
        count("carried_packets", |row| row.carried),
        count("preempted_windows", |row| row.preempted),
        wall("first_sent_unix_ns", |row| row.first_sent_ns),
        wall("last_sent_unix_ns", |row| row.last_sent_ns),
        wall("first_came_unix_ns", |row| row.first_came_ns),
        wall("last_came_unix_ns", |row| row.last_came_ns),
        came("travel_min_ns", |row| row.travel_min_ns),
        came("travel_mean_ns", Row::travel_mean_ns),
        came("travel_max_ns", |row| row.travel_max_ns),
        count("overlap_front_packets", |row| row.overlap_front),
        count("overlap_back_packets", |row| row.overlap_back),
        reported("lateness_ns", |row| row.lateness_ns),
        reported("clock_error_ns", |row| row.clock_error_ns),
    ];
    for cause in LossCause::ALL {
        let name = format!("lost_{}_packets", cause.name());
        columns.push(Column::count(name, |it: &Closed| it.row.lost[*cause]));
    }
    columns
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use forebay_run_tdm::receive::Lost;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::read::read;
    use super::*;

    fn row(window: u32) -> Row {
        Row {
            sender: (window % 2) as u16,
            window,
            reported: true,
            sent: 10,
            received: 9,
            payload_bytes: 900,
            lost: Lost::from([(LossCause::Tail, 1)]),
            first_sent_ns: 5,
            travel_min_ns: -3,
            travel_sum_ns: 9 * 40,
            travel_max_ns: 90,
            overlap_back: 2,
            lateness_ns: 77,
            ..Row::default()
        }
    }

    #[test]
    fn windows_are_written_in_groups_and_read_as_they_were() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.parquet");
        let mut file = WindowFile::with_groups(&path, 4).unwrap();
        file.joined(0, "north");
        file.joined(1, "south");
        for window in 0..10 {
            file.window(&row(window), 1_700_000_000_000_000_123)
                .unwrap();
        }
        file.hand_over(Duration::ZERO).unwrap();
        file.end().unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.metadata().num_row_groups(), 3);
        let read = read(&path).unwrap();
        assert_eq!(read.len(), 10);
        assert_eq!((&read[3].name[..], &read[4].name[..]), ("south", "north"));
        let expected = Row {
            // To the ns, which a floating-point number of this size does not hold.
            first_sent_ns: 1_700_000_000_000_000_128,
            ..row(3)
        };
        assert_eq!(read[3].row, expected);
    }

    #[test]
    fn what_nothing_came_of_has_no_times() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.parquet");
        let mut file = WindowFile::create(&path).unwrap();
        file.window(&Row::default(), 7).unwrap();
        file.hand_over(Duration::ZERO).unwrap();
        file.end().unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let row = reader.get_row_iter(None).unwrap().next().unwrap().unwrap();
        for (name, field) in row.get_column_iter() {
            let none = name.contains("unix") || name.contains("travel") || name == "lateness_ns";
            assert!(!none || *field == Field::Null, "{name}: {field}");
        }
    }

    #[test]
    fn a_disk_that_stands_still_holds_nobody_up_and_windows_without_room_are_told() {
        use std::io::Read;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.parquet");
        let part = directory.path().join("rows.parquet.part");
        let made = std::process::Command::new("mkfifo").arg(&part).status();
        assert!(made.unwrap().success());
        // A pipe that is held open and not read is soon full.
        let mut unread = File::options().read(true).write(true).open(&part).unwrap();
        let mut file = WindowFile::with_groups(&path, 1).unwrap();
        for window in 0..300 {
            file.window(&row(window), 0).unwrap();
        }
        let missed = file.missed;
        assert!(missed > 0);
        std::thread::spawn(move || while unread.read(&mut [0; 4096]).is_ok() {});
        let told = file.end().unwrap_err();
        assert!(
            told.contains(&format!("{missed} windows are not in")),
            "{told}"
        );
    }

    #[test]
    fn a_disk_that_takes_no_more_is_told_with_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.parquet");
        // What is written goes to a device that is always full.
        std::os::unix::fs::symlink("/dev/full", directory.path().join("rows.parquet.part"))
            .unwrap();
        let mut file = WindowFile::with_groups(&path, 1).unwrap();
        let mut failed = None;
        for window in 0..4 {
            failed = failed.or(file.window(&row(window), 0).err());
        }
        let told = failed.or(file
            .hand_over(Duration::ZERO)
            .and_then(|()| file.end())
            .err());
        let told = told.unwrap();
        assert!(
            told.contains("rows.parquet") && told.contains("full"),
            "{told}"
        );
        assert!(!path.exists());
    }
}
