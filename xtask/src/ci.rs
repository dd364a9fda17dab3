//! The whole of CI: the steps in order of cost, each timed; the first failure stops and is named.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cargo_metadata::{Metadata, MetadataCommand};

use crate::{cargo, fuzz, tidy};

const FUZZ_SECONDS_PER_TARGET: u64 = 10;

/// How a step ended, when it did not fail.
pub(crate) enum Outcome {
    Passed,
    Skipped(String),
}

struct Step {
    name: &'static str,
    run: fn(&Path) -> Result<Outcome>,
}

const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        run: fmt,
    },
    Step {
        name: "clippy",
        run: clippy,
    },
    Step {
        name: "tidy",
        run: |root| tidy::run(root).map(|()| Outcome::Passed),
    },
    Step {
        name: "doc",
        run: doc,
    },
    Step {
        name: "test",
        run: test,
    },
    Step {
        name: "loom",
        run: loom,
    },
    Step {
        name: "fuzz",
        run: |root| fuzz::run_if_possible(root, FUZZ_SECONDS_PER_TARGET),
    },
];

/// Runs every step.
///
/// # Errors
/// The first step that fails, by name.
pub(crate) fn run(root: &Path) -> Result<()> {
    let start = Instant::now();
    let mut report = Vec::new();
    for step in STEPS {
        println!("ci: {}", step.name);
        let begun = Instant::now();
        let outcome =
            (step.run)(root).with_context(|| format!("ci FAILED at step '{}'", step.name))?;
        let line = report_line(step.name, &outcome, begun.elapsed());
        println!("ci: {line}");
        report.push(line);
    }
    println!(
        "\nci: {} steps in {}",
        report.len(),
        seconds(start.elapsed())
    );
    for line in report {
        println!("  {line}");
    }
    Ok(())
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

fn test(root: &Path) -> Result<Outcome> {
    checked(
        cargo()
            .args(["test", "--workspace", "--no-fail-fast", "--locked"])
            .current_dir(root),
    )
}

/// Runs `tests/loom.rs` of each crate that has one, with its own target directory since `--cfg loom` rebuilds all.
fn loom(root: &Path) -> Result<Outcome> {
    let metadata = metadata(&root.join("Cargo.toml"))?;
    let crates = crates_with_loom(&metadata);
    if crates.is_empty() {
        return Ok(Outcome::Skipped("no crate has tests/loom.rs".into()));
    }
    for name in crates {
        checked(&mut loom_command(root, &metadata, &name))?;
    }
    Ok(Outcome::Passed)
}

fn crates_with_loom(metadata: &Metadata) -> Vec<String> {
    let has_loom = |manifest: &Path| manifest.with_file_name("tests").join("loom.rs").exists();
    let packages = metadata.workspace_packages();
    packages
        .iter()
        .filter(|p| has_loom(p.manifest_path.as_std_path()))
        .map(|p| p.name.to_string())
        .collect()
}

fn loom_command(root: &Path, metadata: &Metadata, name: &str) -> Command {
    let mut command = cargo();
    command
        .args([
            "test",
            "--locked",
            "--release",
            "--test",
            "loom",
            "--package",
            name,
            "--target-dir",
        ])
        .arg(target_directory(metadata).join("loom"))
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

/// Runs a command whose output goes to ours; its exit code decides.
pub(crate) fn checked(command: &mut Command) -> Result<Outcome> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{status}: {command:?}");
    }
    Ok(Outcome::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let error = checked(&mut Command::new("false"))
            .err()
            .expect("false fails");
        assert!(error.to_string().contains("\"false\""), "{error}");
    }

    #[test]
    fn a_command_that_cannot_start_is_an_error() {
        assert!(checked(&mut Command::new("forebay-no-such-command")).is_err());
    }

    #[test]
    fn a_skipped_step_says_why() {
        let line = report_line("fuzz", &Outcome::Skipped("no c++".into()), Duration::ZERO);
        assert_eq!(line, "fuzz: skipped: no c++");
    }
}
