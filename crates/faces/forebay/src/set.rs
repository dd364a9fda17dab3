//! Keys of a file that the command line says.

/// `--set` of the commands that take a file.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SetArg {
    /// Sets a key, in the place of what the file says, as `run.duration_s=60`. Of a section in double brackets `sinks[0].name=a` is the first block, and
    /// `sinks.kind=null` every one. May be given several times.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE", requires = "file")]
    pub(crate) keys: Vec<String>,
}
