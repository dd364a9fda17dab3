//! Rows as a Parquet file: numbers as `DOUBLE`, words as UTF-8, a missing cell as null.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use super::{Cell, Column, Row, partial};

/// Writes `rows` to `path`, which appears whole or not at all.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, columns: &[Column], rows: &[Row]) -> Result<()> {
    let part = partial(path);
    write_part(&part, columns, rows).with_context(|| format!("writing {}", part.display()))?;
    fs::rename(&part, path).with_context(|| format!("writing {}", path.display()))
}

fn write_part(path: &Path, columns: &[Column], rows: &[Row]) -> Result<()> {
    let schema = Arc::new(schema(columns)?);
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = SerializedFileWriter::new(File::create(path)?, schema, properties)?;
    if !rows.is_empty() {
        let mut group = file.next_row_group()?;
        for column in columns {
            let writer = group.next_column()?.context("a column is missing")?;
            write_column(writer, column, rows)?;
        }
        group.close()?;
    }
    file.close()?;
    Ok(())
}

fn schema(columns: &[Column]) -> Result<Type> {
    let field = |column: &Column| -> Result<Arc<Type>> {
        let (physical, logical) = if column.text {
            (Physical::BYTE_ARRAY, Some(LogicalType::String))
        } else {
            (Physical::DOUBLE, None)
        };
        let field = Type::primitive_type_builder(&column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()?;
        Ok(Arc::new(field))
    };
    let fields = columns.iter().map(field).collect::<Result<_>>()?;
    Ok(Type::group_type_builder("row")
        .with_fields(fields)
        .build()?)
}

fn write_column(
    mut writer: SerializedColumnWriter<'_>,
    column: &Column,
    rows: &[Row],
) -> Result<()> {
    let cells = || rows.iter().map(|row| row.cell_of(column));
    let present: Vec<i16> = cells().map(|cell| i16::from(cell.is_some())).collect();
    if column.text {
        let words: Vec<ByteArray> = cells()
            .filter_map(|cell| match cell {
                Some(Cell::Text(text)) => Some(ByteArray::from(text.as_str())),
                _ => None,
            })
            .collect();
        writer
            .typed::<ByteArrayType>()
            .write_batch(&words, Some(&present), None)?;
    } else {
        let numbers: Vec<f64> = cells()
            .filter_map(|cell| match cell {
                Some(Cell::Number(number)) => Some(*number),
                _ => None,
            })
            .collect();
        writer
            .typed::<DoubleType>()
            .write_batch(&numbers, Some(&present), None)?;
    }
    writer.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::columns_of;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    #[test]
    fn what_is_written_is_read_and_a_missing_cell_is_null() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.parquet");
        let mut first = Row::default();
        first.add("rate_hz", 2.5);
        let mut second = Row::default();
        second.add("cpu", "A, B");
        let rows = [first, second];
        write(&path, &columns_of(&rows), &rows).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let read: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| {
                let row = row.unwrap();
                row.get_column_iter()
                    .map(|column| column.1.clone())
                    .collect()
            })
            .collect();
        assert_eq!(
            read,
            [
                vec![Field::Double(2.5), Field::Null],
                vec![Field::Null, Field::Str("A, B".into())]
            ]
        );
    }
}
