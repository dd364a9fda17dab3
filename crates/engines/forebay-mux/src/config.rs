//! A setting outside its range.

use thiserror::Error;

/// A setting outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{name} is {value}; it must be from {low} to {high}")]
pub struct ConfigError {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub value: u64,
    /// Least allowed.
    pub low: u64,
    /// Most allowed.
    pub high: u64,
}

pub(crate) fn in_range(
    name: &'static str,
    value: u64,
    low: u64,
    high: u64,
) -> Result<(), ConfigError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(ConfigError {
        name,
        value,
        low,
        high,
    })
}
