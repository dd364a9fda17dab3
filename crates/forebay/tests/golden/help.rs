//! What `--help` says of each verb.

use crate::agreed::Texts;
use crate::rig::{forebay, start};

/// Width of the lines, whatever the terminal.
const COLUMNS: &str = "100";
/// Verbs that are not listed.
const HIDDEN: [&str; 3] = ["completions", "man", "stage"];

/// `forebay WORDS --help`, without blanks at the ends of lines.
fn help_of(words: &[&str]) -> String {
    let mut command = forebay();
    command.env("COLUMNS", COLUMNS).args(words).arg("--help");
    let ended = start(&mut command).end();
    assert_eq!(ended.code(), Some(0), "{words:?}: {}", ended.stderr);
    let lines = ended.stdout.lines().map(str::trim_end);
    lines.map(|line| line.to_owned() + "\n").collect()
}

/// The verbs below `Commands:`; what a description goes on with stands further to the right.
fn verbs_in(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = lines.take_while(|line| !line.is_empty());
    listed
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split(' ').next())
        .filter(|verb| *verb != "help")
        .collect()
}

/// Adds the help of a verb, and of all below it.
fn add(text: &mut String, words: &[&str]) {
    let help = help_of(words);
    *text += &format!("$ forebay {} --help\n{help}\n", words.join(" "));
    for verb in verbs_in(&help) {
        add(text, &[words, &[verb]].concat());
    }
}

/// A text for each verb, with those below it, and one of the program itself.
pub(crate) fn texts() -> Texts {
    let help = help_of(&[]);
    let verbs = verbs_in(&help);
    assert!(verbs.len() > 15, "{help}");
    let text = |verb: &str| {
        let mut text = String::new();
        add(&mut text, &[verb]);
        (verb.to_owned(), text)
    };
    let mut texts: Texts = verbs.into_iter().chain(HIDDEN).map(text).collect();
    texts.insert("forebay".into(), format!("$ forebay --help\n{help}"));
    texts
}
