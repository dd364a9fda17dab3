//! `docs/SPECIFICATION.md`: each promise links to a test that exists and runs, or says that it is pending.
//!
//! A promise is a table row `| ID | promise | bound | held by |`, where ID is a capital letter or two and a number.
//! The last cell is `*pending*`, or tests as `` `path/to/file.rs::name_of_test` `` (or `.py`, for pytest's) joined by commas. A promise of speed is
//! no test's, as a busy machine would break it: it names a part of the bench, `` `./x bench chain` ``,
//! or the file of a bench, `` `crates/a/benches/b.rs` ``.

use std::collections::BTreeSet;

use super::Finding;
use super::places::{BENCH_PARTS, SPECIFICATION};
use super::rust_text::code_only;
use super::tree::Tree;

const PENDING: &str = "*pending*";
/// How a part of the bench is called.
const BENCH: &str = "./x bench ";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(SPECIFICATION) else {
        return vec![Finding::new(
            SPECIFICATION,
            "it is missing",
            "write down what is promised",
        )];
    };
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some((id, cells)) = promise(line) else {
            continue;
        };
        let mut report = |what: String, remedy: &str| {
            findings.push(Finding::at(SPECIFICATION, number + 1, what, remedy))
        };
        if !seen.insert(id) {
            report(
                format!("{id} is there twice"),
                "give the newer one a number of its own",
            );
        }
        match cells[..] {
            [_, _, held_by] => broken_references(tree, held_by)
                .into_iter()
                .for_each(|what| {
                    report(
                        format!("{id}: {what}"),
                        "link `path::test`, a test that runs, or write *pending*",
                    );
                }),
            _ => report(
                format!("{id} has {} cells", cells.len() + 1),
                "write | ID | promise | bound | held by |",
            ),
        }
    }
    if seen.is_empty() {
        findings.push(Finding::new(
            SPECIFICATION,
            "no promise was found",
            "write | ID | promise | bound | held by |",
        ));
    }
    findings
}

/// Splits a row into its id and the other cells; other lines are no promises.
fn promise(line: &str) -> Option<(&str, Vec<&str>)> {
    let row = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let mut cells = row.split('|').map(str::trim);
    let id = cells.next().filter(|id| is_id(id))?;
    Some((id, cells.collect()))
}

fn is_id(text: &str) -> bool {
    let digits = text.trim_start_matches(|c: char| c.is_ascii_uppercase());
    let letters = text.len() - digits.len();
    (1..=2).contains(&letters) && !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
}

fn broken_references(tree: &Tree, held_by: &str) -> Vec<String> {
    if held_by == PENDING {
        return Vec::new();
    }
    held_by
        .split(',')
        .map(str::trim)
        .filter_map(|reference| broken(tree, reference))
        .collect()
}

fn broken(tree: &Tree, reference: &str) -> Option<String> {
    let inner = reference
        .strip_prefix('`')
        .and_then(|rest| rest.strip_suffix('`'));
    if let Some(part) = inner.and_then(|inner| inner.strip_prefix(BENCH)) {
        let entry = format!("\"{part}\",");
        let known = |text: &str| {
            text.lines()
                .any(|line| line.trim() == entry || line.trim().starts_with(&format!("({entry}")))
        };
        return (!tree.text(BENCH_PARTS).is_some_and(known))
            .then(|| format!("the bench has no part '{part}'"));
    }
    if let Some(path) = inner.filter(|inner| inner.contains("/benches/")) {
        return tree
            .text(path)
            .is_none()
            .then(|| format!("there is no file {path}"));
    }
    let Some((path, test)) = inner.and_then(|inner| inner.split_once("::")) else {
        return Some(format!("'{reference}' is no test"));
    };
    let Some(text) = tree.text(path) else {
        return Some(format!("there is no file {path}"));
    };
    if path.ends_with(".py") {
        return broken_in_python(path, text, test);
    }
    let (code, name) = (code_only(text), test.rsplit("::").next().unwrap_or(test));
    if is_listed(&code, name) {
        return None;
    }
    match attributes_of(&code, name) {
        None => Some(format!("there is no test '{test}' in {path}")),
        Some(attributes) if attributes.contains("#[ignore") => {
            Some(format!("the test '{test}' in {path} is ignored"))
        }
        Some(attributes) if !attributes.contains("#[test]") => {
            Some(format!("'{test}' in {path} is no test"))
        }
        Some(_) => None,
    }
}

/// A test of pytest's: a function of the module, in a file and with a name that it finds.
fn broken_in_python(path: &str, text: &str, test: &str) -> Option<String> {
    let file = path.rsplit('/').next().unwrap_or(path);
    if !file.starts_with("test_") || !test.starts_with("test_") {
        return Some(format!("'{test}' in {path} is no test"));
    }
    let signature = format!("def {test}(");
    let lines: Vec<&str> = text.lines().collect();
    let Some(at) = lines.iter().position(|line| line.starts_with(&signature)) else {
        return Some(format!("there is no test '{test}' in {path}"));
    };
    let mut above = lines[..at].iter().rev().take_while(|line| !line.is_empty());
    above
        .any(|line| line.starts_with("@pytest.mark.skip"))
        .then(|| format!("the test '{test}' in {path} is skipped"))
}

/// Whether a macro of this file makes a test of each name in a list, and this one is in it: alone on a line, with a comma or a path.
fn is_listed(code: &str, name: &str) -> bool {
    let makes_tests = code.contains("#[test]") && code.contains("fn $");
    let item = |line: &str| {
        let line = line.trim().trim_end_matches(',');
        line.rsplit("::").next() == Some(name)
    };
    makes_tests && code.lines().any(item)
}

/// The attribute lines right above `fn name`, joined; none when there is no such function.
fn attributes_of(code: &str, name: &str) -> Option<String> {
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    let signature = format!("fn {name}(");
    let at = lines.iter().position(|line| line.starts_with(&signature))?;
    let above = lines[..at]
        .iter()
        .rev()
        .take_while(|line| line.is_empty() || line.starts_with("#["));
    Some(above.copied().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: (&str, &str) = (
        "crates/a/tests/loss.rs",
        "#[test]\n/// Says why.\nfn counts() {}\nfn plain() {}\n#[test]\n#[ignore = \"slow\"]\nfn slow() {}\n",
    );

    fn found(rows: &str) -> Vec<String> {
        check(&Tree::of(&[(SPECIFICATION, rows), TEST]))
            .into_iter()
            .map(|finding| finding.what)
            .collect()
    }

    #[test]
    fn a_promise_with_a_test_or_pending_passes() {
        assert!(
            found("| ID | promise |\n|---|---|\n| L1 | a | 0 | `crates/a/tests/loss.rs::counts` |")
                .is_empty()
        );
        assert!(found("| L1 | a | 0 | *pending* |").is_empty());
    }

    #[test]
    fn a_promise_without_a_running_test_is_found() {
        for (cell, what) in [
            ("", "is no test"),
            ("soon", "is no test"),
            ("`crates/a/tests/loss.rs::gone`", "no test 'gone'"),
            ("`crates/a/tests/gone.rs::counts`", "no file"),
            ("`crates/a/tests/loss.rs::plain`", "is no test"),
            ("`crates/a/tests/loss.rs::slow`", "is ignored"),
            (
                "`crates/a/tests/loss.rs::counts`, `crates/a/tests/loss.rs::gone`",
                "no test 'gone'",
            ),
        ] {
            let found = found(&format!("| L1 | a | 0 | {cell} |"));
            assert!(
                found.len() == 1 && found[0].contains(what),
                "{cell}: {found:?}"
            );
        }
    }

    #[test]
    fn a_test_in_python_is_one_that_pytest_finds() {
        let module = "def test_here(address):\n    pass\n\n\n@pytest.mark.skip(reason='slow')\ndef test_slow():\n    pass\n";
        for (reference, what) in [
            ("crates/a/tests/test_net.py::test_here", None),
            ("crates/a/tests/test_net.py::test_gone", Some("no test")),
            ("crates/a/tests/test_net.py::test_slow", Some("is skipped")),
            ("crates/a/tests/test_net.py::here", Some("is no test")),
            ("crates/a/tests/net.py::test_here", Some("is no test")),
        ] {
            let row = format!("| P1 | a | 0 | `{reference}` |");
            let found = check(&Tree::of(&[
                (SPECIFICATION, &row),
                ("crates/a/tests/test_net.py", module),
                ("crates/a/tests/net.py", module),
            ]));
            let found = found.first().map(|finding| finding.what.clone());
            match (&found, what) {
                (None, None) => {}
                (Some(found), Some(what)) => assert!(found.contains(what), "{found}"),
                _ => panic!("{reference}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_test_may_be_made_by_a_macro_from_a_list() {
        let suite = |list: &str| {
            let text = format!(
                "macro_rules! all {{ ($($t:ident)*) => {{ $(\n#[test]\nfn $t() {{}}\n)* }} }}\nall!(\n{list}\n);\nfn plain() {{}}\n"
            );
            let row = "| L1 | a | 0 | `crates/a/tests/all.rs::whole` |";
            check(&Tree::of(&[
                (SPECIFICATION, row),
                ("crates/a/tests/all.rs", &text),
            ]))
            .len()
        };
        assert_eq!(
            [
                suite("    whole,"),
                suite("    flow::whole"),
                suite("    half,")
            ],
            [0, 0, 1]
        );
    }

    #[test]
    fn a_speed_is_held_by_a_part_of_the_bench() {
        let parts = (
            BENCH_PARTS,
            "const PARTS: &[Part] = &[\n    (\n        \"chain\",\n    ),\n    (\"disk\", 1),\n];\n",
        );
        let found = |part: &str| {
            let row = format!("| S1 | a | 7 µs | `./x bench {part}` |");
            check(&Tree::of(&[(SPECIFICATION, &row), parts])).len()
        };
        let file = |path: &str| {
            let row = format!("| S1 | a | 7 µs | `{path}` |");
            check(&Tree::of(&[
                (SPECIFICATION, &row),
                ("crates/a/benches/b.rs", ""),
            ]))
            .len()
        };
        assert_eq!(
            [file("crates/a/benches/b.rs"), file("crates/a/benches/c.rs")],
            [0, 1]
        );
        assert_eq!([found("chain"), found("disk"), found("gone")], [0, 0, 1]);
    }

    #[test]
    fn a_row_out_of_form_or_twice_is_found() {
        assert_eq!(found("| L1 | a | *pending* |").len(), 1);
        assert_eq!(
            found("| L1 | a | 0 | *pending* |\n| L1 | b | 0 | *pending* |").len(),
            1
        );
        assert_eq!(found("no table").len(), 1);
        assert_eq!(check(&Tree::of(&[])).len(), 1);
    }
}
