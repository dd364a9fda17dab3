//! Who keeps the wall clock, and how well (`adjtimex(2)`, `kernel/time/ntp.c`).

use crate::SysError;

/// The state of the host's wall clock as whoever disciplines it (`chronyd`, `ntpd`, `phc2sys`) told the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discipline {
    /// Somebody keeps the clock and says that it is right.
    pub synchronised: bool,
    /// The largest error there can be, ns; the kernel lets it grow by 500 ppm until it is told anew, to 16 s.
    pub error_max_ns: u64,
    /// The error that is expected, ns.
    pub error_estimate_ns: u64,
    /// How much faster the clock is made to run, in parts per 10⁹.
    pub frequency_ppb: i64,
    /// TAI minus UTC, s; 0 where nobody has set it (37 since 2017).
    pub tai_minus_utc_s: i32,
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
    let microseconds = |value: i64| u64::try_from(value).unwrap_or(0).saturating_mul(1000);
    Ok(Discipline {
        synchronised: answer != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0,
        error_max_ns: microseconds(state.maxerror),
        error_estimate_ns: microseconds(state.esterror),
        frequency_ppb: ppb(state.freq),
        tai_minus_utc_s: state.tai,
    })
}

/// The kernel's frequency is in parts per 10⁶ with 16 bits of fraction.
fn ppb(freq: i64) -> i64 {
    freq.saturating_mul(1000) / 65_536
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_are_parts_per_billion() {
        assert_eq!(ppb(65_536), 1000);
        assert_eq!(ppb(-32_768), -500);
    }

    #[test]
    fn the_state_is_read_and_is_plausible() {
        let state = discipline().unwrap();
        // The kernel's own limits: 500 ppm and 16 s.
        assert!(state.frequency_ppb.abs() <= 500_000, "{state:?}");
        assert!(state.error_max_ns <= 16_000_000_000, "{state:?}");
        assert!(
            (0..1000).contains(&state.tai_minus_utc_s),
            "a leap second is rare: {state:?}"
        );
    }
}
