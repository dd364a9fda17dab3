//! A configuration file before it is read: its text, and why it is none.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::document::{Document, Sections};
use super::mistake::Mistakes;
use super::source::Source;

/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why a file is no configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// It is longer than any such file is.
    #[error("{} has {bytes} bytes, more than {FILE_BYTES_MAX}: this is no configuration file", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// It says something that is wrong.
    #[error("{0}")]
    Mistakes(#[from] Mistakes),
}

/// What a kind of configuration file comes to.
pub trait ConfigFile: Sized {
    /// Its sections, in the order in which they are documented.
    const SECTIONS: Sections;

    /// What a file says; none when it has mistakes, all of which are noted.
    fn of(document: &Document<'_>) -> Option<Self>;
}

/// Reads what a source says.
///
/// # Errors
/// All mistakes in it.
pub fn read<F: ConfigFile>(source: &Source) -> Result<F, Mistakes> {
    Document::read(source, F::SECTIONS, F::of)
}

/// Reads a file; `said` are keys of the command line, see [`Source::read`].
///
/// # Errors
/// It cannot be read, or has mistakes: all of them are told.
pub fn load<F: ConfigFile>(path: &Path, said: &[String]) -> Result<F, ConfigError> {
    Ok(read(&Source::read(path, said)?)?)
}

/// Reads the text of a file called `file`.
///
/// # Errors
/// All mistakes in it.
pub fn parse<F: ConfigFile>(file: &str, text: &str) -> Result<F, Mistakes> {
    read(&Source::of_text(file, text))
}

/// The text of a configuration file.
pub fn text_of(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |source| ConfigError::Read {
        path: path.to_path_buf(),
        source,
    };
    let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(ConfigError::TooLong {
            path: path.to_path_buf(),
            bytes,
        });
    }
    std::fs::read_to_string(path).map_err(unreadable)
}
