//! `cargo xtask mutants [OPTIONS]`: breaks each account, books, balance and policy file in every way that cargo-mutants knows, and looks whether a test of
//! its own crate notices. What no test notices lives; a mutant that may live stands in `xtask/mutants.toml` with its reason.
//!
//! It works in shards (`[[shard]]` there), each with a time limit, and goes on where it was interrupted: what was caught is not tried again, until its
//! file's mutants are other ones. The tree is a copy below the target directory, so that sources never lie there broken.

mod list;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::ci::{metadata, target_directory};
use list::{List, Shard};

/// The version that the list was made with: the names of mutants depend on it.
const VERSION: &str = "27.1.0";
/// For one shard.
const MINUTES: u64 = 60;
/// For the tests of one mutant, in seconds: they take a few.
const TEST_LIMIT_SECONDS: u64 = 120;
/// Where the names of those stand that do not compile.
const UNVIABLE: &str = "unviable.txt";
/// What `timeout` ends with when it had to end its command.
const TIMED_OUT: i32 = 124;

/// What became of the mutants of a shard, in this run and those before it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sums {
    /// All that there are.
    all: usize,
    caught: usize,
    /// They do not compile.
    unviable: usize,
    /// The tests did not end; that counts as noticed.
    timed_out: usize,
    /// No test noticed, and the list says why that is so.
    may_live: usize,
    /// No test noticed.
    live: Vec<String>,
}

impl Sums {
    fn tried(&self) -> usize {
        self.caught + self.unviable + self.timed_out + self.may_live + self.live.len()
    }

    fn text(&self, shard: &str) -> String {
        let mut text = format!(
            "{shard}: {} of {} mutants tried: {} caught, {} timed out, {} do not compile, {} may live, {} live\n",
            self.tried(),
            self.all,
            self.caught,
            self.timed_out,
            self.unviable,
            self.may_live,
            self.live.len()
        );
        for mutant in &self.live {
            text += &format!("  lives: {mutant}\n");
        }
        text
    }
}

/// Whether nothing lives that may not.
///
/// # Errors
/// Wrong options, a list that is out of form, or a tool that cannot be had.
pub(crate) fn run(root: &Path, options: &[&str]) -> Result<bool> {
    let list = List::read(root)?;
    let mut minutes = MINUTES;
    let mut wanted: Vec<&str> = Vec::new();
    let mut only_sums = false;
    let mut words = options.iter();
    while let Some(&word) = words.next() {
        match word {
            "--minutes" => {
                let value = words.next().context("--minutes needs a number")?;
                minutes = value.parse().context("--minutes needs a number")?;
            }
            "--sums" => only_sums = true,
            name if list.shards.iter().any(|shard| shard.name == name) => wanted.push(name),
            other => bail!(
                "there is no shard or option {other}; the options are --minutes N and --sums, the shards {}",
                list.names()
            ),
        }
    }
    let place = Place::of(root)?;
    if !only_sums {
        place.tool()?;
        place.copy(root)?;
    }
    let mut nothing_lives = true;
    let is_wanted = |shard: &&Shard| wanted.is_empty() || wanted.contains(&shard.name.as_str());
    for shard in list.shards.iter().filter(is_wanted) {
        if !only_sums {
            place.run(shard, minutes)?;
        }
        let sums = place.sums(shard, &list)?;
        print!("{}", sums.text(&shard.name));
        nothing_lives &= sums.live.is_empty();
    }
    Ok(nothing_lives)
}

/// Where mutants are made and what is known of them lies.
struct Place {
    folder: PathBuf,
}

impl Place {
    fn of(root: &Path) -> Result<Self> {
        let target = target_directory(&metadata(&root.join("Cargo.toml"))?);
        Ok(Self {
            folder: target.join("mutants"),
        })
    }

    fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    fn program(&self) -> PathBuf {
        self.folder.join("tools/bin/cargo-mutants")
    }

    /// Installs cargo-mutants below the target directory, unless it is there.
    fn tool(&self) -> Result<()> {
        let said = Command::new(self.program())
            .args(["mutants", "--version"])
            .output();
        if said.is_ok_and(|said| {
            String::from_utf8_lossy(&said.stdout)
                .trim()
                .ends_with(VERSION)
        }) {
            return Ok(());
        }
        println!("mutants: installing cargo-mutants {VERSION}");
        let mut command = crate::cargo();
        command.args([
            "install",
            "cargo-mutants",
            "--locked",
            "--version",
            VERSION,
            "--root",
        ]);
        command.arg(self.folder.join("tools"));
        crate::ci::checked(&mut command).map(drop)
    }

    /// Brings the copy up to date; a file that is the same keeps its time, so that cargo does not build it again, and one that is gone goes.
    fn copy(&self, root: &Path) -> Result<()> {
        let listed = Command::new("git")
            .args(["ls-files", "-z"])
            .current_dir(root)
            .output();
        let listed = listed.context("git ls-files")?;
        let names = String::from_utf8(listed.stdout).context("a name that is no text")?;
        let names: BTreeSet<&str> = names.split('\0').filter(|it| !it.is_empty()).collect();
        remove_others(&self.tree(), Path::new(""), &names)?;
        for name in names {
            let (from, to) = (root.join(name), self.tree().join(name));
            let Ok(new) = fs::read(&from) else {
                continue; // taken away and not committed yet
            };
            if fs::read(&to).is_ok_and(|old| old == new) {
                continue;
            }
            let parent = to.parent().context("a file lies in a folder")?;
            fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
            fs::copy(&from, &to).with_context(|| to.display().to_string())?;
        }
        Ok(())
    }

    /// cargo-mutants on the files of a shard, in the copy.
    fn command(&self, shard: &Shard) -> Command {
        let mut command = Command::new(self.program());
        command.arg("mutants").arg("--dir").arg(self.tree());
        command.args([
            "--package",
            &shard.package,
            "--colors",
            "never",
            "--in-place",
        ]);
        // Tests that are not built under loom, too: cargo-mutants knows `#[cfg(test)]` alone.
        command.args(["--exclude-re", "tests::"]);
        for file in &shard.files {
            command.args(["--file", file]);
        }
        command
    }

    fn output(&self, shard: &Shard) -> PathBuf {
        self.folder.join("out").join(&shard.name)
    }

    fn run(&self, shard: &Shard, minutes: u64) -> Result<()> {
        println!("mutants: {}, at most {minutes} min", shard.name);
        let output = self.output(shard);
        fs::create_dir_all(&output).with_context(|| output.display().to_string())?;
        self.keep_list(shard)?;
        let tried = self.command(shard);
        let mut command = Command::new("timeout");
        // As Ctrl-C: the sources are put right, and what is known is written.
        command
            .args(["--signal=INT", "--kill-after=60"])
            .arg(format!("{minutes}m"));
        command.arg(tried.get_program()).args(tried.get_args());
        command.args([
            "--iterate",
            "--no-shuffle",
            "--timeout",
            &TEST_LIMIT_SECONDS.to_string(),
        ]);
        command.arg("--output").arg(&output);
        // What cargo-mutants has behind `--` is for tests that are built already, and it would build all of them.
        let mut words = shard.test.split(|word| word == "--");
        for word in words.next().unwrap_or_default() {
            command.arg(format!("--cargo-arg={word}"));
        }
        if let Some(of_tests) = words.next() {
            command.args(["--", "--"]).args(of_tests);
        }
        let ended = command.status().context("timeout of coreutils")?;
        self.keep_unviable(shard)?;
        match ended.code() {
            // All caught, some live, some timed out, or the time was over.
            Some(0 | 2 | 3 | TIMED_OUT | 130) => Ok(()),
            _ => bail!(
                "cargo-mutants ended with {ended}; what it said lies in {}",
                output.join("mutants.out").display()
            ),
        }
    }

    /// Writes down all mutants that there are.
    fn keep_list(&self, shard: &Shard) -> Result<()> {
        let listed = self.command(shard).arg("--list").output();
        let listed = listed.context("cargo-mutants")?;
        if !listed.status.success() {
            bail!(
                "cargo-mutants cannot list: {}",
                String::from_utf8_lossy(&listed.stderr)
            );
        }
        fs::write(self.output(shard).join("all.txt"), listed.stdout).context("all.txt")
    }

    /// Those that do not compile, of all runs: cargo-mutants itself goes on as if they had been caught.
    fn unviable(&self, shard: &Shard) -> BTreeSet<String> {
        let output = self.output(shard);
        let mut all: BTreeSet<String> = lines(&output.join(UNVIABLE)).into_iter().collect();
        all.extend(lines(&output.join("mutants.out").join(UNVIABLE)));
        all
    }

    /// Keeps them for the runs to come.
    fn keep_unviable(&self, shard: &Shard) -> Result<()> {
        let all = self.unviable(shard);
        let text: String = all.iter().map(|mutant| format!("{mutant}\n")).collect();
        let kept = self.output(shard).join(UNVIABLE);
        fs::write(&kept, text).with_context(|| kept.display().to_string())
    }

    fn sums(&self, shard: &Shard, list: &List) -> Result<Sums> {
        let output = self.output(shard);
        let all = lines(&output.join("all.txt"));
        let known = |name: &str| -> Vec<String> {
            let of_run = lines(&output.join("mutants.out").join(name)).into_iter();
            of_run.filter(|mutant| all.contains(mutant)).collect()
        };
        let (now, before) = (known("caught.txt"), known("previously_caught.txt"));
        let mut unviable = self.unviable(shard);
        unviable.retain(|mutant| all.contains(mutant));
        let caught = now
            .iter()
            .chain(before.iter().filter(|mutant| !now.contains(mutant)));
        let caught = caught.filter(|mutant| !unviable.contains(*mutant)).count();
        let missed = known("missed.txt").into_iter();
        let (may_live, live): (Vec<_>, Vec<_>) = missed.partition(|mutant| list.may_live(mutant));
        Ok(Sums {
            all: all.len(),
            caught,
            unviable: unviable.len(),
            timed_out: known("timeout.txt").len(),
            may_live: may_live.len(),
            live,
        })
    }
}

fn lines(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Removes the files of `tree` below `folder` that are not among `names`; what is built there stays.
fn remove_others(tree: &Path, folder: &Path, names: &BTreeSet<&str>) -> Result<()> {
    let Ok(entries) = fs::read_dir(tree.join(folder)) else {
        return Ok(()); // there is no copy yet
    };
    for entry in entries {
        let entry = entry?;
        let name = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            let is_built = ["target", "mutants.out"]
                .iter()
                .any(|it| name.ends_with(it));
            if !is_built {
                remove_others(tree, &name, names)?;
            }
        } else if !name.to_str().is_some_and(|name| names.contains(name)) {
            fs::remove_file(entry.path()).with_context(|| entry.path().display().to_string())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard() -> Shard {
        Shard {
            name: "books".into(),
            package: "p".into(),
            files: vec!["src/books.rs".into()],
            test: vec!["--lib".into()],
        }
    }

    #[test]
    fn what_was_known_before_counts_as_long_as_it_is_there() {
        let folder = tempfile::tempdir().expect("a directory");
        let place = Place {
            folder: folder.path().to_owned(),
        };
        let write = |name: &str, text: &str| {
            let path = folder.path().join("out/books").join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        write(
            "all.txt",
            "src/books.rs:1:1: a\nsrc/books.rs:2:2: b\nsrc/books.rs:3:3: c\nsrc/books.rs:4:4: d\nsrc/books.rs:5:5: e\nsrc/books.rs:6:6: f\n",
        );
        write(
            "mutants.out/previously_caught.txt",
            "src/books.rs:1:1: a\nsrc/books.rs:5:5: e\nsrc/books.rs:9:9: gone\n",
        );
        write("mutants.out/unviable.txt", "src/books.rs:5:5: e\n");
        place.keep_unviable(&shard()).expect("written");
        write("mutants.out/unviable.txt", "src/books.rs:6:6: f\n");
        write(
            "mutants.out/caught.txt",
            "src/books.rs:1:1: a\nsrc/books.rs:2:2: b\n",
        );
        write(
            "mutants.out/missed.txt",
            "src/books.rs:3:3: c\nsrc/books.rs:4:4: d\n",
        );
        let list = "[[lives]]\nmutant = \"src/books.rs: d\"\nreason = \"r\"\n";
        let list = List::parse(list).expect("in form");
        let sums = place.sums(&shard(), &list).expect("readable");
        let expected = Sums {
            all: 6,
            caught: 2,
            unviable: 2,
            may_live: 1,
            live: vec!["src/books.rs:3:3: c".into()],
            ..Sums::default()
        };
        assert_eq!(sums, expected);
        assert_eq!(
            sums.text("books"),
            "books: 6 of 6 mutants tried: 2 caught, 0 timed out, 2 do not compile, 1 may live, 1 live\n  lives: src/books.rs:3:3: c\n"
        );
    }

    #[test]
    fn what_is_not_in_the_tree_any_more_leaves_the_copy_and_what_is_built_stays() {
        let folder = tempfile::tempdir().expect("a directory");
        let names = [
            "Cargo.toml",
            "a/src/lib.rs",
            "a/src/gone.rs",
            "target/debug/a",
        ];
        for name in names {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, "").expect("written");
        }
        let kept = BTreeSet::from(["Cargo.toml", "a/src/lib.rs"]);
        remove_others(folder.path(), Path::new(""), &kept).expect("removed");
        let there = names.map(|name| folder.path().join(name).exists());
        assert_eq!(there, [true, true, false, true]);
        let nowhere = folder.path().join("none");
        remove_others(&nowhere, Path::new(""), &kept).expect("nothing to do");
    }
}
