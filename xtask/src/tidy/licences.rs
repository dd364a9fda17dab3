//! Every crate in `Cargo.lock` that this platform uses comes from the registry under a permissive licence.

use cargo_metadata::Metadata;

use super::Finding;

const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];
const REGISTRY: &str = "registry+";

/// What a package says of itself; no source means a crate of ours.
pub(super) struct Package {
    name: String,
    licence: Option<String>,
    source: Option<String>,
}

pub(super) fn packages(metadata: &Metadata) -> Vec<Package> {
    let package = |package: &cargo_metadata::Package| Package {
        name: format!("{} {}", package.name, package.version),
        licence: package.license.clone(),
        source: package.source.as_ref().map(|source| source.repr.clone()),
    };
    metadata.packages.iter().map(package).collect()
}

pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    packages.iter().filter_map(judge).collect()
}

fn judge(package: &Package) -> Option<Finding> {
    let finding = |what: String, remedy: &str| {
        Some(Finding::new(
            "Cargo.lock",
            format!("{}: {what}", package.name),
            remedy,
        ))
    };
    if let Some(source) = package
        .source
        .as_ref()
        .filter(|source| !source.starts_with(REGISTRY))
    {
        return finding(format!("comes from {source}"), "use a published version");
    }
    match package.licence.as_deref() {
        None => finding("names no licence".into(), "use another crate"),
        Some(licence) if !is_permissive(licence) => finding(
            format!("licence '{licence}'"),
            "use another crate, or extend the list in xtask/src/tidy/licences.rs with a reason",
        ),
        Some(_) => None,
    }
}

/// Judges an SPDX expression; the old `MIT/Apache-2.0` means `OR`. What cannot be read is not permissive.
fn is_permissive(expression: &str) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words };
    reader.either() == Some(true) && reader.words.is_empty()
}

struct Reader<'a> {
    words: &'a [&'a str],
}

impl Reader<'_> {
    fn either(&mut self) -> Option<bool> {
        let mut good = self.both()?;
        while self.take("OR") {
            good |= self.both()?;
        }
        Some(good)
    }

    fn both(&mut self) -> Option<bool> {
        let mut good = self.one()?;
        while self.take("AND") {
            good &= self.one()?;
        }
        Some(good)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let good = self.either()?;
            return self.take(")").then_some(good);
        }
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        let mut licence = (*first).to_owned();
        if self.take("WITH") {
            let (exception, rest) = self.words.split_first()?;
            self.words = rest;
            licence = format!("{licence} WITH {exception}");
        }
        Some(PERMISSIVE.contains(&licence.as_str()))
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissive_expressions_pass() {
        for expression in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR MIT",
        ] {
            assert!(is_permissive(expression), "{expression}");
        }
    }

    #[test]
    fn others_and_nonsense_are_found() {
        for expression in [
            "GPL-3.0-only",
            "MIT AND MPL-2.0",
            "(MIT",
            "MIT)",
            "",
            "MIT OR",
            "GPL-2.0 WITH LLVM-exception",
            "MIT MIT",
        ] {
            assert!(!is_permissive(expression), "{expression}");
        }
    }

    #[test]
    fn a_package_without_licence_or_from_elsewhere_is_found() {
        let package = |licence: Option<&str>, source: &str| Package {
            name: "a 1.0.0".into(),
            licence: licence.map(str::to_owned),
            source: Some(source.into()),
        };
        assert!(check(&[package(Some("MIT"), "registry+x")]).is_empty());
        assert_eq!(check(&[package(None, "registry+x")]).len(), 1);
        assert_eq!(check(&[package(Some("MIT"), "git+x")]).len(), 1);
        assert_eq!(
            check(&[package(Some("AGPL-3.0-only"), "registry+x")]).len(),
            1
        );
    }
}
