//! Rows of a measurement: named cells, kept as CSV the moment they are measured.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A number or a word.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// A number.
    Number(f64),
    /// A word.
    Text(String),
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Self::Number(value as f64)
    }
}

impl From<usize> for Cell {
    fn from(value: usize) -> Self {
        Self::Number(value as f64)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Number(f64::from(u8::from(value)))
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl Cell {
    fn csv(&self) -> String {
        match self {
            Self::Number(value) if value.fract() == 0.0 && value.abs() < 1e15 => {
                format!("{value:.0}")
            }
            Self::Number(value) => format!("{value}"),
            Self::Text(text) if text.contains([',', '"', '\n']) => {
                format!("\"{}\"", text.replace('"', "\"\""))
            }
            Self::Text(text) => text.clone(),
        }
    }
}

/// One row: cells by name, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row(Vec<(String, Cell)>);

impl Row {
    /// Adds a cell.
    pub fn add(&mut self, name: &str, value: impl Into<Cell>) {
        self.0.push((name.to_owned(), value.into()));
    }

    /// Adds all cells of `other`.
    pub fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// The number `name`; not a number when there is none.
    #[must_use]
    pub fn number(&self, name: &str) -> f64 {
        match self.cell(name) {
            Some(Cell::Number(value)) => *value,
            _ => f64::NAN,
        }
    }

    /// The word `name`; empty when there is none.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        match self.cell(name) {
            Some(Cell::Text(text)) => text,
            _ => "",
        }
    }

    fn cell(&self, name: &str) -> Option<&Cell> {
        self.0
            .iter()
            .find(|cell| cell.0 == name)
            .map(|cell| &cell.1)
    }

    /// The row as a JSON object.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let cells = self
            .0
            .iter()
            .map(|(name, cell)| (name.clone(), serde_json::json!(cell)));
        serde_json::Value::Object(cells.collect())
    }
}

/// A CSV file that is whole after each row.
#[derive(Debug)]
pub struct CsvFile {
    file: File,
    path: PathBuf,
    columns: Vec<String>,
}

impl CsvFile {
    /// Begins a file.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("making {}", path.display()))?;
        Ok(Self {
            file,
            path: path.to_path_buf(),
            columns: Vec::new(),
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one row; the first one names the columns.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&mut self, row: &Row) -> Result<()> {
        let mut text = String::new();
        if self.columns.is_empty() {
            self.columns = row.0.iter().map(|cell| cell.0.clone()).collect();
            text = self.columns.join(",") + "\n";
        }
        let cells = self
            .columns
            .iter()
            .map(|name| row.cell(name).map_or_else(String::new, Cell::csv));
        text += &cells.collect::<Vec<_>>().join(",");
        text.push('\n');
        self.file
            .write_all(text.as_bytes())
            .with_context(|| format!("writing {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stay_in_order_and_commas_are_quoted() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = CsvFile::create(&directory.path().join("rows.csv")).unwrap();
        let mut row = Row::default();
        row.add("rate_hz", 4000.0);
        row.add("cpu", "A, B");
        file.write(&row).unwrap();
        let mut other = Row::default();
        other.add("cpu", "C");
        file.write(&other).unwrap();
        assert_eq!(
            std::fs::read_to_string(file.path()).unwrap(),
            "rate_hz,cpu\n4000,\"A, B\"\n,C\n"
        );
    }
}
