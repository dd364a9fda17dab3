//! The whole step over small projects of its own, whose tests fail once, always, hang and abort.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::{Suite, Tally, Twice};

const MANIFEST: &str =
    "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
const LOCK: &str = "version = 4\n\n[[package]]\nname = \"p\"\nversion = \"0.1.0\"\n";

/// What is in each file of tests: `first(NAME)` is true for the first process that asks, `there(NAME)` once one has asked.
const FIRST: &str = r#"
fn path(name: &str) -> std::path::PathBuf {
    std::path::Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join(name)
}
fn first(name: &str) -> bool { std::fs::File::create_new(path(name)).is_ok() }
#[allow(dead_code)] fn there(name: &str) -> bool { path(name).exists() }
"#;

const MIXED: &str = r#"
#[test] fn passes() {}
#[test] fn leaves_out() { println!("skipped: no luck") }
#[test] #[ignore = "slow"] fn ignored() {}
#[test] fn fails_once() { assert!(!first("once"), "by chance") }
#[test] fn fails_always() { panic!("for a reason") }
"#;

/// It aborts when `a_passes` has ended and `c_runs` has begun.
const ABORTS: &str = r#"
fn wait() { std::thread::sleep(std::time::Duration::from_millis(5)) }
#[test] fn a_passes() {}
#[test] fn b_aborts() { while !there("c") { wait() } std::process::abort() }
#[test] fn c_runs() { while first("c") { loop { wait() } } }
#[test] fn d_has_no_turn() {}
#[test] fn e_has_no_turn_and_fails_once() { assert!(!first("turn")) }
"#;

const HANGS: &str = r#"
fn hang() { loop { std::thread::sleep(std::time::Duration::from_secs(1)) } }
#[test] fn hangs_always() { hang() }
#[test] fn hangs_once() { if first("hang") { hang() } }
#[test] fn has_no_turn() {}
"#;

/// The marker lies where cargo says at compile time: doctests are told nothing when they run.
const DOCTESTS: &str = r#"
/// ```
/// let once = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("doc");
/// assert!(std::fs::File::create_new(once).is_err(), "by chance");
/// ```
pub fn flaky() {}

/// ```
/// assert_eq!(1 + 1, 2);
/// ```
pub fn sound() {}
"#;

fn project(library: &str, tests: &[(&str, &str)], flakes: &str) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    };
    write("Cargo.toml", MANIFEST);
    write("Cargo.lock", LOCK);
    write("src/lib.rs", library);
    write("xtask/flakes.toml", flakes);
    write(
        "xtask/expected.toml",
        "tests_min = 0\n[[skip]]\nreason = \"no luck\"\nneeds = \"luck\"\n",
    );
    for (name, text) in tests {
        write(&format!("tests/{name}.rs"), &format!("{FIRST}{text}"));
    }
    directory
}

fn run(root: &Path, limit: Duration) -> Tally {
    let mut tally = Tally::default();
    let mut suite = Suite::new(root);
    (suite.binary_limit, suite.threads) = (limit, 2);
    let built = suite.build(&mut tally).expect("it is built");
    let failed = suite.first(&built, &mut tally).expect("it runs");
    suite.again(failed, &mut tally).expect("it runs");
    tally
}

fn names(tests: &[Twice]) -> Vec<&str> {
    tests.iter().map(|twice| twice.test.as_str()).collect()
}

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn what_fails_once_is_flaky_and_what_fails_twice_has_failed() {
    let known =
        "[[flake]]\ntest = \"p::mixed fails_once\"\ndate = \"2026-11-23\"\nreason = \"r\"\n";
    let project = project(DOCTESTS, &[("mixed", MIXED), ("aborts", ABORTS)], known);
    let tally = run(project.path(), LIMIT);
    let flaky = [
        "p::aborts e_has_no_turn_and_fails_once",
        "p::mixed fails_once",
        "doctests src/lib.rs - flaky (line 2)",
    ];
    assert_eq!(names(&tally.flaky), flaky);
    assert_eq!(
        names(&tally.failed),
        ["p::aborts b_aborts", "p::mixed fails_always"]
    );
    assert!(tally.flaky[1].first.contains("by chance"));
    assert!(tally.flaky[1].second.contains("test fails_once ... ok"));
    assert!(tally.failed[1].second.contains("for a reason"));
    assert_eq!(tally.broken.len(), 1);
    let broken = &tally.broken[0];
    assert!(broken.starts_with("p::aborts: signal: 6"), "{broken}");
    assert!(
        broken.ends_with("what ran then: b_aborts, c_runs"),
        "{broken}"
    );
    assert_eq!((tally.passed, tally.ignored), (3 + 4 + 2, 1));
    assert!(tally.verdict().is_err());
    let text = tally.text();
    assert!(
        text.contains("FLAKY: p::mixed fails_once (known since 2026-11-23: r)"),
        "{text}"
    );
    assert!(
        text.contains("skipped, 1 ×: no luck: p::mixed leaves_out"),
        "{text}"
    );
}

#[test]
fn what_hangs_is_killed_and_named_and_a_flake_alone_lets_the_run_pass() {
    let project = project("", &[("hangs", HANGS)], "");
    let limit = Duration::from_secs(4);
    let mut tally = run(project.path(), limit);
    assert_eq!(names(&tally.failed), ["p::hangs hangs_always"]);
    assert_eq!(names(&tally.flaky), ["p::hangs hangs_once"]);
    let why = "no end within 4 s: killed\n";
    assert!(tally.failed[0].first.starts_with(why));
    assert!(tally.failed[0].second.starts_with(why));
    assert!(tally.flaky[0].first.starts_with(why));
    assert_eq!((tally.passed, tally.broken.len()), (2, 0));
    tally.failed.clear();
    assert!(tally.verdict().is_ok());
}

#[test]
fn a_known_flake_that_is_no_test_and_a_project_that_does_not_build_are_errors() {
    let known = "[[flake]]\ntest = \"p::mixed gone\"\ndate = \"2026-11-23\"\nreason = \"r\"\n";
    let project = project("", &[("mixed", MIXED)], known);
    let error = |root: &Path| {
        let result = Suite::new(root).build(&mut Tally::default());
        result.expect_err("an error").to_string()
    };
    assert!(error(project.path()).contains("there is no test 'p::mixed gone'"));
    fs::write(project.path().join("src/lib.rs"), "no Rust").expect("written");
    assert!(error(project.path()).starts_with("the tests cannot be built"));
}
