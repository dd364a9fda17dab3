//! What tests ask of a balance.

use forebay_ledger::Balance;

/// The lines that are off, each with its place and what it misses, in items and bytes.
#[must_use]
pub fn off(balance: &Balance) -> Vec<(String, i128, i128)> {
    let accounts = balance.accounts.iter();
    let accounts = accounts.map(|line| (&line.place, line.residual));
    let links = balance.links.iter();
    let links = links.filter_map(|line| Some((&line.place, line.residual?)));
    let off = accounts.chain(links).filter(|(_, it)| !it.is_zero());
    off.map(|(place, it)| (place.clone(), it.items, it.bytes))
        .collect()
}
