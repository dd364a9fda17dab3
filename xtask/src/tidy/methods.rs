//! A type whose methods are in many files cannot be read: they stand in three at most.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::tree::Tree;

const TABLE: &str = "xtask/src/tidy/methods.rs";
/// Most files that have inherent methods of one type.
const FILES_MAX: usize = 3;

/// Types that are still in more files, with the file of each and how many: a number that only becomes smaller.
const OVER: &[(&str, &str, usize)] = &[];

/// Where the methods of each type are: its name and the file that defines it, and the files with an `impl` of it.
type Spread<'a> = BTreeMap<(&'a str, &'a str), BTreeSet<&'a str>>;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    judge(&spread(tree), OVER)
}

fn judge(spread: &Spread<'_>, over: &[(&str, &str, usize)]) -> Vec<Finding> {
    let limit = |name: &str, file: &str| {
        let row = over.iter().find(|(it, at, _)| (*it, *at) == (name, file));
        row.map_or(FILES_MAX, |(_, _, files)| *files)
    };
    let many = spread.iter().filter_map(|((name, file), files)| {
        let most = limit(name, file);
        (files.len() > most).then(|| {
            let what = format!(
                "methods of {name} are in {} files, at most {most}",
                files.len()
            );
            Finding::new(
                *file,
                what,
                "put them together, or give a part of its own what only that part needs",
            )
        })
    });
    let shrunk = over.iter().filter_map(|(name, file, most)| {
        let files = spread.get(&(*name, *file)).map_or(0, BTreeSet::len);
        (files < *most).then(|| {
            let what = format!("methods of {name} are in {files} files, and it may have {most}");
            Finding::new(
                TABLE,
                what,
                "write the smaller number there, or take the row out",
            )
        })
    });
    many.chain(shrunk).collect()
}

fn spread(tree: &Tree) -> Spread<'_> {
    let mut defined: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    let mut methods = Vec::new();
    for source in tree.rust() {
        let Some((folder, _)) = source.path.split_once("/src/") else {
            continue;
        };
        for line in source.text.lines() {
            if let Some(name) = definition(line) {
                defined
                    .entry((folder, name))
                    .or_default()
                    .push(&source.path);
            } else if let Some(name) = inherent(line) {
                methods.push((folder, name, source.path.as_str()));
            }
        }
    }
    let mut spread = Spread::new();
    for (folder, name, file) in methods {
        let homes = defined.get(&(folder, name)).into_iter().flatten();
        // Of several types of one name the nearest one is meant, and of these the one closest to the root.
        let near = |home: &&&str| (shared(home, file), Reverse(home.matches('/').count()));
        if let Some(home) = homes.max_by_key(near) {
            spread.entry((name, home)).or_default().insert(file);
        }
    }
    spread
}

/// How many folders and files of two paths are the same from the root on; a module's folder is named as its file.
fn shared(a: &str, b: &str) -> usize {
    let parts = |path: &str| -> Vec<String> {
        let path = path.strip_suffix(".rs").unwrap_or(path);
        path.split('/').map(str::to_owned).collect()
    };
    let (a, b) = (parts(a), parts(b));
    a.iter().zip(&b).take_while(|(a, b)| a == b).count()
}

/// The name at the beginning of `text`.
fn name(text: &str) -> Option<&str> {
    let end = text
        .find(|it: char| !it.is_alphanumeric() && it != '_')
        .unwrap_or(text.len());
    text.get(..end).filter(|name| !name.is_empty())
}

/// The type that a line at the left edge defines.
fn definition(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let kinds = ["struct ", "enum ", "union "];
    kinds
        .iter()
        .find_map(|kind| line.strip_prefix(kind))
        .and_then(name)
}

/// The type whose own methods begin at a line at the left edge.
fn inherent(line: &str) -> Option<&str> {
    let mut rest = line.strip_prefix("impl")?;
    if rest.starts_with('<') {
        let mut depth = 0;
        let mut before = ' ';
        let end = rest.find(|it: char| {
            depth += i32::from(it == '<') - i32::from(it == '>' && before != '-');
            before = it;
            depth == 0
        })?;
        rest = rest.get(end + 1..)?;
    }
    let rest = rest.strip_prefix(' ')?;
    (!rest.contains(" for ")).then(|| name(rest)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_methods_are_told_from_those_of_traits() {
        for (line, of) in [
            ("impl Builder {", Some("Builder")),
            ("impl<'a, T: Fn() -> u8> Ring<'a, T> {", Some("Ring")),
            ("impl<R> EndPoint<R>", Some("EndPoint")),
            ("impl Default for Builder {", None),
            ("impl<T> From<T> for Builder<T> {", None),
            ("    impl Inner {", None),
            ("implied", None),
        ] {
            assert_eq!(inherent(line), of, "{line}");
        }
        for (line, of) in [
            ("pub(crate) struct A<T> {", Some("A")),
            ("pub enum B {", Some("B")),
            ("struct C;", Some("C")),
            ("pub fn d() {", None),
        ] {
            assert_eq!(definition(line), of, "{line}");
        }
    }

    fn found(files: &[&str], over: &[(&str, &str, usize)]) -> Vec<String> {
        let text = "impl A {\n}\n";
        let mut all: Vec<(&str, &str)> = files.iter().map(|file| (*file, text)).collect();
        all.push(("crates/a/src/a.rs", "pub struct A;\nimpl A {\n}\n"));
        // Another type of that name, which has its own.
        all.push(("crates/a/src/z/a.rs", "struct A;\nimpl A {\n}\n"));
        let tree = Tree::of(&all);
        let found = judge(&spread(&tree), over).into_iter();
        found
            .map(|it| format!("{}: {}", it.place, it.what))
            .collect()
    }

    #[test]
    fn methods_in_a_fourth_file_are_found() {
        let files = [
            "crates/a/src/a/b.rs",
            "crates/a/src/a/c.rs",
            "crates/a/src/d.rs",
        ];
        assert_eq!(found(&files[..2], &[]), [""; 0]);
        assert_eq!(
            found(&files, &[]),
            ["crates/a/src/a.rs: methods of A are in 4 files, at most 3"]
        );
    }

    #[test]
    fn what_is_still_in_more_files_may_only_become_less() {
        let files = [
            "crates/a/src/a/b.rs",
            "crates/a/src/a/c.rs",
            "crates/a/src/d.rs",
        ];
        let row = |most| [("A", "crates/a/src/a.rs", most)];
        assert_eq!(found(&files, &row(4)), [""; 0]);
        assert_eq!(found(&files, &row(5)).len(), 1);
        assert_eq!(found(&files[..1], &row(4)).len(), 1);
    }
}
