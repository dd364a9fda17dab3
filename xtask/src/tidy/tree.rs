//! The text files of the checkout, read once.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Directories that hold nothing of ours, by name.
const SKIPPED_DIRECTORIES: &[&str] = &[".git", "target", "artifacts", "corpus", "forebay-demo"];
/// What is read: by extension, or by whole name for scripts without one.
const EXTENSIONS: &[&str] = &["rs", "md", "toml", "sh", "py", "yml", "yaml"];
const SCRIPTS: &[&str] = &["x", ".ci/run"];

/// One file: its path from the root, with `/`, and its text.
pub(super) struct Source {
    pub(super) path: String,
    pub(super) text: String,
}

impl Source {
    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The file's name without directory and extension.
    pub(super) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.split('.').next().unwrap_or(name)
    }
}

/// All of them, sorted by path.
pub(super) struct Tree(pub(super) Vec<Source>);

impl Tree {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut sources = Vec::new();
        walk(root, "", &mut sources)?;
        sources.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self(sources))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Source> {
        self.0.iter()
    }

    pub(super) fn rust(&self) -> impl Iterator<Item = &Source> {
        self.iter().filter(|source| source.is_rust())
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.iter()
            .find(|source| source.path == path)
            .map(|source| source.text.as_str())
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let source = |&(path, text): &(&str, &str)| Source {
            path: path.into(),
            text: text.into(),
        };
        Self(files.iter().map(source).collect())
    }
}

fn walk(directory: &Path, prefix: &str, sources: &mut Vec<Source>) -> Result<()> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() && !SKIPPED_DIRECTORIES.contains(&name.as_str()) {
            walk(&entry.path(), &format!("{path}/"), sources)?;
        } else if kind.is_file() && is_read(&path) {
            let text = fs::read_to_string(entry.path())
                .with_context(|| format!("cannot read {path} as text"))?;
            sources.push(Source { path, text });
        }
    }
    Ok(())
}

fn is_read(path: &str) -> bool {
    SCRIPTS.contains(&path)
        || path
            .rsplit_once('.')
            .is_some_and(|(_, extension)| EXTENSIONS.contains(&extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_checkout_without_its_build_products() {
        let tree = Tree::read(&forebay_testing::root()).expect("readable");
        for path in ["x", ".ci/run", "Cargo.toml", "xtask/src/tidy/tree.rs"] {
            assert!(tree.text(path).is_some(), "{path} is missing");
        }
        assert!(
            tree.iter()
                .all(|source| !source.path.starts_with("target/"))
        );
    }

    #[test]
    fn a_stem_has_neither_directory_nor_extension() {
        assert_eq!(Tree::of(&[("crates/a/src/hop.rs", "")]).0[0].stem(), "hop");
        assert_eq!(Tree::of(&[("x", "")]).0[0].stem(), "x");
    }
}
