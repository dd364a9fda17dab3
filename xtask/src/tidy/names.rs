//! Names that say nothing, markers of unfinished work and merges, and paths of somebody's machine.

use super::Finding;
use super::rust_text::{code_only, word_pairs};
use super::tree::{Source, Tree};

const EMPTY_STEMS: &[&str] = &[
    "util", "utils", "utility", "common", "helper", "helpers", "misc",
];
const EMPTY_VERBS: &[&str] = &[
    "process",
    "process_data",
    "process_packet",
    "process_message",
    "process_event",
    "process_input",
];
const TYPE_KEYWORDS: &[&str] = &["struct", "enum", "trait", "type", "union"];
const CONFLICTS: &[&str] = &["<<<<<<< ", ">>>>>>> ", "||||||| "];
/// Spelled in two halves, so that this file does not find itself.
const MARKERS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("X", "XX"),
];
const MACHINE_PATHS: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.iter().flat_map(check_source).collect()
}

fn check_source(source: &Source) -> Vec<Finding> {
    let mut findings = file_name(source);
    for (number, line) in source.text.lines().enumerate() {
        findings.extend(
            in_text(line).map(|(what, remedy)| Finding::at(&source.path, number + 1, what, remedy)),
        );
    }
    if source.is_rust() {
        for (number, line) in code_only(&source.text).lines().enumerate() {
            findings.extend(
                in_code(line)
                    .map(|(what, remedy)| Finding::at(&source.path, number + 1, what, remedy)),
            );
        }
    }
    findings
}

fn file_name(source: &Source) -> Vec<Finding> {
    let part_is_empty = |part: &str| EMPTY_STEMS.contains(&part);
    let stem = source.stem();
    let empty = source
        .path
        .split('/')
        .find(|part| part_is_empty(part))
        .or_else(|| part_is_empty(stem).then_some(stem));
    let finding = |part| {
        Finding::new(
            &source.path,
            format!("the name '{part}' says nothing"),
            "name it by what is in it",
        )
    };
    empty.map(finding).into_iter().collect()
}

fn in_text(line: &str) -> Option<(String, &'static str)> {
    if let Some(marker) = MARKERS.iter().find(|marker| has_word(line, marker)) {
        return Some((
            format!("'{marker}' is left"),
            "do it, or file an issue and say here what does not work",
        ));
    }
    if CONFLICTS.iter().any(|conflict| line.starts_with(conflict)) {
        return Some(("a merge conflict is left".into(), "resolve it"));
    }
    let path = MACHINE_PATHS.iter().find(|path| begins_path(line, path))?;
    Some((
        format!("a path of one machine: {path}…"),
        "take the path as an argument, or relative to the repository",
    ))
}

fn in_code(line: &str) -> Option<(String, &'static str)> {
    word_pairs(line)
        .into_iter()
        .find_map(|(keyword, name)| match keyword {
            "fn" if name.starts_with("get_") => Some((format!("fn {name}"), "leave out 'get_'")),
            "fn" if EMPTY_VERBS.contains(&name) => Some((
                format!("fn {name}"),
                "say what it does: handle_, poll_, parse, build …",
            )),
            _ if TYPE_KEYWORDS.contains(&keyword) && name.ends_with("Manager") => Some((
                format!("{keyword} {name}"),
                "name the thing that it is: supervisor, table, pool …",
            )),
            _ => None,
        })
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(is_part);
        let after = line[at + word.len()..].chars().next().is_some_and(is_part);
        !before && !after
    })
}

/// Does an absolute path with this beginning stand in the line? The same words further on in a longer path are none.
fn begins_path(line: &str, path: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || "_-.~/}$)*".contains(c);
    line.match_indices(path)
        .any(|(at, _)| !line[..at].chars().next_back().is_some_and(continues))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)]))
            .into_iter()
            .map(|finding| finding.what)
            .collect()
    }

    #[test]
    fn names_that_say_something_pass() {
        let text = "fn target() {}\nfn processes() {}\nstruct ManagerOfNone;\n// fn get_x, struct XManager\n";
        assert_eq!(found("crates/a/src/ring.rs", text), Vec::<String>::new());
    }

    #[test]
    fn empty_file_and_directory_names_are_found() {
        assert_eq!(found("crates/a/src/utils.rs", "").len(), 1);
        assert_eq!(found("crates/a/tests/common/mod.rs", "").len(), 1);
        assert_eq!(found("docs/misc.md", "").len(), 1);
    }

    #[test]
    fn empty_words_are_found_in_code_with_their_line() {
        assert_eq!(found("a.rs", "pub fn get_len() {}"), ["fn get_len"]);
        assert_eq!(found("a.rs", "fn process(&self) {}"), ["fn process"]);
        assert_eq!(
            found("a.rs", "pub struct RingManager<T>(T);"),
            ["struct RingManager"]
        );
        let findings = check(&Tree::of(&[("a.rs", "\n\nfn get_x() {}")]));
        assert_eq!(findings[0].place, "a.rs:3");
    }

    #[test]
    fn markers_are_found_as_whole_words() {
        for marker in MARKERS {
            assert_eq!(found("a.md", &format!("<!-- {marker}: later -->")).len(), 1);
            assert_eq!(found("a.rs", &format!("// {marker}")).len(), 1);
        }
        assert!(found("a.sh", &format!("mktemp a.{0}{0}", MARKERS[2])).is_empty());
    }

    #[test]
    fn conflicts_are_found_at_the_beginning_of_a_line() {
        assert_eq!(
            found("a/clippy.toml", "a = 1\n<<<<<<< HEAD\n=======\n>>>>>>> b\n").len(),
            2
        );
        assert!(found("a.md", "a <<<<<<< b\n=======\n").is_empty());
    }

    #[test]
    fn machine_paths_are_found_where_a_path_begins() {
        for path in MACHINE_PATHS {
            assert_eq!(found("a.md", &format!("see {path}you")).len(), 1);
            assert_eq!(
                found("a.rs", &format!("const P: &str = \"{path}x\";")).len(),
                1
            );
            assert!(found("a.sh", &format!("ls target{path}x $root{path}x")).is_empty());
        }
    }
}
