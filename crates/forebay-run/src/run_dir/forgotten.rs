//! Ledgers in memory of end points that were killed and that nobody came back to.
//!
//! Such a ledger stays for `forebay audit` and `forebay top`, and the next run in the same directory takes it there. Where there is none, memory would
//! stay occupied until the host is started anew: so the next end point removes what has shown no life for a day.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use forebay_sys::clock;
use serde::Serialize;

use super::{LEDGER_SUFFIX, MEMORY, MEMORY_PREFIX, open_ledger};

/// How long they stay.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// Behind the front of all names in memory: those of end points of messaging, of link readout and of time-division UDP.
const OURS: [&str; 5] = ["net-", "card-", "tohost-", "toflx-", "tdm-"];
/// How old a file must be that is no ledger yet: its process may be about to take its lock.
const BEGINS: Duration = Duration::from_secs(10);

/// A ledger that was taken out of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cleaned {
    /// Where it lay.
    pub path: PathBuf,
    /// How long it was.
    pub bytes: u64,
}

/// Removes ledgers of this user's end points that died more than a day before `now_ns`: how many.
pub(crate) fn remove_forgotten(now_ns: u64) -> usize {
    let is_ours = |name: &str| OURS.iter().any(|front| name.starts_with(front));
    remove_in(Path::new(MEMORY), KEPT, is_ours, now_ns).len()
}

/// Removes every ledger of this user whose process is dead, those of event builders included: what one has to say is gone then, if it was
/// not audited before.
#[must_use]
pub fn clean_memory() -> Vec<Cleaned> {
    let now_ns = clock::realtime_ns();
    remove_in(Path::new(MEMORY), Duration::ZERO, |_| true, now_ns)
}

fn remove_in(
    memory: &Path,
    kept: Duration,
    is_ours: impl Fn(&str) -> bool,
    now_ns: u64,
) -> Vec<Cleaned> {
    let Ok(user) = fs::metadata("/proc/self").map(|data| data.uid()) else {
        return Vec::new();
    };
    let entries = fs::read_dir(memory).into_iter().flatten().flatten();
    let cleaned = entries.filter_map(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_ours = name.strip_prefix(MEMORY_PREFIX).is_some_and(&is_ours);
        // Not what a link leads to.
        let data = entry.metadata().ok()?;
        let own = data.is_file() && data.uid() == user;
        let path = entry.path();
        let bytes = data.len();
        let dead = is_ours && name.ends_with(LEDGER_SUFFIX) && own;
        // One that another one has removed meanwhile is as good.
        let gone = dead && is_forgotten(&path, kept, now_ns) && fs::remove_file(&path).is_ok();
        gone.then_some(Cleaned { path, bytes })
    });
    cleaned.collect()
}

/// Its end point holds a lock on it, which the kernel takes back at any death: neither a process number that was given again nor another namespace's
/// deceives.
fn is_forgotten(ledger: &Path, kept: Duration, now_ns: u64) -> bool {
    let Ok(file) = File::open(ledger) else {
        return false;
    };
    let shown = open_ledger(ledger)
        .ok()
        .and_then(|reader| reader.run_status().ok());
    let (last_ns, kept) = match shown {
        Some(status) => (status.heartbeat_ns.max(status.start_ns), kept),
        // Killed before there was anything in it.
        None => (changed_ns(&file).unwrap_or(now_ns), kept.max(BEGINS)),
    };
    // The lock comes last: nobody who has just begun finds it taken.
    u128::from(now_ns.saturating_sub(last_ns)) >= kept.as_nanos()
        && !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

fn changed_ns(file: &File) -> Option<u64> {
    let changed = file.metadata().and_then(|data| data.modified()).ok()?;
    let since_epoch = changed.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since_epoch.as_nanos()).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

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
        let is_net = |name: &str| name.starts_with("net-");
        let remove = |kept| remove_in(memory.path(), kept, is_net, NOW_NS).len();
        assert_eq!(remove(KEPT), 2);
        let mut left = [
            "forebay-1700000000000-3-3.ledger",
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
        // Who cleans takes those of event builders, too, and what died just now.
        let cleaned = remove_in(memory.path(), Duration::ZERO, |_| true, NOW_NS);
        assert_eq!(cleaned.len(), 3, "{cleaned:?}");
        assert_eq!(names(), ["other-net-receiver-4.ledger"]);
    }
}
