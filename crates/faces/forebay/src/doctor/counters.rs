//! What the host lost below its sockets, each counter with what it means.

use std::process::ExitCode;

use anyhow::{Result, bail};
use forebay_host::{Meaning, Reading, meaning_of, meanings};
use serde::Serialize;

use crate::output::{Format, print_line};

/// A counter of a loss or an error.
#[derive(Debug, Serialize)]
pub(super) struct Counter {
    name: String,
    /// What it counted since the host or the interface was started; none where this host has no such counter.
    items: Option<u64>,
    #[serde(flatten)]
    meaning: &'static Meaning,
}

/// Those that have counted something.
pub(super) fn of_host() -> Vec<Counter> {
    let counted = all().into_iter().filter(|(_, items)| *items > 0);
    let told = counted.filter_map(|(name, items)| {
        Some(Counter {
            meaning: meaning_of(&name)?,
            name,
            items: Some(items),
        })
    });
    told.collect()
}

/// Every counter of this host with its name.
fn all() -> Vec<(String, u64)> {
    let scopes = Reading::take().scopes.into_iter();
    scopes
        .flat_map(|(scope, of)| {
            let counters = of.counters.into_iter();
            counters.map(move |(name, items)| (format!("{scope}.{name}"), items))
        })
        .collect()
}

pub(super) fn print(counters: &[Counter]) {
    if counters.is_empty() {
        print_line("Nothing was lost below the sockets since this host was started.");
        return;
    }
    print_line(
        "Lost below the sockets since this host or the interface was started, by all programs:",
    );
    counters
        .iter()
        .for_each(|counter| print_line(text(counter)));
}

fn text(counter: &Counter) -> String {
    let Counter {
        name,
        items,
        meaning,
    } = counter;
    let items = items.map_or_else(|| "not on this host".to_owned(), |items| items.to_string());
    format!(
        "{name}: {items}\n         {}\n         mend: {}",
        meaning.means, meaning.remedy
    )
}

/// What counters of these names mean.
pub(super) fn explain(names: &[String], format: Format) -> Result<ExitCode> {
    let all = all();
    let mut told = Vec::new();
    for name in names {
        let Some(meaning) = meaning_of(name) else {
            let known: Vec<_> = meanings().map(|meaning| meaning.pattern).collect();
            bail!(
                "--counter {name}: no counter of a loss has that name; those that are explained: {}",
                known.join(", ")
            );
        };
        let items = all
            .iter()
            .find(|(of, _)| of == name)
            .map(|(_, items)| *items);
        told.push(Counter {
            name: name.clone(),
            items,
            meaning,
        });
    }
    match format {
        Format::Json => print_line(serde_json::json!({ "counters": told })),
        Format::Text => told.iter().for_each(|counter| print_line(text(counter))),
    }
    Ok(ExitCode::SUCCESS)
}
