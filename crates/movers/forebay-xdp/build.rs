//! Compiles the programs of the kernel where clang is, and writes down why there is none where it is not: the crate is built in any case.
//!
//! Cargo runs this again when `PATH` changes, when clang changes, and, as long as there is none, when a folder of `PATH` does: a clang that was installed since is found
//! by the next build. (To name the files that clang would be would not do: a file that is not there makes cargo build this crate anew each time.)

#![allow(
    clippy::print_stdout,
    reason = "cargo reads what a build script prints"
)]

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each is compiled from a source to an object of its own, with what is defined there.
const OBJECTS: [(&str, &str, &[&str]); 4] = [
    ("connections", "src/connections.bpf.c", &[]),
    ("filter", "src/connections.bpf.c", &["-DFILTER"]),
    ("redirect", "src/redirect.bpf.c", &[]),
    ("repeat", "src/repeat.bpf.c", &[]),
];
const HEADERS: [&str; 5] = [
    "src/connections.bpf.h",
    "src/filter.bpf.h",
    "src/frame.bpf.h",
    "src/kernel.bpf.h",
    "src/xdp.bpf.h",
];

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-env-changed=PATH");
    let sources = OBJECTS.iter().map(|(_, source, _)| *source);
    for source in sources.chain(HEADERS) {
        println!("cargo::rerun-if-changed={source}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let object = |name: &str| out.join(format!("{name}.bpf.o"));
    let why_not = match find_clang() {
        Some(clang) => {
            println!("cargo::rerun-if-changed={}", clang.display());
            let mut compiled = OBJECTS
                .iter()
                .map(|(name, source, defined)| compile(&clang, source, defined, &object(name)));
            compiled.find_map(Result::err)
        }
        None => {
            for folder in folders().filter(|folder| folder.is_dir()) {
                println!("cargo::rerun-if-changed={}", folder.display());
            }
            Some("clang was not there when this program was built".to_owned())
        }
    };
    if let Some(why) = &why_not {
        println!("cargo::warning=no programs for the kernel: {why}");
        for (name, ..) in OBJECTS {
            fs::write(object(name), [])?;
        }
    }
    fs::write(out.join("why_not.txt"), why_not.unwrap_or_default())
}

fn folders() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin"));
    env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

fn find_clang() -> Option<PathBuf> {
    folders()
        .map(|folder| folder.join("clang"))
        .find(|clang| clang.is_file())
}

/// One line says why it failed.
fn compile(clang: &Path, source: &str, defined: &[&str], object: &Path) -> Result<(), String> {
    let mut command = Command::new(clang);
    command.args(["-target", "bpf", "-O2", "-mcpu=v3", "-Wall", "-nostdinc"]);
    command.args(defined).args(["-c", source, "-o"]).arg(object);
    let name = clang.display();
    let output = command
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find(|line| line.contains("error"));
    let line = line.or_else(|| said.lines().next()).unwrap_or("no reason");
    Err(format!("{name} could not compile it: {line}"))
}
