//! A line for each closed window.

use std::io::{self, Write};
use std::path::Path;

use forebay_tdm::receiver::Row;

use super::super::TdmError;
use super::found::{Found, Kind};
use super::lines::Lines;
use super::streams::create_new;

const NAME: &str = "windows.csv";
const HEADER: &str = "sender,window,reported,sent,received,payload_bytes,sender_error,whole_window,before,inside,tail,socket_overflow,reassembly,receiver_stalled,duplicates,reordered,carried,preempted,first_sent_unix_ns,last_sent_unix_ns,first_came_unix_ns,last_came_unix_ns,travel_min_ns,travel_mean_ns,travel_max_ns,overlap_front,overlap_back,lateness_ns,clock_error_ns";

/// The file of windows.
pub(super) struct RowFile {
    file: Lines,
}

impl RowFile {
    pub(super) fn create(directory: &Path) -> Result<Self, TdmError> {
        let path = directory.join(NAME);
        let file = create_new(&path, "--output")?;
        let file = Lines::new(file, &path, &format!("{HEADER}\n"));
        let file = file.map_err(TdmError::file("writing", path))?;
        Ok(Self { file })
    }

    /// What an error was about.
    pub(super) fn told(&self, error: &io::Error) -> String {
        format!("writing {}: {error}", self.file.path().display())
    }

    /// Times are told by the wall clock, which shows so much more than the one that they were taken by.
    pub(super) fn write(&mut self, row: &Row, wall_ns: i64) -> io::Result<()> {
        let wall = |at_ns: u64| {
            if at_ns == 0 {
                0
            } else {
                at_ns.saturating_add_signed(wall_ns)
            }
        };
        write!(
            self.file,
            "{},{},{},{},{},{}",
            row.sender,
            row.window,
            u8::from(row.reported),
            row.sent,
            row.received,
            row.payload_bytes
        )?;
        for (_, packets) in row.lost.iter() {
            write!(self.file, ",{packets}")?;
        }
        write!(
            self.file,
            ",{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            row.duplicates,
            row.reordered,
            row.carried,
            row.preempted,
            wall(row.first_sent_ns),
            wall(row.last_sent_ns),
            wall(row.first_came_ns),
            wall(row.last_came_ns),
            row.travel_min_ns,
            row.travel_mean_ns(),
            row.travel_max_ns,
            row.overlap_front,
            row.overlap_back,
            row.lateness_ns,
            row.clock_error_ns
        )?;
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
    use super::*;

    #[test]
    fn a_line_has_as_many_fields_as_the_header() {
        let directory = tempfile::tempdir().unwrap();
        let mut rows = RowFile::create(directory.path()).unwrap();
        let row = Row {
            sender: 1,
            first_sent_ns: 5,
            ..Row::default()
        };
        rows.write(&row, 1_000).unwrap();
        rows.finish().unwrap();
        let text = std::fs::read_to_string(directory.path().join(NAME)).unwrap();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines[0].len(), lines[1].len());
        let at = lines[0]
            .iter()
            .position(|name| *name == "first_sent_unix_ns")
            .unwrap();
        assert_eq!(lines[1][at], "1005");
    }
}
