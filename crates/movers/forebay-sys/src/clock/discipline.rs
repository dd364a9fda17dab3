//! What keeps the wall clock, and how well (`adjtimex(2)`, `kernel/time/ntp.c`).

use crate::SysError;

/// The state of the host's wall clock as the program that disciplines it (`chronyd`, `ntpd`, `phc2sys`) told the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discipline {
    /// Somebody keeps the clock and says that it is right.
    pub synchronised: bool,
    /// The largest error there can be, ns; the kernel lets it grow by 500 ppm until it is told anew, to 16 s.
    pub error_max_ns: u64,
}

/// Reads the state of the wall clock; changes nothing and needs no privilege.
///
/// # Errors
/// When the kernel refuses the call, as some sandboxes do.
pub fn discipline() -> Result<Discipline, SysError> {
    // SAFETY: an all-zero timex is valid: integers only; `modes` = 0 reads.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes into `state`, which lives through the call.
    let answer = unsafe { libc::adjtimex(&raw mut state) };
    if answer < 0 {
        let why = std::io::Error::last_os_error();
        return Err(SysError::new("adjtimex", "wall clock", why));
    }
    let error_max_us = u64::try_from(state.maxerror).unwrap_or(0);
    Ok(Discipline {
        synchronised: answer != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0,
        error_max_ns: error_max_us.saturating_mul(1000),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_read_and_is_plausible() {
        let state = discipline().unwrap();
        // The kernel's own limit.
        assert!(state.error_max_ns <= 16_000_000_000, "{state:?}");
    }
}
