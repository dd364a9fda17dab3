//! `forebay net`: messages between processes and hosts.

/// What stands under the help of each verb: what its exit codes mean.
macro_rules! with_exit_codes {
    ($example:literal) => {
        concat!(
            $example,
            "

Exit codes:
  0  done, and the books close; losses, if any, have names
  1  the books do not close: a residual, or a receiver that says it took less than was sent;
     or somebody removed or cut the file of --output, or removed the directory of --out
  2  it could not be done: a mistake on the command line, something that the host or the other
     side refuses, or nobody there; the error says what would be right
  4  of send and pub: messages are unconfirmed, as a receiver was gone before it said what became
     of them, or could not write them all; each of them was written there, or not"
        )
    };
}

mod bus;
pub(crate) mod manner;
mod perf;
mod publish;
mod security;
mod sink;
mod source;
mod subscribe;
mod writer;

use std::process::ExitCode;

use anyhow::Result;

/// Moves messages between processes and hosts: point to point, and publish/subscribe by tag.
///
/// The address names the backend: tcp://HOST:PORT between hosts, shm://NAME within one, fabric+PROVIDER://PLACE over libfabric, as
/// fabric+tcp://HOST:PORT. Over tcp:// beyond this host, both sides prove who they are and all is encrypted, unless both say --plain;
/// over shm:// only processes of the same user meet; over fabric+PROVIDER:// nothing is encrypted and nobody is asked who he is: use a network of
/// your own.
#[derive(Debug, clap::Args)]
#[command(after_help = with_exit_codes!("Example:
  forebay net recv tcp://127.0.0.1:7100 --once &
  seq 1000 | forebay net send tcp://127.0.0.1:7100"))]
pub(crate) struct NetArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Perf(perf::PerfArgs),
    Pub(publish::PubArgs),
    Sub(subscribe::SubArgs),
    Send(publish::SendArgs),
    Recv(subscribe::RecvArgs),
    Bus(bus::BusArgs),
}

pub(crate) fn run(args: &NetArgs) -> Result<ExitCode> {
    match &args.verb {
        Verb::Perf(args) => perf::run(args),
        Verb::Pub(args) => publish::publish(args),
        Verb::Sub(args) => subscribe::subscribe(args),
        Verb::Send(args) => publish::send(args),
        Verb::Recv(args) => subscribe::receive(args),
        Verb::Bus(args) => bus::run(args),
    }
}
