//! What a plan is read from: the text of a file, and keys that the command line says.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::document::Document;
use super::file::{ConfigError, text_of};
use super::mistake::Words;

const NO_KEY: &str = "it is no SECTION.KEY=VALUE";
const NO_BLOCK: &str = "the file has no such block";
const ONCE: &str = "this section stands once, without a number";

/// A file's text and the keys that go before it.
#[derive(Debug, Clone)]
pub struct Source {
    name: String,
    /// The file, and behind it a line for each key of the command line.
    text: String,
    file_bytes: usize,
    said: Vec<Said>,
    /// The member of a chain that is meant.
    member: Option<String>,
}

/// A key that the command line says, as a line of TOML.
#[derive(Debug, Clone)]
struct Said {
    /// Which block of several is meant; all of them without it.
    block: Option<usize>,
    /// Blanks up to the line's place in the text, so that its spans are places there, then the line.
    padded: String,
}

impl Source {
    /// A text alone.
    #[must_use]
    pub fn of_text(name: &str, text: &str) -> Self {
        Self {
            name: name.to_owned(),
            text: text.to_owned(),
            file_bytes: text.len(),
            said: Vec::new(),
            member: None,
        }
    }

    /// A file, and `SECTION.KEY=VALUE` of the command line: these hold where both say a key, and later ones before earlier ones. Of a section that stands several
    /// times `SECTION[N].KEY` is the N-th block, from 0, and `SECTION.KEY` every one. A value that is no TOML is a text.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Path, said: &[String]) -> Result<Self, ConfigError> {
        Ok(Self::of_text(&path.display().to_string(), &text_of(path)?).with(said))
    }

    /// The same with keys of the command line.
    #[must_use]
    pub fn with(mut self, said: &[String]) -> Self {
        for one in said {
            let (block, line) = line_of(one);
            self.text.push('\n');
            let padded = format!("{}{line}", " ".repeat(self.text.len()));
            self.text += &line;
            self.said.push(Said { block, padded });
        }
        self
    }

    /// Only what stands below `[members.NAME]` of a chain, if a member is named.
    #[must_use]
    pub fn only(mut self, member: Option<&str>) -> Self {
        self.member = member.map(str::to_owned);
        self
    }

    /// The member that is meant.
    pub(crate) fn member(&self) -> Option<&str> {
        self.member.as_deref()
    }

    /// What the file is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The file, and what the command line says.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The file alone.
    pub(crate) fn file_text(&self) -> &str {
        &self.text[..self.file_bytes]
    }

    /// Puts what the command line says into what the file does.
    pub(crate) fn lay_over<'a>(&'a self, document: &Document<'a>, root: &mut DeTable<'a>) {
        for said in &self.said {
            if let Err(wrong) = said.lay_over(document, root) {
                let line = said.padded.trim_start();
                let end = said.padded.len();
                document.note(end - line.len()..end, malformed(line, wrong));
            }
        }
    }
}

impl Said {
    /// Puts the key into the blocks of its section; what is wrong otherwise.
    fn lay_over<'a>(
        &'a self,
        document: &Document<'a>,
        root: &mut DeTable<'a>,
    ) -> Result<(), &'static str> {
        let parsed = DeTable::parse(&self.padded).map_err(|_| NO_KEY)?;
        let (section, value) = parsed.into_inner().into_iter().next().ok_or(NO_KEY)?;
        let DeValue::Table(keys) = value.get_ref() else {
            return Err(NO_KEY);
        };
        let name: &str = section.get_ref();
        let is_many = document
            .sections
            .iter()
            .any(|one| one.name == name && one.many);
        let Some(there) = root.get_mut(name) else {
            if is_many {
                return Err(NO_BLOCK);
            }
            if self.block.is_some() {
                return Err(ONCE);
            }
            root.insert(section, value);
            return Ok(());
        };
        match (there.get_mut(), self.block) {
            (DeValue::Table(table), None) => insert(table, keys),
            (DeValue::Array(blocks), wanted) => {
                let blocks = blocks.iter_mut().enumerate();
                let mut blocks = blocks.filter(|(at, _)| wanted.is_none_or(|wanted| wanted == *at));
                let first = blocks.next().ok_or(NO_BLOCK)?;
                for (_, block) in std::iter::once(first).chain(blocks) {
                    if let DeValue::Table(table) = block.get_mut() {
                        insert(table, keys);
                    }
                }
            }
            (_, Some(_)) => return Err(ONCE),
            // The file is wrong there, which is told.
            (_, None) => {}
        }
        Ok(())
    }
}

/// The keys go before those that are there.
fn insert<'a>(table: &mut DeTable<'a>, keys: &DeTable<'a>) {
    for (key, value) in keys {
        table.insert(key.clone(), value.clone());
    }
}

fn malformed(line: &str, wrong: &str) -> Words {
    Words {
        key: line.to_owned(),
        value: String::new(),
        wrong: wrong.into(),
        right: "SECTION.KEY=VALUE, or SECTION[N].KEY=VALUE of a section in double brackets".into(),
        remedy: "`forebay check --reference` lists all keys".into(),
    }
}

/// The block that `SECTION[N].KEY=VALUE` means, and the line of TOML that it is.
fn line_of(said: &str) -> (Option<usize>, String) {
    let (place, value) = said.split_once('=').unwrap_or((said, ""));
    let (place, value) = (place.trim(), value.trim());
    let numbered = place.split_once('[').and_then(|(section, rest)| {
        let (number, key) = rest.split_once(']')?;
        Some((number.parse().ok()?, format!("{section}{key}")))
    });
    let (block, place) = match numbered {
        Some((block, place)) => (Some(block), place),
        None => (None, place.to_owned()),
    };
    // A line that ends within the value would be more than one key.
    let value = value.replace(['\n', '\r'], " ");
    let line = format!("{place} = {value}");
    if DeTable::parse(&line).is_ok() {
        return (block, line);
    }
    let text = toml::Value::String(value);
    (block, format!("{place} = {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_no_toml_is_a_text() {
        for (said, block, line) in [
            ("run.duration_s=5", None, "run.duration_s = 5"),
            ("a.b=true", None, "a.b = true"),
            ("a.b=[0, 1]", None, "a.b = [0, 1]"),
            ("a.b=\"5\"", None, "a.b = \"5\""),
            ("a.b=shm://felix", None, "a.b = \"shm://felix\""),
            ("a.b=", None, "a.b = \"\""),
            ("a.b=x=y", None, "a.b = \"x=y\""),
            ("a.b=1\nc.d=2", None, "a.b = \"1 c.d=2\""),
            ("devices[2].socket=a b", Some(2), "devices.socket = \"a b\""),
            ("devices[x].socket=1", None, "devices[x].socket = \"1\""),
        ] {
            assert_eq!(line_of(said), (block, line.to_owned()), "{said}");
        }
    }

    use super::super::document::Sections;
    use forebay_settings::{Settings, settings};
    use proptest::prelude::*;

    settings! {
        /// What stands once.
        struct Run in [run] {
            /// A number.
            n: Option<u64> [0..=9] => "",
            /// A name.
            name: Option<String> => "",
        }
    }

    settings! {
        /// What stands several times.
        struct Card in [[cards]] {
            /// A number.
            n: Option<u64> [0..=9] => "",
            /// A name.
            name: Option<String> => "",
        }
    }

    const SECTIONS: Sections = &[Run::SECTION, Card::SECTION];

    /// Numbers of `[run]` and of each of `[[cards]]`, or the mistakes.
    fn read(text: &str, said: &[&str]) -> Result<Vec<Option<u64>>, String> {
        let said: Vec<String> = said.iter().map(|one| (*one).to_owned()).collect();
        let source = Source::of_text("a.toml", text).with(&said);
        let read = Document::read(&source, SECTIONS, |document| {
            let (run, _) = document.one::<Run>();
            let cards = document.many::<Card>().into_iter();
            Some(
                [run.n]
                    .into_iter()
                    .chain(cards.map(|(card, _)| card.n))
                    .collect(),
            )
        });
        read.map_err(|mistakes| mistakes.to_string())
    }

    const FILE: &str = "[run]\nn = 1\n[[cards]]\nn = 2\n[[cards]]\n";

    #[test]
    fn the_command_line_goes_before_the_file() {
        assert_eq!(read(FILE, &[]), Ok(vec![Some(1), Some(2), None]));
        assert_eq!(read(FILE, &["run.n=3"]), Ok(vec![Some(3), Some(2), None]));
        assert_eq!(read("", &["run.n=3"]), Ok(vec![Some(3)]));
        let every = Ok(vec![Some(1), Some(4), Some(4)]);
        assert_eq!(read(FILE, &["cards.n=4"]), every);
        let second = Ok(vec![Some(1), Some(2), Some(4)]);
        assert_eq!(read(FILE, &["cards[1].n=4"]), second);
        let later = Ok(vec![Some(5), Some(2), None]);
        assert_eq!(read(FILE, &["run.n=4", "run.n=5"]), later);
        // A wrong value of the file is nobody's mistake when another one is said.
        assert_eq!(read("[run]\nn = 99\n", &["run.n=3"]), Ok(vec![Some(3)]));
    }

    #[test]
    fn mistakes_of_the_command_line_are_told_as_those_of_the_file() {
        for (said, told) in [
            (
                "run.n=12",
                "--set: run.n = 12: it is too large\n  right:  an integer from 0 to 9\n  remedy: write 9 or less",
            ),
            (
                "run.m=1",
                "--set: run.m = 1: there is no such key\n  right:  n, name",
            ),
            ("runn.n=1", "--set: runn: there is no such section"),
            ("run.n=x", "--set: run.n = \"x\": it is a text"),
            (
                "cards[2].n=1",
                "--set: cards.n = 1: the file has no such block",
            ),
            ("run[0].n=1", "--set: run.n = 1: this section stands once"),
            ("run", "--set: run = \"\": it is no SECTION.KEY=VALUE"),
            (
                "run n=1",
                "--set: run n = \"1\": it is no SECTION.KEY=VALUE",
            ),
            ("", "it is no SECTION.KEY=VALUE"),
        ] {
            let found = read(FILE, &[said]).unwrap_err();
            assert!(found.contains(told), "{said}: {found}");
        }
        let both = read("[run]\nm = 7\n", &["run.n=12"]).unwrap_err();
        assert!(
            both.contains("--set: run.n = 12") && both.contains("a.toml:2:1: run.m = 7"),
            "{both}"
        );
    }

    proptest! {
        #[test]
        fn whatever_is_said_is_read_or_told(said in "[a-z\\[\\]0-9.= \"'#\n{}]{0,24}|\\PC{0,12}", text in "(\\[run\\]\nn = 1\n)?") {
            match read(&text, &[&said]) {
                Ok(numbers) => prop_assert!(!numbers.is_empty()),
                Err(told) => prop_assert!(told.contains("remedy: "), "{}", told),
            }
        }
    }
}
