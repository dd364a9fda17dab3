//! Unsafe code lives in few crates; every other crate forbids it at its top. Engines have a `clippy.toml` of their own
//! that keeps clocks, threads, sockets and files out.

use super::Finding;
use super::places::{ENGINES, UNSAFE};
use super::rust_text::{code_only, split_tests, words};
use super::tree::{Source, Tree};

const FORBID: &str = "#![forbid(unsafe_code)]";
/// What the `clippy.toml` of an engine must have.
const NO_CLOCK: &str = "std::time::Instant::now";
/// What the code of an engine may not touch, though its tests may.
const OUTSIDE: &[&str] = &[
    "std::fs",
    "std::env",
    "std::process",
    "thread::spawn",
    "thread::scope",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let outside = tree.rust().filter(|source| !UNSAFE.hold(&source.path));
    outside
        .flat_map(|source| uses(source).into_iter().chain(missing_forbid(source)))
        .chain(open_engines(tree))
        .chain(tree.rust().flat_map(reaches_outside))
        .collect()
}

fn open_engines(tree: &Tree) -> Vec<Finding> {
    // One without any file is found by its entry.
    let has_files = |folder: &&&str| tree.rust().any(|source| source.path.starts_with(**folder));
    let paths = ENGINES.entries.iter().filter(has_files);
    let paths = paths.map(|folder| format!("{folder}clippy.toml"));
    let open = paths.filter(|path| !tree.text(path).is_some_and(|text| text.contains(NO_CLOCK)));
    let remedy = "copy that of forebay-evb";
    open.map(|path| {
        Finding::new(
            path,
            "an engine without its list of disallowed methods",
            remedy,
        )
    })
    .collect()
}

/// Judges the code of an engine up to its tests.
fn reaches_outside(source: &Source) -> Vec<Finding> {
    let of_engine = |folder: &&str| source.path.starts_with(&format!("{folder}src/"));
    if !ENGINES.entries.iter().any(of_engine) {
        return Vec::new();
    }
    let code = code_only(&source.text);
    let (product, _) = split_tests(&code);
    let lines = product.lines().enumerate();
    let remedy = "take it as an argument; files, threads and processes are the assembly's";
    lines
        .filter_map(|(number, line)| {
            let path = OUTSIDE.iter().find(|path| line.contains(*path))?;
            Some(Finding::at(
                &source.path,
                number + 1,
                format!("an engine uses {path}"),
                remedy,
            ))
        })
        .collect()
}

fn uses(source: &Source) -> Vec<Finding> {
    let code = code_only(&source.text);
    let lines = code
        .lines()
        .enumerate()
        .filter(|(_, line)| words(line).any(|word| word == "unsafe"));
    let remedy = "move it into forebay-sys, -ring, -fabric or -xdp, behind a safe function; forebay-client-c has what C is handed alone";
    lines
        .map(|(number, _)| {
            Finding::at(
                &source.path,
                number + 1,
                "unsafe code outside of the fence",
                remedy,
            )
        })
        .collect()
}

fn missing_forbid(source: &Source) -> Option<Finding> {
    let is_root = source.path.ends_with("src/lib.rs") || source.path.ends_with("src/main.rs");
    let forbids = code_only(&source.text).contains(FORBID);
    (is_root && !forbids).then(|| {
        Finding::new(
            &source.path,
            "the crate does not forbid unsafe code",
            format!("write {FORBID} at its top"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        let fence = ("crates/engines/forebay-evb/clippy.toml", NO_CLOCK);
        check(&Tree::of(&[(path, text), fence])).len()
    }

    #[test]
    fn a_crate_that_forbids_it_passes() {
        assert_eq!(
            count(
                "crates/engines/forebay-evb/src/lib.rs",
                "//! unsafe\n#![forbid(unsafe_code)]\n"
            ),
            0
        );
    }

    #[test]
    fn a_root_without_the_line_or_with_it_in_a_comment_is_found() {
        assert_eq!(count("crates/engines/forebay-evb/src/lib.rs", ""), 1);
        assert_eq!(
            count(
                "crates/faces/forebay/src/main.rs",
                "// #![forbid(unsafe_code)]"
            ),
            1
        );
        assert_eq!(count("crates/engines/forebay-evb/src/engine.rs", ""), 0);
    }

    #[test]
    fn an_engine_without_a_fence_of_its_own_is_found() {
        let lib = ("crates/emulators/forebay-emu/src/lib.rs", FORBID);
        let fence = ("crates/emulators/forebay-emu/clippy.toml", NO_CLOCK);
        assert!(check(&Tree::of(&[lib, fence])).is_empty());
        assert_eq!(check(&Tree::of(&[lib])).len(), 1);
        assert_eq!(check(&Tree::of(&[lib, (fence.0, "")])).len(), 1);
    }

    #[test]
    fn an_engine_that_reaches_outside_is_found_but_its_tests_may() {
        assert_eq!(
            count("crates/engines/forebay-evb/src/engine.rs", "use std::fs;"),
            1
        );
        assert_eq!(
            count(
                "crates/engines/forebay-evb/src/engine.rs",
                "#[cfg(test)]\nmod tests { use std::fs; }"
            ),
            0
        );
        assert_eq!(
            count(
                "crates/engines/forebay-evb/tests/vectors.rs",
                "use std::fs;"
            ),
            0
        );
        assert_eq!(
            count("crates/runtime/forebay-run/src/file.rs", "use std::fs;"),
            0
        );
    }

    #[test]
    fn a_block_is_found_outside_of_the_fence_only() {
        assert_eq!(
            count(
                "crates/engines/forebay-evb/tests/hostile.rs",
                "fn a() { unsafe { b() } }"
            ),
            1
        );
        assert_eq!(
            count(
                "crates/movers/forebay-ring/src/map.rs",
                "fn a() { unsafe { b() } }"
            ),
            0
        );
    }
}
