//! A moment as people read it.

use std::fmt;

const SECONDS_OF_DAY: u64 = 86_400;
/// Days of 400 years: then the calendar begins anew.
const DAYS_OF_CYCLE: u64 = 146_097;
/// From the first of March of the year 0 to the Unix epoch.
const DAYS_BEFORE_EPOCH: u64 = 719_468;

/// Nanoseconds since the Unix epoch, shown as `2026-11-22 10:24:45.123 UTC`.
pub(crate) struct Moment(pub(crate) u64);

/// Year, month and day. Years are counted from March on, so that the odd day is the last one.
fn date(days_since_epoch: u64) -> (u64, u64, u64) {
    let days = days_since_epoch + DAYS_BEFORE_EPOCH;
    let (cycle, day) = (days / DAYS_OF_CYCLE, days % DAYS_OF_CYCLE);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Months of March to February have 153 days in five.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = year + cycle * 400;
    match month {
        0..=9 => (year, month + 3, day),
        _ => (year + 1, month - 9, day),
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, ms) = (self.0 / 1_000_000_000, self.0 / 1_000_000 % 1_000);
        let (year, month, day) = date(seconds / SECONDS_OF_DAY);
        let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{ms:03} UTC"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (seconds, shown) in [
            (0, "1970-01-01 00:00:00.007 UTC"),
            (951_782_399, "2000-02-28 23:59:59.007 UTC"),
            (951_782_400, "2000-02-29 00:00:00.007 UTC"),
            (951_868_800, "2000-03-01 00:00:00.007 UTC"),
            (1_795_343_085, "2026-11-22 10:24:45.007 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00.007 UTC"),
        ] {
            let moment = Moment(seconds * 1_000_000_000 + 7_999_999);
            assert_eq!(moment.to_string(), shown, "{seconds}");
        }
    }
}
