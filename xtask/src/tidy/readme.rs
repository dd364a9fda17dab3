//! Every command line that a document shows exists: `./x COMMAND` in the script, `forebay VERB --flag` in its help.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::Finding;
use super::places::{README, SCRIPT};
use super::tree::{Source, Tree};
use crate::cargo;
use crate::ci::{metadata, target_directory};

const PROGRAM: &str = "forebay";
/// What the first page may have, in bytes: what is detail stands in docs/.
const README_BYTES_MAX: usize = 9_000;

/// Answers what `forebay WORDS… --help` prints; empty when it refuses.
pub(super) type Help<'a> = dyn FnMut(&[&str]) -> Result<String> + 'a;

pub(super) fn check(tree: &Tree, help: &mut Help<'_>) -> Result<Vec<Finding>> {
    let script = tree.text(SCRIPT).unwrap_or_default();
    let mut findings: Vec<_> = too_long(tree).into_iter().collect();
    for source in tree.iter().filter(|source| is_for_users(source)) {
        for (number, words) in command_lines(&source.text) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let what = match words.split_first() {
                Some((&"./x", rest)) => unknown_to_script(script, rest),
                Some((_, rest)) => unknown_to_program(rest, help)?,
                None => None,
            };
            findings.extend(what.map(|what| {
                Finding::at(
                    &source.path,
                    number,
                    what,
                    "correct the document, or the command",
                )
            }));
        }
    }
    Ok(findings)
}

fn too_long(tree: &Tree) -> Option<Finding> {
    let bytes = tree.text(README)?.len();
    let what = format!("{bytes} bytes, at most {README_BYTES_MAX}");
    let remedy = "move what is detail to a page of docs/, and link it";
    (bytes > README_BYTES_MAX).then(|| Finding::new(README, what, remedy))
}

fn is_for_users(source: &Source) -> bool {
    let in_docs = source
        .path
        .strip_prefix("docs/")
        .is_some_and(|name| name.ends_with(".md") && !name.contains('/'));
    in_docs || source.path == README
}

/// The command lines in fenced blocks and in inline code, with their line numbers, as words without brackets.
fn command_lines(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut lines = Vec::new();
    let mut fenced = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            lines.extend(command_words(line).map(|words| (number + 1, words)));
        } else {
            let spans = line.split('`').skip(1).step_by(2);
            lines.extend(
                spans
                    .filter_map(command_words)
                    .map(|words| (number + 1, words)),
            );
        }
    }
    lines
}

fn command_words(line: &str) -> Option<Vec<String>> {
    let line = line
        .trim()
        .trim_start_matches("$ ")
        .trim_start_matches("target/release/");
    let line = line.split(" #").next().unwrap_or(line);
    let is_bracket = |c: char| "[]…".contains(c);
    let words: Vec<String> = line
        .split_whitespace()
        .map(|word| word.trim_matches(is_bracket).to_owned())
        .collect();
    let first = words.first()?;
    (words.len() > 1 && (first == "./x" || first == PROGRAM)).then_some(words)
}

fn unknown_to_script(script: &str, words: &[&str]) -> Option<String> {
    let command = words.first()?;
    (!script_commands(script).contains(command)).then(|| format!("./x has no command '{command}'"))
}

/// The labels of the script's last `case`.
fn script_commands(script: &str) -> Vec<&str> {
    let Some((_, body)) = script.rsplit_once("case $command in") else {
        return Vec::new();
    };
    let labels = body
        .lines()
        .filter_map(|line| line.split_once(')'))
        .map(|(label, _)| label.trim());
    let is_label = |label: &&str| {
        label
            .chars()
            .all(|c| c.is_ascii_lowercase() || " |-".contains(c))
    };
    labels
        .filter(is_label)
        .flat_map(|label| label.split('|'))
        .map(str::trim)
        .collect()
}

/// Follows the verbs as far as the help knows them, then looks each flag up where the verbs ended.
fn unknown_to_program(words: &[&str], help: &mut Help<'_>) -> Result<Option<String>> {
    let mut verbs: Vec<&str> = Vec::new();
    let mut text = help(&verbs)?;
    for word in words.iter().take_while(|word| is_verb(word)) {
        if !subcommands(&text).contains(word) {
            if verbs.is_empty() {
                return Ok(Some(format!("{PROGRAM} has no verb '{word}'")));
            }
            break;
        }
        verbs.push(word);
        text = help(&verbs)?;
    }
    let flags = words
        .iter()
        .filter_map(|word| word.strip_prefix("--"))
        .map(|flag| flag.split('=').next().unwrap_or(flag));
    let unknown = flags
        .map(|flag| format!("--{flag}"))
        .find(|flag| !has_flag(&text, flag));
    Ok(unknown.map(|flag| format!("{PROGRAM} {} has no {flag}", verbs.join(" "))))
}

fn is_verb(word: &str) -> bool {
    word.chars().next().is_some_and(|c| c.is_ascii_lowercase()) && !word.contains(['.', '/', ':'])
}

/// The first words of the indented lines under `Commands:`.
fn subcommands(help: &str) -> Vec<&str> {
    let section = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1);
    let lines = section.take_while(|line| line.starts_with(' ') || line.is_empty());
    lines
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

fn has_flag(help: &str, flag: &str) -> bool {
    help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .any(|word| word == flag)
}

/// Builds the debug binary and asks it.
pub(super) fn built_help(
    root: &Path,
    built: &[PathBuf],
) -> Result<impl FnMut(&[&str]) -> Result<String> + use<>> {
    let ours = |program: &&PathBuf| program.file_name().is_some_and(|name| name == PROGRAM);
    let binary = match built.iter().find(ours) {
        Some(program) => program.clone(),
        None => build(root)?,
    };
    Ok(move |verbs: &[&str]| {
        let output = Command::new(&binary).args(verbs).arg("--help").output();
        let output = output.with_context(|| format!("cannot run {}", binary.display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    })
}

fn build(root: &Path) -> Result<PathBuf> {
    let mut build = cargo();
    build
        .args(["build", "--quiet", "--locked", "--package", PROGRAM])
        .current_dir(root);
    crate::ci::checked(&mut build)?;
    let target = target_directory(&metadata(&root.join("Cargo.toml"))?);
    Ok(target.join("debug").join(PROGRAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "case $purpose in\nother) ;;\nesac\ncase $command in\ndemo | bench)\n  build ;;\ntest) x ;;\n*) fail ;;\nesac";

    fn found(readme: &str) -> Vec<String> {
        let mut help = |verbs: &[&str]| -> Result<String> {
            let text = match verbs {
                [] => {
                    "Usage: forebay\n\nCommands:\n  demo     take data\n             and more\n  emulate  send\n\nOptions:\n  -h, --help\n"
                }
                ["demo"] => "Options:\n      --rate <HZ>  rate\n",
                ["emulate"] => "Commands:\n  hades  many\n",
                ["emulate", "hades"] => "Options:\n      --seed <S>\n",
                _ => "",
            };
            Ok(text.into())
        };
        let tree = Tree::of(&[("README.md", readme), ("x", SCRIPT)]);
        check(&tree, &mut help)
            .expect("help")
            .into_iter()
            .map(|finding| finding.what)
            .collect()
    }

    #[test]
    fn commands_that_exist_pass() {
        let readme = "```console\n$ ./x demo --rate 1\n$ forebay demo [--rate 4000] # comment --no\n```\n`./x test` and `forebay emulate hades --seed=7`, `forebay emulate other.toml`; ./x is nice";
        assert_eq!(found(readme), Vec::<String>::new());
    }

    #[test]
    fn commands_that_do_not_exist_are_found() {
        assert_eq!(found("```\n./x other\n```"), ["./x has no command 'other'"]);
        assert_eq!(found("`./x tests`"), ["./x has no command 'tests'"]);
        assert_eq!(found("`forebay fly --high`"), ["forebay has no verb 'fly'"]);
        assert_eq!(
            found("`forebay demo --rates 4`"),
            ["forebay demo has no --rates"]
        );
        assert_eq!(
            found("`forebay emulate hades [--rate 4]`"),
            ["forebay emulate hades has no --rate"]
        );
    }

    #[test]
    fn a_first_page_that_is_too_long_is_found() {
        assert_eq!(found(&"a".repeat(9_000)), Vec::<String>::new());
        assert_eq!(found(&"a".repeat(9_001)), ["9001 bytes, at most 9000"]);
    }

    #[test]
    fn this_script_has_its_commands() {
        let script = include_str!("../../../x");
        let commands = script_commands(script);
        for command in ["demo", "test", "build", "bench", "fuzz", "figure", "help"] {
            assert!(
                commands.contains(&command),
                "{command} is not in {commands:?}"
            );
        }
        assert!(!commands.contains(&"cargo"));
    }
}
