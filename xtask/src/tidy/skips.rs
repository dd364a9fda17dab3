//! A test says what it leaves out by one helper, so that each reason is counted.

use super::Finding;
use super::places::{SKIP_HELPER, TESTED};
use super::tree::{Source, Tree};

/// How a reason of its own making begins, spelled in two halves, so that this file does not find itself.
const BEGIN: &str = concat!("\"skip", "ped: ");

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = tree.iter().filter(|source| is_tested(source));
    sources.flat_map(check_source).collect()
}

/// Tests, and code that has some: benches have no runner that counts.
fn is_tested(source: &Source) -> bool {
    let path = &source.path;
    let is_ours = TESTED.hold(path) && !SKIP_HELPER.hold(path);
    source.is_rust() && is_ours && !path.contains("/benches/")
}

fn check_source(source: &Source) -> Vec<Finding> {
    let lines = source.text.lines().enumerate();
    let own = lines.filter(|(_, line)| line.contains(BEGIN) && !line.trim().starts_with("//"));
    own.map(|(number, _)| {
        Finding::at(
            &source.path,
            number + 1,
            "a test says in a form of its own that it leaves something out",
            "forebay_testing::skip!(\"the reason\")",
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_of_its_own_is_found_with_its_line() {
        let text = format!("fn a() {{\n    println!(\n        {BEGIN}no luck\"\n    );\n}}\n");
        let at = |path: &str| check(&Tree::of(&[(path, &text)]));
        assert_eq!(at("crates/a/tests/b.rs")[0].place, "crates/a/tests/b.rs:3");
        assert_eq!(at("crates/a/src/lib.rs").len(), 1);
        for elsewhere in [
            "crates/a/benches/b.rs",
            "crates/ground/forebay-testing/src/lib.rs",
            "xtask/src/suite.rs",
        ] {
            assert!(at(elsewhere).is_empty(), "{elsewhere}");
        }
        let helper = "fn a() { forebay_testing::skip!(\"no luck\") }";
        let doc = format!("//! println!({BEGIN}no luck\")");
        for text in [helper, &doc] {
            assert!(check(&Tree::of(&[("crates/a/tests/b.rs", text)])).is_empty());
        }
    }
}
