//! Lists of the tree in TOML: a table for each entry, with texts that people read and write. What is out of form is named.

use anyhow::{Context, Result, bail};
use toml::{Table, Value};

/// Reads a list that has these keys and no others.
///
/// # Errors
/// It is no TOML, or has another key; `form` says what to write.
pub(crate) fn table(text: &str, keys: &[&str], form: &str) -> Result<Table> {
    let table: Table = text.parse()?;
    match table.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => bail!("unknown key '{key}': write {form}"),
        None => Ok(table),
    }
}

/// The entries `[[key]]`, none where there are none.
///
/// # Errors
/// The key has something else.
pub(crate) fn of<'a>(table: &'a Table, key: &str) -> Result<&'a [Value]> {
    match table.get(key) {
        None => Ok(&[]),
        Some(entries) => {
            let entries = entries.as_array();
            let wrong = || format!("'{key}' must be [[{key}]]");
            entries.map(Vec::as_slice).with_context(wrong)
        }
    }
}

/// A text of an entry.
///
/// # Errors
/// It is not there, or is blank; `form` says what to write.
pub(crate) fn text(entry: &Value, key: &str, form: &str) -> Result<String> {
    let found = entry.get(key).and_then(Value::as_str);
    let found = found.filter(|text| !text.trim().is_empty());
    let missing = || format!("an entry has no {key}: write {form} ({entry})");
    found.map(str::to_owned).with_context(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_list_of_tables_is_named() {
        let table = table("a = 1\n", &["a"], "[[a]]").expect("no other key");
        let error = of(&table, "a").expect_err("no table").to_string();
        assert_eq!(error, "'a' must be [[a]]");
        assert!(of(&table, "b").expect("there are none").is_empty());
    }
}
