//! What is on a page of metrics: each family with its help and type, and the labels that its samples have.

use std::collections::BTreeSet;

/// The keys of a sample's labels.
fn label_keys(labels: &str) -> String {
    let mut keys = Vec::new();
    let mut rest = labels;
    // A value is in quotes, with `\"` and `\\` in it.
    while let Some((key, behind)) = rest.split_once("=\"") {
        keys.push(key.trim_start_matches(','));
        let mut is_escaped = false;
        let end = behind.find(|letter| {
            let ends = letter == '"' && !is_escaped;
            is_escaped = letter == '\\' && !is_escaped;
            ends
        });
        rest = &behind[end.unwrap() + 1..];
    }
    keys.join(" ")
}

/// A line of the page without its value.
fn without_value(line: &str) -> String {
    if line.starts_with('#') {
        return line.to_owned();
    }
    match line.split_once('{') {
        Some((name, rest)) => {
            let (labels, _) = rest.rsplit_once('}').unwrap();
            format!("{name} {{{}}}", label_keys(labels))
        }
        None => line.split(' ').next().unwrap().to_owned(),
    }
}

/// Each line once, without values, in the order of the page.
pub(crate) fn of(answer: &str) -> String {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    let mut seen = BTreeSet::new();
    let lines = body.lines().map(without_value);
    let new = lines.filter(|line| seen.insert(line.clone()));
    new.map(|line| line + "\n").collect()
}
