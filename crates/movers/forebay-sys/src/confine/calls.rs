//! The system calls that are left, as a filter of the kernel's (seccomp(2)), for all threads. Other ones fail with `EPERM`: a process that calls one by an oversight says so and
//! closes its books, where one that is killed could not.

use std::io::Error;

use crate::SysError;

/// What a process with everything open needs: to read, write and wait, to take connections in and hand descriptors over, memory, files that landlock holds, and to end.
const CALLS: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_ioctl,
    libc::SYS_ppoll,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_memfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_symlinkat,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_membarrier,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_uname,
    libc::SYS_tgkill,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Calls of their older form.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_readlink,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_symlink,
    libc::SYS_poll,
    libc::SYS_epoll_wait,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Families of sockets that are left: the kernel is asked over the one about interfaces, and over the other about their counts.
const FAMILIES: [u32; 2] = [libc::AF_NETLINK as u32, libc::AF_INET as u32];
/// Commands of bpf(2) that are left, if any are: `BPF_MAP_LOOKUP_ELEM`.
const MAP_COMMANDS: [u32; 1] = [1];

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: Option<u32> = None;

/// Where `struct seccomp_data` has the call's number, its architecture, and the lower half of the first argument.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const FIRST: u32 = 16;

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;

const fn step(code: u32, value: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k: value,
    }
}

/// Goes on with the next instruction if the word is this one, and leaves out so many if not.
const fn unless(value: u32, skipped: u8) -> libc::sock_filter {
    libc::sock_filter {
        jf: skipped,
        ..step(EQUAL, value)
    }
}

/// Numbers of another architecture's calls are no numbers of these: all of them are refused, and with them those of x32, which have a bit more.
fn program(architecture: u32, looks_up_maps: bool) -> Vec<libc::sock_filter> {
    let allow = || step(RETURN, libc::SECCOMP_RET_ALLOW);
    let mut program = vec![
        step(LOAD, ARCH),
        libc::sock_filter {
            jt: 1,
            ..step(EQUAL, architecture)
        },
        step(RETURN, REFUSE),
        step(LOAD, NUMBER),
    ];
    for call in CALLS.iter().chain(OLDER) {
        program.extend([unless(*call as u32, 1), allow()]);
    }
    if looks_up_maps {
        program.extend(with_first(libc::SYS_bpf, &MAP_COMMANDS));
    }
    program.extend(with_first(libc::SYS_socket, &FAMILIES));
    program.push(step(RETURN, REFUSE));
    program
}

/// Allows a call whose first argument is one of these, and refuses it with another one. Of another call, goes on behind.
fn with_first(call: libc::c_long, allowed: &[u32]) -> Vec<libc::sock_filter> {
    let mut program = vec![
        unless(call as u32, 2 + 2 * allowed.len() as u8),
        step(LOAD, FIRST),
    ];
    for first in allowed {
        program.extend([unless(*first, 1), step(RETURN, libc::SECCOMP_RET_ALLOW)]);
    }
    program.push(step(RETURN, REFUSE));
    program
}

/// Leaves the calls above to all threads, that for values of maps where it is asked for. False: the kernel has no filters, or may not be asked for one, and all calls are left.
pub(super) fn filter(looks_up_maps: bool) -> Result<bool, SysError> {
    let Some(architecture) = ARCHITECTURE else {
        return Ok(false);
    };
    let mut program = program(architecture, looks_up_maps);
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the kernel reads the program, which lives through the call, by its length.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const filter,
        )
    };
    if failed == 0 {
        return Ok(true);
    }
    let why = Error::last_os_error();
    match why.raw_os_error() {
        Some(libc::ENOSYS | libc::EINVAL | libc::EPERM) => Ok(false),
        _ => Err(SysError::new("seccomp", "filter for all threads", why)),
    }
}
