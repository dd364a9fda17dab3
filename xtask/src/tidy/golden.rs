//! One wire format, one file, golden bytes in its tests.
//!
//! A file of `forebay-wire` holds a format when it defines one of the three functions in which bytes get their meaning;
//! readers built upon formats and lists of errors hold none.

use super::Finding;
use super::places::FORMATS;
use super::rust_text::{code_only, split_tests, word_pairs, words};
use super::tree::{Source, Tree};

const MEANING: &[&str] = &["new_checked", "parse", "emit"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let formats: Vec<&Source> = tree.rust().filter(|source| is_format(source)).collect();
    if formats.is_empty() {
        let remedy = "say in xtask/src/tidy/golden.rs what a format is known by";
        let place = FORMATS.entries.concat();
        return vec![Finding::new(place, "no wire format was found", remedy)];
    }
    let bare = formats
        .into_iter()
        .filter(|source| !has_golden_test(tree, source));
    bare.map(finding).collect()
}

fn finding(source: &Source) -> Finding {
    let remedy = "add a `#[cfg(test)] mod tests` that compares with literal bytes, in a test or constant named `…golden…`";
    Finding::new(&source.path, "a wire format without a golden test", remedy)
}

fn is_format(source: &Source) -> bool {
    let code = code_only(&source.text);
    let (product, _) = split_tests(&code);
    let mut pairs = product.lines().flat_map(word_pairs);
    FORMATS.hold(&source.path)
        && pairs.any(|(keyword, name)| keyword == "fn" && MEANING.contains(&name))
}

/// The tests stand at the end of the file, or in `<file>/tests.rs` when it says `mod tests;`.
fn has_golden_test(tree: &Tree, source: &Source) -> bool {
    let code = code_only(&source.text);
    let (_, tests) = split_tests(&code);
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

    const WITH: &str = "fn emit() {}\n#[cfg(test)]\nmod tests {\n const GOLDEN: [u8; 1] = [1];\n #[test]\n fn reads() {}\n}";

    fn places(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files))
            .into_iter()
            .map(|finding| finding.place)
            .collect()
    }

    #[test]
    fn a_file_with_golden_bytes_passes() {
        assert!(places(&[("crates/ground/forebay-wire/src/hadtu.rs", WITH)]).is_empty());
    }

    #[test]
    fn a_file_without_is_found() {
        let path = "crates/ground/forebay-wire/src/hadtu.rs";
        for text in [
            "fn golden() {}\nfn new_checked() {}",
            "fn parse<T>() {}\n#[cfg(test)]\nmod tests {\n // golden\n #[test]\n fn reads() {}\n}",
            "fn emit() {}\n#[cfg(test)]\nmod tests { const GOLDEN: [u8; 1] = [1]; }",
        ] {
            assert_eq!(places(&[(path, text)]), [path], "{text}");
        }
    }

    #[test]
    fn tests_may_stand_in_a_file_of_their_own() {
        let code = "fn emit() {}\n#[cfg(test)]\nmod tests;";
        let tests = (
            "crates/ground/forebay-wire/src/hadtu/tests.rs",
            "#[test]\nfn golden_message() {}",
        );
        assert!(places(&[("crates/ground/forebay-wire/src/hadtu.rs", code), tests]).is_empty());
        assert_eq!(
            places(&[("crates/ground/forebay-wire/src/hadtu.rs", code)]).len(),
            1
        );
    }

    #[test]
    fn other_crates_and_files_without_a_format_need_none() {
        let test_only = "fn scan() {}\n#[cfg(test)]\nmod tests { fn parse() {} }";
        let format = ("crates/ground/forebay-wire/src/hadtu.rs", WITH);
        for (path, text) in [
            ("crates/ground/forebay-wire/src/scan.rs", test_only),
            ("crates/ground/forebay-wire/src/error.rs", "// fn emit() {}"),
            ("crates/engines/forebay-evb/src/engine.rs", "fn parse() {}"),
        ] {
            assert!(places(&[(path, text), format]).is_empty(), "{path}");
            assert_eq!(places(&[(path, text)]), FORMATS.entries, "{path}");
        }
    }
}
