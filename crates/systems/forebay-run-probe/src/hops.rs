//! Places at which tests make packets or records vanish.

/// Of a flow probe: a packet before the table, a record between the table and its exporters.
pub const PROBE: &[&str] = &["packets", "records"];
