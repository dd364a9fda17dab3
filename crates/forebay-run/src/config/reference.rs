//! The reference of all keys, made from their declarations: `forebay check --reference` and `docs/CONFIGURATION.md`.

use std::fmt::Write;

use super::keys::{Default, Key, Section};
use super::sections::SECTIONS;
use crate::readout::config::sections::{
    BATCH_SECTIONS, CARD_SECTIONS, TOFLX_SECTIONS, TOHOST_SECTIONS,
};

/// Kinds of files, and what takes them.
const FILES: [(&str, &str, &[Section]); 5] = [
    ("A chain", "forebay evb FILE.toml", &SECTIONS),
    ("A card", "forebay emulate card FILE.toml", &CARD_SECTIONS),
    ("To-host", "forebay tohost FILE.toml", &TOHOST_SECTIONS),
    (
        "A batch of cards",
        "forebay card validate FILE.toml",
        &BATCH_SECTIONS,
    ),
    ("To-flx", "forebay toflx FILE.toml", &TOFLX_SECTIONS),
];

/// Tables of all sections of all kinds of files in Markdown.
#[must_use]
pub fn markdown() -> String {
    let files = FILES.iter().map(|(name, command, sections)| {
        let tables: Vec<String> = sections.iter().map(table).collect();
        format!("## {name}: `{command}`\n\n{}", tables.join("\n"))
    });
    files.collect::<Vec<_>>().join("\n")
}

fn table(section: &Section) -> String {
    let times = if section.many {
        "; may stand several times"
    } else {
        ""
    };
    let mut text = format!(
        "### `{}`\n\n{}{times}\n\n",
        section.header(),
        says(section, times)
    );
    text += "| key | takes | default | what it does |\n|---|---|---|---|\n";
    for key in section.keys {
        let (takes, default) = (key.right(), default(key));
        // Writing to a text cannot fail.
        let _ = writeln!(
            text,
            "| `{}` | {takes} | {default} | {} |",
            key.name, key.says
        );
    }
    text
}

/// The sentence, its full stop taken off when it goes on.
fn says(section: &Section, times: &str) -> &'static str {
    if times.is_empty() {
        section.says
    } else {
        section.says.trim_end_matches('.')
    }
}

fn default(key: &Key) -> String {
    match key.default {
        Default::Value(value) => format!("`{value}`"),
        Default::Depends(words) => words.to_owned(),
        Default::Required => "required".to_owned(),
    }
}
