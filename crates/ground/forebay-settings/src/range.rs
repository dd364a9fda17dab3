//! A setting outside its range.

use core::fmt;

/// A setting outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub value: u64,
    /// Least allowed.
    pub low: u64,
    /// Most allowed.
    pub high: u64,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            value,
            low,
            high,
        } = self;
        write!(f, "{name} is {value}; it must be from {low} to {high}")
    }
}

impl core::error::Error for OutOfRange {}

/// Checks that a setting is from `low` to `high`, both included.
///
/// # Errors
/// It is not.
pub const fn in_range(
    name: &'static str,
    value: u64,
    low: u64,
    high: u64,
) -> Result<(), OutOfRange> {
    if value < low || value > high {
        return Err(OutOfRange {
            name,
            value,
            low,
            high,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_in_and_what_is_out_is_told() {
        assert_eq!(in_range("width", 2, 2, 4), Ok(()));
        assert_eq!(in_range("width", 4, 2, 4), Ok(()));
        for value in [1, 5] {
            let error = in_range("width", value, 2, 4).unwrap_err();
            let expected = format!("width is {value}; it must be from 2 to 4");
            assert_eq!(error.to_string(), expected);
        }
    }
}
