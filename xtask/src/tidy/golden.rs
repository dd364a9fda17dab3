//! One wire format, one file, golden bytes in its tests.

use super::Finding;
use super::rust_text::{code_only, words};
use super::tree::{Source, Tree};

const WIRE: &str = "crates/forebay-wire/src/";
const WITHOUT_FORMAT: &[&str] = &["lib.rs", "mod.rs", "error.rs", "tests.rs"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter(|source| is_format(source) && !has_golden_test(tree, source))
        .map(finding)
        .collect()
}

fn finding(source: &Source) -> Finding {
    let remedy = "add a `#[cfg(test)] mod tests` that compares with literal bytes, in a test or constant named `…golden…`";
    Finding::new(&source.path, "a wire format without a golden test", remedy)
}

fn is_format(source: &Source) -> bool {
    let name = source.path.rsplit('/').next().unwrap_or_default();
    source.path.starts_with(WIRE) && !WITHOUT_FORMAT.contains(&name)
}

/// The tests stand at the end of the file, or in `<file>/tests.rs` when it says `mod tests;`.
fn has_golden_test(tree: &Tree, source: &Source) -> bool {
    let code = code_only(&source.text);
    let Some((_, tests)) = code.split_once("#[cfg(test)]") else {
        return false;
    };
    let aside = format!("{}/tests.rs", source.path.trim_end_matches(".rs"));
    let aside = tree
        .text(&aside)
        .filter(|_| tests.contains("mod tests;"))
        .map(code_only);
    [Some(tests.to_owned()), aside]
        .into_iter()
        .flatten()
        .any(|tests| {
            let golden = tests
                .lines()
                .flat_map(words)
                .any(|word| word.to_lowercase().contains("golden"));
            golden && tests.contains("#[test]")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH: &str = "fn a() {}\n#[cfg(test)]\nmod tests {\n const GOLDEN: [u8; 1] = [1];\n #[test]\n fn reads() {}\n}";

    fn places(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files))
            .into_iter()
            .map(|finding| finding.place)
            .collect()
    }

    #[test]
    fn a_file_with_golden_bytes_passes() {
        assert!(places(&[("crates/forebay-wire/src/hadtu.rs", WITH)]).is_empty());
    }

    #[test]
    fn a_file_without_is_found() {
        let path = "crates/forebay-wire/src/hadtu.rs";
        for text in [
            "fn golden() {}",
            "#[cfg(test)]\nmod tests {\n // golden\n #[test]\n fn reads() {}\n}",
            "#[cfg(test)]\nmod tests { const GOLDEN: [u8; 1] = [1]; }",
        ] {
            assert_eq!(places(&[(path, text)]), [path], "{text}");
        }
    }

    #[test]
    fn tests_may_stand_in_a_file_of_their_own() {
        let code = "#[cfg(test)]\nmod tests;";
        let tests = (
            "crates/forebay-wire/src/hadtu/tests.rs",
            "#[test]\nfn golden_message() {}",
        );
        assert!(places(&[("crates/forebay-wire/src/hadtu.rs", code), tests]).is_empty());
        assert_eq!(
            places(&[("crates/forebay-wire/src/hadtu.rs", code)]).len(),
            1
        );
    }

    #[test]
    fn other_crates_and_the_root_need_none() {
        assert!(
            places(&[
                ("crates/forebay-wire/src/lib.rs", ""),
                ("crates/forebay-evb/src/engine.rs", "")
            ])
            .is_empty()
        );
    }
}
