//! Rows as CSV, written and read.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::{Cell, Column, Row, partial};

/// A CSV file that is whole after each call.
#[derive(Debug)]
pub struct CsvFile {
    file: File,
    path: PathBuf,
    columns: Vec<String>,
}

impl CsvFile {
    /// Begins a file; its first row names the columns.
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

    /// Goes on with a file that [`write()`] made.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn append(path: &Path, columns: &[Column]) -> Result<Self> {
        let file = File::options()
            .append(true)
            .open(path)
            .with_context(|| format!("opening {}", path.display()))?;
        Ok(Self {
            file,
            path: path.to_path_buf(),
            columns: names(columns),
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one row.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&mut self, row: &Row) -> Result<()> {
        self.write_all(std::slice::from_ref(row))
    }

    /// Writes some rows with one call of the system.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write_all(&mut self, rows: &[Row]) -> Result<()> {
        let mut text = String::new();
        if let (true, Some(row)) = (self.columns.is_empty(), rows.first()) {
            self.columns = row.0.iter().map(|cell| cell.0.clone()).collect();
            text = self.columns.join(",") + "\n";
        }
        for row in rows {
            text += &line(&self.columns, row);
        }
        self.file
            .write_all(text.as_bytes())
            .with_context(|| format!("writing {}", self.path.display()))
    }
}

fn names(columns: &[Column]) -> Vec<String> {
    columns.iter().map(|column| column.name.clone()).collect()
}

fn line(columns: &[String], row: &Row) -> String {
    let cells = columns
        .iter()
        .map(|name| row.cell(name).map_or_else(String::new, Cell::csv));
    cells.collect::<Vec<_>>().join(",") + "\n"
}

/// Writes `rows` to `path`, which appears whole or not at all.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, columns: &[Column], rows: &[Row]) -> Result<()> {
    let names = names(columns);
    let mut text = names.join(",") + "\n";
    text.extend(rows.iter().map(|row| line(&names, row)));
    let part = partial(path);
    fs::write(&part, text).with_context(|| format!("writing {}", part.display()))?;
    fs::rename(&part, path).with_context(|| format!("writing {}", path.display()))
}

/// Reads the rows of a file with these columns. A last line without its end was not written whole and is left out.
///
/// # Errors
/// It cannot be read, or has other columns.
pub fn read(path: &Path, columns: &[Column]) -> Result<Vec<Row>> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let mut records = records(&text).into_iter();
    if records.next() != Some(names(columns)) {
        bail!(
            "{} has other columns than this version writes: choose another directory",
            path.display()
        );
    }
    let row = |cells: Vec<String>| {
        let mut row = Row::default();
        for (column, text) in columns.iter().zip(cells) {
            if text.is_empty() {
                continue;
            }
            if column.text {
                row.add(&column.name, text);
            } else if let Ok(number) = text.parse::<f64>() {
                row.add(&column.name, number);
            }
        }
        row
    };
    Ok(records
        .filter(|cells| cells.len() == columns.len())
        .map(row)
        .collect())
}

/// Cells of each line that has its end; quoted cells may hold commas, doubled quotes and ends of lines.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut cells, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                cells.push(std::mem::take(&mut cell));
                records.push(std::mem::take(&mut cells));
            }
            letter => cell.push(letter),
        }
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::columns_of;

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
            fs::read_to_string(file.path()).unwrap(),
            "rate_hz,cpu\n4000,\"A, B\"\n,C\n"
        );
    }

    #[test]
    fn what_is_written_is_read_but_for_half_a_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.csv");
        let mut row = Row::default();
        row.add("rate_hz", 0.1);
        row.add("cpu", "A, \"B\"");
        row.add("commit", "12e4");
        let rows = [row];
        let columns = columns_of(&rows);
        write(&path, &columns, &rows).unwrap();
        CsvFile::append(&path, &columns)
            .unwrap()
            .write_all(&rows)
            .unwrap();
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"0.1,A,").unwrap();
        let [first] = rows;
        assert_eq!(read(&path, &columns).unwrap(), [first.clone(), first]);
        assert!(read(&path, &columns[1..]).is_err());
    }
}
