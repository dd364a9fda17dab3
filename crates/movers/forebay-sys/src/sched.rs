//! Where and how threads run: pinning, real-time priority, locked memory.

use rustix::io::Errno;
use rustix::mm::MlockAllFlags;
use rustix::thread::CpuSet;

use crate::SysError;

/// The least claim to a CPU (`nice(1)`).
const NICEST: libc::c_int = 19;

/// CPUs that the calling thread may use, at least 1.
#[must_use]
pub fn cpu_count() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count().max(1) as usize)
}

/// Numbers of the CPUs that the calling thread may use, in order; none where the kernel does not say.
#[must_use]
pub fn cpus() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect()
}

/// Pins the calling thread to one CPU.
///
/// # Errors
/// When this process may not use that CPU.
pub fn pin_to_cpu(cpu: usize) -> Result<(), SysError> {
    let failed = |errno| {
        SysError::new("sched_setaffinity", format!("CPU {cpu}"), errno).with_remedy(format!(
            "this process may use {} CPUs; see `taskset -p $$`",
            cpu_count()
        ))
    };
    if cpu >= CpuSet::MAX_CPU {
        return Err(failed(Errno::INVAL));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).map_err(failed)
}

/// Gives the calling thread real-time priority (`SCHED_FIFO`), 1 to 99. The thread must sleep when it has nothing to
/// do: a spin at real-time priority is stalled by the kernel's throttle for tens of milliseconds.
///
/// # Errors
/// When the process has not the privilege.
pub fn real_time(priority: u8) -> Result<(), SysError> {
    let parameters = libc::sched_param {
        sched_priority: i32::from(priority),
    };
    // SAFETY: the pointer is to a live sched_param; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) } == 0 {
        return Ok(());
    }
    let why = std::io::Error::last_os_error();
    let remedy = match why.raw_os_error() {
        Some(libc::EPERM) => "needs CAP_SYS_NICE or `ulimit -r` of at least that priority",
        _ => "the priority is 1 to 99",
    };
    Err(SysError::new(
        "sched_setscheduler(SCHED_FIFO)",
        format!("priority {priority}"),
        why,
    )
    .with_remedy(remedy))
}

/// Has the kernel give the calling thread its time in pieces of so many ns, 100,000 to 100,000,000: less at a time and sooner, and no more altogether (EEVDF, `kernel/sched/syscalls.c`).
/// Threads that it starts later are like it. It needs no right; before Linux 6.12, and of a thread with real-time priority, it changes nothing.
///
/// # Errors
/// When the kernel refuses a call.
pub fn set_slice(ns: u64) -> Result<(), SysError> {
    let failed = |call| {
        let why = std::io::Error::last_os_error();
        SysError::new(call, format!("a slice of {ns} ns"), why)
    };
    // SAFETY: the structure is of integers alone.
    let mut now: libc::sched_attr = unsafe { std::mem::zeroed() };
    let bytes = size_of_val(&now) as libc::c_uint;
    // SAFETY: the pointer is to a live sched_attr of so many bytes; 0 is the calling thread.
    if unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut now, bytes, 0) } != 0 {
        return Err(failed("sched_getattr"));
    }
    now.sched_runtime = ns;
    // SAFETY: as above; the kernel reads it.
    if unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const now, 0) } != 0 {
        return Err(failed("sched_setattr"));
    }
    Ok(())
}

/// Gives the calling thread ordinary priority again (`SCHED_OTHER`).
///
/// # Errors
/// When the kernel refuses the call.
pub fn ordinary() -> Result<(), SysError> {
    without_priority(libc::SCHED_OTHER, "sched_setscheduler(SCHED_OTHER)")
}

/// Lets the calling thread run only when nothing else wants its CPU (`SCHED_IDLE`); `/proc/stat` has its time as `nice`.
///
/// # Errors
/// When the kernel refuses a call.
pub fn when_idle() -> Result<(), SysError> {
    without_priority(libc::SCHED_IDLE, "sched_setscheduler(SCHED_IDLE)")?;
    // SAFETY: the call has no pointers; 0 is the calling thread.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICEST) } == 0 {
        return Ok(());
    }
    let why = std::io::Error::last_os_error();
    Err(SysError::new(
        "setpriority",
        format!("niceness {NICEST}"),
        why,
    ))
}

fn without_priority(policy: libc::c_int, call: &'static str) -> Result<(), SysError> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the pointer is to a live sched_param; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } == 0 {
        return Ok(());
    }
    let why = std::io::Error::last_os_error();
    Err(SysError::new(call, "the calling thread".to_owned(), why))
}

/// Locks all memory, present and future, so that no page is ever read back from disk.
///
/// # Errors
/// When the limit of locked memory is lower than what the process maps.
pub fn lock_memory() -> Result<(), SysError> {
    rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).map_err(|errno| {
        SysError::new("mlockall", "all memory", errno).with_remedy(
            "needs CAP_IPC_LOCK or a higher `ulimit -l` (systemd: LimitMEMLOCK=infinity)",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_be_pinned_and_a_missing_cpu_is_named() {
        std::thread::spawn(|| {
            let all = cpus();
            assert_eq!(all.len(), cpu_count());
            let last = *all.last().unwrap();
            pin_to_cpu(last).unwrap();
            assert_eq!((cpu_count(), cpus()), (1, vec![last]));
        })
        .join()
        .unwrap();
        for cpu in [CpuSet::MAX_CPU - 1, 1 << 20] {
            let text = pin_to_cpu(cpu).unwrap_err().to_string();
            assert!(text.contains(&format!("CPU {cpu}")), "{text}");
        }
    }

    #[test]
    fn a_thread_is_for_idle_times_alone_by_the_word_of_the_kernel() {
        let told = std::thread::spawn(|| {
            when_idle().unwrap();
            std::fs::read_to_string("/proc/thread-self/stat").unwrap()
        });
        let text = told.join().unwrap();
        // The 41st field is the policy, the 19th the niceness (proc_pid_stat(5)); the name, the second one, may have blanks.
        let behind_name = text.rsplit_once(") ").unwrap().1;
        let told = [38, 16].map(|at| behind_name.split(' ').nth(at).unwrap());
        assert_eq!(told, [libc::SCHED_IDLE, NICEST].map(|it| it.to_string()));
    }

    /// The slice of this thread, by the word of the kernel (`/proc/thread-self/sched`, `CONFIG_SCHED_DEBUG`).
    fn told_slice() -> Option<u64> {
        let text = std::fs::read_to_string("/proc/thread-self/sched").ok()?;
        let line = text.lines().find(|line| line.starts_with("se.slice"))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    #[test]
    fn a_thread_and_those_it_starts_have_their_time_in_pieces_by_the_word_of_the_kernel() {
        let told = std::thread::spawn(|| {
            set_slice(300_000).unwrap();
            [told_slice(), std::thread::spawn(told_slice).join().unwrap()]
        });
        let [own, of_next] = told.join().unwrap();
        let Some(own) = own else {
            forebay_testing::skip!("the kernel does not tell the slice of a thread (Linux 6.12)");
            return;
        };
        assert_eq!((own, of_next), (300_000, Some(300_000)));
    }

    #[test]
    fn a_refused_priority_is_named_with_a_remedy() {
        let refused = std::thread::spawn(|| {
            use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
            let none = CapabilitySets {
                effective: CapabilitySet::empty(),
                permitted: CapabilitySet::empty(),
                inheritable: CapabilitySet::empty(),
            };
            // Of this thread alone.
            set_capabilities(None, none).unwrap();
            real_time(10)
        })
        .join()
        .unwrap();
        let Err(error) = refused else {
            forebay_testing::skip!("this user's `ulimit -r` allows real-time priority");
            return;
        };
        let text = error.to_string();
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{text}");
        assert!(
            text.contains("priority 10")
                && text.contains("CAP_SYS_NICE")
                && text.contains("ulimit -r"),
            "{text}"
        );
    }

    #[test]
    fn a_wrong_priority_is_named() {
        let text = std::thread::spawn(|| real_time(200))
            .join()
            .unwrap()
            .unwrap_err()
            .to_string();
        assert!(text.contains("priority 200"), "{text}");
    }
}
