//! Run numbers and the names of HLD files.
//!
//! A file is called `<prefix><yy><ddd><hhmmss><eb>.hld`: a prefix of two letters by custom, year, day of the year and
//! local time of the run's start, and two digits of the event builder's number, which some installations leave out.

use alloc::format;
use alloc::string::String;

use crate::hld::RUN_EPOCH_UNIX_S;

/// The run number of a start at a unix time, or `None` outside of what 32 bits can say (2008 to 2144).
pub const fn run_from_unix_s(unix_s: i64) -> Option<u32> {
    let run = unix_s.saturating_sub(RUN_EPOCH_UNIX_S);
    if run < 0 || run > u32::MAX as i64 {
        return None;
    }
    Some(run as u32)
}

/// The unix time at which a run of that number started.
pub const fn unix_s_from_run(run: u32) -> i64 {
    run as i64 + RUN_EPOCH_UNIX_S
}

/// A broken-down local time: what a file's name holds. The caller knows the time zone, nothing here does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// Year; the name holds its last two digits.
    pub year: u16,
    /// 1 to 366.
    pub day_of_year: u16,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 60.
    pub second: u8,
}

/// The name of a file, with the event builder's number (two digits at least) or without.
pub fn file_name(prefix: &str, start: LocalTime, event_builder: Option<u16>) -> String {
    let LocalTime {
        year,
        day_of_year,
        hour,
        minute,
        second,
    } = start;
    let yy = year % 100;
    let stem = format!("{prefix}{yy:02}{day_of_year:03}{hour:02}{minute:02}{second:02}");
    match event_builder {
        Some(number) => format!("{stem}{number:02}.hld"),
        None => format!("{stem}.hld"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PANDA: LocalTime = LocalTime {
        year: 2015,
        day_of_year: 29,
        hour: 13,
        minute: 8,
        second: 42,
    };

    #[test]
    fn golden_run_number_of_a_real_installation() {
        // Run 222533322 began 2015-01-29T13:08:42 CET, one hour ahead of UTC.
        assert_eq!(unix_s_from_run(222_533_322), 1_422_533_322);
        assert_eq!(run_from_unix_s(1_422_533_322), Some(222_533_322));
    }

    #[test]
    fn golden_names() {
        assert_eq!(file_name("xx", PANDA, None), "xx15029130842.hld");
        assert_eq!(file_name("be", PANDA, Some(1)), "be1502913084201.hld");
        assert_eq!(file_name("be", PANDA, Some(16)), "be1502913084216.hld");
    }

    #[test]
    fn run_numbers_have_ends() {
        assert_eq!(run_from_unix_s(RUN_EPOCH_UNIX_S), Some(0));
        assert_eq!(run_from_unix_s(RUN_EPOCH_UNIX_S - 1), None);
        assert_eq!(run_from_unix_s(unix_s_from_run(u32::MAX)), Some(u32::MAX));
        assert_eq!(run_from_unix_s(unix_s_from_run(u32::MAX) + 1), None);
        assert_eq!(run_from_unix_s(i64::MIN), None);
    }
}
