//! A process that gives its rights away: no capabilities, no way to gain some, and no more of files, sockets and system calls than it names.
//!
//! All threads are confined, those that were started before as well: capabilities and landlock belong to a thread, so each is sent a signal, and gives its rights away in the
//! handler (capabilities(7), landlock(7), seccomp(2)). What holds is read back from the kernel.

mod calls;
mod landlock;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use crate::SysError;

/// A thread may take so long to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Below the highest real-time signal, which others are likelier to use.
const SIGNAL_BELOW: i32 = 3;
/// No ruleset of landlock.
const NONE: i32 = -1;
/// A handler that has not run yet.
const WAITS: i32 = -1;

/// What is left to a confined process, beside what it has open.
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// Below these, files are read.
    pub read: Vec<PathBuf>,
    /// Below these, files are made, read, written, renamed and removed.
    pub write: Vec<PathBuf>,
    /// Below these, files are removed.
    pub remove: Vec<PathBuf>,
    /// Values are looked up in maps of the kernel (`BPF_MAP_LOOKUP_ELEM` of bpf(2), and no other of its commands).
    pub looks_up_maps: bool,
}

/// What holds, by what the kernel says of each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confined {
    /// Threads that are confined: all of them.
    pub threads: usize,
    /// No thread has a capability, nor can have one by an ambient one.
    pub is_without_capabilities: bool,
    /// The bounding set is empty as well; it is not where the process had no right to empty it.
    pub is_bounded: bool,
    /// No program that is started could have more rights.
    pub is_without_new_privileges: bool,
    /// System calls are filtered.
    pub is_filtered: bool,
    /// Version of landlock that holds files; none: the kernel has none.
    pub landlock: Option<u32>,
}

static RULES: AtomicI32 = AtomicI32::new(NONE);
static ANSWERED: AtomicI32 = AtomicI32::new(WAITS);

/// Confines this process. Calls that are not allowed fail with `EPERM`.
///
/// # Errors
/// A folder is not there, a thread does not answer, or the kernel refuses: then some of it may hold already. That a kernel has no landlock or no filter is no error.
pub fn confine(left: &Left) -> Result<Confined, SysError> {
    let rules = landlock::rules(left)?;
    let number = rules.as_ref().map_or(NONE, landlock::Rules::number);
    RULES.store(number, Ordering::Release);
    let others = in_all_others();
    let own = give_away();
    RULES.store(NONE, Ordering::Release);
    others?;
    if own != 0 {
        let why = std::io::Error::from_raw_os_error(own);
        return Err(SysError::new(
            "capset, landlock_restrict_self",
            "own thread",
            why,
        ));
    }
    let landlock = rules.map(|rules| rules.version);
    let is_filtered = calls::filter(left.looks_up_maps)?;
    held(is_filtered, landlock)
}

/// Has each other thread give its rights away.
fn in_all_others() -> Result<(), SysError> {
    let signal = libc::SIGRTMAX() - SIGNAL_BELOW;
    // SAFETY: all-zero is a valid sigaction, whose fields are set below.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: all-zero is a valid sigaction, which the kernel fills.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both live through the call, and the handler does nothing but system calls and atomic stores.
    let failed = unsafe { libc::sigaction(signal, &raw const action, &raw mut before) };
    if failed != 0 {
        let why = std::io::Error::last_os_error();
        return Err(SysError::new("sigaction", signal.to_string(), why));
    }
    let done = in_each(signal);
    // SAFETY: it is what was there before.
    unsafe { libc::sigaction(signal, &raw const before, std::ptr::null_mut()) };
    done
}

/// As [`in_all_others`], with the handler in place: until no thread is left that was not asked.
fn in_each(signal: i32) -> Result<(), SysError> {
    // SAFETY: the call has no arguments and cannot fail.
    let own = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
    let mut asked = vec![own];
    loop {
        let more: Vec<i32> = threads()?
            .into_iter()
            .filter(|thread| !asked.contains(thread))
            .collect();
        if more.is_empty() {
            return Ok(());
        }
        for thread in more {
            in_other(thread, signal)?;
            asked.push(thread);
        }
    }
}

/// Has one thread give its rights away; one that has ended has none.
fn in_other(thread: i32, signal: i32) -> Result<(), SysError> {
    ANSWERED.store(WAITS, Ordering::Release);
    let process = std::process::id();
    // SAFETY: the call takes three numbers.
    let failed = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
    let until = Instant::now() + ANSWER;
    while failed == 0 && ANSWERED.load(Ordering::Acquire) == WAITS {
        if !fs::exists(format!("/proc/self/task/{thread}")).unwrap_or(true) {
            return Ok(());
        }
        if Instant::now() >= until {
            let why = rustix::io::Errno::TIMEDOUT;
            return Err(SysError::new("tgkill", format!("thread {thread}"), why));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    match ANSWERED.load(Ordering::Acquire) {
        errno @ 1.. => {
            let why = std::io::Error::from_raw_os_error(errno);
            let thread = format!("thread {thread}");
            Err(SysError::new("capset, landlock_restrict_self", thread, why))
        }
        _ => Ok(()),
    }
}

/// The threads of this process.
fn threads() -> Result<Vec<i32>, SysError> {
    let failed = |error| SysError::new("readdir", "/proc/self/task", error);
    let mut threads = Vec::new();
    for entry in fs::read_dir("/proc/self/task").map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        threads.extend(name.to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(threads)
}

extern "C" fn on_signal(_: i32) {
    // SAFETY: the pointer is to this thread's own `errno`, as long as the thread is.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    ANSWERED.store(give_away(), Ordering::Release);
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// Takes all rights from the calling thread: 0, or the error. Only system calls, as it runs in a handler of signals.
fn give_away() -> i32 {
    // SAFETY: the call takes numbers.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return errno();
    }
    let rules = RULES.load(Ordering::Acquire);
    // SAFETY: the call takes two numbers; the descriptor is open until all threads have answered.
    if rules != NONE && unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules, 0) } != 0 {
        return errno();
    }
    for capability in 0..64 {
        // One that the kernel does not have ends nothing; one that may not be taken out is seen in what holds.
        // SAFETY: the call takes numbers.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
    let all = libc::PR_CAP_AMBIENT_CLEAR_ALL;
    // SAFETY: the call takes numbers.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, all, 0, 0, 0) };
    // Version 3, and the calling thread; effective, permitted and inheritable, for 32 capabilities each.
    let (head, none) = ([0x2008_0522_u32, 0], [0_u32; 6]);
    // SAFETY: the kernel reads 8 bytes of the head and 24 of the sets (capset(2)), which both have.
    if unsafe { libc::syscall(libc::SYS_capset, head.as_ptr(), none.as_ptr()) } != 0 {
        return errno();
    }
    0
}

fn errno() -> i32 {
    // SAFETY: the pointer is to this thread's own `errno`.
    unsafe { *libc::__errno_location() }
}

/// What the kernel says of all threads.
fn held(is_filtered: bool, landlock: Option<u32>) -> Result<Confined, SysError> {
    let mut confined = Confined {
        threads: 0,
        is_without_capabilities: true,
        is_bounded: true,
        is_without_new_privileges: true,
        is_filtered,
        landlock,
    };
    for thread in threads()? {
        let path = format!("/proc/self/task/{thread}/status");
        let Ok(status) = fs::read_to_string(&path) else {
            // It has ended.
            continue;
        };
        let of = |name: &str| {
            let mut lines = status.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"))
        };
        let is_none = |name| of(name).is_some_and(|set| set.bytes().all(|digit| digit == b'0'));
        let sets = ["CapEff", "CapPrm", "CapInh", "CapAmb"];
        confined.threads += 1;
        confined.is_without_capabilities &= sets.into_iter().all(is_none);
        confined.is_bounded &= is_none("CapBnd");
        confined.is_without_new_privileges &= of("NoNewPrivs") == Some("1");
        confined.is_filtered &= of("Seccomp") == Some("2");
    }
    Ok(confined)
}
