//! Keeps the program's own handling of stop.
//!
//! libfabric's libraries put handlers of theirs in the place of the program's while they are loaded (`psm`, `psm2`: a handler that prints and exits).
//! What a signal does is the program's business.

use std::mem::MaybeUninit;
use std::ptr;

/// The stop that those libraries take.
const TAKEN: [libc::c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGABRT,
    libc::SIGFPE,
    libc::SIGINT,
    libc::SIGTERM,
];

/// Runs something after which all stop are handled as before. Handlers that another thread installs meanwhile are lost.
pub(super) fn kept<T>(run: impl FnOnce() -> T) -> T {
    let before = TAKEN.map(handling);
    let result = run();
    for (signal, before) in TAKEN.into_iter().zip(before) {
        if let Some(before) = before {
            // SAFETY: the kernel gave this structure for the same signal; nothing is written back.
            unsafe { libc::sigaction(signal, &raw const before, ptr::null_mut()) };
        }
    }
    result
}

fn handling(signal: libc::c_int) -> Option<libc::sigaction> {
    let mut found = MaybeUninit::uninit();
    // SAFETY: nothing is changed; the structure is filled when the call succeeds, and only then read.
    unsafe {
        let code = libc::sigaction(signal, ptr::null(), found.as_mut_ptr());
        (code == 0).then(|| found.assume_init())
    }
}
