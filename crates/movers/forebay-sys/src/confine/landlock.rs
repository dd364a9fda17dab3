//! Rules of landlock (landlock(7)): which files a process may still open.

use std::io::{Error, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::Left;
use crate::SysError;

const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_REG: u64 = 1 << 8;
const MAKE_SYM: u64 = 1 << 12;
/// All that version 1 holds.
const VERSION_1: u64 = (1 << 13) - 1;
/// Links and renames between folders, from version 2.
const REFER: u64 = 1 << 13;
/// From version 3.
const TRUNCATE: u64 = 1 << 14;
/// From version 5.
const IOCTL_DEV: u64 = 1 << 15;
/// Binding and connecting over TCP, from version 4.
const TCP: u64 = 3;
/// Abstract sockets and signals of others, from version 6.
const SCOPES: u64 = 3;
const PATH_BENEATH: i32 = 1;
const ASK_VERSION: u32 = 1;

/// Rules that threads can be held to.
#[derive(Debug)]
pub(super) struct Rules {
    fd: OwnedFd,
    pub(super) version: u32,
}

impl Rules {
    pub(super) fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

/// `struct landlock_ruleset_attr`; older versions know a front of it.
#[repr(C)]
struct Ruleset {
    files: u64,
    network: u64,
    scopes: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct Beneath {
    access: u64,
    folder: i32,
}

/// The rules of these folders; none where the kernel has no landlock, has it turned off, or may not be asked for it.
pub(super) fn rules(left: &Left) -> Result<Option<Rules>, SysError> {
    let none = std::ptr::null::<Ruleset>();
    // SAFETY: with this flag the kernel reads nothing, and gives a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            none,
            0_usize,
            ASK_VERSION,
        )
    };
    let Some(version) = u32::try_from(version).ok().filter(|version| *version > 0) else {
        let why = Error::last_os_error();
        return match why.raw_os_error() {
            Some(libc::ENOSYS | libc::EOPNOTSUPP | libc::EPERM) => Ok(None),
            _ => Err(SysError::new("landlock_create_ruleset", "version", why)),
        };
    };
    let from = |least: u32, what: u64| if version >= least { what } else { 0 };
    let files = VERSION_1 | from(2, REFER) | from(3, TRUNCATE) | from(5, IOCTL_DEV);
    let ruleset = Ruleset {
        files,
        network: from(4, TCP),
        scopes: from(6, SCOPES),
    };
    let bytes: usize = match version {
        ..=3 => 8,
        4 | 5 => 16,
        _ => 24,
    };
    // SAFETY: the kernel reads as many bytes of the ruleset as it is told, which it has.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const ruleset,
            bytes,
            0_u32,
        )
    };
    if fd < 0 {
        let why = Error::last_os_error();
        return Err(SysError::new("landlock_create_ruleset", "files", why));
    }
    // SAFETY: the kernel has made this descriptor just now, and nobody else has it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let rules = Rules { fd, version };
    let written = READ_FILE | READ_DIR | WRITE_FILE | REMOVE_FILE | MAKE_REG | MAKE_SYM | TRUNCATE;
    let of_kinds = [
        (&left.read, READ_FILE | READ_DIR),
        (&left.write, written),
        (&left.remove, REMOVE_FILE),
    ];
    for (paths, access) in of_kinds {
        for path in paths {
            rules.allow(path, access & files)?;
        }
    }
    Ok(Some(rules))
}

impl Rules {
    fn allow(&self, path: &Path, access: u64) -> Result<(), SysError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(folder) => folder,
            Err(errno) => {
                let why = Error::from(errno);
                return match why.kind() {
                    // What is not there need not be opened.
                    ErrorKind::NotFound => Ok(()),
                    _ => Err(SysError::new("open", path.display().to_string(), why)),
                };
            }
        };
        let beneath = Beneath {
            access,
            folder: folder.as_raw_fd(),
        };
        // SAFETY: the kernel reads 12 bytes of the attribute, which it has; both descriptors live through the call.
        let failed = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.fd.as_raw_fd(),
                PATH_BENEATH,
                &raw const beneath,
                0_u32,
            )
        };
        if failed != 0 {
            let why = Error::last_os_error();
            let path = path.display().to_string();
            return Err(SysError::new("landlock_add_rule", path, why));
        }
        Ok(())
    }
}
