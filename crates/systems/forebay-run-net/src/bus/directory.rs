//! Offers as files of JSON lines: one file for each publisher, whose time says when it was renewed.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;
use rustix::io::Errno;

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
    if let Ok(file) = open(path) {
        let mut there = String::new();
        let limited = (&file).take(line.len() as u64 + 1);
        let read = BufReader::new(limited).read_to_string(&mut there);
        if read.is_ok() && there == line {
            return file.set_modified(SystemTime::now());
        }
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    // Nobody shall read half of it.
    let new = path.with_extension("new");
    let mut file = match create(&new) {
        // What a run left that was killed, or what somebody put there: the name can be guessed.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            fs::remove_file(&new)?;
            create(&new)
        }
        file => file,
    }?;
    file.write_all(line.as_bytes())?;
    fs::rename(&new, path)
}

/// Makes a file that was not there.
fn create(path: &Path) -> io::Result<File> {
    File::options()
        .write(true)
        .create_new(true)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
}

/// Opens a regular file. A FIFO would hold up what opens it until somebody writes, and a link leads out of the directory.
fn open(path: &Path) -> io::Result<File> {
    let none = |what| {
        let why = format!("{what} is no regular file: it is passed over; remove it");
        io::Error::new(ErrorKind::InvalidInput, why)
    };
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    let file = match file {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {
            return Err(none("a symbolic link"));
        }
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => {
            return Err(none("a socket"));
        }
        file => file?,
    };
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(none("it"))
    }
}

/// All offers that were renewed lately, up to so many bytes. Files that are none, or not to be read, are told to `wrong` and cost no other one.
pub(super) fn read(
    directory: &Path,
    bytes_max: usize,
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
    let mut bytes = 0;
    for path in files {
        let before = offers.len();
        if let Err(error) = read_file(&path, &mut offers) {
            wrong(&path, error);
        }
        bytes += offers[before..].iter().map(Offer::bytes).sum::<usize>();
        if bytes > bytes_max {
            offers.truncate(before);
            let why = format!(
                "offers of more than {bytes_max} bytes: those from {} on are not looked at",
                path.display()
            );
            wrong(directory, why);
            break;
        }
    }
    Ok(offers)
}

fn read_file(path: &Path, offers: &mut Vec<Offer>) -> Result<(), String> {
    let told = |error: io::Error| error.to_string();
    let file = match open(path) {
        // Its publisher has just ended.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
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
        let mut offer: Offer =
            serde_json::from_str(&line).map_err(|error| format!("line {}: {error}", at + 1))?;
        offer
            .check()
            .map_err(|error| format!("line {}: {error}", at + 1))?;
        offer.shrink();
        offers.push(offer);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::collections::BTreeMap;
    use std::os::unix::fs::symlink;
    use std::sync::mpsc;
    use std::time::Duration;

    use forebay_msg::Entry;
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    fn offer() -> Offer {
        let address = "tcp://127.0.0.1:7100".parse().unwrap();
        Offer::new("a", &address, &[Entry::one(7)])
    }

    fn line() -> String {
        format!("{}\n", serde_json::to_string(&offer()).unwrap())
    }

    /// Does it in a thread of its own, which may hang for ever.
    fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || tell.send(work()));
        told.recv_timeout(LIMIT).unwrap()
    }

    fn fifo(path: &Path) {
        mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
    }

    #[test]
    fn what_is_no_regular_file_holds_nobody_up_and_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let bus = directory.path().to_owned();
        fifo(&bus.join("fifo.ndjson"));
        std::fs::create_dir(bus.join("folder.ndjson")).unwrap();
        let elsewhere = directory.path().join("elsewhere");
        std::fs::write(&elsewhere, line()).unwrap();
        symlink(&elsewhere, bus.join("link.ndjson")).unwrap();
        renew(&path(&bus, &offer()), &line()).unwrap();
        let (offers, wrong) = in_time(move || {
            let mut wrong = BTreeMap::new();
            let offers = read(&bus, usize::MAX, &mut |path, why| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                wrong.insert(name, why);
            });
            (offers.unwrap(), wrong)
        });
        assert_eq!(offers, [offer()]);
        let names: Vec<&str> = wrong.keys().map(String::as_str).collect();
        assert_eq!(names, ["fifo.ndjson", "folder.ndjson", "link.ndjson"]);
        for why in wrong.values() {
            assert!(why.contains("no regular file"), "{why}");
        }
    }

    #[test]
    fn an_offer_is_written_through_nothing_that_others_have_put_there() {
        let directory = tempfile::tempdir().unwrap();
        let bus = directory.path().join("bus");
        std::fs::create_dir(&bus).unwrap();
        let theirs = directory.path().join("theirs");
        std::fs::write(&theirs, "theirs").unwrap();
        let ours = path(&bus, &offer());
        for put in [
            |_: &Path, at: &Path| fifo(at),
            |theirs: &Path, at: &Path| {
                symlink(theirs, at).unwrap();
            },
        ] {
            let new = ours.with_extension("new");
            // What was left of a run that was killed, or put there by somebody.
            put(&theirs, &new);
            std::fs::remove_file(&ours).ok();
            put(&theirs, &ours);
            let at = ours.clone();
            in_time(move || renew(&at, &line())).unwrap();
            assert!(std::fs::symlink_metadata(&ours).unwrap().is_file());
            assert_eq!(std::fs::read_to_string(&ours).unwrap(), line());
            assert!(!new.exists(), "{}", new.display());
            assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "theirs");
        }
    }

    #[test]
    fn renewing_makes_it_young_again() {
        let directory = tempfile::tempdir().unwrap();
        let ours = path(directory.path(), &offer());
        renew(&ours, &line()).unwrap();
        let old = SystemTime::now() - 2 * LEASE;
        let file = std::fs::File::options().append(true).open(&ours).unwrap();
        file.set_modified(old).unwrap();
        let found = || {
            read(directory.path(), usize::MAX, &mut |_, why| {
                assert_eq!(why, "")
            })
        };
        assert!(found().unwrap().is_empty());
        renew(&ours, &line()).unwrap();
        assert_eq!(found().unwrap(), [offer()]);
    }

    #[test]
    fn so_many_bytes_of_offers_are_looked_at_and_no_more() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..9 {
            let file = directory.path().join(format!("{number}.ndjson"));
            std::fs::write(file, line()).unwrap();
        }
        let mut wrong = Vec::new();
        let bytes_max = 4 * offer().bytes() + 1;
        let offers = read(directory.path(), bytes_max, &mut |_, why| wrong.push(why)).unwrap();
        assert_eq!((offers.len(), wrong.len()), (4, 1));
        assert!(wrong[0].contains("4.ndjson on"), "{wrong:?}");
    }
}
