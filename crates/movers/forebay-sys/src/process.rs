//! Processes: their CPU time, their end, and their limits.

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal};

use crate::SysError;

/// CPU time, in nanoseconds (the kernel counts it in µs).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CpuTime {
    /// In user space.
    pub user_ns: u64,
    /// In the kernel, on the process's behalf.
    pub system_ns: u64,
}

/// An ended child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaped {
    /// How it ended.
    pub status: ExitStatus,
    /// The CPU time of its whole life.
    pub cpu: CpuTime,
    /// Its largest resident memory, bytes.
    pub resident_max_bytes: u64,
}

/// Asks the kernel to kill this process when its parent dies (more exactly: the parent's thread that started it, so start
/// children from a thread that lives as long as they shall). Call it first thing in a child, with the parent's pid as
/// the parent told it: a parent that died before the call is noticed by that.
///
/// # Errors
/// When the parent is already gone.
pub fn die_with_parent(parent: u32) -> Result<(), SysError> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| SysError::new("prctl(PR_SET_PDEATHSIG)", parent.to_string(), errno))?;
    let now = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
    if now == parent {
        return Ok(());
    }
    Err(SysError::new(
        "prctl(PR_SET_PDEATHSIG)",
        format!("parent {parent}"),
        rustix::io::Errno::SRCH,
    )
    .with_remedy("the supervisor is already gone"))
}

/// Whether a process of this number lives.
#[must_use]
pub fn is_alive(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// Names the calling thread (for the main thread: the process), as `ps` and `top` show it; cut to 15 bytes.
pub fn name_thread(name: &str) {
    let short: Vec<u8> = name.bytes().filter(|&byte| byte != 0).take(15).collect();
    if let Ok(name) = std::ffi::CString::new(short) {
        // Fails for no valid name; a missing name harms nothing.
        let _ = rustix::thread::set_name(&name);
    }
}

/// CPU time of this process so far.
#[must_use]
pub fn own_cpu_time() -> CpuTime {
    // SAFETY: all-zero is a valid rusage, which the kernel fills.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage; RUSAGE_SELF cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    cpu_time_of(&usage)
}

/// CPU time of a living process (all threads), in nanoseconds, user and kernel together.
///
/// # Errors
/// When there is no such process.
pub fn cpu_time_ns(pid: u32) -> Result<u64, SysError> {
    let failed = |source| SysError::new("clock_getcpuclockid", format!("pid {pid}"), source);
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the pointer is to a live clockid_t.
    let errno = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &raw mut clock) };
    if errno != 0 {
        return Err(failed(std::io::Error::from_raw_os_error(errno)));
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live timespec.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(failed(std::io::Error::last_os_error()));
    }
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// CPU time of a process outside the kernel, all threads, in ticks as [`CpuTicks`](crate::host::CpuTicks) has them (`/proc/PID/stat`, proc(5)).
///
/// # Errors
/// When there is no such process.
pub fn user_ticks(pid: u32) -> Result<u64, SysError> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path)
        .map_err(|source| SysError::new("read", path.as_str(), source))?;
    // Its name may have any byte, blanks and brackets as well. Field 14, as the third stands behind the name.
    let behind_name = text.rsplit(')').next().unwrap_or_default();
    let ticks = behind_name.split_whitespace().nth(14 - 3);
    let ticks = ticks.and_then(|word| word.parse().ok());
    ticks.ok_or_else(|| {
        SysError::new(
            "read",
            path,
            std::io::Error::from(std::io::ErrorKind::InvalidData),
        )
    })
}

/// Takes the end of a child, with its CPU time, if it has ended. Do not mix with `std::process::Child::wait`.
///
/// # Errors
/// When `pid` is not a child of this process.
pub fn reap(pid: u32) -> Result<Option<Reaped>, SysError> {
    wait4(pid, libc::WNOHANG)
}

/// As [`reap`], but waits for the end.
///
/// # Errors
/// When `pid` is not a child of this process.
pub fn wait(pid: u32) -> Result<Reaped, SysError> {
    loop {
        if let Some(reaped) = wait4(pid, 0)? {
            return Ok(reaped);
        }
    }
}

fn wait4(pid: u32, options: i32) -> Result<Option<Reaped>, SysError> {
    let mut status = 0;
    // SAFETY: all-zero is a valid rusage, which the kernel fills.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values of the right type.
    let ended =
        unsafe { libc::wait4(pid as libc::pid_t, &raw mut status, options, &raw mut usage) };
    if ended < 0 {
        let error = std::io::Error::last_os_error();
        return match error.kind() {
            std::io::ErrorKind::Interrupted => Ok(None),
            _ => Err(SysError::new("wait4", format!("pid {pid}"), error)),
        };
    }
    Ok((ended > 0).then(|| Reaped {
        status: ExitStatus::from_raw(status),
        cpu: cpu_time_of(&usage),
        resident_max_bytes: usage.ru_maxrss as u64 * 1024,
    }))
}

fn cpu_time_of(usage: &libc::rusage) -> CpuTime {
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    CpuTime {
        user_ns: ns(usage.ru_utime),
        system_ns: ns(usage.ru_stime),
    }
}

/// A descriptor that becomes readable when the process ends.
///
/// # Errors
/// When there is no such process.
pub fn pidfd(pid: u32) -> Result<OwnedFd, SysError> {
    let no_process = || SysError::new("pidfd_open", format!("pid {pid}"), rustix::io::Errno::SRCH);
    let process = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(no_process)?;
    rustix::process::pidfd_open(process, PidfdFlags::empty())
        .map_err(|errno| SysError::new("pidfd_open", format!("pid {pid}"), errno))
}

/// Sends `SIGKILL` to a child.
///
/// # Errors
/// When there is no such process.
pub fn kill(pid: u32) -> Result<(), SysError> {
    signal(pid, Signal::KILL)
}

/// Sends `SIGTERM` to a child.
///
/// # Errors
/// When there is no such process.
pub fn terminate(pid: u32) -> Result<(), SysError> {
    signal(pid, Signal::TERM)
}

fn signal(pid: u32, signal: Signal) -> Result<(), SysError> {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    process
        .map_or(Err(rustix::io::Errno::SRCH), |process| {
            rustix::process::kill_process(process, signal)
        })
        .map_err(|errno| SysError::new("kill", format!("pid {pid}"), errno))
}

/// Raises the limit of open files to what the system allows this process; tells the limit then in force.
///
/// # Errors
/// When the kernel refuses.
pub fn raise_open_files() -> Result<u64, SysError> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    rustix::process::setrlimit(Resource::Nofile, raised).map_err(|errno| {
        SysError::new(
            "setrlimit(RLIMIT_NOFILE)",
            format!("{:?}", limit.maximum),
            errno,
        )
    })?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoll::{Interest, Poller, Trigger};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    #[allow(clippy::zombie_processes, reason = "reaped by pid")]
    fn a_killed_child_is_seen_and_reaped_with_its_cpu_time() {
        let child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        let end = pidfd(pid).unwrap();
        let mut poller = Poller::create(1).unwrap();
        poller
            .add(&end, 1, Interest::Readable, Trigger::Level)
            .unwrap();
        assert_eq!(reap(pid).unwrap(), None);
        cpu_time_ns(pid).unwrap();
        kill(pid).unwrap();
        assert_eq!(
            poller
                .wait(Some(Duration::from_secs(30)), Duration::ZERO)
                .unwrap()
                .count(),
            1
        );
        let reaped = wait(pid).unwrap();
        assert_eq!(reaped.status.signal(), Some(libc::SIGKILL));
        assert!(reaped.resident_max_bytes > 0);
        assert!(pidfd(pid).is_err() && reap(pid).is_err());
    }

    #[test]
    fn own_cpu_time_grows_with_work() {
        let before = own_cpu_time();
        let mut turns = 0_u64;
        while own_cpu_time() == before {
            turns += 1;
        }
        let now = own_cpu_time();
        assert!(
            now.user_ns + now.system_ns > before.user_ns + before.system_ns,
            "after {turns} turns"
        );
        assert!(cpu_time_ns(std::process::id()).unwrap() > 0);
    }

    #[test]
    fn a_wrong_parent_is_noticed() {
        // In a thread: the setting belongs to the thread and ends with it.
        let error = std::thread::spawn(|| die_with_parent(u32::MAX))
            .join()
            .unwrap()
            .unwrap_err();
        assert!(error.to_string().contains("already gone"), "{error}");
    }

    #[test]
    fn the_limit_of_open_files_goes_up() {
        assert!(raise_open_files().unwrap() >= 64);
    }
}
