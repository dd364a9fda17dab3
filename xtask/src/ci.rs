//! The whole of CI: the steps in order of cost, each timed; the first failure stops and is named.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cargo_metadata::{Metadata, MetadataCommand};

use crate::child::checked as checked_command;
use crate::suite::{Suite, Tally};
use crate::{cargo, fuzz, python, tidy};

const LOOM_MODULE: &str = "#[cfg(all(test, loom))]";
const FUZZ_SECONDS_PER_TARGET: u64 = 10;

/// How a step ended, when it did not fail.
pub(crate) enum Outcome {
    Passed,
    Skipped(String),
}

struct Step {
    name: &'static str,
    run: fn(&Path, &mut Tally) -> Result<Outcome>,
}

const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        run: |root, _| fmt(root),
    },
    Step {
        name: "clippy",
        run: |root, _| clippy(root),
    },
    Step {
        name: "tidy",
        run: |root, _| tidy::run(root).map(|()| Outcome::Passed),
    },
    Step {
        name: "doc",
        run: |root, _| doc(root),
    },
    Step {
        name: "test",
        run: test,
    },
    Step {
        name: "python",
        run: python::run,
    },
    Step {
        name: "loom",
        run: |root, _| loom(root),
    },
    Step {
        name: "fuzz",
        run: |root, _| fuzz::run_if_possible(root, FUZZ_SECONDS_PER_TARGET),
    },
];

/// Runs every step.
///
/// # Errors
/// The first step that fails, by name.
pub(crate) fn run(root: &Path) -> Result<()> {
    let start = Instant::now();
    let mut report = Vec::new();
    let mut tally = Tally::default();
    let result = STEPS.iter().try_for_each(|step| {
        println!("ci: {}", step.name);
        let begun = Instant::now();
        let outcome = (step.run)(root, &mut tally)
            .with_context(|| format!("ci FAILED at step '{}'", step.name))?;
        let line = report_line(step.name, &outcome, begun.elapsed());
        println!("ci: {line}");
        report.push(line);
        Ok(())
    });
    println!(
        "\nci: {} steps in {}",
        report.len(),
        seconds(start.elapsed())
    );
    for line in report {
        println!("  {line}");
    }
    print!("{}", tally.text());
    result
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

fn fmt(root: &Path) -> Result<Outcome> {
    checked(cargo().args(["fmt", "--all", "--check"]).current_dir(root))
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
    checked(cargo().args(words).current_dir(root))
}

fn doc(root: &Path) -> Result<Outcome> {
    let words = ["doc", "--workspace", "--no-deps", "--locked", "--quiet"];
    checked(
        cargo()
            .args(words)
            .env("RUSTDOCFLAGS", "-D warnings")
            .current_dir(root),
    )
}

fn test(root: &Path, tally: &mut Tally) -> Result<Outcome> {
    Suite::new(root).run(tally)?;
    tally.verdict()?;
    Ok(Outcome::Passed)
}

/// Runs the loom tests, with a target directory of their own since `--cfg loom` rebuilds all.
fn loom(root: &Path) -> Result<Outcome> {
    let metadata = metadata(&root.join("Cargo.toml"))?;
    let mut runs = 0;
    for package in metadata.workspace_packages() {
        for selection in loom_selections(package.manifest_path.as_std_path())? {
            checked(&mut loom_command(root, &metadata, &package.name, selection))?;
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
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("a parent");
        let selections =
            |name: &str| loom_selections(&root.join(name).join("Cargo.toml")).expect("readable");
        assert_eq!(selections("crates/forebay-ring"), [["--test", "loom"]]);
        assert_eq!(selections("crates/forebay-ledger"), [["--lib", "loom"]]);
        assert!(selections("crates/forebay-evb").is_empty());
        assert!(selections("xtask").is_empty());
    }

    #[test]
    fn a_skipped_step_says_why() {
        let line = report_line("fuzz", &Outcome::Skipped("no c++".into()), Duration::ZERO);
        assert_eq!(line, "fuzz: skipped: no c++");
    }
}
