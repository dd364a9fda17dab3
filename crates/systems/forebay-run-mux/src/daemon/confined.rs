//! What a daemon at work needs of the system: no more than that is left to it.

use std::path::{Path, PathBuf};

use forebay_run::Host;
use forebay_sys::confine::{Confined, Left};

use crate::config::{DriverChoice, MuxSettings};
use crate::error::MuxError;

/// Confines the process, when card, sockets and books are open. What the kernel cannot hold is told.
pub(super) fn confine(settings: &MuxSettings, host: &Host) -> Result<Confined, MuxError> {
    let held = forebay_sys::confine::confine(&left(settings))?;
    if held.landlock.is_none() {
        host.warn("this kernel has no landlock: the daemon is not held to its own files");
    }
    if !held.is_filtered {
        host.warn(
            "this kernel filters no system calls: the daemon is not held to those that it needs",
        );
    }
    Ok(held)
}

/// The ledger and the record are written at the end, the live ledger and the files of sockets are removed, and the kernel's counters are read. Those of the driver `xdp` are in a
/// map, in which a process without rights looks values up from Linux 5.19 (kernel/bpf/syscall.c).
fn left(settings: &MuxSettings) -> Left {
    let sockets = [settings.socket.clone(), settings.control_path()];
    let removed = sockets.iter().map(|socket| folder_of(socket));
    let own = Some(settings.directory.clone()).filter(|it| !it.as_os_str().is_empty());
    Left {
        read: vec!["/proc/self".into(), "/dev/shm".into()],
        write: own.into_iter().collect(),
        remove: removed.chain(["/dev/shm".into()]).collect(),
        looks_up_maps: settings.driver == DriverChoice::Xdp,
    }
}

/// The folder that a file is in.
fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.into(),
        _ => ".".into(),
    }
}
