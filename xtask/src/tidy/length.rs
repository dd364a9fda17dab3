//! A file longer than this holds more than one thing.

use super::Finding;
use super::tree::Tree;

const LINES_MAX: usize = 500;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = tree
        .rust()
        .map(|source| (source.path.as_str(), source.text.lines().count()));
    let long = sources.filter(|&(path, lines)| path.contains("src/") && lines > LINES_MAX);
    let remedy = "split it by what is in it";
    long.map(|(path, lines)| {
        Finding::new(path, format!("{lines} lines, at most {LINES_MAX}"), remedy)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_too_many_is_found() {
        let lines = |n: usize| "\n".repeat(n);
        assert!(check(&Tree::of(&[("crates/a/src/b.rs", &lines(LINES_MAX))])).is_empty());
        assert_eq!(
            check(&Tree::of(&[("crates/a/src/b.rs", &lines(LINES_MAX + 1))])).len(),
            1
        );
        assert!(check(&Tree::of(&[("crates/a/tests/b.rs", &lines(LINES_MAX + 1))])).is_empty());
    }
}
