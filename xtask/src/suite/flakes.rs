//! `xtask/flakes.toml`: the tests that have been seen to fail and then to pass alone, and are not mended yet.
//!
//! An entry excuses nothing: it tells what is known from what is new.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::binary::Binary;
use crate::entries;

const FILE: &str = "xtask/flakes.toml";
/// What an entry has.
const FORM: &str = "test, date and reason";
/// A list that grows is no list of exceptions.
const ENTRIES_MAX: usize = 10;
/// Not cargo's test binaries: their tests cannot be listed without running them.
const WITHOUT_LIST: [&str; 2] = ["doctests", "pytest"];

/// A test that is known to be flaky.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// As the run names it: its binary, a space, its name.
    pub(crate) test: String,
    /// The day on which it was seen first.
    pub(crate) date: String,
    pub(crate) reason: String,
}

/// Reads the list of the tree at `root`.
///
/// # Errors
/// It is not there, or not in form.
pub(crate) fn read(root: &Path) -> Result<Vec<Known>> {
    let path = root.join(FILE);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    parse(&text).context(FILE)
}

fn parse(text: &str) -> Result<Vec<Known>> {
    let form = format!("[[flake]] with {FORM}");
    let table = entries::table(text, &["flake"], &form)?;
    let entries = entries::of(&table, "flake")?;
    if entries.len() > ENTRIES_MAX {
        bail!(
            "{} entries, at most {ENTRIES_MAX}: mend some",
            entries.len()
        );
    }
    entries.iter().map(entry).collect()
}

fn entry(value: &toml::Value) -> Result<Known> {
    let text = |key: &str| entries::text(value, key, FORM);
    let known = Known {
        test: text("test")?,
        date: text("date")?,
        reason: text("reason")?,
    };
    if !is_date(&known.date) {
        bail!("date '{}' of {}: write YYYY-MM-DD", known.date, known.test);
    }
    Ok(known)
}

fn is_date(text: &str) -> bool {
    let form = |(at, c): (usize, char)| match at {
        4 | 7 => c == '-',
        _ => c.is_ascii_digit(),
    };
    text.len() == 10 && text.char_indices().all(form)
}

/// Whether each entry names a test that is there.
///
/// # Errors
/// One does not; what to do about it is said.
pub(crate) fn check(known: &[Known], binaries: &[Binary]) -> Result<()> {
    for entry in known {
        let (name, test) = entry.test.split_once(' ').unwrap_or((&entry.test, ""));
        if WITHOUT_LIST.contains(&name) {
            continue;
        }
        let binary = binaries.iter().find(|binary| binary.name == name);
        let is_there = match binary {
            Some(binary) => binary.list()?.iter().any(|listed| listed == test),
            None => false,
        };
        if !is_there {
            bail!(
                "{FILE}: there is no test '{}': take the entry out, or write it as a run does (`forebay::net a_test`)",
                entry.test
            );
        }
    }
    Ok(())
}

#[cfg(test)]
impl Known {
    pub(crate) fn of(test: &str) -> Self {
        Self {
            test: test.to_owned(),
            date: "2026-11-23".to_owned(),
            reason: "r".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        format!("{:#}", parse(text).expect_err("it is out of form"))
    }

    #[test]
    fn the_tree_has_a_list_in_form() {
        read(&forebay_testing::root()).expect("in form");
    }

    #[test]
    fn an_entry_is_read() {
        let text = "[[flake]]\ntest = \"p::net a\"\ndate = \"2026-11-23\"\nreason = \"r\"\n";
        assert_eq!(parse(text).expect("in form"), [Known::of("p::net a")]);
        assert!(parse("# nothing\n").expect("in form").is_empty());
    }

    #[test]
    fn what_is_missing_or_out_of_form_is_named() {
        let entry = "[[flake]]\ntest = \"a\"\nreason = \"r\"\n";
        assert!(error(entry).contains("an entry has no date"));
        assert!(error(&format!("{entry}date = \"today\"\n")).contains("date 'today' of a"));
        assert!(error("[flaky]\n").contains("unknown key 'flaky'"));
        let whole = format!("{entry}date = \"2026-11-23\"\n");
        assert!(error(&whole.repeat(11)).contains("11 entries, at most 10"));
    }

    #[test]
    fn an_entry_whose_test_is_gone_is_found() {
        let gone = check(&[Known::of("p::net gone")], &[]).expect_err("there is no such test");
        assert!(gone.to_string().contains("there is no test 'p::net gone'"));
        assert!(check(&[Known::of("pytest test_net.py::test_a")], &[]).is_ok());
    }
}
