//! `cargo xtask tidy`: what the compiler does not hold for us. Each check is a pure function from text to findings.

mod budgets;
mod edges;
mod fences;
mod golden;
mod licences;
mod methods;
mod names;
mod places;
mod promises;
mod readme;
mod reasons;
mod rust_text;
mod skips;
mod tree;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cargo_metadata::{Metadata, MetadataCommand};

use tree::Tree;

/// One thing that is not as agreed, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    place: String,
    what: String,
    remedy: String,
}

impl Finding {
    fn new(place: impl Into<String>, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    fn at(path: &str, line: usize, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(format!("{path}:{line}"), what, remedy)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}\n    remedy: {}",
            self.place, self.what, self.remedy
        )
    }
}

/// Runs every check over the checkout at `root`, with the help of a program that is `built` already, if it is one of them.
///
/// # Errors
/// When anything was found; the findings have been printed.
pub(crate) fn run(root: &Path, built: &[PathBuf]) -> Result<()> {
    let tree = Tree::read(root)?;
    let metadata = metadata_of(&root.join("Cargo.toml"))?;
    let mut packages = licences::packages(&metadata);
    let fuzz = root.join(places::FUZZ);
    if fuzz.exists() {
        packages.extend(licences::packages(&metadata_of(&fuzz)?));
    }
    let mut findings = Vec::new();
    findings.extend(places::check(&tree, places::ALL));
    findings.extend(edges::check(&tree, &edges::declared(&metadata)));
    findings.extend(names::check(&tree));
    findings.extend(golden::check(&tree));
    findings.extend(skips::check(&tree));
    findings.extend(fences::check(&tree));
    findings.extend(promises::check(&tree));
    findings.extend(licences::check(&packages));
    findings.extend(reasons::check(&tree)?);
    findings.extend(methods::check(&tree));
    findings.extend(budgets::check(&tree));
    findings.extend(readme::check(&tree, &mut readme::built_help(root, built)?)?);
    for line in budgets::told(&tree) {
        println!("{line}");
    }
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        n => bail!("tidy found {n} thing{}", if n == 1 { "" } else { "s" }),
    }
}

/// With all dependencies. Forebay runs on Linux only: what other systems would need is neither fetched nor judged.
fn metadata_of(manifest: &Path) -> Result<Metadata> {
    MetadataCommand::new()
        .manifest_path(manifest)
        .other_options([
            "--locked".to_owned(),
            "--filter-platform".to_owned(),
            platform(),
        ])
        .exec()
        .with_context(|| format!("cannot read the metadata of {}", manifest.display()))
}

fn platform() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}
