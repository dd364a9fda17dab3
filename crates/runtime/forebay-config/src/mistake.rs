//! A mistake in a configuration file: where, what, what would be right, and what to do.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

/// Most mistakes that are told at once.
const MISTAKES_SHOWN: usize = 20;
/// Longest value that is repeated in full, in characters.
const VALUE_CHARS: usize = 60;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// Line, from 1; 0 when the command line says it.
    pub line: usize,
    /// Column in characters, from 1; 0 when the command line says it.
    pub column: usize,
    /// The key with its section, as `receiver.queue_bytes` or `sinks[1].kind`; empty for the file as a whole.
    pub key: String,
    /// The value as it is written; empty when there is none.
    pub value: String,
    /// What is wrong.
    pub wrong: String,
    /// What would be right.
    pub right: String,
    /// What to do.
    pub remedy: String,
    /// The line as it is written.
    #[serde(skip)]
    text: String,
    /// How many characters of it are meant.
    #[serde(skip)]
    width: usize,
}

/// All mistakes of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mistakes {
    /// The file.
    pub file: String,
    /// In the order of the file; never empty.
    pub mistakes: Vec<Mistake>,
}

/// What is said of a place.
#[derive(Debug, Clone, Default)]
pub struct Words {
    /// The key with its section.
    pub key: String,
    /// The value as it is written.
    pub value: String,
    /// What is wrong.
    pub wrong: String,
    /// What would be right.
    pub right: String,
    /// What to do.
    pub remedy: String,
}

impl Mistake {
    /// A mistake at `span` of `text`.
    pub(crate) fn at(text: &str, span: Range<usize>, words: Words) -> Self {
        let start = floor_boundary(text, span.start);
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line_text = text[line_start..].lines().next().unwrap_or_default();
        let column = text[line_start..start].chars().count() + 1;
        let end = floor_boundary(text, span.end.max(start));
        let meant = text[start..end]
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .count();
        Self {
            line: before.matches('\n').count() + 1,
            column,
            key: words.key,
            value: shortened(&words.value),
            wrong: words.wrong,
            right: words.right,
            remedy: words.remedy,
            text: shortened_line(line_text),
            width: meant.max(1),
        }
    }

    /// A mistake in what the command line says.
    pub(crate) fn of_command_line(words: Words) -> Self {
        Self {
            line: 0,
            column: 0,
            ..Self::at("", 0..0, words)
        }
    }
}

/// The nearest boundary of characters at or before `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn shortened(value: &str) -> String {
    let line = value.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(VALUE_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

fn shortened_line(line: &str) -> String {
    line.chars()
        .take(2 * VALUE_CHARS)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            column,
            key,
            value,
            wrong,
            right,
            remedy,
            text,
            width,
        } = self;
        match line {
            0 => write!(f, " ")?,
            _ => write!(f, "{line}:{column}: ")?,
        }
        if !key.is_empty() {
            write!(f, "{key}")?;
            if !value.is_empty() {
                write!(f, " = {value}")?;
            }
            write!(f, ": ")?;
        }
        writeln!(f, "{wrong}")?;
        if *line > 0 && !text.trim().is_empty() && *column <= text.chars().count() + 1 {
            let number = line.to_string();
            let blank = " ".repeat(number.len());
            let width = (*width)
                .min((text.chars().count() + 1).saturating_sub(*column))
                .max(1);
            writeln!(f, "  {number} | {text}")?;
            writeln!(
                f,
                "  {blank} | {}{}",
                " ".repeat(column - 1),
                "^".repeat(width)
            )?;
        }
        writeln!(f, "  right:  {right}")?;
        write!(f, "  remedy: {remedy}")
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.mistakes.iter().take(MISTAKES_SHOWN).enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            let place = match mistake.line {
                0 => "--set",
                _ => &self.file,
            };
            write!(f, "{place}:{mistake}")?;
        }
        match self.mistakes.len() {
            0..=1 => Ok(()),
            all @ ..=MISTAKES_SHOWN => write!(f, "\n{all} mistakes"),
            all => write!(f, "\n{all} mistakes, of which {MISTAKES_SHOWN} are shown"),
        }
    }
}

impl std::error::Error for Mistakes {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_given_in_lines_and_characters() {
        let text = "a = 1\nµ = \"ä\" # b\n";
        let at = text.find('"').unwrap();
        let mistake = Mistake::at(text, at..at + 4, Words::default());
        assert_eq!((mistake.line, mistake.column, mistake.width), (2, 5, 3));
        let end = Mistake::at(text, text.len()..text.len() + 9, Words::default());
        assert_eq!((end.line, end.column), (3, 1));
        assert!(end.to_string().starts_with("3:1: "));
    }

    #[test]
    fn any_span_of_any_text_is_a_place() {
        let text = "ä\n\r\n€";
        for start in 0..12 {
            for end in 0..12 {
                let shown = Mistake::at(text, start..end, Words::default()).to_string();
                assert!(shown.contains("remedy"));
            }
        }
    }
}
