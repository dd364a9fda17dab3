//! Parquet that grows: rows are written in groups, one after the other. Whole numbers are `INT64`, times `TIMESTAMP(NANOS, UTC)`, words `STRING`; what is not there is null.
//!
//! What is kept of each group for the end of the file is small: one entry for each column, no index of pages. Without its end nobody can read the file.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{
    Encoding, LogicalType, Repetition, TimeUnit, TimestampType, Type as Physical,
};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use crate::column::{Column, Of, distinct};

/// A Parquet file to which groups of rows are added.
pub struct ParquetWriter<W: Write + Send, R> {
    file: SerializedFileWriter<W>,
    columns: Vec<Column<R>>,
}

impl<W: Write + Send, R> ParquetWriter<W, R> {
    /// Begins a file whose rows are called `row`.
    ///
    /// # Errors
    /// Its begin cannot be written, or two columns have one name.
    pub fn begin(to: W, row: &str, columns: Vec<Column<R>>) -> io::Result<Self> {
        distinct(&columns)?;
        let fields = columns.iter().map(|column| Ok(Arc::new(field(column)?)));
        let schema = Type::group_type_builder(row)
            .with_fields(
                fields
                    .collect::<Result<_, ParquetError>>()
                    .map_err(failed)?,
            )
            .build()
            .map_err(failed)?;
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true);
        let numbers = columns.iter().filter(|column| column.is_number());
        let properties = numbers.fold(properties, |properties, column| {
            properties.set_column_encoding(column.name().into(), Encoding::DELTA_BINARY_PACKED)
        });
        let properties = Arc::new(properties.build());
        let file = SerializedFileWriter::new(to, Arc::new(schema), properties).map_err(failed)?;
        Ok(Self { file, columns })
    }

    /// Adds a group of rows.
    ///
    /// # Errors
    /// It cannot be written; the file can then have no end.
    pub fn write(&mut self, rows: &[R]) -> io::Result<()> {
        self.write_group(rows).map_err(failed)
    }

    fn write_group(&mut self, rows: &[R]) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for column in &self.columns {
            let missing = || ParquetError::General("a column is missing".to_owned());
            let mut writer = group.next_column()?.ok_or_else(missing)?;
            column.write(rows, &mut writer)?;
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes the file's end, and gives back where it was written.
    ///
    /// # Errors
    /// The end cannot be written.
    pub fn finish(self) -> io::Result<W> {
        self.file.into_inner().map_err(failed)
    }
}

impl<R> Column<R> {
    const fn is_number(&self) -> bool {
        matches!(self.of, Of::Number(_) | Of::Optional(_) | Of::UnixNs(_))
    }

    fn write(
        &self,
        rows: &[R],
        writer: &mut SerializedColumnWriter<'_>,
    ) -> Result<(), ParquetError> {
        match &self.of {
            Of::Number(of) => {
                let numbers: Vec<i64> = rows.iter().map(of).collect();
                let writer = writer.typed::<Int64Type>();
                writer.write_batch(&numbers, None, None)?;
            }
            Of::Optional(of) | Of::UnixNs(of) => {
                let numbers: Vec<Option<i64>> = rows.iter().map(of).collect();
                let there: Vec<i16> = numbers.iter().map(|it| i16::from(it.is_some())).collect();
                let numbers: Vec<i64> = numbers.into_iter().flatten().collect();
                let writer = writer.typed::<Int64Type>();
                writer.write_batch(&numbers, Some(&there), None)?;
            }
            Of::Real(of) => {
                let numbers: Vec<Option<f64>> = rows.iter().map(of).collect();
                let there: Vec<i16> = numbers.iter().map(|it| i16::from(it.is_some())).collect();
                let numbers: Vec<f64> = numbers.into_iter().flatten().collect();
                let writer = writer.typed::<DoubleType>();
                writer.write_batch(&numbers, Some(&there), None)?;
            }
            Of::Flag(of) => {
                let flags: Vec<bool> = rows.iter().map(of).collect();
                writer.typed::<BoolType>().write_batch(&flags, None, None)?;
            }
            Of::Word(of) => {
                let words = rows.iter().map(|row| ByteArray::from(of(row).as_ref()));
                let words: Vec<ByteArray> = words.collect();
                let writer = writer.typed::<ByteArrayType>();
                writer.write_batch(&words, None, None)?;
            }
        }
        Ok(())
    }
}

fn field<R>(column: &Column<R>) -> Result<Type, ParquetError> {
    let time = LogicalType::Timestamp(TimestampType {
        is_adjusted_to_u_t_c: true,
        unit: TimeUnit::NANOS,
    });
    let (physical, logical, repetition) = match column.of {
        Of::Number(_) => (Physical::INT64, None, Repetition::REQUIRED),
        Of::Optional(_) => (Physical::INT64, None, Repetition::OPTIONAL),
        Of::UnixNs(_) => (Physical::INT64, Some(time), Repetition::OPTIONAL),
        Of::Real(_) => (Physical::DOUBLE, None, Repetition::OPTIONAL),
        Of::Flag(_) => (Physical::BOOLEAN, None, Repetition::REQUIRED),
        Of::Word(_) => (
            Physical::BYTE_ARRAY,
            Some(LogicalType::String),
            Repetition::REQUIRED,
        ),
    };
    Type::primitive_type_builder(column.name(), physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .build()
}

/// What the system said, where it was the system.
fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(of_system) => *of_system,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::fs::File;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    struct Sample {
        number: i64,
        optional: Option<i64>,
        came_ns: Option<u64>,
        real: Option<f64>,
        flag: bool,
        word: String,
    }

    fn columns() -> Vec<Column<Sample>> {
        vec![
            Column::number("number", |row: &Sample| row.number),
            Column::optional("optional", |row: &Sample| row.optional),
            Column::unix_ns("came_unix_ns", |row: &Sample| row.came_ns),
            Column::real("real", |row: &Sample| row.real),
            Column::flag("flag", |row: &Sample| row.flag),
            Column::word("word", |row: &Sample| Cow::Borrowed(&*row.word)),
        ]
    }

    prop_compose! {
        fn sample()(
            number: i64,
            optional: Option<i64>,
            came_ns in prop::option::of(0..1_u64 << 62),
            real in prop::option::of(-1e300..1e300),
            flag: bool,
            word in "\\PC{0,12}",
        ) -> Sample {
            Sample { number, optional, came_ns, real, flag, word }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn groups_are_read_as_they_were_written(groups in prop::collection::vec(prop::collection::vec(sample(), 1..20), 0..4)) {
            let mut file = ParquetWriter::begin(tempfile::tempfile().unwrap(), "sample", columns()).unwrap();
            for group in &groups {
                file.write(group).unwrap();
            }
            let reader = SerializedFileReader::new(file.finish().unwrap()).unwrap();
            prop_assert_eq!(reader.metadata().num_row_groups(), groups.len());
            let long = |number: Option<i64>| number.map_or(Field::Null, Field::Long);
            let rows = groups.concat();
            prop_assert_eq!(reader.get_row_iter(None).unwrap().count(), rows.len());
            for (row, read) in rows.iter().zip(reader.get_row_iter(None).unwrap()) {
                let read: Vec<Field> = read.unwrap().into_columns().into_iter().map(|it| it.1).collect();
                prop_assert_eq!(read, vec![
                    Field::Long(row.number),
                    long(row.optional),
                    long(row.came_ns.map(u64::cast_signed)),
                    row.real.map_or(Field::Null, Field::Double),
                    Field::Bool(row.flag),
                    Field::Str(row.word.clone()),
                ]);
            }
        }
    }

    #[test]
    fn times_are_stamps_in_ns_of_utc() {
        let file = ParquetWriter::begin(tempfile::tempfile().unwrap(), "sample", columns());
        let reader = SerializedFileReader::new(file.unwrap().finish().unwrap()).unwrap();
        let schema = reader.metadata().file_metadata().schema_descr();
        let stamp = LogicalType::Timestamp(TimestampType {
            is_adjusted_to_u_t_c: true,
            unit: TimeUnit::NANOS,
        });
        assert_eq!(schema.column(2).logical_type_ref(), Some(&stamp));
        assert_eq!(schema.root_schema().name(), "sample");
    }

    #[test]
    fn a_full_disk_is_told_as_what_it_is() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut file = ParquetWriter::begin(full, "sample", columns()).unwrap();
        let sample = Sample {
            number: 1,
            optional: None,
            came_ns: None,
            real: None,
            flag: true,
            word: "w".repeat(100_000),
        };
        let written = file.write(&[sample]).and_then(|()| file.finish());
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
