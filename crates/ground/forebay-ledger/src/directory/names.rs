//! What names of a ledger may be.

use super::{MAX_HELP_BYTES, MAX_NAME_BYTES};
use crate::error::SchemaError;
use crate::prometheus::RESERVED;

fn plain(text: &str, max_bytes: usize) -> bool {
    text.len() <= max_bytes
        && !text
            .chars()
            .any(|c| c.is_control() || c == '"' || c == '\\')
}

fn name_error(what: &'static str, name: &str, max_bytes: usize) -> SchemaError {
    let name = name.chars().take(MAX_NAME_BYTES).collect();
    SchemaError::Name {
        what,
        name,
        max_bytes,
    }
}

pub(super) fn check_name(what: &'static str, name: &str) -> Result<(), SchemaError> {
    if !name.is_empty() && plain(name, MAX_NAME_BYTES) {
        return Ok(());
    }
    Err(name_error(what, name, MAX_NAME_BYTES))
}

pub(super) fn check_label(name: &str) -> Result<(), SchemaError> {
    if plain(name, MAX_NAME_BYTES) {
        Ok(())
    } else {
        Err(name_error("owner", name, MAX_NAME_BYTES))
    }
}

pub(super) fn check_help(text: &str) -> Result<(), SchemaError> {
    if plain(text, MAX_HELP_BYTES) {
        Ok(())
    } else {
        Err(name_error("help", text, MAX_HELP_BYTES))
    }
}

/// Metric names go into Prometheus names: `[a-z][a-z0-9_]*`.
pub(super) fn check_metric_name(name: &str) -> Result<(), SchemaError> {
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    let rest = name
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if first && rest && name.len() <= MAX_NAME_BYTES {
        return Ok(());
    }
    Err(name_error("metric", name, MAX_NAME_BYTES))
}

/// Endings that Prometheus' text format gives a meaning, and the unit that times are exported in.
const RESERVED_ENDINGS: [&str; 7] = [
    "_total", "_count", "_sum", "_bucket", "_created", "_info", "_seconds",
];

/// Refuses names that would be a family of the ledger's own, or become one by their ending.
pub(super) fn check_exported_name(name: &str) -> Result<(), SchemaError> {
    if RESERVED.contains(&name) || RESERVED_ENDINGS.iter().any(|end| name.ends_with(end)) {
        return Err(SchemaError::Reserved {
            name: name.to_owned(),
        });
    }
    Ok(())
}
