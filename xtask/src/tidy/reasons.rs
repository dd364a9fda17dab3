//! Every dependency has a one-line reason in `docs/ARCHITECTURE.md`, and every reason a dependency.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::Finding;
use super::places::ARCHITECTURE;
use super::tree::Tree;

const HEADING: &str = "## Dependencies";

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let manifest = tree.text("Cargo.toml").context("there is no Cargo.toml")?;
    let rows = reasons(tree.text(ARCHITECTURE).unwrap_or_default());
    let names = dependencies(manifest)?;
    let mut findings = Vec::new();
    let mut reasons = BTreeMap::new();
    for (name, reason) in rows {
        if reasons.insert(name, reason).is_some() {
            findings.push(Finding::new(
                ARCHITECTURE,
                format!("two reasons for {name}"),
                "keep one row",
            ));
        }
    }
    for name in names.iter().filter(|name| {
        reasons
            .get(name.as_str())
            .is_none_or(|reason| reason.is_empty())
    }) {
        let remedy = format!("add a row | `{name}` | reason | to its table under '{HEADING}'");
        findings.push(Finding::new(
            ARCHITECTURE,
            format!("no reason is given for the dependency {name}"),
            remedy,
        ));
    }
    for name in reasons
        .keys()
        .filter(|name| !names.iter().any(|known| known == *name))
    {
        findings.push(Finding::new(
            ARCHITECTURE,
            format!("a reason for {name}, which is no dependency"),
            "take the row out",
        ));
    }
    Ok(findings)
}

/// The names in `[workspace.dependencies]` that are not ours.
fn dependencies(manifest: &str) -> Result<Vec<String>> {
    let manifest: toml::Table = manifest.parse().context("Cargo.toml")?;
    let table = manifest
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"))
        .and_then(toml::Value::as_table);
    let table = table.context("Cargo.toml has no [workspace.dependencies]")?;
    Ok(table
        .keys()
        .filter(|name| !name.starts_with("forebay"))
        .cloned()
        .collect())
}

/// The rows `` | `name`, `name` | reason | `` of the section.
fn reasons(architecture: &str) -> Vec<(&str, &str)> {
    let section = architecture
        .lines()
        .skip_while(|line| line.trim() != HEADING)
        .skip(1);
    let rows = section
        .take_while(|line| !line.starts_with("## "))
        .filter_map(|line| {
            let (names, reason) = line
                .trim()
                .strip_prefix('|')?
                .strip_suffix('|')?
                .split_once('|')?;
            Some((names, reason.trim()))
        });
    rows.flat_map(|(names, reason)| {
        names
            .split('`')
            .skip(1)
            .step_by(2)
            .map(move |name| (name, reason))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str =
        "[workspace.dependencies]\nforebay-wire = { path = \"x\" }\nclap = \"4\"\nserde = \"1\"\n";

    fn found(architecture: &str) -> Vec<String> {
        let tree = Tree::of(&[("Cargo.toml", MANIFEST), (ARCHITECTURE, architecture)]);
        check(&tree)
            .expect("a manifest")
            .into_iter()
            .map(|finding| finding.what)
            .collect()
    }

    #[test]
    fn a_reason_for_each_passes() {
        let text = "## Dependencies\n| crate | why |\n|---|---|\n| `clap`, `serde` | words into flags |\n## Next\n| `gone` | x |";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn a_missing_or_empty_reason_is_found() {
        assert_eq!(found("## Dependencies\n| `clap` | flags |").len(), 1);
        assert_eq!(
            found("## Dependencies\n| `clap` | flags |\n| `serde` | |").len(),
            1
        );
        assert_eq!(found("").len(), 2);
    }

    #[test]
    fn a_second_reason_is_found() {
        assert_eq!(
            found("## Dependencies\n| `clap`, `serde` | why |\n| `serde` | why else |"),
            ["two reasons for serde"]
        );
    }

    #[test]
    fn a_stale_reason_is_found() {
        assert_eq!(
            found("## Dependencies\n| `clap`, `serde`, `gone` | why |"),
            ["a reason for gone, which is no dependency"]
        );
    }
}
