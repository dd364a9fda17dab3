//! `xtask/expected.toml`: how many tests a run has at least, and for which reasons tests may leave something out.
//!
//! A gate that turns tests off looks as a run in which all is well; so a reason that is not in the list, or fewer tests than before, fails the run.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::entries;

const FILE: &str = "xtask/expected.toml";
/// What an entry has.
const FORM: &str = "reason and needs";
const ANYTHING: char = '*';

/// What a run must come to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Tests of a whole run, at least; those that leave something out are tests, too.
    tests_min: usize,
    /// Reasons; `*` stands for any text (an address, an error's words).
    reasons: Vec<String>,
}

impl Expected {
    /// Reads the list of the tree at `root`.
    ///
    /// # Errors
    /// It is not there, or not in form.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let path = root.join(FILE);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Self::parse(&text).context(FILE)
    }

    fn parse(text: &str) -> Result<Self> {
        let form = format!("tests_min, and [[skip]] with {FORM}");
        let table = entries::table(text, &["tests_min", "skip"], &form)?;
        let tests_min = table.get("tests_min").and_then(toml::Value::as_integer);
        let tests_min = tests_min.and_then(|number| usize::try_from(number).ok());
        let skips = entries::of(&table, "skip")?.iter();
        Ok(Self {
            tests_min: tests_min.context("tests_min must be a number")?,
            reasons: skips.map(reason).collect::<Result<_>>()?,
        })
    }

    /// Whether each reason to leave something out is in the list.
    ///
    /// # Errors
    /// Those that are not, with what to do.
    pub(crate) fn check_skips(&self, skips: &[(String, String)]) -> Result<()> {
        let is_listed = |reason: &str| self.reasons.iter().any(|listed| fits(listed, reason));
        let unknown = skips.iter().filter(|(_, reason)| !is_listed(reason));
        let named: Vec<String> = unknown
            .map(|(test, reason)| format!("{test}: {reason}"))
            .collect();
        if named.is_empty() {
            return Ok(());
        }
        bail!(
            "tests left something out for a reason that is not in {FILE}: {}. Install what they need; if they may do without it, add the reason there",
            named.join("; ")
        )
    }

    /// Whether a whole run had all tests.
    ///
    /// # Errors
    /// It had fewer than the list says.
    pub(crate) fn check_tests(&self, tests: usize) -> Result<()> {
        if tests >= self.tests_min {
            return Ok(());
        }
        bail!(
            "{tests} tests ran, and {FILE} says at least {}: find those that are missing; if they were taken out on purpose, lower the number",
            self.tests_min
        )
    }

    /// For the closing lines of a run.
    pub(crate) fn tests_min(&self) -> usize {
        self.tests_min
    }
}

/// The reason of an entry; what the test needs is there for people.
fn reason(entry: &toml::Value) -> Result<String> {
    entries::text(entry, "needs", FORM)?;
    let reason = entries::text(entry, "reason", FORM)?;
    if !reason.chars().any(char::is_alphanumeric) {
        bail!("an entry has no reason but '{reason}', which fits any: write {FORM} ({entry})");
    }
    Ok(reason)
}

/// Whether `text` is what `pattern` says.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split(ANYTHING);
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        if let Some(before) = last.replace(part) {
            let Some((_, after)) = rest.split_once(before) else {
                return false;
            };
            rest = after;
        }
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(reason: &str) -> (String, String) {
        ("p::net a".to_owned(), reason.to_owned())
    }

    #[test]
    fn the_tree_has_a_list_in_form() {
        let expected = Expected::read(&forebay_testing::root()).expect("in form");
        assert!(expected.tests_min > 2000 && !expected.reasons.is_empty());
        // A list that takes everything holds nothing.
        assert!(
            expected
                .check_skips(&[skip("the code under test failed")])
                .is_err()
        );
    }

    #[test]
    fn a_star_stands_for_anything_and_all_else_for_itself() {
        for (pattern, text, is_so) in [
            ("no sshd", "no sshd", true),
            ("no sshd", "no sshd here", false),
            (
                "*: no such address here",
                "[::1]: no such address here",
                true,
            ),
            ("*: no such address here", "no such address", false),
            ("cannot (*); it needs *", "cannot (a; b); it needs c", true),
            ("cannot (*); it needs *", "cannot (a) it needs c", false),
            ("a*b*c", "aXbYc", true),
            ("a*bb*b", "abbb", true),
            ("a*bb*b", "abb", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(fits(pattern, text), is_so, "{pattern} {text}");
        }
    }

    #[test]
    fn a_reason_that_is_not_listed_fails_and_is_named() {
        let text = "tests_min = 3\n[[skip]]\nreason = \"no fq\"\nneeds = \"sch_fq\"\n";
        let expected = Expected::parse(text).expect("in form");
        assert!(expected.check_skips(&[skip("no fq")]).is_ok());
        let error = expected.check_skips(&[skip("no fq"), skip("net recv failed")]);
        let error = error.expect_err("it is not listed").to_string();
        assert!(error.contains("p::net a: net recv failed"), "{error}");
        assert!(!error.contains("no fq"), "{error}");
    }

    #[test]
    fn fewer_tests_than_before_fail() {
        let expected = Expected::parse("tests_min = 3\n").expect("in form");
        assert!(expected.check_tests(3).is_ok() && expected.check_tests(4).is_ok());
        let error = expected
            .check_tests(2)
            .expect_err("one is missing")
            .to_string();
        assert!(error.starts_with("2 tests ran, and xtask/expected.toml says at least 3"));
    }

    #[test]
    fn what_is_out_of_form_is_named() {
        let error = |text: &str| format!("{:#}", Expected::parse(text).expect_err("out of form"));
        assert!(error("[[skip]]\nreason = \"a\"\nneeds = \"b\"\n").contains("tests_min"));
        assert!(error("tests_min = 1\n[[skip]]\nreason = \"a\"\n").contains("no needs"));
        assert!(
            error("tests_min = 1\n[[skip]]\nreason = \"*\"\nneeds = \"b\"\n").contains("no reason")
        );
        assert!(error("tests_max = 1\n").contains("unknown key 'tests_max'"));
    }
}
