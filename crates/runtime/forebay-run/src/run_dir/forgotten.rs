//! Ledgers in memory of processes that were killed and that nobody came back to.
//!
//! Such a ledger is for `forebay audit` and `forebay top`: the next run, wherever, brings it home into the directory of its own. Where no directory waits for it,
//! memory would stay occupied until the host is started anew: so what has shown no life for a day is removed. What a directory waits for and cannot take is the
//! only account of its run: it stays, and each start says so.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use forebay_sys::clock;
use serde::Serialize;

use super::home::{self, Fate};
use super::{LEDGER_SUFFIX, MEMORY, MEMORY_PREFIX, open_ledger};

/// How long they stay.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// How old a file must be that is no ledger yet: its process may be about to take its lock.
const BEGINS: Duration = Duration::from_secs(10);

/// A ledger that was taken out of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cleaned {
    /// Where it lay.
    pub path: PathBuf,
    /// How long it was.
    pub bytes: u64,
    /// Where it is now: in the directory of its run. `None` when it is gone.
    pub kept: Option<PathBuf>,
}

/// Takes what this user's dead processes left in memory away, and says what: ledgers go into the directories of their runs, and what has no such place any more is
/// removed after a day. What such a place cannot take stays, and is said each time.
pub(super) fn tidy() {
    let memory = Path::new(MEMORY);
    for (path, bytes, fate) in bring_home(memory) {
        let path = path.display();
        match fate {
            Fate::Brought(kept) => tracing::warn!(
                "{path} ({bytes} bytes) of a run that could not keep it was taken out of memory; it is {} now",
                kept.display()
            ),
            Fate::Stays(why) => tracing::warn!(
                "{path} ({bytes} bytes) of a run that could not keep it stays in memory, as it cannot be brought into the directory of its run: {why}; \
                 mend that, or remove it with `forebay doctor --clean`"
            ),
            Fate::Homeless | Fate::InUse => {}
        }
    }
    let may_go = |path: &Path| !home::is_awaited(path);
    for cleaned in remove_in(memory, KEPT, clock::realtime_ns(), may_go) {
        let (path, bytes) = (cleaned.path.display(), cleaned.bytes);
        tracing::warn!(
            "{path} ({bytes} bytes) of a process that was killed more than a day ago was removed from memory"
        );
    }
}

/// Every ledger of this user, how long it is, and what became of it.
fn bring_home(memory: &Path) -> Vec<(PathBuf, u64, Fate)> {
    let fates = ledgers_in(memory).map(|(path, bytes)| {
        let fate = home::bring(&path);
        (path, bytes, fate)
    });
    fates.collect()
}

/// Takes every ledger of this user whose process is dead out of memory, those of event builders included: into the directory of its run, and where that cannot take
/// it, away. What one of these had to say is gone then, if it was not audited before.
#[must_use]
pub fn clean_memory() -> Vec<Cleaned> {
    let memory = Path::new(MEMORY);
    take_away(memory, bring_home(memory), clock::realtime_ns())
}

/// What was brought home, and what has no home and is removed now. What was in use stays: its process may have died since, and then its directory waits for it.
fn take_away(memory: &Path, fates: Vec<(PathBuf, u64, Fate)>, now_ns: u64) -> Vec<Cleaned> {
    let (mut cleaned, mut homeless) = (Vec::new(), Vec::new());
    for (path, bytes, fate) in fates {
        match fate {
            Fate::Brought(kept) => cleaned.push(Cleaned {
                path,
                bytes,
                kept: Some(kept),
            }),
            Fate::Homeless | Fate::Stays(_) => homeless.push(path),
            Fate::InUse => {}
        }
    }
    let may_go = |path: &Path| homeless.iter().any(|one| one == path);
    cleaned.extend(remove_in(memory, Duration::ZERO, now_ns, may_go));
    cleaned
}

/// Removes what has shown no life for `kept`, and may go.
fn remove_in(
    memory: &Path,
    kept: Duration,
    now_ns: u64,
    may_go: impl Fn(&Path) -> bool,
) -> Vec<Cleaned> {
    let cleaned = ledgers_in(memory).filter_map(|(path, bytes)| {
        // One that another one has removed meanwhile is as good.
        let gone =
            is_forgotten(&path, kept, now_ns) && may_go(&path) && fs::remove_file(&path).is_ok();
        gone.then_some(Cleaned {
            path,
            bytes,
            kept: None,
        })
    });
    cleaned.collect()
}

/// This user's ledgers in memory: where, and how many bytes.
fn ledgers_in(memory: &Path) -> impl Iterator<Item = (PathBuf, u64)> {
    let user = fs::metadata("/proc/self").map(|data| data.uid()).ok();
    let entries = fs::read_dir(memory).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_ours = name.starts_with(MEMORY_PREFIX) && name.ends_with(LEDGER_SUFFIX);
        // Not what a link leads to.
        let data = entry.metadata().ok()?;
        let own = data.is_file() && Some(data.uid()) == user;
        (is_ours && own).then(|| (entry.path(), data.len()))
    })
}

/// Its end point holds a lock on it, which the kernel takes back at any death: neither a process number that was given again nor another namespace's
/// deceives.
fn is_forgotten(ledger: &Path, kept: Duration, now_ns: u64) -> bool {
    let Ok(file) = File::open(ledger) else {
        return false;
    };
    let is_within =
        |last_ns: u64, kept: Duration| u128::from(now_ns.saturating_sub(last_ns)) < kept.as_nanos();
    // Whatever it shows, it was made later: most need not be mapped.
    if changed_ns(&file).is_some_and(|changed_ns| is_within(changed_ns, kept)) {
        return false;
    }
    let shown = open_ledger(ledger)
        .ok()
        .and_then(|reader| reader.run_status().ok());
    let (last_ns, kept) = match shown {
        Some(status) => (status.heartbeat_ns.max(status.start_ns), kept),
        // Killed before there was anything in it.
        None => (changed_ns(&file).unwrap_or(now_ns), kept.max(BEGINS)),
    };
    // The lock comes last: no process that has just begun finds it taken.
    !is_within(last_ns, kept) && !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

fn changed_ns(file: &File) -> Option<u64> {
    let changed = file.metadata().and_then(|data| data.modified()).ok()?;
    let since_epoch = changed.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since_epoch.as_nanos()).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::os::unix::fs::FileExt;

    use forebay_ledger::{RunWriter, SchemaBuilder, Words};
    use forebay_sys::mapping::Mapping;

    use super::*;

    const NOW_NS: u64 = 1_800_000_000_000_000_000;
    const HOUR_NS: u64 = 3_600_000_000_000;

    #[test]
    fn what_lives_is_fresh_or_is_none_of_ours_stays() {
        let memory = tempfile::tempdir().unwrap();
        let ledger = |name: &str, heartbeat_ns: u64| {
            let schema = SchemaBuilder::new("net-receiver-1").finish().unwrap();
            let path = memory.path().join(name);
            let (mapping, file) =
                Mapping::create_file(&path, schema.bytes_needed() as u64).unwrap();
            let run =
                RunWriter::format(&schema, &Words::new(mapping), 1, NOW_NS - 99 * HOUR_NS).unwrap();
            run.heartbeat(heartbeat_ns);
            file
        };
        ledger("forebay-net-receiver-1-1.ledger", NOW_NS - 25 * HOUR_NS);
        ledger("forebay-net-receiver-2-2.ledger", NOW_NS - 23 * HOUR_NS);
        ledger("forebay-1700000000000-3-3.ledger", NOW_NS - 25 * HOUR_NS);
        ledger("other-net-receiver-4.ledger", NOW_NS - 25 * HOUR_NS);
        let lives = ledger("forebay-net-receiver-5-5.ledger", NOW_NS - 25 * HOUR_NS);
        lives.try_lock().unwrap();
        for (name, hours) in [("6-6", 25), ("7-7", 23)] {
            let file = File::create(
                memory
                    .path()
                    .join(format!("forebay-net-sender-{name}.ledger")),
            )
            .unwrap();
            let changed = UNIX_EPOCH + Duration::from_nanos(NOW_NS - hours * HOUR_NS);
            file.set_modified(changed).unwrap();
        }
        let names = || {
            let entries = fs::read_dir(memory.path()).unwrap();
            let mut names: Vec<_> = entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let may_go = |path: &Path| !home::is_awaited(path);
        let remove = |kept| remove_in(memory.path(), kept, NOW_NS, may_go).len();
        assert_eq!(remove(KEPT), 3);
        let mut left = [
            "forebay-net-receiver-2-2.ledger",
            "forebay-net-receiver-5-5.ledger",
            "forebay-net-sender-7-7.ledger",
            "other-net-receiver-4.ledger",
        ];
        left.sort_unstable();
        assert_eq!(names(), left);
        // Its end point has died.
        drop(lives);
        assert_eq!(remove(KEPT), 1);
        // The only account of its run, as long as the directory leads to it.
        let folder = tempfile::tempdir().unwrap();
        let only = "forebay-1700000000000-8-8.ledger";
        let file = ledger(only, NOW_NS - 25 * HOUR_NS);
        let end = file.metadata().unwrap().len();
        file.write_all_at(&home::trailer(folder.path()), end)
            .unwrap();
        let link = folder.path().join("ledger");
        std::os::unix::fs::symlink(memory.path().join(only), &link).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_nanos(NOW_NS - 25 * HOUR_NS))
            .unwrap();
        drop(file);
        assert_eq!(remove(KEPT), 0);
        fs::remove_file(&link).unwrap();
        assert_eq!(remove(KEPT), 1);
        // The doctor takes what died just now, too.
        let cleaned = take_away(memory.path(), bring_home(memory.path()), NOW_NS);
        assert_eq!(cleaned.len(), 2, "{cleaned:?}");
        assert_eq!(names(), ["other-net-receiver-4.ledger"]);
    }

    #[test]
    fn what_dies_while_the_doctor_looks_is_not_removed() {
        let (memory, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let schema = SchemaBuilder::new("net-receiver-1").finish().unwrap();
        let path = memory.path().join("forebay-net-receiver-1-1.ledger");
        let (mapping, file) = Mapping::create_file(&path, schema.bytes_needed() as u64).unwrap();
        RunWriter::format(&schema, &Words::new(mapping), 1, NOW_NS - HOUR_NS).unwrap();
        let end = file.metadata().unwrap().len();
        file.write_all_at(&home::trailer(folder.path()), end)
            .unwrap();
        std::os::unix::fs::symlink(&path, folder.path().join("ledger")).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_nanos(NOW_NS - HOUR_NS))
            .unwrap();
        file.try_lock().unwrap();
        let fates = bring_home(memory.path());
        drop(file);
        assert_eq!(take_away(memory.path(), fates, NOW_NS), []);
        assert!(path.exists(), "its directory waits for it");
        let cleaned = take_away(memory.path(), bring_home(memory.path()), NOW_NS);
        assert_eq!(cleaned[0].kept, Some(folder.path().join("ledger")));
        assert!(!path.exists());
    }
}
