//! Errors by whose fault they are: the declaration's (`SchemaError`) or the file's (`LedgerError`).

use crate::unit::Unit;

/// A declaration that cannot be a ledger: the caller's configuration is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// A name is empty, too long or has characters that would break a table or a label.
    #[error(
        "{what} {name:?}: a name has 1 to {max_bytes} printable bytes without quotes or backslashes"
    )]
    Name {
        /// What the name was for.
        what: &'static str,
        /// The name.
        name: String,
        /// The limit.
        max_bytes: usize,
    },
    /// The same name was declared twice.
    #[error("{what} {name:?} is declared twice")]
    Duplicate {
        /// What the name was for.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A metric is named like one that every ledger has, or ends like a part of one.
    #[error("metric {name:?}: the name or its ending has a meaning of its own in the exposition")]
    Reserved {
        /// The name.
        name: String,
    },
    /// A handle does not belong to this schema.
    #[error("{what}: a handle of another schema")]
    ForeignHandle {
        /// Where it was used.
        what: &'static str,
    },
    /// A link joins accounts that count different things.
    #[error("link {link:?} joins {from} to {to}: units must be equal")]
    Units {
        /// The link.
        link: String,
        /// Unit of the account on the near side.
        from: Unit,
        /// Unit of the account on the far side.
        to: Unit,
    },
    /// A link ends nowhere.
    #[error("link {link:?} names no account to arrive at")]
    NoFarSide {
        /// The link.
        link: String,
    },
    /// A bytes interval is empty.
    #[error("link {link:?}: a lost item has at least {min} but at most {max} bytes")]
    Interval {
        /// The link.
        link: String,
        /// Least bytes of an item.
        min: u64,
        /// Most bytes of an item.
        max: u64,
    },
    /// More was declared than a ledger holds.
    #[error("{what}: {asked} asked for, the limit is {limit}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much was asked for.
        asked: u64,
        /// The limit.
        limit: u64,
    },
}

/// A file that is not a ledger, not this ledger, or a broken one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The file is shorter than it must be.
    #[error("the ledger has {have} words, {need} are needed")]
    TooShort {
        /// Words there are.
        have: u64,
        /// Words there must be.
        need: u64,
    },
    /// Not a ledger, or one whose creation was never finished.
    #[error("not a ledger, or never finished: magic {found:#018x}")]
    Magic {
        /// The first word.
        found: u64,
    },
    /// A ledger of another format version.
    #[error("ledger format version {found}, this program reads up to {expected}")]
    Version {
        /// Version in the file.
        found: u64,
        /// Version of this program.
        expected: u64,
    },
    /// The header contradicts itself.
    #[error("ledger header: {field} is {found}, expected {expected}")]
    Header {
        /// The word's name.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What it would have to be.
        expected: u64,
    },
    /// The file was made from another schema, or its directory was damaged.
    #[error(
        "ledger fingerprint {found:#018x}, expected {expected:#018x}: another configuration or a damaged directory"
    )]
    Fingerprint {
        /// The fingerprint in the file, or that of its directory.
        found: u64,
        /// The fingerprint expected.
        expected: u64,
    },
    /// The directory cannot be read.
    #[error("ledger directory: {detail}")]
    Directory {
        /// What the JSON reader says.
        detail: String,
    },
    /// The directory can be read but names words that are not there.
    #[error("ledger directory: {what} number {index} points outside its table or group")]
    OutOfBounds {
        /// The kind of entry.
        what: &'static str,
        /// Its index.
        index: usize,
    },
    /// The directory declares something no schema could have declared.
    #[error("ledger directory: {0}")]
    Declaration(#[from] SchemaError),
    /// The run's condition word has no meaning.
    #[error("run condition word {found:#x} has no meaning")]
    Condition {
        /// The word.
        found: u64,
    },
    /// The writer committed again during each attempt to read.
    #[error("group {group:?} changed during each of {attempts} attempts to read it")]
    Busy {
        /// The group.
        group: String,
        /// How often it was tried.
        attempts: u32,
    },
    /// The file could not be made because it was not empty.
    #[error("the ledger exists already: it is never formatted a second time")]
    Exists,
}
