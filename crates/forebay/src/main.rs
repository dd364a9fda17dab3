//! The `forebay` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[macro_use]
mod output;

mod audit;
mod demo;
mod emulate;
mod evb;
mod figure;
mod inspect;
mod live;
mod mover;
mod replay;
mod session;

/// Takes data from many senders over Ethernet and says where every byte went.
#[derive(Debug, Parser)]
#[command(
    version,
    arg_required_else_help = true,
    after_help = "Try it: forebay demo"
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Demo(demo::DemoArgs),
    Evb(evb::EvbArgs),
    Replay(replay::ReplayArgs),
    Mover(mover::MoverArgs),
    Emulate(emulate::EmulateArgs),
    Inspect(inspect::InspectArgs),
    Audit(audit::AuditArgs),
    Figure(figure::FigureArgs),
    /// One stage of a run; the supervisor starts it.
    #[command(hide = true)]
    Stage {
        /// Which.
        role: String,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    output::log_to_stderr();
    let done = match cli.verb {
        Verb::Demo(args) => demo::run(&args),
        Verb::Evb(args) => evb::run(&args),
        Verb::Replay(args) => replay::run(&args),
        Verb::Mover(args) => mover::run(&args),
        Verb::Emulate(args) => emulate::run(&args),
        Verb::Inspect(args) => inspect::run(&args),
        Verb::Audit(args) => audit::run(&args),
        Verb::Figure(args) => figure::run(&args),
        Verb::Stage { role: _ } => forebay_run::stage::run_child()
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
    };
    done.unwrap_or_else(|error| {
        eprintln!("forebay: {error:#}");
        ExitCode::from(2)
    })
}
