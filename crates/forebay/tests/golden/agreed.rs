//! Agreed texts: files of this folder that the program is held against, and written anew when [`ANEW`] is set.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The environment variable that writes the texts anew, as it writes what documents hold of the program.
const ANEW: &str = "UPDATE_DOCS";

/// Texts by the names of their files, without `.txt`.
pub(crate) type Texts = BTreeMap<String, String>;

/// Where the texts of a kind are.
pub(crate) fn folder_of(kind: &str) -> PathBuf {
    let here: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/golden"]
        .iter()
        .collect();
    here.join(kind)
}

/// The texts that lie in a folder.
fn texts_in(folder: &Path) -> Texts {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Texts::new(),
        Err(error) => panic!("{}: {error}", folder.display()),
    };
    let text = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_text = |path: &PathBuf| path.extension().is_some_and(|is| is == "txt");
    paths.filter(is_text).map(text).collect()
}

/// Writes what differs, and takes away what there is no more.
fn write_anew(folder: &Path, agreed: &Texts, found: &Texts) {
    fs::create_dir_all(folder).unwrap();
    for (name, text) in found
        .iter()
        .filter(|(name, text)| agreed.get(*name) != Some(text))
    {
        fs::write(folder.join(format!("{name}.txt")), text).unwrap();
    }
    for name in agreed.keys().filter(|name| !found.contains_key(*name)) {
        fs::remove_file(folder.join(format!("{name}.txt"))).unwrap();
    }
}

/// The difference as `diff -u` tells it.
fn difference(file: &Path, found: &str) -> String {
    let agreed = if file.exists() {
        file
    } else {
        Path::new("/dev/null")
    };
    let mut diff = Command::new("diff");
    diff.arg("-u")
        .args(["--label", "agreed", "--label", "found"]);
    let piped = diff
        .arg(agreed)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = found.to_owned();
    // A thread of its own: both pipes may be full.
    let writing = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    // It does not read to the end where it fails, and says so itself.
    let _ = writing.join().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Holds the texts that were found against the files of the folder `kind`: all differences are told at once.
pub(crate) fn assert_agreed(kind: &str, found: &Texts) {
    let folder = folder_of(kind);
    let agreed = texts_in(&folder);
    if agreed == *found {
        return;
    }
    if std::env::var_os(ANEW).is_some() {
        write_anew(&folder, &agreed, found);
        return;
    }
    let names: BTreeSet<&String> = agreed.keys().chain(found.keys()).collect();
    let differ = names
        .into_iter()
        .filter(|name| agreed.get(*name) != found.get(*name));
    let mut told = String::new();
    for name in differ {
        let text = found.get(name).map_or("", String::as_str);
        let difference = difference(&folder.join(format!("{name}.txt")), text);
        told += &format!("tests/golden/{kind}/{name}.txt differs:\n{difference}");
    }
    panic!("{told}When that is meant: {ANEW}=1 cargo test -p forebay --test golden");
}
