//! What a sender is called, and the number of its start.

use forebay_wire::tdm::NAME_BYTES_MAX;

use super::super::TdmError;

pub(super) fn check(name: &str) -> Result<(), TdmError> {
    let why = match name {
        "" => "is empty",
        _ if name.len() > NAME_BYTES_MAX => "is longer than 64 bytes",
        _ if name.chars().any(char::is_control) => "has control characters",
        _ => return Ok(()),
    };
    let name = name.to_owned();
    Err(TdmError::Name { name, why })
}

/// A name that no other sender of this host has: the host's and the process.
#[must_use]
pub fn default_name() -> String {
    let host = forebay_sys::host::Host::read().name;
    let mut name = format!("{host}-{}", std::process::id());
    name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
    name
}

/// Another number for each start: time and process.
pub(super) fn nonce() -> u64 {
    let mixed = forebay_sys::clock::realtime_ns() ^ (u64::from(std::process::id()) << 48);
    mixed | 1
}
