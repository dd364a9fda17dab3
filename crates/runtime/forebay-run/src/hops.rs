//! `FOREBAY_LEAK=HOP:N` makes N items vanish uncounted at a hop, for tests of the books: the account or link of that name must show it. A name that a
//! program does not have is refused with those that it has. Each system lists the hops of its programs in its own `hops` module.

pub use forebay_ledger::{Leak, LeakError};

use crate::error::RunError;

/// The variable of the environment that has the fault switch.
pub const VARIABLE: &str = "FOREBAY_LEAK";

/// The text of the fault switch, where it is set.
#[must_use]
pub fn text_from_env() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|text| !text.is_empty())
}

/// The fault switch of this process, at one of `hops`.
///
/// # Errors
/// It is not `hop:N`, or names no hop of these.
pub fn leak_from_env(hops: &[&str]) -> Result<Leak, RunError> {
    match text_from_env() {
        Some(text) => Ok(Leak::parse(&text, hops)?),
        None => Ok(Leak::off()),
    }
}

/// Which of the processes of a chain has the hop of `text`: the first one.
///
/// # Errors
/// It is not `hop:N`, or none has such a hop; the error lists those of all of them.
pub fn part_of(text: &str, parts: &[(&'static str, &[&str])]) -> Result<&'static str, LeakError> {
    let all: Vec<&str> = parts
        .iter()
        .flat_map(|(_, hops)| hops.iter().copied())
        .collect();
    Leak::parse(text, &all)?;
    let has = |(_, hops): &&(&str, &[&str])| Leak::parse(text, hops).is_ok();
    Ok(parts.iter().find(has).map_or("", |(name, _)| name))
}
