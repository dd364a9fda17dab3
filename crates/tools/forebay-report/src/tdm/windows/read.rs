//! Windows of a Parquet file.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, bail};
use forebay_ledger::DropReason;
use forebay_run_tdm::receive::{LossCause, Row};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

/// A window of such a file, its times in ns of the wall clock (0: none).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadWindow {
    /// The sender's name.
    pub name: String,
    /// What is told of the window.
    pub row: Row,
}

/// Reads the windows of a file that [`super::WindowFile`] has written.
///
/// # Errors
/// It cannot be read, or is another kind of file.
pub fn read(path: &Path) -> Result<Vec<ReadWindow>> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let reader =
        SerializedFileReader::new(file).with_context(|| format!("reading {}", path.display()))?;
    let mut windows = Vec::new();
    for row in reader.get_row_iter(None)? {
        let mut window = ReadWindow {
            name: String::new(),
            row: Row::default(),
        };
        for (name, field) in row?.get_column_iter() {
            let number = match field {
                Field::Long(number) => *number,
                Field::Bool(flag) => i64::from(*flag),
                Field::Str(word) => {
                    window.name.clone_from(word);
                    continue;
                }
                Field::Null => 0,
                other => bail!("{}: {name} is {other}", path.display()),
            };
            set(&mut window.row, name, number);
        }
        let mean_ns = window.row.travel_sum_ns;
        window.row.travel_sum_ns = mean_ns * window.row.received.cast_signed();
        windows.push(window);
    }
    Ok(windows)
}

fn set(row: &mut Row, name: &str, number: i64) {
    let count = number.cast_unsigned();
    match name {
        "sender" => row.sender = number as u16,
        "window" => row.window = number as u32,
        "reported" => row.reported = number == 1,
        "sent_packets" => row.sent = count,
        "received_packets" => row.received = count,
        "payload_bytes" => row.payload_bytes = count,
        "first_sent_unix_ns" => row.first_sent_ns = count,
        "last_sent_unix_ns" => row.last_sent_ns = count,
        "first_came_unix_ns" => row.first_came_ns = count,
        "last_came_unix_ns" => row.last_came_ns = count,
        "travel_min_ns" => row.travel_min_ns = number,
        "travel_mean_ns" => row.travel_sum_ns = number,
        "travel_max_ns" => row.travel_max_ns = number,
        "overlap_front_packets" => row.overlap_front = count,
        "overlap_back_packets" => row.overlap_back = count,
        "lateness_ns" => row.lateness_ns = number as u32,
        "clock_error_ns" => row.clock_error_ns = number as u32,
        lost => {
            let cause = lost.strip_prefix("lost_");
            let cause = cause.and_then(|lost| lost.strip_suffix("_packets"));
            // Other columns no figure shows.
            if let Some(cause) = cause.and_then(LossCause::named) {
                row.lost[cause] = count;
            }
        }
    }
}
