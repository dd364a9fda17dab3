//! `xtask/mutants.toml`: what is broken on purpose, with which tests, and which mutants may live.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::entries;

const FILE: &str = "xtask/mutants.toml";
/// What entries have.
const SHARD: &str = "name, package, files and test";
const LIVES: &str = "mutant and reason";

/// Files of one crate, and what is told to `cargo test` for their mutants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) name: String,
    pub(super) package: String,
    pub(super) files: Vec<String>,
    pub(super) test: Vec<String>,
}

/// The list.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) shards: Vec<Shard>,
    /// Mutants without line and column, which change with each edit.
    lives: Vec<String>,
}

impl List {
    /// Reads the list of the tree at `root`, whose files must be there.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(root.join(FILE)).context(FILE)?;
        let list = Self::parse(&text).context(FILE)?;
        for file in list.shards.iter().flat_map(|shard| &shard.files) {
            if !root.join(file).is_file() {
                bail!("{FILE}: there is no file {file}");
            }
        }
        Ok(list)
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        let table = entries::table(text, &["shard", "lives"], "[[shard]] and [[lives]]")?;
        let shards = entries::of(&table, "shard")?.iter().map(shard);
        let lives = entries::of(&table, "lives")?.iter().map(|entry| {
            entries::text(entry, "reason", LIVES)?;
            entries::text(entry, "mutant", LIVES)
        });
        Ok(Self {
            shards: shards.collect::<Result<_>>()?,
            lives: lives.collect::<Result<_>>()?,
        })
    }

    pub(super) fn names(&self) -> String {
        let names: Vec<&str> = self
            .shards
            .iter()
            .map(|shard| shard.name.as_str())
            .collect();
        names.join(", ")
    }

    /// Whether a mutant, as cargo-mutants names it (`FILE:LINE:COLUMN: WHAT`), is in the list.
    pub(super) fn may_live(&self, mutant: &str) -> bool {
        self.lives.contains(&without_place(mutant))
    }
}

/// `src/a.rs:12:5: replace …` as `src/a.rs: replace …`
fn without_place(mutant: &str) -> String {
    let Some((place, what)) = mutant.split_once(": ") else {
        return mutant.to_owned();
    };
    let file = place.split(':').next().unwrap_or(place);
    format!("{file}: {what}")
}

fn shard(entry: &toml::Value) -> Result<Shard> {
    let texts = |key: &str| -> Result<Vec<String>> {
        let Some(found) = entry.get(key) else {
            return Ok(Vec::new());
        };
        let found = found
            .as_array()
            .with_context(|| format!("{key} must be a list"))?;
        let text = |one: &toml::Value| one.as_str().map(str::to_owned);
        let all: Option<Vec<String>> = found.iter().map(text).collect();
        all.with_context(|| format!("{key} must be a list of texts"))
    };
    let shard = Shard {
        name: entries::text(entry, "name", SHARD)?,
        package: entries::text(entry, "package", SHARD)?,
        files: texts("files")?,
        test: texts("test")?,
    };
    if shard.files.is_empty() {
        bail!("shard {} has no files", shard.name);
    }
    Ok(shard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_account_and_policy_file_of_the_tree_is_in_the_list() {
        let root = forebay_testing::root();
        let list = List::read(&root).expect("in form, and of files that are there");
        let listed: Vec<&String> = list.shards.iter().flat_map(|shard| &shard.files).collect();
        let mut missing = Vec::new();
        let mut folders = vec![root.join("crates")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("readable") {
                let path = entry.expect("readable").path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let name = path
                    .strip_prefix(&root)
                    .expect("below it")
                    .to_string_lossy();
                let is_book = [
                    "/books.rs",
                    "/account.rs",
                    "/balance.rs",
                    "/audit.rs",
                    "card_books.rs",
                ];
                let is_book = is_book.iter().any(|end| name.ends_with(end));
                let is_source = name.contains("/src/") && name.ends_with(".rs");
                let is_face = name.starts_with("crates/faces/forebay/");
                let is_policy = name.contains("/policy/") || name.contains("/slow/");
                if is_source
                    && !is_face
                    && (is_book || is_policy)
                    && !listed.iter().any(|file| **file == name)
                {
                    missing.push(name.into_owned());
                }
            }
        }
        assert!(missing.is_empty(), "not in {FILE}: {missing:?}");
    }

    #[test]
    fn a_mutant_is_known_by_its_file_and_what_it_is() {
        let text = "[[lives]]\nmutant = \"src/a.rs: replace b -> u64 with 0\"\nreason = \"r\"\n";
        let list = List::parse(text).expect("in form");
        assert!(list.may_live("src/a.rs:12:5: replace b -> u64 with 0"));
        assert!(!list.may_live("src/a.rs:12:5: replace b -> u64 with 1"));
        assert!(!list.may_live("src/c.rs:12:5: replace b -> u64 with 0"));
    }

    #[test]
    fn what_is_out_of_form_is_named() {
        let error = |text: &str| format!("{:#}", List::parse(text).expect_err("out of form"));
        assert!(error("[[lives]]\nmutant = \"a\"\n").contains("no reason"));
        assert!(
            error("[[shard]]\nname = \"a\"\npackage = \"p\"\n").contains("shard a has no files")
        );
        assert!(error("[[shards]]\n").contains("unknown key 'shards'"));
    }
}
