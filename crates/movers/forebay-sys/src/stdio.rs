//! Standard output as this process was given it.

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Runs before `main`: the runtime puts `/dev/null` in the place of a closed descriptor, and nobody could tell any more.
extern "C" fn look() {
    // SAFETY: F_GETFD reads a flag of the descriptor, and fails harmlessly where there is none.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags == -1, Ordering::Relaxed);
}

// SAFETY: entries of `.init_array` are called once by the loader with the C calling convention; `look` needs nothing of the
// runtime, which is not set up yet.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Whether standard output was closed (`>&-`) when this process began: what is written there reaches nobody.
#[must_use]
pub fn stdout_was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_test_is_open() {
        assert!(!stdout_was_closed());
    }
}
