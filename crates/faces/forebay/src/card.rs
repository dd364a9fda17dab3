//! `forebay card`: what concerns cards themselves.

mod text;
mod validate;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// Tests cards of detector links.
#[derive(Debug, clap::Args)]
pub(crate) struct CardArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Validate(validate::ValidateArgs),
}

pub(crate) fn run(args: &CardArgs) -> Result<ExitCode> {
    match &args.what {
        What::Validate(args) => validate::run(args),
    }
}
