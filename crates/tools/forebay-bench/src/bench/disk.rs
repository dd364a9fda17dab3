//! The reference for files: `dd` with large writes.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use forebay_sys::process;

/// How `dd` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dd {
    /// Through the page cache.
    Cached,
    /// Through the page cache, and on the device at its end.
    Synced,
    /// Past the page cache.
    Direct,
}

impl Dd {
    /// For people: what is beside the lengths.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Cached => "dd bs=1M",
            Self::Synced => "dd bs=1M conv=fdatasync",
            Self::Direct => "dd bs=4M oflag=direct",
        }
    }

    const fn block_mib(self) -> usize {
        match self {
            Self::Cached | Self::Synced => 1,
            Self::Direct => 4,
        }
    }
}

/// What writing came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) bytes_per_s: f64,
    /// CPU time of user and kernel for 1e9 bytes, in s.
    pub(super) cpu_s_per_gb: f64,
}

impl Written {
    pub(super) fn new(bytes: f64, seconds: f64, cpu_s: f64) -> Self {
        Self {
            bytes_per_s: bytes / seconds,
            cpu_s_per_gb: cpu_s / (bytes / 1e9),
        }
    }
}

/// Lets `dd` write `mib` MiB into `directory`, and removes them.
pub(super) fn dd(directory: &Path, mib: usize, how: Dd) -> Result<Written> {
    let file = directory.join(".dd-reference");
    let count = mib.div_ceil(how.block_mib());
    let mut command = Command::new("dd");
    command.args(["if=/dev/zero", "status=none"]).args(
        how.words()
            .split(' ')
            .filter(|word| word.contains('=') && !word.is_empty()),
    );
    command
        .arg(format!("count={count}"))
        .arg(format!("of={}", file.display()));
    let started = Instant::now();
    let child = command.spawn().context("starting dd")?;
    let ended = process::wait(child.id()).context("waiting for dd")?;
    let seconds = started.elapsed().as_secs_f64();
    std::fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
    if !ended.status.success() {
        bail!(
            "{} could not write {mib} MiB into {}",
            how.words(),
            directory.display()
        );
    }
    let cpu_s = (ended.cpu.user_ns + ended.cpu.system_ns) as f64 / 1e9;
    let bytes = (count * how.block_mib()) << 20;
    Ok(Written::new(bytes as f64, seconds, cpu_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dd_writes_in_each_way_and_leaves_nothing() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        for how in [Dd::Cached, Dd::Synced, Dd::Direct] {
            match dd(folder.path(), 8, how) {
                Ok(written) => assert!(written.bytes_per_s > 0.0 && written.cpu_s_per_gb < 100.0),
                // Not every file system does that.
                Err(_) if how == Dd::Direct => {}
                Err(error) => panic!("{error:#}"),
            }
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let nowhere = folder.path().join("nowhere");
        assert!(dd(&nowhere, 1, Dd::Cached).is_err());
    }
}
