//! Runs the fuzz targets without cargo-fuzz: a target is an ordinary binary once the compiler is told to insert the
//! coverage counters that libFuzzer reads. Works on stable Rust; needs a C++ compiler for libFuzzer itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, available_parallelism};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};

use crate::cargo;
use crate::child::checked_beside;
use crate::ci::{Outcome, checked, metadata, target_directory};

/// The flags that `cargo fuzz run -s none` gives, with debug assertions.
const COVERAGE_FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-simplifycfg-branch-fold-threshold=0 \
    -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1";

/// The targets are a workspace of their own: their flags are those of no other crate.
pub(crate) const MANIFEST: &str = "fuzz/Cargo.toml";
const MEMORY_LIMIT_MB: u32 = 2048;
const INPUT_TIMEOUT_SECONDS: u32 = 10;

/// Runs each target for `seconds`, or says why it does not.
pub(crate) fn run_if_possible(root: &Path, seconds: u64) -> Result<Outcome> {
    if let Some(why) = lacks(root) {
        return Ok(Outcome::Skipped(why));
    }
    run(root, seconds)?;
    Ok(Outcome::Passed)
}

/// Builds the targets beside other steps, or says why it does not.
pub(crate) fn build_beside(root: &Path) -> Result<Outcome> {
    if let Some(why) = lacks(root) {
        return Ok(Outcome::Skipped(why));
    }
    checked_beside(&Place::of(root)?.build_command())?;
    Ok(Outcome::Passed)
}

/// Lints the targets and their oracles, where they can be built.
pub(crate) fn clippy_beside(root: &Path) -> Result<()> {
    if lacks(root).is_some() {
        return Ok(());
    }
    let mut command = cargo();
    command.args(["clippy", "--bins", "--locked", "--manifest-path", MANIFEST]);
    // With the objects of the workspace: the same crates, checked once.
    command
        .arg("--target-dir")
        .arg(target_directory(&metadata(&root.join("Cargo.toml"))?));
    checked_beside(command.args(["--", "-D", "warnings"]).current_dir(root))
}

fn lacks(root: &Path) -> Option<String> {
    if !manifest(root).exists() {
        return Some("there is no fuzz/Cargo.toml".into());
    }
    let cxx = Command::new("c++").arg("--version").output();
    let why = "no c++ for libFuzzer; `cargo test` has replayed the corpus";
    cxx.is_err().then(|| why.into())
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
    let place = Place::of(root)?;
    checked(&mut place.build_command())?;
    let cores = available_parallelism().map_or(1, usize::from);
    run_all(targets, cores, |target| {
        place.run(target, seconds).map(drop).with_context(|| {
            format!("fuzz target '{target}' failed; the input is in fuzz/artifacts/{target}")
        })
    })
}

/// Runs the targets, so many at a time: each keeps one core busy. Gives the first error when all have ended.
fn run_all(
    targets: Vec<&str>,
    at_a_time: usize,
    run: impl Fn(&str) -> Result<()> + Sync,
) -> Result<()> {
    let queue = Mutex::new(targets.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || std::iter::from_fn(&next).try_for_each(&run);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..at_a_time).map(|_| scope.spawn(work)).collect();
        let ends = workers.into_iter().map(|worker| worker.join());
        let ends: Vec<Result<()>> = ends
            .map(|end| end.map_err(|_| anyhow!("a fuzz run panicked"))?)
            .collect();
        ends.into_iter().collect()
    })
}

fn manifest(root: &Path) -> PathBuf {
    root.join(MANIFEST)
}

struct Place<'a> {
    root: &'a Path,
    built: PathBuf,
    triple: String,
}

impl Place<'_> {
    fn of(root: &Path) -> Result<Place<'_>> {
        let workspace = metadata(&root.join("Cargo.toml"))?;
        Ok(Place {
            root,
            built: target_directory(&workspace).join("fuzz"),
            triple: host_triple()?,
        })
    }

    /// `--target` keeps the coverage flags away from build scripts and procedural macros.
    fn build_command(&self) -> Command {
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
            .env("RUSTFLAGS", COVERAGE_FLAGS)
            .current_dir(self.root);
        command
    }

    /// New inputs go below the target directory; the committed corpus is only read.
    fn run(&self, target: &str, seconds: u64) -> Result<Outcome> {
        let seed = seed();
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
        let said = format!("fuzz: {target} for {seconds} s, -seed={seed}\n");
        run_quietly(command.current_dir(self.root), said)
    }
}

/// libFuzzer says much; shown is what it did, or all of it when it found something.
fn run_quietly(command: &mut Command, mut said: String) -> Result<Outcome> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        println!("{said}{text}{}", String::from_utf8_lossy(&output.stdout));
        bail!("{}: {command:?}", output.status);
    }
    let tells = |line: &&str| line.contains("executed_units") || line.contains("new_units");
    text.lines()
        .filter(tells)
        .for_each(|line| said.push_str(&format!("  {line}\n")));
    print!("{said}");
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
        assert!(run_quietly(&mut Command::new("false"), String::new()).is_err());
        assert!(run_quietly(&mut Command::new("true"), String::new()).is_ok());
    }

    #[test]
    fn every_target_runs_two_at_a_time_and_an_error_is_kept() {
        let both = std::sync::Barrier::new(2);
        let ran = Mutex::new(Vec::new());
        let run = |target: &str| {
            both.wait();
            ran.lock().expect("no panic").push(target.to_owned());
            match target {
                "c" => bail!("found something"),
                _ => Ok(()),
            }
        };
        let error = run_all(vec!["a", "b", "c", "d"], 2, run).expect_err("one of them");
        assert_eq!(error.to_string(), "found something");
        let mut ran = ran.into_inner().expect("no panic");
        ran.sort_unstable();
        assert_eq!(ran, ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_repository_without_targets_is_skipped_with_a_reason() {
        let outcome = run_if_possible(Path::new("/nonexistent"), 1).expect("no error");
        assert!(matches!(outcome, Outcome::Skipped(why) if why.contains("fuzz/Cargo.toml")));
    }
}
