//! The Python package: built as its users build it, in an environment of its own below the target directory, and tested there by pytest.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::cargo;
use crate::ci::{Outcome, checked, metadata, target_directory};
use crate::suite::{Tally, pytest};

/// What builds and tests the package, each with its hashes.
const REQUIREMENTS: &str = "crates/faces/forebay-python/tests/requirements.txt";
/// Interpreters in the order in which they are tried; the first may be one that its user has chosen.
const INTERPRETERS: [&str; 2] = ["python3", "/usr/bin/python3"];
/// What an interpreter must have.
const PROBE: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";

/// Builds, installs and tests the package.
///
/// # Errors
/// There is no Python that fits, or a step failed.
pub(crate) fn run(root: &Path, tally: &mut Tally) -> Result<Outcome> {
    let target = target_directory(&metadata(&root.join("Cargo.toml"))?);
    let environment = target.join("python");
    let python = environment.join("bin/python");
    if !fits(python.as_os_str()) {
        let Some(found) = INTERPRETERS.iter().find(|name| fits(name.as_ref())) else {
            bail!(
                "no Python 3.11 or newer with venv is there (looked at {INTERPRETERS:?}); `./x test` installs it, or: apt-get install python3 python3-venv"
            );
        };
        let words = ["-m", "venv", "--clear"];
        checked(Command::new(found).args(words).arg(&environment))?;
    }
    let pip = |words: &[&str]| -> Result<Command> {
        let mut command = Command::new(&python);
        command
            .args(["-m", "pip", "install", "--quiet"])
            .args(["--disable-pip-version-check"])
            .args(words)
            .env("PATH", path_with(&environment.join("bin"))?)
            .env("CARGO_TARGET_DIR", &target)
            // One profile with the other steps, whose objects it shares.
            .env("MATURIN_PEP517_ARGS", "--profile dev")
            .current_dir(root);
        Ok(command)
    };
    let wanted = fs::read_to_string(root.join(REQUIREMENTS)).context(REQUIREMENTS)?;
    let installed = environment.join("requirements.txt");
    if fs::read_to_string(&installed).ok().as_deref() != Some(wanted.as_str()) {
        checked(&mut pip(&["--require-hashes", "-r", REQUIREMENTS])?)?;
        fs::write(&installed, wanted).with_context(|| installed.display().to_string())?;
    }
    let package = [
        "--no-build-isolation",
        "--no-index",
        "--no-deps",
        "--force-reinstall",
        ".",
    ];
    checked(&mut pip(&package)?)?;
    // The daemon that the tests of the multiplexer's client talk to.
    let daemon = ["build", "--quiet", "--locked", "--package", "forebay"];
    let mut build = cargo();
    build.args(daemon).current_dir(root);
    checked(build.env("CARGO_TARGET_DIR", &target))?;
    let words = ["-m", "pytest"];
    let pytest = || {
        let mut command = Command::new(&python);
        command.args(words).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("FOREBAY_PROGRAM", target.join("debug/forebay"));
        command.current_dir(root);
        command
    };
    pytest::run(pytest, tally)?;
    tally.verdict()?;
    Ok(Outcome::Passed)
}

fn fits(interpreter: &std::ffi::OsStr) -> bool {
    let mut command = Command::new(interpreter);
    command.args(["-c", PROBE]).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The environment's programs first: pip looks for maturin there.
fn path_with(first: &Path) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(first.to_owned()).chain(env::split_paths(&path));
    env::join_paths(all).context("PATH")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_python_does_not_fit() {
        assert!(!fits("forebay-no-such-python".as_ref()));
        assert!(!fits("false".as_ref()));
    }

    #[test]
    fn the_environment_comes_first() {
        let path = path_with(Path::new("target/python/bin")).expect("no colon in it");
        let path = path.to_string_lossy().into_owned();
        assert!(path.starts_with("target/python/bin:"), "{path}");
    }
}
