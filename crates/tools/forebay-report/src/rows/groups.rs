//! Parquet that grows: groups of rows written one after the other, with whole numbers as `INT64`.

use std::fs::File;
use std::sync::Arc;

use anyhow::{Context, Result};
use parquet::basic::{Encoding, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

/// A column of one group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Values {
    /// Numbers, one in each row.
    Numbers(Vec<i64>),
    /// Numbers, where there is one.
    Some(Vec<Option<i64>>),
    /// Yes or no.
    Flags(Vec<bool>),
    /// Words.
    Words(Vec<ByteArray>),
}

/// A Parquet file to which groups are added.
pub(crate) struct Groups {
    file: SerializedFileWriter<File>,
}

impl Groups {
    /// A file whose columns are those of `like`, which may be empty ones.
    pub(crate) fn create(file: File, like: &[(String, Values)]) -> Result<Self> {
        let fields = like
            .iter()
            .map(|(name, values)| Ok(Arc::new(field(name, values)?)))
            .collect::<Result<_>>()?;
        let schema = Type::group_type_builder("window")
            .with_fields(fields)
            .build()?;
        // What is kept of each group for the end of the file is to be small: one entry for each column, no index of pages.
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true);
        let numbers = like.iter().filter_map(|(name, values)| match values {
            Values::Numbers(_) | Values::Some(_) => Some(name.as_str().into()),
            Values::Flags(_) | Values::Words(_) => None,
        });
        let properties = numbers.fold(properties, |properties, name| {
            properties.set_column_encoding(name, Encoding::DELTA_BINARY_PACKED)
        });
        let file = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build()))?;
        Ok(Self { file })
    }

    /// Adds a group; columns in the order of the file's.
    pub(crate) fn write(&mut self, columns: &[(String, Values)]) -> Result<()> {
        let mut group = self.file.next_row_group()?;
        for (_, values) in columns {
            let mut writer = group.next_column()?.context("a column is missing")?;
            match values {
                Values::Numbers(numbers) => {
                    let writer = writer.typed::<Int64Type>();
                    writer.write_batch(numbers, None, None)?;
                }
                Values::Some(numbers) => {
                    let there: Vec<i16> =
                        numbers.iter().map(|it| i16::from(it.is_some())).collect();
                    let numbers: Vec<i64> = numbers.iter().copied().flatten().collect();
                    let writer = writer.typed::<Int64Type>();
                    writer.write_batch(&numbers, Some(&there), None)?;
                }
                Values::Flags(flags) => {
                    writer.typed::<BoolType>().write_batch(flags, None, None)?;
                }
                Values::Words(words) => {
                    let writer = writer.typed::<ByteArrayType>();
                    writer.write_batch(words, None, None)?;
                }
            }
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes the file's end, without which nobody can read it.
    pub(crate) fn finish(self) -> Result<()> {
        self.file.close()?;
        Ok(())
    }
}

fn field(name: &str, values: &Values) -> Result<Type> {
    let (physical, logical, repetition) = match values {
        Values::Numbers(_) => (Physical::INT64, None, Repetition::REQUIRED),
        Values::Some(_) => (Physical::INT64, None, Repetition::OPTIONAL),
        Values::Flags(_) => (Physical::BOOLEAN, None, Repetition::REQUIRED),
        Values::Words(_) => (
            Physical::BYTE_ARRAY,
            Some(LogicalType::String),
            Repetition::REQUIRED,
        ),
    };
    Ok(Type::primitive_type_builder(name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .build()?)
}
