//! Numbers in last words.

/// A part of a number of things, with its share in percent, such as `3 of 300 packets (1.00 %)`; of nothing it is 0 %.
#[must_use]
pub fn part_of(part: u64, of: u64, what: &str) -> String {
    let share = part as f64 * 100.0 / of.max(1) as f64;
    format!("{part} of {of} {what} ({share:.2} %)")
}
