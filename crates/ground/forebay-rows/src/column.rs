//! A column: its name, its kind, and where its cell of a row comes from.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::io;

/// How a row gives a cell.
type Get<R, T> = Box<dyn Fn(&R) -> T + Send>;
type GetWord<R> = Box<dyn for<'a> Fn(&'a R) -> Cow<'a, str> + Send>;

/// What stands in a column, and how a row gives it.
pub(crate) enum Of<R> {
    Number(Get<R, i64>),
    Optional(Get<R, Option<i64>>),
    UnixNs(Get<R, Option<i64>>),
    Real(Get<R, Option<f64>>),
    Flag(Get<R, bool>),
    Word(GetWord<R>),
}

/// A cell of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    /// There is nothing.
    Nothing,
    /// A whole number.
    Number(i64),
    /// A number with a fraction.
    Real(f64),
    /// A time, in ns since 1970.
    UnixNs(i64),
    /// Yes or no.
    Flag(bool),
    /// A text.
    Word(Cow<'a, str>),
}

/// A column of rows of the type `R`.
pub struct Column<R> {
    pub(crate) name: Cow<'static, str>,
    pub(crate) of: Of<R>,
}

impl<R> Column<R> {
    fn new(name: impl Into<Cow<'static, str>>, of: Of<R>) -> Self {
        let name = name.into();
        Self { name, of }
    }

    /// A whole number in each row.
    pub fn number(
        name: impl Into<Cow<'static, str>>,
        of: impl Fn(&R) -> i64 + Send + 'static,
    ) -> Self {
        Self::new(name, Of::Number(Box::new(of)))
    }

    /// A count in each row, below 2^63.
    pub fn count(
        name: impl Into<Cow<'static, str>>,
        of: impl Fn(&R) -> u64 + Send + 'static,
    ) -> Self {
        Self::number(name, move |row| of(row).cast_signed())
    }

    /// A whole number, where there is one.
    pub fn optional(
        name: impl Into<Cow<'static, str>>,
        of: impl Fn(&R) -> Option<i64> + Send + 'static,
    ) -> Self {
        Self::new(name, Of::Optional(Box::new(of)))
    }

    /// A time in ns since 1970 (UTC), where there is one.
    pub fn unix_ns(
        name: impl Into<Cow<'static, str>>,
        of: impl Fn(&R) -> Option<u64> + Send + 'static,
    ) -> Self {
        let of = move |row: &R| of(row).map(u64::cast_signed);
        Self::new(name, Of::UnixNs(Box::new(of)))
    }

    /// A number with a fraction, where there is one.
    pub fn real(
        name: impl Into<Cow<'static, str>>,
        of: impl Fn(&R) -> Option<f64> + Send + 'static,
    ) -> Self {
        Self::new(name, Of::Real(Box::new(of)))
    }

    /// Yes or no in each row.
    pub fn flag(
        name: impl Into<Cow<'static, str>>,
        of: impl Fn(&R) -> bool + Send + 'static,
    ) -> Self {
        Self::new(name, Of::Flag(Box::new(of)))
    }

    /// A text in each row.
    pub fn word(
        name: impl Into<Cow<'static, str>>,
        of: impl for<'a> Fn(&'a R) -> Cow<'a, str> + Send + 'static,
    ) -> Self {
        Self::new(name, Of::Word(Box::new(of)))
    }

    /// Its name, with the unit at its end.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cell of a row.
    pub fn cell<'a>(&self, row: &'a R) -> Cell<'a> {
        let number = |number: Option<i64>, kind: fn(i64) -> Cell<'a>| {
            let there = number.map(kind);
            there.unwrap_or(Cell::Nothing)
        };
        match &self.of {
            Of::Number(of) => Cell::Number(of(row)),
            Of::Optional(of) => number(of(row), Cell::Number),
            Of::UnixNs(of) => number(of(row), Cell::UnixNs),
            Of::Real(of) => of(row).map_or(Cell::Nothing, Cell::Real),
            Of::Flag(of) => Cell::Flag(of(row)),
            Of::Word(of) => Cell::Word(of(row)),
        }
    }
}

impl<R> fmt::Debug for Column<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Column")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A reader finds a column by its name.
pub(crate) fn distinct<R>(columns: &[Column<R>]) -> io::Result<()> {
    let mut names = BTreeSet::new();
    match columns.iter().find(|column| !names.insert(column.name())) {
        Some(column) => {
            let text = format!("two columns are called {:?}", column.name());
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
        None => Ok(()),
    }
}
