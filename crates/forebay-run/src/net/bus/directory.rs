//! Offers as files of JSON lines: one file for each publisher, whose time says when it was renewed.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::lines::LINE_BYTES_MAX;
use super::{LEASE, Offer};

const SUFFIX: &str = "ndjson";
/// Most files of a directory that are looked at.
const FILES_MAX: usize = 10_000;
/// Most offers in one file: others than ours may put several there.
const OFFERS_PER_FILE_MAX: usize = 1_000;

/// The file of an offer of this process.
pub(super) fn path(directory: &Path, offer: &Offer) -> PathBuf {
    directory.join(format!(
        "{}-{}-{}.{SUFFIX}",
        offer.name, offer.host, offer.pid
    ))
}

/// Writes an offer, or renews it.
pub(super) fn renew(path: &Path, line: &str) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|there| there == line) {
        return fs::File::options()
            .append(true)
            .open(path)?
            .set_modified(SystemTime::now());
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    // Nobody shall read half of it.
    let new = path.with_extension("new");
    fs::write(&new, line)?;
    fs::rename(&new, path)
}

/// All offers that were renewed lately. Files that are none, or not to be read, are told to `wrong` and cost no other one.
pub(super) fn read(
    directory: &Path,
    wrong: &mut impl FnMut(&Path, String),
) -> io::Result<Vec<Offer>> {
    let mut offers = Vec::new();
    let files = fs::read_dir(directory)?.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == SUFFIX)
        })
        .take(FILES_MAX)
        .collect();
    files.sort();
    for path in files {
        if let Err(error) = read_file(&path, &mut offers) {
            wrong(&path, error);
        }
    }
    Ok(offers)
}

fn read_file(path: &Path, offers: &mut Vec<Offer>) -> Result<(), String> {
    let told = |error: io::Error| error.to_string();
    let file = match fs::File::open(path) {
        // Its publisher has just ended.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file.map_err(told)?,
    };
    let modified = file
        .metadata()
        .and_then(|data| data.modified())
        .map_err(told)?;
    // A clock that is ahead of ours is no reason to forget a publisher.
    if modified.elapsed().is_ok_and(|age| age > LEASE) {
        return Ok(());
    }
    let limited = BufReader::new(file.take(LINE_BYTES_MAX as u64));
    for (at, line) in limited.lines().take(OFFERS_PER_FILE_MAX).enumerate() {
        let line = line.map_err(told)?;
        if line.trim().is_empty() {
            continue;
        }
        let offer: Offer =
            serde_json::from_str(&line).map_err(|error| format!("line {}: {error}", at + 1))?;
        offer
            .check()
            .map_err(|error| format!("line {}: {error}", at + 1))?;
        offers.push(offer);
    }
    Ok(())
}
