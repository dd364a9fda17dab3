//! Tables: columns that are declared once, with a name that ends in its unit and a kind, and rows that are written as Parquet or as CSV.
//!
//! ```
//! use forebay_rows::{Column, CsvWriter};
//!
//! struct Window { sent: u64, came_ns: Option<u64> }
//! let columns = vec![
//!     Column::count("sent_packets", |window: &Window| window.sent),
//!     Column::unix_ns("came_unix_ns", |window: &Window| window.came_ns),
//! ];
//! let mut csv = CsvWriter::begin(Vec::new(), columns)?;
//! csv.write(&[Window { sent: 7, came_ns: None }])?;
//! assert_eq!(csv.finish()?, b"sent_packets,came_unix_ns\n7,\n");
//! # std::io::Result::Ok(())
//! ```
#![forbid(unsafe_code)]

mod column;
mod csv;
mod parquet;

pub use column::{Cell, Column};
pub use csv::CsvWriter;
pub use parquet::ParquetWriter;
