//! CSV (RFC 4180): a line of names, then a line a row. What is not there is empty, times are ns since 1970, and words are quoted where they have to be.

use std::io::{self, Write};

use crate::column::{Cell, Column, distinct};

/// A table of comma-separated values.
#[derive(Debug)]
pub struct CsvWriter<W, R> {
    to: W,
    columns: Vec<Column<R>>,
    lines: Vec<u8>,
}

impl<W: Write, R> CsvWriter<W, R> {
    /// Begins it with the names of the columns.
    ///
    /// # Errors
    /// The names cannot be written, or two columns have one name.
    pub fn begin(mut to: W, columns: Vec<Column<R>>) -> io::Result<Self> {
        distinct(&columns)?;
        let mut lines = Vec::new();
        for (n, column) in columns.iter().enumerate() {
            separate(&mut lines, n);
            put_word(&mut lines, column.name());
        }
        lines.push(b'\n');
        to.write_all(&lines)?;
        Ok(Self { to, columns, lines })
    }

    /// Writes rows, each as a whole line.
    ///
    /// # Errors
    /// They cannot be written; some of them may have been.
    pub fn write(&mut self, rows: &[R]) -> io::Result<()> {
        self.lines.clear();
        for row in rows {
            for (n, column) in self.columns.iter().enumerate() {
                separate(&mut self.lines, n);
                put(&mut self.lines, &column.cell(row));
            }
            self.lines.push(b'\n');
        }
        self.to.write_all(&self.lines)
    }

    /// Ends it, and gives back where it was written.
    ///
    /// # Errors
    /// What was buffered there cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}

fn separate(line: &mut Vec<u8>, n: usize) {
    if n > 0 {
        line.push(b',');
    }
}

fn put(line: &mut Vec<u8>, cell: &Cell<'_>) {
    // Memory takes all that is written into it.
    let _ = match cell {
        Cell::Nothing => Ok(()),
        Cell::Number(number) | Cell::UnixNs(number) => write!(line, "{number}"),
        Cell::Real(number) => write!(line, "{number}"),
        Cell::Flag(flag) => write!(line, "{flag}"),
        Cell::Word(word) => {
            put_word(line, word);
            Ok(())
        }
    };
}

fn put_word(line: &mut Vec<u8>, word: &str) {
    if !word.contains([',', '"', '\n', '\r']) {
        line.extend_from_slice(word.as_bytes());
        return;
    }
    line.push(b'"');
    line.extend_from_slice(word.replace('"', "\"\"").as_bytes());
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;

    use super::*;

    /// The fields of lines, by RFC 4180: a reader of its own.
    fn fields(text: &str) -> Vec<Vec<String>> {
        let mut lines = vec![vec![String::new()]];
        let mut letters = text.chars().peekable();
        let mut quoted = false;
        while let Some(letter) = letters.next() {
            let line = lines.last_mut().unwrap();
            match letter {
                '"' if quoted && letters.peek() == Some(&'"') => {
                    letters.next();
                    line.last_mut().unwrap().push('"');
                }
                '"' => quoted = !quoted,
                ',' if !quoted => line.push(String::new()),
                '\n' if !quoted => lines.push(vec![String::new()]),
                other => line.last_mut().unwrap().push(other),
            }
        }
        lines.pop();
        lines
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_whatever_the_words_are(words in prop::collection::vec("[a-z,\"\n\r ]{0,9}", 1..9)) {
            let columns = vec![
                Column::word("word", |word: &String| Cow::Borrowed(word.as_str())),
                Column::count("bytes", |word: &String| word.len() as u64),
            ];
            let mut csv = CsvWriter::begin(Vec::new(), columns).unwrap();
            csv.write(&words).unwrap();
            let text = String::from_utf8(csv.finish().unwrap()).unwrap();
            let read = fields(&text);
            prop_assert_eq!(&read[0], &["word", "bytes"]);
            for (word, line) in words.iter().zip(&read[1..]) {
                prop_assert_eq!(line, &[word.clone(), word.len().to_string()]);
            }
            prop_assert_eq!(read.len(), words.len() + 1);
        }
    }

    #[test]
    fn two_columns_of_one_name_are_refused() {
        let columns = ["a", "b", "a"].map(|name| Column::flag(name, |_: &()| true));
        let error = CsvWriter::begin(Vec::new(), columns.into()).unwrap_err();
        assert!(error.to_string().contains("\"a\""), "{error}");
    }

    #[test]
    fn a_table_that_cannot_be_written_says_so() {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let columns = vec![Column::flag("is_there", |_: &()| true)];
        let error = CsvWriter::begin(full.unwrap(), columns).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
