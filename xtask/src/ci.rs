//! The whole of CI: the steps one after another, each timed; the first failure stops and is named.
//!
//! What only compiles or computes runs beside the tests, with a low claim to the CPUs: most tests wait.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use cargo_metadata::{Metadata, MetadataCommand};

use crate::child::{checked as checked_command, checked_beside};
use crate::suite::{Built, Suite, Tally};
use crate::{cargo, fuzz, python, tidy};

const LOOM_MODULE: &str = "#[cfg(all(test, loom))]";
const FUZZ_SECONDS_PER_TARGET: u64 = 10;

/// How a step ended, when it did not fail.
pub(crate) enum Outcome {
    Passed,
    Skipped(String),
}

/// A step that runs beside the tests.
struct Beside {
    name: &'static str,
    run: fn(&Path) -> Result<Outcome>,
}

/// One after another, in this order: cargo lets only one at a time build in a directory.
const BESIDE: &[Beside] = &[
    Beside {
        name: "clippy",
        run: clippy,
    },
    Beside {
        name: "doc",
        run: doc,
    },
    Beside {
        name: "loom",
        run: loom,
    },
    Beside {
        name: "fuzz build",
        run: fuzz::build_beside,
    },
];

/// What has been done so far.
#[derive(Default)]
struct Run {
    tally: Tally,
    report: Vec<String>,
}

/// Runs every step.
///
/// # Errors
/// The first step that fails, by name.
pub(crate) fn run(root: &Path) -> Result<()> {
    let start = Instant::now();
    let mut run = Run::default();
    let result = run.steps(root);
    println!(
        "\nci: {} steps in {}",
        run.report.len(),
        seconds(start.elapsed())
    );
    for line in &run.report {
        println!("  {line}");
    }
    print!("{}", run.tally.text());
    result
}

impl Run {
    fn steps(&mut self, root: &Path) -> Result<()> {
        let suite = Suite::new(root);
        let mut built = Built::default();
        self.step("fmt", |_| fmt(root))?;
        self.step("build", |tally| {
            built = suite.build(tally)?;
            Ok(Outcome::Passed)
        })?;
        self.step("tidy", |_| {
            tidy::run(root, &built.programs).map(|()| Outcome::Passed)
        })?;
        let mut beside = Vec::new();
        self.step("test", |tally| {
            beside = test(&suite, &built, tally)?;
            Ok(Outcome::Passed)
        })?;
        self.report.extend(beside);
        self.step("python", |tally| python::run(root, tally))?;
        self.step("fuzz", |_| {
            fuzz::run_if_possible(root, FUZZ_SECONDS_PER_TARGET)
        })?;
        self.tally.verdict_of_all()
    }

    fn step(&mut self, name: &str, run: impl FnOnce(&mut Tally) -> Result<Outcome>) -> Result<()> {
        println!("ci: {name}");
        let begun = Instant::now();
        let outcome =
            run(&mut self.tally).with_context(|| format!("ci FAILED at step '{name}'"))?;
        let line = report_line(name, &outcome, begun.elapsed());
        println!("ci: {line}");
        self.report.push(line);
        Ok(())
    }
}

/// Runs the tests with the steps beside them; then, with nothing beside it, each test that failed. Gives the lines of the steps beside.
fn test(suite: &Suite<'_>, built: &Built, tally: &mut Tally) -> Result<Vec<String>> {
    let (failed, beside) = thread::scope(|scope| {
        let beside = scope.spawn(|| beside(suite.root));
        let failed = suite.first(built, tally);
        (failed, beside.join())
    });
    suite.again(failed?, tally)?;
    let beside = beside.map_err(|_| anyhow!("a step beside the tests panicked"))?;
    tally.verdict()?;
    beside
}

/// All of them, also behind one that fails: the tests run on as well.
fn beside(root: &Path) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut result = Ok(());
    for step in BESIDE {
        let begun = Instant::now();
        match (step.run)(root).with_context(|| format!("beside the tests, '{}'", step.name)) {
            Ok(outcome) => {
                let line = report_line(step.name, &outcome, begun.elapsed());
                println!("ci: {line}, beside the tests");
                lines.push(format!("{line}, beside the tests"));
            }
            Err(error) => {
                println!("ci: FAILED: {error:#}");
                result = result.and(Err(error));
            }
        }
    }
    result.map(|()| lines)
}

fn report_line(name: &str, outcome: &Outcome, time: Duration) -> String {
    match outcome {
        Outcome::Passed => format!("{name}: passed in {}", seconds(time)),
        Outcome::Skipped(why) => format!("{name}: skipped: {why}"),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// The fuzz targets are a workspace of their own.
fn fmt(root: &Path) -> Result<Outcome> {
    checked(cargo().args(["fmt", "--all", "--check"]).current_dir(root))?;
    if !root.join(fuzz::MANIFEST).exists() {
        return Ok(Outcome::Passed);
    }
    let words = ["fmt", "--check", "--manifest-path", fuzz::MANIFEST];
    checked(cargo().args(words).current_dir(root))
}

fn clippy(root: &Path) -> Result<Outcome> {
    let words = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ];
    checked_beside(cargo().args(words).current_dir(root))?;
    fuzz::clippy_beside(root).map(|()| Outcome::Passed)
}

fn doc(root: &Path) -> Result<Outcome> {
    let words = ["doc", "--workspace", "--no-deps", "--locked", "--quiet"];
    let mut command = cargo();
    command
        .args(words)
        .env("RUSTDOCFLAGS", "-D warnings")
        .current_dir(root);
    checked_beside(&command).map(|()| Outcome::Passed)
}

/// Runs the loom tests, with a target directory of their own since `--cfg loom` rebuilds all.
fn loom(root: &Path) -> Result<Outcome> {
    let metadata = metadata(&root.join("Cargo.toml"))?;
    let mut runs = 0;
    for package in metadata.workspace_packages() {
        for selection in loom_selections(package.manifest_path.as_std_path())? {
            checked_beside(&loom_command(root, &metadata, &package.name, selection))?;
            runs += 1;
        }
    }
    Ok(match runs {
        0 => Outcome::Skipped("no crate has loom tests".into()),
        _ => Outcome::Passed,
    })
}

/// Loom tests are `tests/loom.rs`, or modules under `cfg(all(test, loom))` whose tests have `loom` in their names.
fn loom_selections(manifest: &Path) -> Result<Vec<&'static [&'static str]>> {
    let mut selections: Vec<&'static [&'static str]> = Vec::new();
    if manifest.with_file_name("tests").join("loom.rs").exists() {
        selections.push(&["--test", "loom"]);
    }
    for entry in fs::read_dir(manifest.with_file_name("src"))? {
        let path = entry?.path();
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        if is_rust
            && fs::read_to_string(&path)?
                .lines()
                .any(|line| line == LOOM_MODULE)
        {
            selections.push(&["--lib", "loom"]);
            break;
        }
    }
    Ok(selections)
}

fn loom_command(root: &Path, metadata: &Metadata, name: &str, selection: &[&str]) -> Command {
    let mut command = cargo();
    command
        .args([
            "test",
            "--locked",
            "--release",
            "--package",
            name,
            "--target-dir",
        ])
        .arg(target_directory(metadata).join("loom"))
        .args(selection)
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .current_dir(root);
    command
}

/// The metadata of the workspace's own packages.
pub(crate) fn metadata(manifest: &Path) -> Result<Metadata> {
    let mut command = MetadataCommand::new();
    command
        .manifest_path(manifest)
        .no_deps()
        .other_options(["--locked".to_owned()]);
    command
        .exec()
        .with_context(|| format!("cannot read the metadata of {}", manifest.display()))
}

/// Where cargo builds for this workspace.
pub(crate) fn target_directory(metadata: &Metadata) -> PathBuf {
    metadata.target_directory.clone().into_std_path_buf()
}

/// As `child::checked`, for a step.
pub(crate) fn checked(command: &mut Command) -> Result<Outcome> {
    checked_command(command).map(|()| Outcome::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loom_tests_are_found_where_they_lie() {
        let root = forebay_testing::root();
        let selections =
            |name: &str| loom_selections(&root.join(name).join("Cargo.toml")).expect("readable");
        assert_eq!(
            selections("crates/movers/forebay-ring"),
            [["--test", "loom"]]
        );
        assert_eq!(
            selections("crates/ground/forebay-ledger"),
            [["--lib", "loom"]]
        );
        assert!(selections("crates/engines/forebay-evb").is_empty());
        assert!(selections("xtask").is_empty());
    }

    #[test]
    fn a_skipped_step_says_why() {
        let line = report_line("fuzz", &Outcome::Skipped("no c++".into()), Duration::ZERO);
        assert_eq!(line, "fuzz: skipped: no c++");
    }
}
