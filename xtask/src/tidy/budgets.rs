//! How large a crate may become: the runtime and each system have a budget of lines, and no crate is too large a part of the product.

use std::collections::BTreeMap;

use super::Finding;
use super::places::{RUNTIME, SYSTEMS};
use super::tree::Tree;

const TABLE: &str = "xtask/src/tidy/budgets.rs";

/// Most lines of a crate in a folder: of Rust below `src`, inner tests included.
const BUDGETS: &[(&str, usize)] = &[(RUNTIME, 6_000), (SYSTEMS, 9_000)];
/// Most of the product in one crate, in percent of its lines.
const SHARE_MAX: usize = 14;
/// So many lines below its limit for now, a crate gets a lower one.
const SLACK: usize = 500;

/// A crate that is still over its budget, and its limit for now, in lines: a number that only becomes smaller.
type Over = (&'static str, usize);

const OVER: &[Over] = &[];

/// A crate and its lines of Rust below `src`.
#[derive(Debug, PartialEq, Eq)]
struct Size {
    folder: String,
    lines: usize,
}

impl Size {
    fn name(&self) -> &str {
        let name = self.folder.rsplit('/').next();
        name.unwrap_or(&self.folder)
    }
}

/// The crates of the product, the largest first.
fn sizes(tree: &Tree) -> Vec<Size> {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for source in tree.rust() {
        let folder = source.path.split_once("/src/").map(|(folder, _)| folder);
        if let Some(folder) = folder.filter(|folder| folder.starts_with("crates/")) {
            *lines.entry(folder).or_default() += source.text.lines().count();
        }
    }
    let mut sizes: Vec<Size> = lines
        .into_iter()
        .map(|(folder, lines)| Size {
            folder: folder.to_owned(),
            lines,
        })
        .collect();
    sizes.sort_by(|a, b| b.lines.cmp(&a.lines).then(a.folder.cmp(&b.folder)));
    sizes
}

fn product(sizes: &[Size]) -> usize {
    sizes.iter().map(|size| size.lines).sum()
}

/// A line of each crate: its lines, and its share of the product.
pub(super) fn told(tree: &Tree) -> Vec<String> {
    let sizes = sizes(tree);
    let all = product(&sizes).max(1);
    let line = |size: &Size| {
        let share = size.lines as f64 * 100.0 / all as f64;
        format!("{:>7} lines {share:>5.1} %  {}", size.lines, size.name())
    };
    sizes.iter().map(line).collect()
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    judge(&sizes(tree), OVER)
}

/// What a crate may have in a product of so many lines: its own budget, or its share.
fn most(size: &Size, all: usize) -> usize {
    let own = BUDGETS
        .iter()
        .find(|(floor, _)| size.folder.starts_with(floor));
    let share = all * SHARE_MAX / 100;
    own.map_or(share, |(_, lines)| share.min(*lines))
}

fn judge(sizes: &[Size], over: &[Over]) -> Vec<Finding> {
    let all = product(sizes);
    let mut findings = Vec::new();
    for size in sizes {
        let (lines, most) = (size.lines, most(size, all));
        let limit = over.iter().find(|(name, _)| *name == size.name());
        let (what, remedy) = match limit {
            None if lines > most => (
                format!("{lines} lines, at most {most}"),
                "split it by what is in it, or move what others need to a lower floor".to_owned(),
            ),
            Some((_, limit)) if lines > *limit => (
                format!("{lines} lines, at most {limit} for now"),
                "take something out: the limit is never raised".to_owned(),
            ),
            Some(_) if lines <= most => (
                format!("{lines} lines are within its budget of {most}"),
                format!("take its row out of {TABLE}"),
            ),
            Some((_, limit)) if lines + SLACK < *limit => (
                format!("{lines} lines, far fewer than its limit of {limit}"),
                format!("write the smaller number into {TABLE}"),
            ),
            _ => continue,
        };
        findings.push(Finding::new(&size.folder, what, remedy));
    }
    let is_gone = |(name, _): &&Over| !sizes.iter().any(|size| size.name() == *name);
    findings.extend(over.iter().filter(is_gone).map(|(name, _)| {
        Finding::new(
            TABLE,
            format!("{name} is no crate of the product"),
            "take its row out",
        )
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(folder: &str, lines: usize) -> Size {
        Size {
            folder: folder.to_owned(),
            lines,
        }
    }

    /// What is found of these crates, in a product of 100,000 lines.
    fn found(crates: &[(&str, usize)], over: &[Over]) -> Vec<String> {
        let mut sizes: Vec<Size> = crates.iter().map(|(name, n)| size(name, *n)).collect();
        let rest = 100_000 - product(&sizes);
        for number in 0..10 {
            sizes.push(size(&format!("crates/engines/e{number}"), rest / 10));
        }
        sizes.push(size("crates/engines/last", rest % 10));
        let findings = judge(&sizes, over).into_iter();
        findings.map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn lines_below_src_count_with_inner_tests_and_no_others() {
        let tree = Tree::of(&[
            ("crates/a/one/src/lib.rs", "a\nb\n"),
            ("crates/a/one/src/deep/tests.rs", "c\n"),
            ("crates/a/one/tests/t.rs", "d\n"),
            ("crates/b/two/src/main.rs", "e\n"),
            ("xtask/src/main.rs", "f\n"),
        ]);
        let sizes = sizes(&tree);
        assert_eq!(sizes, [size("crates/a/one", 3), size("crates/b/two", 1)]);
        assert_eq!(
            told(&tree),
            ["      3 lines  75.0 %  one", "      1 lines  25.0 %  two"]
        );
    }

    #[test]
    fn one_line_over_a_budget_is_found() {
        for (folder, most) in [
            ("crates/runtime/r", 6_000),
            ("crates/systems/s", 9_000),
            ("crates/tools/t", 14_000),
        ] {
            assert_eq!(found(&[(folder, most)], &[]), Vec::<String>::new());
            let found = found(&[(folder, most + 1)], &[]);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].starts_with(&format!("{folder}: {} lines", most + 1)),
                "{found:?}"
            );
        }
    }

    #[test]
    fn what_is_still_over_may_only_become_smaller() {
        let of = |lines| found(&[("crates/runtime/r", lines)], &[("r", 8_000)]);
        for (lines, says) in [
            (8_001, "at most 8000 for now"),
            (7_499, "write the smaller number"),
            (6_000, "take its row out"),
        ] {
            let found = of(lines);
            assert_eq!(found.len(), 1, "{lines}: {found:?}");
            assert!(found[0].contains(says), "{lines}: {found:?}");
        }
        assert_eq!(of(8_000), Vec::<String>::new());
        assert_eq!(of(7_500), Vec::<String>::new());
        let found = found(&[], &[("gone", 1)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("gone is no crate"), "{found:?}");
    }
}
