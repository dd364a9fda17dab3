//! Which parts of the tree each check holds, by path: one table, so that what moves is changed here alone. An entry that matches nothing is a finding, as a
//! check of nothing passes.

use super::Finding;
use super::tree::Tree;

const TABLE: &str = "xtask/src/tidy/places.rs";

pub(super) const SPECIFICATION: &str = "docs/SPECIFICATION.md";
pub(super) const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";
pub(super) const README: &str = "README.md";
/// Where the parts of the bench are listed, each as the first string of a line.
pub(super) const BENCH_PARTS: &str = "crates/tools/forebay-bench/src/bench.rs";
/// The script of all commands.
pub(super) const SCRIPT: &str = "x";
/// A workspace of its own, whose dependencies count, too.
pub(super) const FUZZ: &str = "fuzz/Cargo.toml";

/// What an entry has to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Folders of crates, with `/` at the end: each has a manifest that names a package, and sources.
    Crates,
    /// Folders with sources in Rust, with `/` at the end.
    Sources,
    /// Files.
    Files,
}

/// A check and what it holds.
#[derive(Debug)]
pub(super) struct Places {
    /// The check, for people.
    pub(super) check: &'static str,
    pub(super) kind: Kind,
    pub(super) entries: &'static [&'static str],
}

/// The crates that may have unsafe code.
pub(super) const UNSAFE: Places = Places {
    check: "the fence of unsafe code",
    kind: Kind::Crates,
    entries: &[
        "crates/movers/forebay-sys/",
        "crates/movers/forebay-ring/",
        "crates/movers/forebay-fabric/",
        "crates/movers/forebay-xdp/",
        "crates/faces/forebay-client-c/",
    ],
};

/// The crates that are told the time and handed bytes: no clock, thread, socket or file.
pub(super) const ENGINES: Places = Places {
    check: "the fence of engines",
    kind: Kind::Crates,
    entries: &[
        "crates/ground/forebay-wire/",
        "crates/ground/forebay-ledger/",
        "crates/ground/forebay-settings/",
        "crates/engines/forebay-evb/",
        "crates/engines/forebay-flow/",
        "crates/engines/forebay-msg/",
        "crates/engines/forebay-mux/",
        "crates/engines/forebay-readout/",
        "crates/engines/forebay-tdm/",
        "crates/emulators/forebay-emu/",
        "crates/emulators/forebay-traffic/",
        "crates/emulators/forebay-load/",
        "crates/emulators/forebay-ctt/",
    ],
};

/// The crates that nothing may rest on, tests included.
pub(super) const FACES: Places = Places {
    check: "the drawing's faces",
    kind: Kind::Crates,
    entries: &[
        "crates/faces/forebay/",
        "crates/tools/forebay-bench/",
        "crates/faces/forebay-python/",
        "crates/faces/forebay-client-c/",
        "xtask/",
    ],
};

/// The floor of the runtime, and that of the systems on it: one crate each.
pub(super) const RUNTIME: &str = "crates/runtime/";
pub(super) const SYSTEMS: &str = "crates/systems/";

const BUDGETS: Places = Places {
    check: "budgets of the runtime and of systems",
    kind: Kind::Sources,
    entries: &[RUNTIME, SYSTEMS],
};

/// Where wire formats are, each with golden bytes.
pub(super) const FORMATS: Places = Places {
    check: "golden bytes of wire formats",
    kind: Kind::Sources,
    entries: &["crates/ground/forebay-wire/src/"],
};

/// Where tests say by one helper what they leave out.
pub(super) const TESTED: Places = Places {
    check: "reasons to skip",
    kind: Kind::Sources,
    entries: &["crates/"],
};

/// The crate of that helper, which alone knows the form.
pub(super) const SKIP_HELPER: Places = Places {
    check: "the helper of reasons to skip",
    kind: Kind::Crates,
    entries: &["crates/ground/forebay-testing/"],
};

const PROMISES: Places = Places {
    check: "promises and their tests",
    kind: Kind::Files,
    entries: &[SPECIFICATION, BENCH_PARTS],
};

const REASONS: Places = Places {
    check: "reasons for dependencies",
    kind: Kind::Files,
    entries: &[ARCHITECTURE],
};

const COMMAND_LINES: Places = Places {
    check: "command lines in documents",
    kind: Kind::Files,
    entries: &[README, SPECIFICATION, SCRIPT],
};

const LICENCES: Places = Places {
    check: "licences",
    kind: Kind::Files,
    entries: &["Cargo.toml", FUZZ],
};

/// All of them.
pub(super) const ALL: &[Places] = &[
    UNSAFE,
    ENGINES,
    FACES,
    BUDGETS,
    FORMATS,
    TESTED,
    SKIP_HELPER,
    PROMISES,
    REASONS,
    COMMAND_LINES,
    LICENCES,
];

impl Places {
    /// Whether a file is held.
    pub(super) fn hold(&self, path: &str) -> bool {
        self.entries.iter().any(|entry| match self.kind {
            Kind::Files => path == *entry,
            Kind::Crates | Kind::Sources => path.starts_with(entry),
        })
    }

    /// The packages of these crates.
    pub(super) fn packages(&self, tree: &Tree) -> Vec<String> {
        let package = |entry: &&str| package_in(tree, entry);
        self.entries.iter().filter_map(package).collect()
    }

    fn missing(&self, tree: &Tree, entry: &str) -> Option<&'static str> {
        let has_sources = tree.rust().any(|source| source.path.starts_with(entry));
        match self.kind {
            Kind::Files => tree
                .text(entry)
                .is_none()
                .then_some("there is no such file"),
            Kind::Sources => (!has_sources).then_some("there is no source in Rust below it"),
            Kind::Crates if package_in(tree, entry).is_none() => {
                Some("there is no crate in this folder")
            }
            Kind::Crates => (!has_sources).then_some("the crate has no sources"),
        }
    }
}

/// The package whose manifest is in a folder.
fn package_in(tree: &Tree, folder: &str) -> Option<String> {
    let manifest = tree.text(&format!("{folder}Cargo.toml"))?;
    let manifest: toml::Table = manifest.parse().ok()?;
    let name = manifest.get("package")?.get("name")?;
    name.as_str().map(str::to_owned)
}

pub(super) fn check(tree: &Tree, all: &[Places]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for places in all {
        if places.entries.is_empty() {
            findings.push(Finding::new(
                TABLE,
                format!("{} holds nothing", places.check),
                "name what it holds, or take the check out",
            ));
        }
        for entry in places.entries {
            findings.extend(places.missing(tree, entry).map(|what| {
                Finding::new(
                    TABLE,
                    format!("{} names {entry}: {what}", places.check),
                    "write where it is now, or take the entry out",
                )
            }));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// A tree in which every entry matches.
    fn made_up() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for places in ALL {
            for entry in places.entries {
                match places.kind {
                    Kind::Files => write(folder.path(), entry, ""),
                    Kind::Sources => write(folder.path(), &format!("{entry}some.rs"), ""),
                    Kind::Crates => {
                        let name = entry.trim_end_matches('/').replace('/', "-");
                        let manifest = format!("[package]\nname = \"{name}\"\n");
                        write(folder.path(), &format!("{entry}Cargo.toml"), &manifest);
                        write(folder.path(), &format!("{entry}src/lib.rs"), "");
                    }
                }
            }
        }
        folder
    }

    fn found(root: &Path, all: &[Places]) -> Vec<String> {
        let tree = Tree::read(root).expect("readable");
        let findings = check(&tree, all).into_iter();
        findings
            .map(|finding| {
                assert!(finding.place == TABLE && !finding.remedy.is_empty());
                finding.what
            })
            .collect()
    }

    #[test]
    fn this_tree_has_what_every_check_names() {
        assert_eq!(found(&forebay_testing::root(), ALL), Vec::<String>::new());
    }

    #[test]
    fn a_tree_with_all_of_it_passes() {
        assert_eq!(found(made_up().path(), ALL), Vec::<String>::new());
    }

    /// Of each check, with its entries one after the other.
    #[test]
    fn an_entry_that_has_moved_is_found_by_its_check() {
        let folder = made_up();
        let root = folder.path();
        for places in ALL {
            for entry in places.entries {
                let (from, to) = (root.join(entry), root.join("moved"));
                fs::rename(&from, &to).expect("moved away");
                let found = found(root, ALL);
                let names = |what: &&String| {
                    what.starts_with(places.check) && what.contains(&format!(" {entry}: "))
                };
                assert_eq!(found.iter().filter(names).count(), 1, "{entry}: {found:?}");
                fs::rename(&to, &from).expect("moved back");
            }
        }
    }

    #[test]
    fn a_crate_without_a_package_or_sources_is_found() {
        let folder = made_up();
        let entry = UNSAFE.entries[0];
        let manifest = folder.path().join(entry).join("Cargo.toml");
        for text in ["", "[package]\n", "no manifest"] {
            fs::write(&manifest, text).expect("a file");
            assert_eq!(found(folder.path(), &[UNSAFE]).len(), 1, "{text}");
        }
        fs::write(&manifest, "[package]\nname = \"a\"\n").expect("a file");
        assert!(found(folder.path(), &[UNSAFE]).is_empty());
        fs::remove_dir_all(folder.path().join(entry).join("src")).expect("removed");
        assert_eq!(found(folder.path(), &[UNSAFE]).len(), 1);
    }

    #[test]
    fn a_check_that_holds_nothing_is_found() {
        for kind in [Kind::Crates, Kind::Sources, Kind::Files] {
            let empty = Places {
                check: "a check",
                kind,
                entries: &[],
            };
            let found = found(made_up().path(), &[empty]);
            assert_eq!(found, ["a check holds nothing"]);
        }
    }

    #[test]
    fn folders_hold_what_is_below_them_and_files_themselves() {
        assert!(UNSAFE.hold("crates/movers/forebay-sys/src/lib.rs"));
        assert!(!UNSAFE.hold("crates/forebay-system/src/lib.rs"));
        assert!(REASONS.hold(ARCHITECTURE) && !REASONS.hold("docs/ARCHITECTURE.md.old"));
    }
}
