//! What a program has made of its flags or its file: the plan in its record, value by value, defaults included.

use std::fmt::Write;

use serde_json::Value;

/// Values that are others in each run.
const OF_THE_RUN: [&str; 2] = ["run_id", "run_min"];

/// A text without paths of this machine, and without the numbers of ports and processes.
fn without_place(text: &str) -> String {
    if text.starts_with('/') {
        return "a path".to_owned();
    }
    let mut without = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (front, digits) = rest.split_at(at);
        let end = digits.find(|letter: char| !letter.is_ascii_digit());
        let (number, behind) = digits.split_at(end.unwrap_or(digits.len()));
        without += front;
        without += if number.len() > 3 { "#" } else { number };
        rest = behind;
    }
    without + rest
}

fn add(lines: &mut String, path: &str, value: &Value) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                let is_of_the_run = OF_THE_RUN.contains(&key.as_str());
                if !is_of_the_run {
                    add(lines, &format!("{path}.{key}"), value);
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (number, item) in items.iter().enumerate() {
                add(lines, &format!("{path}[{number}]"), item);
            }
        }
        Value::String(text) => {
            let text = without_place(text);
            writeln!(lines, "{} = {text:?}", path.trim_start_matches('.')).unwrap();
        }
        other => writeln!(lines, "{} = {other}", path.trim_start_matches('.')).unwrap(),
    }
}

/// A line for each value.
pub(crate) fn of(plan: &Value) -> String {
    let mut lines = String::new();
    add(&mut lines, "", plan);
    lines
}
