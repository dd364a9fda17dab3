//! The reference for files: `dd` with large writes.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// Bytes per second at which `dd` writes `mib` MiB into `directory`; with `sync` the data is on the device at its end.
pub(super) fn dd(directory: &Path, mib: usize, sync: bool) -> Result<f64> {
    let file = directory.join(".dd-reference");
    let mut command = Command::new("dd");
    command
        .args(["if=/dev/zero", "bs=1M", "status=none"])
        .arg(format!("count={mib}"))
        .arg(format!("of={}", file.display()));
    if sync {
        command.arg("conv=fdatasync");
    }
    let started = Instant::now();
    let status = command.status().context("starting dd")?;
    let seconds = started.elapsed().as_secs_f64();
    std::fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
    if !status.success() {
        bail!("dd could not write {mib} MiB into {}", directory.display());
    }
    Ok((mib << 20) as f64 / seconds)
}
