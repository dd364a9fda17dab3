//! The `forebay` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod inspect;

/// Takes data from many senders over Ethernet and says where every byte went.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Inspect(inspect::InspectArgs),
}

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Inspect(args) => inspect::run(&args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("forebay: {error:#}");
        ExitCode::from(2)
    })
}
