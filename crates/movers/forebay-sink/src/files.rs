//! HLD files by the run numbers in their start events.

use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use forebay_wire::hld::{EVENT_HEADER_BYTES, EventHeader, EventId};

use crate::error::SinkError;

/// HLD files in `directory` whose start event carries one of these run numbers, absolute.
///
/// # Errors
/// The directory is there and cannot be listed.
pub fn files_of_runs(
    directory: &Path,
    runs: RangeInclusive<u32>,
) -> Result<Vec<PathBuf>, SinkError> {
    let entries = match fs::read_dir(directory) {
        // Somebody removed it during the run.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(SinkError::file("listing", directory))?,
    };
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    let ours = paths.filter(|path| run_of(path).is_some_and(|run| runs.contains(&run)));
    let mut found: Vec<_> = ours.filter_map(|path| path.canonicalize().ok()).collect();
    found.sort();
    Ok(found)
}

/// The run number behind all that files in these directories have; 0 when there are none.
#[must_use]
pub fn next_run<'a>(directories: impl Iterator<Item = &'a Path>) -> u32 {
    let entries = directories.filter_map(|directory| fs::read_dir(directory).ok());
    let runs =
        entries.flat_map(|entries| entries.flatten().filter_map(|entry| run_of(&entry.path())));
    runs.max().map_or(0, |last| last.saturating_add(1))
}

/// Run number in the start event of an HLD file.
fn run_of(path: &Path) -> Option<u32> {
    if path.extension()? != "hld" {
        return None;
    }
    let mut head = [0; EVENT_HEADER_BYTES];
    File::open(path).ok()?.read_exact(&mut head).ok()?;
    let header = EventHeader::parse(&head).ok()?;
    (header.id == EventId::START).then_some(header.run)
}
