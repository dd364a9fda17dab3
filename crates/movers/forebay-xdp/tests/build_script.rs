//! The script that builds this crate's programs of the kernel, in a crate of its own with empty sources: what makes cargo run it again, and what does not. A stub stands for clang.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

const MANIFEST: &str =
    "[package]\nname = \"it\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n";
/// What links a build script, which is in the same folders as clang is.
const LINKERS: [&str; 3] = ["cc", "ld", "as"];

/// A crate, and a folder of `PATH` in which nothing but a linker is.
struct Project {
    folder: TempDir,
}

impl Project {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let source = folder.path().join("src");
        fs::create_dir(&source).unwrap();
        for entry in fs::read_dir(own.join("src")).unwrap() {
            let name = entry.unwrap().file_name();
            let text = name.to_string_lossy();
            if text.ends_with(".bpf.c") || text.ends_with(".bpf.h") {
                fs::write(source.join(&name), "").unwrap();
            }
        }
        fs::write(source.join("lib.rs"), "").unwrap();
        fs::write(folder.path().join("Cargo.toml"), MANIFEST).unwrap();
        fs::copy(own.join("build.rs"), folder.path().join("build.rs")).unwrap();
        let programs = folder.path().join("programs");
        fs::create_dir(&programs).unwrap();
        let path = env::var_os("PATH").unwrap_or_default();
        for name in LINKERS {
            let mut places = env::split_paths(&path).map(|place| place.join(name));
            if let Some(place) = places.find(|place| place.is_file()) {
                symlink(fs::canonicalize(place).unwrap(), programs.join(name)).unwrap();
            }
        }
        Self { folder }
    }

    /// Installs a clang, whose objects have these words.
    fn install(&self, words: &str) {
        let clang = self.folder.path().join("programs/clang");
        let script =
            format!("#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\necho '{words}' > \"$2\"\n");
        fs::write(&clang, script).unwrap();
        fs::set_permissions(&clang, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Builds it; whether the script ran.
    fn build(&self) -> bool {
        let cargo = PathBuf::from(env!("CARGO"));
        let ended = Command::new(&cargo)
            .args(["build", "--offline", "--verbose"])
            .current_dir(self.folder.path())
            .env("PATH", self.folder.path().join("programs"))
            .env("RUSTC", cargo.with_file_name("rustc"))
            .env("CARGO_TARGET_DIR", self.folder.path().join("target"))
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("RUSTC_WRAPPER")
            .env_remove("CARGO_BUILD_TARGET")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{said}");
        said.contains("build-script-build`")
    }

    /// What the script left behind under this name.
    fn left(&self, name: &str) -> String {
        let builds = self.folder.path().join("target/debug/build");
        let mut found = fs::read_dir(builds).unwrap().filter_map(|entry| {
            let file = entry.unwrap().path().join("out").join(name);
            fs::read_to_string(file).ok()
        });
        found.next().unwrap()
    }
}

#[test]
fn a_clang_that_is_installed_or_changed_later_is_found_by_the_next_build() {
    let project = Project::new();
    assert!(project.build());
    assert!(project.left("why_not.txt").contains("clang was not there"));
    assert_eq!(project.left("connections.bpf.o"), "");
    // As long as there is none, a build has nothing to do.
    assert!(!project.build());
    project.install("first");
    assert!(project.build());
    assert_eq!(project.left("why_not.txt"), "");
    for name in ["connections", "filter", "redirect", "repeat"] {
        assert_eq!(project.left(&format!("{name}.bpf.o")), "first\n");
    }
    assert!(!project.build());
    project.install("second");
    assert!(project.build());
    assert_eq!(project.left("connections.bpf.o"), "second\n");
    // It is compiled again when a source or a header is another one.
    for source in ["redirect.bpf.c", "kernel.bpf.h"] {
        assert!(!project.build());
        fs::write(project.folder.path().join("src").join(source), "other").unwrap();
        assert!(project.build(), "{source}");
    }
}
