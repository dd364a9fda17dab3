//! Packets of a session, from the file in the original's form.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result, bail};
use forebay_run_tdm::receive::Came;

/// Reads the packets of the one such file in `directory`, times in ns of the Unix epoch.
///
/// # Errors
/// There is none, or it has other columns.
pub(crate) fn read(directory: &Path) -> Result<Vec<Came>> {
    let names =
        fs::read_dir(directory).with_context(|| format!("looking into {}", directory.display()))?;
    let is_it = |path: &std::path::PathBuf| {
        path.extension().is_some_and(|it| it == "csv")
            && path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("tdm_N"))
    };
    let mut paths = names.filter_map(|entry| Some(entry.ok()?.path()));
    let Some(path) = paths.find(is_it) else {
        bail!("there are no packets in {}", directory.display());
    };
    let file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
    let lines = BufReader::new(file).lines();
    lines
        .map(|line| {
            let line = line.with_context(|| format!("reading {}", path.display()))?;
            packet(&line).with_context(|| format!("{}: the line {line:?}", path.display()))
        })
        .collect()
}

/// Row, sender, window, packet, when it was sent and when it came.
fn packet(line: &str) -> Result<Came> {
    let cells: Vec<&str> = line.split(',').collect();
    let [_, sender, window, packet, sent, came] = cells[..] else {
        bail!("it has {} columns, not 6", cells.len());
    };
    Ok(Came {
        sender: sender.parse()?,
        window: window.parse()?,
        packet: packet.parse()?,
        sent_ns: nanoseconds(sent)?,
        came_ns: nanoseconds(came)?,
    })
}

/// Seconds with nine digits behind the point: more than a floating-point number has.
fn nanoseconds(text: &str) -> Result<u64> {
    let (whole, part) = text.split_once('.').context("a time without a point")?;
    if part.len() != 9 {
        bail!("{text} has not 9 digits behind the point");
    }
    Ok(whole.parse::<u64>()? * 1_000_000_000 + part.parse::<u64>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_to_the_nanosecond_and_another_one_is_refused() {
        let came = packet("7,1,4,99,1700000000.000000001,1700000000.000001501").unwrap();
        assert_eq!((came.sender, came.window, came.packet), (1, 4, 99));
        assert_eq!(came.came_ns - came.sent_ns, 1_500);
        for line in ["", "1,2,3,4,5", "7,1,4,99,1.5,2.000000000"] {
            assert!(packet(line).is_err(), "{line}");
        }
    }
}
