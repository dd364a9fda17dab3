//! The assembly is to become a runtime and one crate for each system: its modules name each other only where those crates may, but for what is kept still.

mod paths;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::places::ASSEMBLY;
use super::tree::Tree;
use paths::{Named, named};
use table::{ALLOWED, ENGINES, KEPT, MODULES};

const TABLE: &str = "xtask/src/tidy/arrows/table.rs";

/// An arrow against the direction that is allowed still: from a module, to one or an engine, and what has to be done first. The list only gets shorter.
type Kept = (&'static str, &'static str, &'static str);

/// What an assembly is held against.
struct Drawing<'a> {
    modules: &'a [(&'a str, &'a str)],
    allowed: &'a [(&'a str, &'a [&'a str])],
    engines: &'a [&'a str],
    kept: &'a [Kept],
}

/// An arrow from a module to a module or an engine, and where it was seen first.
type Arrows = BTreeMap<(String, String), (String, usize)>;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let drawing = Drawing {
        modules: MODULES,
        allowed: ALLOWED,
        engines: ENGINES,
        kept: KEPT,
    };
    let folders = ASSEMBLY.entries.iter();
    folders
        .flat_map(|folder| drawing.judge(tree, folder))
        .collect()
}

/// The path of a module, as `readout/config`; the root has none.
fn module_of(path: &str, folder: &str) -> Option<String> {
    let stem = path.strip_prefix(folder)?.strip_suffix(".rs")?;
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    Some(if stem == "lib" { "" } else { stem }.into())
}

impl Drawing<'_> {
    fn judge(&self, tree: &Tree, folder: &str) -> Vec<Finding> {
        let sources: Vec<_> = tree
            .rust()
            .filter_map(|source| Some((source, module_of(&source.path, folder)?)))
            .collect();
        let all: BTreeSet<String> = sources.iter().map(|(_, module)| module.clone()).collect();
        let mut findings = self.rows(&all);
        let mut arrows = Arrows::new();
        for (source, module) in &sources {
            if self.home(module).is_none() {
                findings.push(Finding::new(
                    &source.path,
                    "no crate is named for this module",
                    format!("give it a row in {TABLE}"),
                ));
            }
            for Named { path, line } in named(&source.text, module, &all) {
                if let Some(to) = self.goal(&path, &all).filter(|to| to != module) {
                    let place = (source.path.clone(), line);
                    arrows.entry((module.clone(), to)).or_insert(place);
                }
            }
        }
        findings.extend(self.against(&arrows));
        findings
    }

    /// The crate of a module: that of its own row, or of the nearest one above it. A module that has rows below it is alone in its row.
    fn home(&self, module: &str) -> Option<&str> {
        let mut of = module;
        loop {
            if let Some((row, home)) = self.modules.iter().find(|(row, _)| *row == of) {
                let below = format!("{row}/");
                let is_split =
                    of.is_empty() || self.modules.iter().any(|(row, _)| row.starts_with(&below));
                return (of == module || !is_split).then_some(*home);
            }
            of = of.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }

    /// What a path names that is judged: the module nearest to it, or an engine.
    fn goal(&self, path: &[String], all: &BTreeSet<String>) -> Option<String> {
        let first = path.first()?;
        if first != "crate" {
            return self
                .engines
                .contains(&first.as_str())
                .then(|| first.clone());
        }
        let lengths = (1..path.len()).rev();
        let mut modules = lengths.map(|length| path[1..=length].join("/"));
        modules
            .find(|module| all.contains(module))
            .or(Some(String::new()))
    }

    fn is_allowed(&self, from: &str, to: &str) -> bool {
        let goal = if self.engines.contains(&to) {
            Some(to)
        } else {
            self.home(to)
        };
        // What has no row is told by itself.
        let (Some(home), Some(goal)) = (self.home(from), goal) else {
            return true;
        };
        let row = self.allowed.iter().find(|(name, _)| *name == home);
        home == goal || row.is_some_and(|(_, may)| may.contains(&goal))
    }

    fn against(&self, arrows: &Arrows) -> Vec<Finding> {
        let is_kept =
            |from: &str, to: &str| self.kept.iter().any(|kept| (kept.0, kept.1) == (from, to));
        let mut findings = Vec::new();
        for ((from, to), (path, line)) in arrows {
            if !self.is_allowed(from, to) && !is_kept(from, to) {
                let homes = [from, to].map(|module| self.home(module).unwrap_or(module));
                let [home, goal] = if self.engines.contains(&to.as_str()) {
                    [homes[0], to]
                } else {
                    homes
                };
                let what = format!("{from} is for {home}, which may not name {to} of {goal}");
                let remedy = "hand it in, or move the code to where the arrow points down";
                findings.push(Finding::at(path, *line, what, remedy));
            }
        }
        for (from, to, reason) in self.kept {
            let is_there = arrows.contains_key(&((*from).into(), (*to).into()));
            let what = match (is_there, self.is_allowed(from, to), reason.is_empty()) {
                (false, ..) => "is no arrow any more",
                (_, true, _) => "is allowed",
                (_, _, true) => "has no reason",
                _ => continue,
            };
            let what = format!("the kept arrow from {from} to {to} {what}");
            findings.push(Finding::new(
                TABLE,
                what,
                "take it out, or say what has to be done first",
            ));
        }
        findings
    }

    /// Rows that are no module, and those of crates that are not in the drawing.
    fn rows(&self, all: &BTreeSet<String>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (row, home) in self.modules {
            if !all.contains(*row) {
                let what = format!("there is no module {row}");
                findings.push(Finding::new(
                    TABLE,
                    what,
                    "write its new path, or take its row out",
                ));
            }
            if !self.allowed.iter().any(|(name, _)| name == home) {
                let what = format!("{row} is for {home}, which has no row of its own");
                findings.push(Finding::new(TABLE, what, "say what that crate may name"));
            }
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDER: &str = "crates/a/src/";

    /// A runtime `base`, two systems `one` and `other`, and what these files are found to do.
    fn found(files: &[(&str, &str)], kept: &[Kept]) -> Vec<String> {
        let usual = [
            ("lib.rs", "mod base;"),
            ("base.rs", ""),
            ("one.rs", ""),
            ("one/part.rs", ""),
            ("other.rs", ""),
            ("other/low.rs", ""),
        ];
        let mut all: BTreeMap<String, &str> = BTreeMap::new();
        for (name, text) in usual.iter().chain(files) {
            all.insert(format!("{FOLDER}{name}"), text);
        }
        let all: Vec<(&str, &str)> = all
            .iter()
            .map(|(path, text)| (path.as_str(), *text))
            .collect();
        let drawing = Drawing {
            modules: &[
                ("", "run"),
                ("base", "run"),
                ("one", "one"),
                ("other", "other"),
                ("other/low", "run"),
            ],
            allowed: &[
                ("run", &[]),
                ("one", &["run"]),
                ("other", &["run", "engine"]),
            ],
            engines: &["engine"],
            kept,
        };
        let findings = drawing.judge(&Tree::of(&all), FOLDER).into_iter();
        findings.map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn this_tree_is_as_the_table_says() {
        let tree = Tree::read(&forebay_testing::root()).expect("readable");
        let found: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn arrows_down_pass() {
        let down = [
            ("one.rs", "use crate::base::B;"),
            ("one/part.rs", "use super::X; use crate::other::low::L;"),
            (
                "other.rs",
                "mod low; use low::L; use engine::E; fn f() { std::fs::read(0); }",
            ),
        ];
        assert_eq!(found(&down, &[]), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_up_or_sideways_is_found_with_its_line() {
        for (file, text, says) in [
            (
                "base.rs",
                "\n\nuse crate::one::X;",
                "base.rs:3: base is for run, which may not name one of one",
            ),
            (
                "one/part.rs",
                "use crate::{base::B,\nother::X};",
                "part.rs:2: one/part is for one, which may not name other of other",
            ),
            (
                "one.rs",
                "fn f() { super::other::g() }",
                "one.rs:1: one is for one, which may not name other",
            ),
            (
                "one.rs",
                "use engine::E;",
                "one.rs:1: one is for one, which may not name engine of engine",
            ),
            (
                "base.rs",
                "#[cfg(test)]\nmod tests { use super::super::one::part::P; }",
                "base.rs:2: base is for run, which may not name one/part",
            ),
            (
                "other/low.rs",
                "use super::X;",
                "low.rs:1: other/low is for run, which may not name other",
            ),
        ] {
            let found = found(&[(file, text)], &[]);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].contains(says), "{text}: {found:?}");
        }
    }

    #[test]
    fn a_kept_arrow_passes_while_it_is_there() {
        let up = [("base.rs", "use crate::one::X;")];
        assert!(found(&up, &[("base", "one", "first it is handed in")]).is_empty());
        for (kept, says) in [
            (("one", "other", "later"), "is no arrow any more"),
            (("base", "one", ""), "has no reason"),
        ] {
            let found = found(&up, &[kept]).join("\n");
            assert!(found.contains(says) && found.contains(TABLE), "{found}");
        }
        let down = [("one.rs", "use crate::base::B;")];
        let found = found(&down, &[("one", "base", "later")]).join("\n");
        assert!(found.contains("is allowed"), "{found}");
    }

    #[test]
    fn a_module_without_a_row_is_found_and_a_row_without_a_module() {
        for file in ["new.rs", "other/new.rs"] {
            let found = found(&[(file, "")], &[]);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].starts_with(&format!("{FOLDER}{file}: no crate")),
                "{found:?}"
            );
        }
        assert!(found(&[("one/part/new.rs", "")], &[]).is_empty());
        let drawing = Drawing {
            modules: &[("", "run"), ("gone", "run"), ("a", "nowhere")],
            allowed: &[("run", &[])],
            engines: &[],
            kept: &[],
        };
        let all = ["", "a"].map(str::to_owned).into();
        let told: Vec<String> = drawing.rows(&all).iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0].contains("no module gone") && told[1].contains("nowhere"),
            "{told:?}"
        );
    }
}
