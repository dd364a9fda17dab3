//! Runs the fuzz targets without cargo-fuzz: a target is an ordinary binary once the compiler is told to insert the
//! coverage counters that libFuzzer reads. Works on stable Rust; needs a C++ compiler for libFuzzer itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::cargo;
use crate::ci::{Outcome, checked, metadata, target_directory};

/// The flags that `cargo fuzz run -s none` gives, with debug assertions.
const COVERAGE_FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-simplifycfg-branch-fold-threshold=0 \
    -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1";

const MEMORY_LIMIT_MB: u32 = 2048;
const INPUT_TIMEOUT_SECONDS: u32 = 10;

/// Runs each target for `seconds`, or says why it does not.
pub(crate) fn run_if_possible(root: &Path, seconds: u64) -> Result<Outcome> {
    if !manifest(root).exists() {
        return Ok(Outcome::Skipped("there is no fuzz/Cargo.toml".into()));
    }
    if Command::new("c++").arg("--version").output().is_err() {
        return Ok(Outcome::Skipped(
            "no c++ for libFuzzer; `cargo test` has replayed the corpus".into(),
        ));
    }
    run(root, seconds)?;
    Ok(Outcome::Passed)
}

/// Runs each target for `seconds`.
///
/// # Errors
/// A target that cannot be built, or that found an input which fails; libFuzzer has printed it, and its seed.
pub(crate) fn run(root: &Path, seconds: u64) -> Result<()> {
    let metadata = metadata(&manifest(root))?;
    let targets: Vec<&str> = metadata
        .packages
        .iter()
        .flat_map(|package| &package.targets)
        .filter(|target| target.is_bin())
        .map(|target| target.name.as_str())
        .collect();
    if targets.is_empty() {
        bail!("fuzz/Cargo.toml has no targets");
    }
    let workspace = crate::ci::metadata(&root.join("Cargo.toml"))?;
    let place = Place {
        root,
        built: target_directory(&workspace).join("fuzz"),
        triple: host_triple()?,
    };
    place.build()?;
    for target in targets {
        place.run(target, seconds).with_context(|| {
            format!("fuzz target '{target}' failed; the input is in fuzz/artifacts/{target}")
        })?;
    }
    Ok(())
}

fn manifest(root: &Path) -> PathBuf {
    root.join("fuzz/Cargo.toml")
}

struct Place<'a> {
    root: &'a Path,
    built: PathBuf,
    triple: String,
}

impl Place<'_> {
    /// `--target` keeps the coverage flags away from build scripts and procedural macros.
    fn build(&self) -> Result<Outcome> {
        let mut command = cargo();
        command
            .args([
                "build",
                "--release",
                "--bins",
                "--locked",
                "--quiet",
                "--target",
                &self.triple,
            ])
            .arg("--manifest-path")
            .arg(manifest(self.root))
            .arg("--target-dir")
            .arg(&self.built)
            .env("RUSTFLAGS", COVERAGE_FLAGS);
        checked(command.current_dir(self.root))
    }

    /// New inputs go below the target directory; the committed corpus is only read.
    fn run(&self, target: &str, seconds: u64) -> Result<Outcome> {
        let seed = seed();
        println!("fuzz: {target} for {seconds} s, -seed={seed}");
        let found = self.built.join("corpus").join(target);
        let artifacts = self.root.join("fuzz/artifacts").join(target);
        for path in [&found, &artifacts] {
            fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        }
        let mut command = Command::new(self.built.join(&self.triple).join("release").join(target));
        command
            .arg(format!("-seed={seed}"))
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-timeout={INPUT_TIMEOUT_SECONDS}"))
            .arg(format!("-rss_limit_mb={MEMORY_LIMIT_MB}"))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .args(["-print_final_stats=1", "-verbosity=0"])
            .arg(found)
            .args(Some(self.root.join("fuzz/corpus").join(target)).filter(|seeds| seeds.is_dir()));
        run_quietly(command.current_dir(self.root))
    }
}

/// libFuzzer says much; shown is what it did, or all of it when it found something.
fn run_quietly(command: &mut Command) -> Result<Outcome> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        println!("{text}{}", String::from_utf8_lossy(&output.stdout));
        bail!("{}: {command:?}", output.status);
    }
    let tells = |line: &&str| line.contains("executed_units") || line.contains("new_units");
    text.lines()
        .filter(tells)
        .for_each(|line| println!("  {line}"));
    Ok(Outcome::Passed)
}

/// Another one for each run, printed so that a run can be repeated. Zero would let libFuzzer choose in silence.
fn seed() -> u32 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    now.subsec_nanos().max(1)
}

fn host_triple() -> Result<String> {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .context("cannot run rustc -vV")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    host_of(&text)
        .map(str::to_owned)
        .context("rustc -vV names no host")
}

fn host_of(version: &str) -> Option<&str> {
    version.lines().find_map(|line| line.strip_prefix("host: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_read_from_the_version() {
        assert_eq!(
            host_of("rustc 1.96.0\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\n"),
            Some("x86_64-unknown-linux-gnu")
        );
        assert_eq!(host_of("rustc 1.96.0\n"), None);
    }

    #[test]
    fn a_run_that_finds_something_is_an_error() {
        assert!(run_quietly(&mut Command::new("false")).is_err());
        assert!(run_quietly(&mut Command::new("true")).is_ok());
    }

    #[test]
    fn a_repository_without_targets_is_skipped_with_a_reason() {
        let outcome = run_if_possible(Path::new("/nonexistent"), 1).expect("no error");
        assert!(matches!(outcome, Outcome::Skipped(why) if why.contains("fuzz/Cargo.toml")));
    }
}
