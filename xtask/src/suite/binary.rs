//! The workspace's test binaries: built by cargo, and started as cargo starts them.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cargo_metadata::{Artifact, Message, TargetKind};

use crate::cargo;
use crate::child::{COMMAND_LIMIT, Ended, captured, captured_stdout};

use super::libtest::listed;

/// A test binary lists its tests without running any.
const LIST_LIMIT: Duration = Duration::from_secs(60);

/// A program of the test runner.
#[derive(Debug, Clone)]
pub(crate) struct Binary {
    /// As `forebay::net`, or `forebay-run` for the tests inside of a library.
    pub(crate) name: String,
    program: PathBuf,
    package_root: PathBuf,
    /// What cargo tells a test at run time; the rest of it is there since cargo runs us.
    environment: Vec<(String, String)>,
}

impl Binary {
    fn of(artifact: &Artifact, programs: &[(String, String)]) -> Result<Self> {
        let executable = artifact.executable.as_ref().context("no executable")?;
        let manifest = &artifact.manifest_path;
        let package_root = manifest.parent().context("no folder")?;
        let package = package_of(artifact);
        let mut environment = programs.to_vec();
        for (key, value) in [
            ("CARGO_MANIFEST_DIR", package_root.as_str()),
            ("CARGO_MANIFEST_PATH", manifest.as_str()),
            ("CARGO_PKG_NAME", &package),
        ] {
            environment.push((key.to_owned(), value.to_owned()));
        }
        Ok(Self {
            name: binary_name(&package, artifact),
            program: executable.clone().into_std_path_buf(),
            package_root: package_root.as_std_path().to_owned(),
            environment,
        })
    }

    pub(crate) fn run(&self, words: &[&str], limit: Duration) -> Result<Ended> {
        let mut command = Command::new(&self.program);
        command
            .args(words)
            .current_dir(&self.package_root)
            .envs(self.environment.iter().map(|(key, value)| (key, value)));
        captured(&mut command, limit)
    }

    /// The names of its tests, in the order in which they are run.
    pub(crate) fn list(&self) -> Result<Vec<String>> {
        let ended = self.run(&["--list"], LIST_LIMIT)?;
        if !ended.end.is_success() {
            bail!("{} --list: {}", self.program.display(), ended.end);
        }
        Ok(listed(&ended.lines))
    }
}

/// The test binaries in the order of their names, and the programs that cargo built for them.
#[derive(Debug, Default)]
pub(crate) struct Built {
    pub(crate) binaries: Vec<Binary>,
    pub(crate) programs: Vec<PathBuf>,
}

/// Builds all tests.
///
/// # Errors
/// Something cannot be built; the compiler has said why.
pub(crate) fn build(root: &Path) -> Result<Built> {
    let mut command = cargo();
    command
        .args(["test", "--workspace", "--locked", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root);
    let built = captured_stdout(&mut command, COMMAND_LIMIT)?;
    if !built.end.is_success() {
        bail!("the tests cannot be built: {}", built.end);
    }
    read(&built.text())
}

fn read(messages: &str) -> Result<Built> {
    let mut tests = Vec::new();
    let mut programs: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for message in Message::parse_stream(BufReader::new(messages.as_bytes())) {
        let Message::CompilerArtifact(artifact) = message? else {
            continue;
        };
        match &artifact.executable {
            Some(_) if artifact.profile.test => tests.push(artifact),
            Some(program) if artifact.target.is_bin() => {
                let key = format!("CARGO_BIN_EXE_{}", artifact.target.name);
                let of_package = programs.entry(package_of(&artifact)).or_default();
                of_package.push((key, program.to_string()));
            }
            _ => {}
        }
    }
    let binary = |artifact: &Artifact| {
        let of_package = programs.get(&package_of(artifact));
        Binary::of(artifact, of_package.map_or(&[], Vec::as_slice))
    };
    let mut binaries: Vec<Binary> = tests.iter().map(binary).collect::<Result<_>>()?;
    binaries.sort_by(|a, b| a.name.cmp(&b.name));
    let programs = programs.into_values().flatten();
    let programs = programs
        .map(|(_, program)| PathBuf::from(program))
        .collect();
    Ok(Built { binaries, programs })
}

/// `path+file:///…/crates/faces/forebay#0.1.0`, or `…#name@0.1.0` where the folder has another name.
fn package_of(artifact: &Artifact) -> String {
    let id = &artifact.package_id.repr;
    let (folder, fragment) = id.rsplit_once('#').unwrap_or((id, ""));
    let name = match fragment.split_once('@') {
        Some((name, _)) => name,
        None => folder.rsplit('/').next().unwrap_or(folder),
    };
    name.to_owned()
}

fn binary_name(package: &str, artifact: &Artifact) -> String {
    let target = &artifact.target;
    match target.kind.first() {
        Some(TargetKind::Test) => format!("{package}::{}", target.name),
        Some(TargetKind::Bin) => format!("{package}::bin/{}", target.name),
        Some(TargetKind::Example) => format!("{package}::example/{}", target.name),
        _ => package.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by cargo 1.96; the fields that are not read are kept as they came.
    const MESSAGES: &str = include_str!("recorded/messages.json");

    #[test]
    fn binaries_are_found_and_named() {
        let Built { binaries, programs } = read(MESSAGES).expect("readable");
        assert_eq!(programs, [Path::new("/tmp/q/target/debug/tool")]);
        let names: Vec<&str> = binaries.iter().map(|binary| binary.name.as_str()).collect();
        assert_eq!(names, ["q", "q::bin/tool", "q::whole"]);
    }

    #[test]
    fn a_test_is_told_where_its_package_and_its_programs_are() {
        let built = read(MESSAGES).expect("readable");
        let whole = &built.binaries[2];
        let of = |key: &str| {
            let mut found = whole.environment.iter().filter(|(name, _)| name == key);
            found.next().map(|(_, value)| value.as_str())
        };
        assert_eq!(of("CARGO_MANIFEST_DIR"), Some("/tmp/q"));
        assert_eq!(of("CARGO_PKG_NAME"), Some("q"));
        assert_eq!(of("CARGO_BIN_EXE_tool"), Some("/tmp/q/target/debug/tool"));
        assert_eq!(whole.package_root, Path::new("/tmp/q"));
    }
}
