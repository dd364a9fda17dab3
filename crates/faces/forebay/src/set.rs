//! Keys of a file that the command line says.

use std::path::Path;

use forebay_config::{ConfigError, ConfigFile, Source, read};

/// `--set` of the commands that take a file.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SetArg {
    /// Sets a key of FILE, in the place of what it says, as `run.duration_s=60`. Of a section in double brackets `sinks[0].name=a` is the first block, and
    /// `sinks.kind=null` every one. May be given several times.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE", requires = "file")]
    pub(crate) keys: Vec<String>,
    /// The member of a chain that is meant.
    #[arg(skip)]
    pub(crate) only: Option<String>,
}

impl SetArg {
    /// The file, with what is said of it.
    pub(crate) fn source(&self, file: &Path) -> Result<Source, ConfigError> {
        Ok(Source::read(file, &self.keys)?.only(self.only.as_deref()))
    }

    /// What the file comes to.
    pub(crate) fn load<F: ConfigFile>(&self, file: &Path) -> Result<F, ConfigError> {
        Ok(read(&self.source(file)?)?)
    }
}
