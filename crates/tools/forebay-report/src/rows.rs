//! Rows of a measurement: named cells, kept as CSV the moment they are measured, and as Parquet at the end.

pub mod csv;
pub mod parquet;

use std::path::{Path, PathBuf};

pub use csv::CsvFile;

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

    /// The cell `name`, if there is one.
    #[must_use]
    pub fn cell(&self, name: &str) -> Option<&Cell> {
        self.0
            .iter()
            .find(|cell| cell.0 == name)
            .map(|cell| &cell.1)
    }

    /// The cell in `column`, if it is of the column's kind.
    fn cell_of(&self, column: &Column) -> Option<&Cell> {
        self.cell(&column.name)
            .filter(|cell| matches!(cell, Cell::Text(_)) == column.text)
    }

    /// Sets the number `name`, whether there was one or not.
    pub fn set(&mut self, name: &str, value: f64) {
        self.0.retain(|cell| cell.0 != name);
        self.add(name, value);
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

/// A column: its name, and whether words or numbers stand in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Words; numbers else.
    pub text: bool,
}

/// The columns of `rows`, in the order in which they first appear.
#[must_use]
pub fn columns_of(rows: &[Row]) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for (name, cell) in rows.iter().flat_map(|row| &row.0) {
        if !columns.iter().any(|column| column.name == *name) {
            columns.push(Column {
                name: name.clone(),
                text: matches!(cell, Cell::Text(_)),
            });
        }
    }
    columns
}

/// Where a file is written before it takes its name.
fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}
