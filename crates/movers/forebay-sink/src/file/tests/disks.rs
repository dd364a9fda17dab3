//! Disks for tests: that of the build, memory, and an XFS in a file.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A directory on some file system.
pub(super) struct Disk {
    pub(super) path: PathBuf,
    /// Holds the mount, which goes with it.
    mounted: Option<Child>,
    _folder: tempfile::TempDir,
}

impl Disk {
    /// None where files beside the sources are not written past the page cache.
    pub(super) fn of_the_build() -> Option<Self> {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        if !forebay_sys::direct::is_taken_in(folder.path()).unwrap() {
            forebay_testing::skip!("this file system does not write past the page cache");
            return None;
        }
        Some(Self {
            path: folder.path().into(),
            mounted: None,
            _folder: folder,
        })
    }

    /// A directory in memory (tmpfs).
    pub(super) fn memory() -> Option<Self> {
        let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
            forebay_testing::skip!("there is no /dev/shm");
            return None;
        };
        Some(Self {
            path: folder.path().into(),
            mounted: None,
            _folder: folder,
        })
    }

    /// An XFS in a file, mounted in a namespace of its own: this process sees it through that of the one which holds it.
    pub(super) fn xfs() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        let point = folder.path().join("disk");
        std::fs::create_dir(&point).unwrap();
        let file = std::fs::File::create(&image).unwrap();
        file.set_len(320 << 20).unwrap();
        let mounted = Self::mount_xfs(&image, &point);
        let Some(mounted) = mounted else {
            forebay_testing::skip!(
                "no XFS can be mounted from a file here (needs root, loop devices, mkfs.xfs, unshare and xfs in the kernel)"
            );
            return None;
        };
        let root = format!("/proc/{}/root", mounted.id());
        Some(Self {
            path: PathBuf::from(root + point.to_str().unwrap()),
            mounted: Some(mounted),
            _folder: folder,
        })
    }

    fn mount_xfs(image: &std::path::Path, point: &std::path::Path) -> Option<Child> {
        let mut make = Command::new("mkfs.xfs");
        let made = make.arg("-q").arg(image).stderr(Stdio::null()).status();
        made.ok().filter(std::process::ExitStatus::success)?;
        let script = r#"mount -t xfs -o loop "$1" "$2" && echo mounted && exec cat"#;
        let mut holder = Command::new("unshare")
            .args(["--mount", "sh", "-c", script, "sh"])
            .args([image, point])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut line = String::new();
        let said = holder.stdout.as_mut()?;
        let _ = BufReader::new(said).read_line(&mut line);
        if line == "mounted\n" {
            return Some(holder);
        }
        let _ = holder.wait();
        None
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(holder) = &mut self.mounted {
            // Its standard input ends, and so does it.
            drop(holder.stdin.take());
            let _ = holder.wait();
        }
    }
}
