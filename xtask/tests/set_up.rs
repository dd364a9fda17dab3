//! `./x set-up`: which versions of which tools it installs, with apt, dpkg and the tools played by a script.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Played by `set_up/stub.sh`.
const STUBS: &[&str] = &[
    "apt-cache",
    "apt-get",
    "c++",
    "cargo",
    "cargo-clippy",
    "cargo-fmt",
    "cc",
    "clippy-driver",
    "dpkg",
    "dpkg-query",
    "id",
    "ip",
    "python3",
    "rustc",
    "rustfmt",
];
const ALL: &[&str] = &[
    "cargo",
    "rustc",
    "cargo-clippy",
    "clippy-driver",
    "rustfmt",
    "cargo-fmt",
];
const OLD: &str = "1.85.0";
const NEW: &str = "1.96.0";

/// A machine: its programs in one directory, what is installed and what its archives are in another.
struct Machine(PathBuf);

impl Machine {
    /// `marks`: `mirror` when the security archive lies beside the main one, `security` when it is in the list of sources.
    fn new(name: &str, marks: &[&str]) -> Self {
        let machine = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        let _ = fs::remove_dir_all(&machine.0);
        fs::create_dir_all(machine.0.join("bin")).unwrap();
        fs::create_dir_all(machine.state()).unwrap();
        let stub = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/set_up/stub.sh");
        for name in STUBS {
            symlink(&stub, machine.0.join("bin").join(name)).unwrap();
        }
        for mark in marks {
            fs::write(machine.state().join(mark), "1").unwrap();
        }
        machine
    }

    fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    fn has(self, tools: &[&str], version: &str) -> Self {
        for tool in tools {
            fs::write(self.state().join(tool), version).unwrap();
        }
        self
    }

    fn set_up(&self, purpose: &str) -> Output {
        let root = forebay_testing::root();
        Command::new("sh")
            .arg(root.join("x"))
            .args(["set-up", purpose])
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", self.0.join("bin").display()),
            )
            .env("STATE", self.state())
            .env("CARGO_HOME", self.0.join("no-cargo-home"))
            .env("FOREBAY_SYSTEM_CARGO", self.0.join("bin/cargo"))
            .env("SSL_CERT_FILE", file!())
            .current_dir(root)
            .output()
            .unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.state().join("log")).unwrap_or_default()
    }

    fn version(&self, tool: &str) -> String {
        let version = fs::read_to_string(self.state().join(tool)).unwrap_or_default();
        version.trim().to_owned()
    }
}

fn assert_all_new(machine: &Machine, ended: &Output) {
    assert!(ended.status.success(), "{ended:?}\n{}", machine.log());
    for tool in ALL {
        assert_eq!(machine.version(tool), NEW, "{tool}: {}", machine.log());
    }
}

#[test]
fn after_the_demo_clippy_and_rustfmt_come_in_the_version_of_rustc() {
    let machine = Machine::new("after-demo", &["mirror"]).has(&["cargo", "rustc"], NEW);
    assert_all_new(&machine, &machine.set_up("test"));
    let before = machine.log();
    assert_all_new(&machine, &machine.set_up("test"));
    let again = machine.log().split_off(before.len());
    assert!(!again.contains("-web"), "a second time: {again}");
}

#[test]
fn each_tool_is_asked_for_its_own_version() {
    for old in ALL.iter().filter(|tool| !tool.ends_with("fmt")) {
        let machine = Machine::new(&format!("old-{old}"), &["mirror"])
            .has(ALL, NEW)
            .has(&[old], OLD);
        assert_all_new(&machine, &machine.set_up("test"));
    }
    let machine = Machine::new("old-for-demo", &["mirror"])
        .has(ALL, NEW)
        .has(&["rustc"], OLD);
    assert_all_new(&machine, &machine.set_up("demo"));
}

#[test]
fn a_security_archive_that_is_listed_is_not_added_again() {
    let machine = Machine::new("listed", &["security"]);
    assert_all_new(&machine, &machine.set_up("test"));
    assert!(!machine.log().contains("sourceparts"), "{}", machine.log());
}

#[test]
fn an_installation_that_was_interrupted_is_finished_first() {
    let machine = Machine::new("interrupted", &["mirror", "interrupted"]).has(&["rustc"], NEW);
    assert_all_new(&machine, &machine.set_up("test"));
    assert!(
        machine.log().contains("dpkg --configure -a"),
        "{}",
        machine.log()
    );
}

#[test]
fn archives_without_a_new_rust_are_named_with_what_they_have() {
    let machine = Machine::new("too-old", &[]).has(&["cargo", "rustc"], NEW);
    let ended = machine.set_up("test");
    assert!(!ended.status.success());
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        said.contains("rust-web-clippy 1.85.0") && said.contains("bookworm-security"),
        "{said}"
    );
    assert!(!machine.log().contains(" install "), "{}", machine.log());
}
