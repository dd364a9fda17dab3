//! Where listeners and the processes that connect find each other: a directory of this user's own.

use std::env;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Others may remove a lock's file while it is being opened; how often that is tried again.
const ATTEMPTS_MAX: usize = 100;
/// Nobody but the owner may enter.
const OTHERS: u32 = 0o077;

/// The directory, open, and known to be ours alone.
#[derive(Debug)]
pub(super) struct Place {
    fd: OwnedFd,
    path: PathBuf,
}

impl Place {
    /// Makes the directory if it is not there.
    pub(super) fn make() -> io::Result<Self> {
        let path = path();
        match rustix::fs::mkdir(&path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Self::open_at(path),
            Err(errno) => Err(at(&path, errno)),
        }
    }

    /// Opens the directory if it is there.
    pub(super) fn open() -> io::Result<Self> {
        Self::open_at(path())
    }

    fn open_at(path: PathBuf) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match rustix::fs::open(&path, flags, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(not_ours(&path)),
            Err(errno) => return Err(at(&path, errno)),
            Ok(fd) => fd,
        };
        let found = rustix::fs::fstat(&fd).map_err(|errno| at(&path, errno))?;
        if found.st_uid != own_uid() || found.st_mode & OTHERS != 0 {
            return Err(not_ours(&path));
        }
        Ok(Self { fd, path })
    }

    /// The listener's socket, as a path that has room in a socket's address however long the directory's is.
    pub(super) fn socket(&self, name: &str) -> PathBuf {
        let directory = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        Path::new(&directory).join(socket_name(name))
    }

    /// The sole right to listen by that name.
    pub(super) fn claim(self, name: &str) -> io::Result<Claim> {
        let lock_name = format!("{name}.lock");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..ATTEMPTS_MAX {
            let lock = rustix::fs::openat(&self.fd, &lock_name, flags, Mode::RUSR | Mode::WUSR)
                .map_err(|errno| self.at(&lock_name, errno))?;
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(self.in_use(&lock_name)),
                Err(errno) => return Err(self.at(&lock_name, errno)),
            }
            if self.is_there(&lock_name, &lock)? {
                let claim = Claim {
                    place: self,
                    name: name.into(),
                    _lock: lock,
                };
                // Left behind by a listener that is dead: its lock went with it.
                claim.remove(&socket_name(name));
                return Ok(claim);
            }
        }
        Err(self.in_use(&lock_name))
    }

    /// Whether the name still means the file that was opened: its last owner may have removed it meanwhile.
    fn is_there(&self, name: &str, file: &OwnedFd) -> io::Result<bool> {
        let opened = rustix::fs::fstat(file).map_err(|errno| self.at(name, errno))?;
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok((found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(self.at(name, errno)),
        }
    }

    fn in_use(&self, lock_name: &str) -> io::Error {
        let path = self.path.join(lock_name);
        let text = format!(
            "the address is in use: a process has locked {}",
            path.display()
        );
        io::Error::new(ErrorKind::AddrInUse, text)
    }

    fn at(&self, name: &str, errno: Errno) -> io::Error {
        at(&self.path.join(name), errno)
    }
}

/// The right to listen by a name, and to remove its files in the end.
#[derive(Debug)]
pub(super) struct Claim {
    place: Place,
    name: String,
    /// The kernel takes it back when this process dies.
    _lock: OwnedFd,
}

impl Claim {
    /// See [`Place::socket`].
    pub(super) fn socket(&self) -> PathBuf {
        self.place.socket(&self.name)
    }

    /// The socket's file, for people.
    pub(super) fn path(&self) -> PathBuf {
        self.place.path.join(socket_name(&self.name))
    }

    fn remove(&self, name: &str) {
        // Not there, or no longer ours to remove: nothing is left to do.
        let _ = rustix::fs::unlinkat(&self.place.fd, name, AtFlags::empty());
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.remove(&socket_name(&self.name));
        // While it is still locked: a process that opens it now finds that it is gone and makes a new one.
        self.remove(&format!("{}.lock", self.name));
    }
}

/// The user of this process; only peers of the same user are let in.
pub(super) fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn socket_name(name: &str) -> String {
    format!("{name}.sock")
}

fn path() -> PathBuf {
    choose(env::var_os("XDG_RUNTIME_DIR"), own_uid(), Path::is_dir)
}

fn choose(runtime: Option<OsString>, uid: u32, is_dir: impl Fn(&Path) -> bool) -> PathBuf {
    let runtime = runtime.map(PathBuf::from).filter(|path| path.is_absolute());
    let of_user = PathBuf::from(format!("/run/user/{uid}"));
    match runtime.or_else(|| is_dir(&of_user).then_some(of_user)) {
        Some(runtime) => runtime.join("forebay"),
        None => PathBuf::from(format!("/tmp/forebay-{uid}")),
    }
}

fn at(path: &Path, errno: Errno) -> io::Error {
    let source = io::Error::from(errno);
    io::Error::new(source.kind(), format!("{}: {source}", path.display()))
}

fn not_ours(path: &Path) -> io::Error {
    let (path, uid) = (path.display(), own_uid());
    let text = format!(
        "{path} must be a directory that belongs to user {uid} and that nobody else may enter; `chmod 700 {path}`, or remove it"
    );
    io::Error::new(ErrorKind::PermissionDenied, text)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn place() -> (tempfile::TempDir, Place) {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o700)).unwrap();
        let place = Place::open_at(directory.path().into()).unwrap();
        (directory, place)
    }

    #[test]
    fn the_runtime_directory_comes_first() {
        let none = |_: &Path| false;
        assert_eq!(choose(Some("/x".into()), 7, none), Path::new("/x/forebay"));
        let of_user = choose(Some("relative".into()), 7, |_| true);
        assert_eq!(of_user, Path::new("/run/user/7/forebay"));
        assert_eq!(choose(None, 7, none), Path::new("/tmp/forebay-7"));
    }

    #[test]
    fn a_directory_that_others_may_enter_is_refused() {
        let (directory, _place) = place();
        for mode in [0o750, 0o701, 0o777] {
            fs::set_permissions(directory.path(), Permissions::from_mode(mode)).unwrap();
            let error = Place::open_at(directory.path().into()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
            assert!(error.to_string().contains("chmod 700"), "{error}");
        }
    }

    #[test]
    fn a_link_or_a_file_is_refused() {
        let (directory, _place) = place();
        let (link, file) = (directory.path().join("link"), directory.path().join("file"));
        symlink(directory.path(), &link).unwrap();
        fs::write(&file, "").unwrap();
        for path in [link, file] {
            let error = Place::open_at(path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        }
        let missing = Place::open_at(directory.path().join("none")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn one_listener_at_a_time_and_nothing_is_left() {
        let (directory, first) = place();
        let again = || Place::open_at(directory.path().into()).unwrap();
        fs::write(directory.path().join("a.sock"), "stale").unwrap();
        let claim = first.claim("a").unwrap();
        assert!(!claim.path().exists(), "the stale file is gone");
        let error = again().claim("a").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        again().claim("b").unwrap();
        drop(claim);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        again().claim("a").unwrap();
    }
}
