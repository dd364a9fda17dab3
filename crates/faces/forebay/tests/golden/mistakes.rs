//! What is said of files: of good ones, and of those with mistakes, which lie beside the texts, or are of each kind with the same value for each of its keys.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::agreed::{Texts, folder_of};
use crate::rig::{forebay, start};

/// Values that are wrong for most keys: of a type that none has, below every range, and no word of any choice.
const VALUES: [(&str, &str); 3] = [
    ("date", "1979-05-27"),
    ("negative", "-1"),
    ("word", "\"?\""),
];

/// Kinds of files, as the reference of all keys calls them.
const KINDS: [(&str, &str); 10] = [
    ("A chain", "chain"),
    ("A card", "card"),
    ("To-host", "tohost"),
    ("A batch of cards", "batch"),
    ("To-flx", "toflx"),
    ("A subscriber", "swrod"),
    ("A flow probe", "probe"),
    ("A mover", "mover"),
    ("A receiver of time-division UDP", "tdm-receive"),
    ("A sender of time-division UDP", "tdm-send"),
];

/// What `forebay check FILE` says of a file of this folder that has mistakes.
fn told(folder: &Path, file: &str) -> String {
    let mut command = forebay();
    let ended = start(command.current_dir(folder).args(["check", file])).end();
    assert_eq!(ended.code(), Some(2), "{file}: {}", ended.stdout);
    assert!(ended.stdout.is_empty(), "{file}: {}", ended.stdout);
    ended.stderr
}

/// All that can be written.
pub(crate) fn reference() -> String {
    let ended = start(forebay().args(["check", "--reference"])).end();
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    ended.stdout
}

/// The sections of a kind of file: the line of each, and its keys.
fn sections<'a>(reference: &'a str, title: &str) -> Vec<(&'a str, Vec<&'a str>)> {
    let headline = format!("## {title}: ");
    let lines = reference
        .lines()
        .skip_while(|line| !line.starts_with(&headline));
    let lines = lines.skip(1).take_while(|line| !line.starts_with("## "));
    let mut sections = Vec::new();
    for line in lines {
        if let Some(section) = line.strip_prefix("### `") {
            sections.push((section.trim_end_matches('`'), Vec::new()));
        } else if let Some(row) = line.strip_prefix("| `") {
            let (key, _) = row.split_once('`').unwrap();
            sections.last_mut().unwrap().1.push(key);
        }
    }
    assert!(!sections.is_empty(), "the reference has no part {title}");
    sections
}

/// What is said of every key of a kind of file with this value: a file for each section, as only so many mistakes of one file are shown. The first
/// section stands in each of them and tells which kind it is.
fn told_of_every_key(
    folder: &Path,
    kind: &str,
    sections: &[(&str, Vec<&str>)],
    value: &str,
) -> String {
    let file = format!("{kind}.toml");
    let (first, _) = sections[0];
    let mut all = String::new();
    for (section, keys) in sections {
        let mut text = format!("{first}\n");
        if *section != first {
            writeln!(text, "{section}").unwrap();
        }
        for key in keys {
            writeln!(text, "{key} = {value}").unwrap();
        }
        fs::write(folder.join(&file), text).unwrap();
        write!(all, "{section}\n{}\n", told(folder, &file)).unwrap();
    }
    all
}

pub(crate) fn texts() -> Texts {
    let mut texts = Texts::new();
    let folder = folder_of("mistakes");
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|is| is == "toml") {
            let [name, file] =
                [path.file_stem(), path.file_name()].map(|name| name.unwrap().to_str().unwrap());
            texts.insert(name.to_owned(), told(&folder, file));
        }
    }
    let reference = reference();
    let folder = TempDir::new().unwrap();
    for (title, kind) in KINDS {
        let sections = sections(&reference, title);
        for (what, value) in VALUES {
            let told = told_of_every_key(folder.path(), kind, &sections, value);
            texts.insert(format!("{kind}-every-{what}"), told);
        }
    }
    texts
}

/// What is said of the examples; of a chain's it is much about the host, which is not taken here.
pub(crate) fn good() -> Texts {
    let folder = forebay_testing::root().join("examples");
    let told = |kind: &str| {
        let mut command = forebay();
        let file = format!("{kind}.toml");
        let ended = start(command.current_dir(&folder).args(["check", &file])).end();
        assert_eq!(ended.code(), Some(0), "{kind}: {}", ended.stderr);
        (kind.to_owned(), ended.stdout)
    };
    ["card", "tohost", "batch", "toflx"].map(told).into()
}
