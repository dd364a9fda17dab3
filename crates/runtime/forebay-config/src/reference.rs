//! The reference of all keys, made from their declarations: `forebay check --reference` and `docs/CONFIGURATION.md`.

use std::fmt::Write;

use forebay_settings::Section;

use super::document::Sections;

/// A kind of files.
#[derive(Debug, Clone, Copy)]
pub struct File {
    /// What it describes.
    pub name: &'static str,
    /// The command that takes it.
    pub command: &'static str,
    /// Its sections, in the order of the document.
    pub sections: Sections,
}

/// Tables of all sections of these kinds of files in Markdown.
#[must_use]
pub fn markdown(files: &[File]) -> String {
    let files = files.iter().map(|file| {
        let tables: Vec<String> = file.sections.iter().map(|section| table(section)).collect();
        let (name, command) = (file.name, file.command);
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
        let (takes, absent) = (key.right(), key.absent);
        // Writing to a text cannot fail.
        let _ = writeln!(
            text,
            "| `{}` | {takes} | {absent} | {} |",
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
