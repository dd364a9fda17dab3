//! `forebay tdm`: many senders, one port, in turns.

mod bench;
pub(crate) mod file;
mod plan;
mod port;
pub(crate) mod receive;
pub(crate) mod send;

use std::process::ExitCode;

use anyhow::Result;

/// Time-division UDP: senders that share a receiver's port take turns, so that a shallow buffer of a switch never overflows.
///
/// The receiver holds the whole configuration; a sender needs its address alone. Senders learn the receiver's clock, begin their windows by it, and pace their packets at
/// the port's rate. Each packet that does not come is counted for its sender, its window and its place.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  forebay tdm receive --bind 127.0.0.1:8081 --senders 2 --link-rate 1G --port-buffer 128K --output data &\n  forebay tdm send 127.0.0.1 --id north --input north.dat &\n  forebay tdm send 127.0.0.1 --id south --input south.dat"
)]
pub(crate) struct TdmArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Receive(Box<receive::ReceiveArgs>),
    Send(send::SendArgs),
    Plan(plan::PlanArgs),
    Bench(bench::BenchArgs),
}

pub(crate) fn run(args: &TdmArgs) -> Result<ExitCode> {
    match &args.verb {
        Verb::Receive(args) => receive::run(args),
        Verb::Send(args) => send::run(args),
        Verb::Plan(args) => plan::run(args),
        Verb::Bench(args) => bench::run(args),
    }
}
