//! `forebay completions` and `forebay man`, made from the declarations of the command line.

use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;

use crate::output::print_line;

/// Prints the completion script of a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay completions bash > /etc/bash_completion.d/forebay")]
pub(crate) struct CompletionsArgs {
    /// Which shell.
    shell: clap_complete::Shell,
}

pub(crate) fn completions<C: CommandFactory>(args: &CompletionsArgs) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut C::command(), "forebay", &mut script);
    print_line(String::from_utf8_lossy(&script));
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man<C: CommandFactory>() -> Result<ExitCode> {
    let mut page = Vec::new();
    clap_mangen::Man::new(C::command()).render(&mut page)?;
    print_line(String::from_utf8_lossy(&page));
    Ok(ExitCode::SUCCESS)
}
