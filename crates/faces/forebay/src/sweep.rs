//! `forebay sweep`: every combination of some settings, measured.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, FromArgMatches};
use forebay_bench::net::{PeerHost, Target};
use forebay_bench::sweep::{self, Options, Report};
use forebay_report::conditions::Told;

use crate::figure::INTERRUPTED;
use crate::output::{Format, note_line, parse_bytes, print_line};
use crate::session::BROKEN;

/// Measures every combination of some settings, several times each, in an order that a seed decides.
#[derive(Debug, clap::Args)]
pub(crate) struct SweepArgs {
    #[command(subcommand)]
    verb: Verb,
}

/// In the directory of the rows: the options with which they were begun.
const OPTIONS_FILE: &str = "options.json";

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Net(Box<NetArgs>),
    Conditions(ConditionsArgs),
}

/// Says what this host and this program are, and what makes numbers measured here doubtful.
///
/// `forebay sweep net --peer` asks the other host for it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: ssh daq2 forebay sweep conditions")]
struct ConditionsArgs {
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Measures messaging: both sides are processes of this program, and other programs do the same beside them.
///
/// Each point is one backend, size of buffers, number of buffers and size of messages. Written are rows.csv and rows.parquet with one row
/// for each run, and medians, quartiles and extremes on standard output. Other programs (iperf3, libzmq, memcpy, fi_pingpong) are run
/// with the same sizes where they are installed; the columns ratio_* set our rows beside their medians. Ctrl-C keeps what is
/// there. Exits with 1 when the books of a run do not close or a point gave no result.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  forebay sweep net --backend tcp,shm --buffer-bytes 1Ki,64Ki --buffer-count 1,16,256 --rtt --out sweep
  forebay sweep net --backend tcp --peer ssh://daq@daq2 --peer-address 10.0.1.2 --out two-hosts")]
struct NetArgs {
    /// Schemes of addresses; one that cannot be used here is named and left out.
    #[arg(long, value_name = "SCHEME", value_delimiter = ',', default_value = "tcp,shm", value_parser = backend)]
    backend: Vec<String>,
    /// Payloads that a buffer takes.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "1Ki,2Ki,4Ki,8Ki,16Ki,32Ki,64Ki", value_parser = size)]
    buffer_bytes: Vec<u32>,
    /// Numbers of buffers of a connection.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2,4,8,16,32,64,128,256,512", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    buffer_count: Vec<u32>,
    /// Payloads of a message; the buffer's without it. Those that a buffer cannot take are left out.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size)]
    message_bytes: Vec<u32>,
    /// Runs of each point.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,
    /// How long a run sends.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = crate::range::duration)]
    duration: Duration,
    /// Round-trip times too: each point a second time, with one message at a time.
    #[arg(long)]
    rtt: bool,
    /// Decides the order of the points.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Directory for the rows.
    #[arg(long, value_name = "DIR", default_value = "forebay-sweep")]
    out: PathBuf,
    /// Each side in a network namespace of its own, joined by a virtual wire; needs root.
    #[arg(long)]
    netns: bool,
    /// Another host, on which the receiving side runs; this program must be there too, of the same version.
    ///
    /// What goes between the hosts is made up and not encrypted. Its programs end when this one does, however it does.
    #[arg(
        long,
        value_name = "ssh://[USER@]HOST[:PORT]",
        conflicts_with = "netns"
    )]
    peer: Option<Target>,
    /// Where this program is on the peer.
    #[arg(
        long,
        value_name = "PATH",
        default_value = "forebay",
        requires = "peer",
        conflicts_with = "netns"
    )]
    peer_program: String,
    /// Where the data goes on the peer, when that is not where ssh goes.
    #[arg(long, value_name = "IP", requires = "peer", conflicts_with = "netns")]
    peer_address: Option<IpAddr>,
    /// The program that reaches the peer, with options; OpenSSH's.
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = "ssh",
        requires = "peer",
        conflicts_with = "netns"
    )]
    ssh: String,
    /// Goes on with the rows of the directory, with the options that they were begun with: measured is what it lacks. Options that are given count
    /// instead of those.
    #[arg(long)]
    resume: bool,
    /// Leaves other programs out.
    #[arg(long)]
    no_references: bool,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

fn backend(text: &str) -> Result<String, String> {
    let scheme = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    if text.is_empty() || !text.chars().all(|letter| scheme(letter) || letter == '+') {
        return Err("it is no scheme of an address; write it as tcp or shm".into());
    }
    Ok(text.to_owned())
}

fn size(text: &str) -> Result<u32, String> {
    match parse_bytes(text)? {
        0 => Err("it is too small; write a size from 1 byte on".into()),
        bytes => u32::try_from(bytes).map_err(|_| "it is too large".to_owned()),
    }
}

impl NetArgs {
    fn peer(&self) -> Result<Option<PeerHost>> {
        let Some(target) = self.peer.clone() else {
            return Ok(None);
        };
        let ssh: Vec<String> = self.ssh.split_whitespace().map(str::to_owned).collect();
        ensure!(
            !ssh.is_empty(),
            "--ssh: it names no program; leave it out for OpenSSH's"
        );
        Ok(Some(PeerHost {
            target,
            program: self.peer_program.clone(),
            address: self.peer_address,
            ssh,
        }))
    }
}

pub(crate) fn run(args: &SweepArgs) -> Result<ExitCode> {
    match &args.verb {
        Verb::Net(args) => net(args),
        Verb::Conditions(args) => {
            let told = Told::here();
            match args.format {
                Format::Text => print_line(told.text()),
                Format::Json => print_line(serde_json::to_string(&told)?),
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Words of the command line behind `sweep net`.
fn own_words() -> Vec<String> {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let behind = words.skip_while(|word| word != "sweep").skip(1);
    behind.skip_while(|word| word != "net").skip(1).collect()
}

/// Those of them that say what is measured, and not where and how it is told.
fn lasting_words(words: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, has_value) = word
            .split_once('=')
            .map_or((word.as_str(), false), |parts| (parts.0, true));
        match name {
            "--resume" => {}
            "--out" | "--format" => {
                // Its value is the next word, unless it has it already.
                let _value = (!has_value).then(|| words.next());
            }
            _ => kept.push(word.clone()),
        }
    }
    kept
}

/// The options that a directory's rows were begun with, under those that are given now.
fn resumed(out: &Path) -> Result<Option<NetArgs>> {
    let file = out.join(OPTIONS_FILE);
    let begun: Vec<String> = match std::fs::read(&file) {
        Ok(text) => {
            serde_json::from_slice(&text).with_context(|| format!("reading {}", file.display()))?
        }
        // Begun by an older version, or by nobody.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("reading {}", file.display())),
    };
    let words = ["net".to_owned()]
        .into_iter()
        .chain(begun)
        .chain(own_words());
    let command = NetArgs::augment_args(clap::Command::new("net")).args_override_self(true);
    let matches = command.try_get_matches_from(words).with_context(|| {
        format!(
            "the options in {} do not go with those that are given",
            file.display()
        )
    })?;
    Ok(Some(NetArgs::from_arg_matches(&matches)?))
}

fn net(given: &NetArgs) -> Result<ExitCode> {
    let begun = if given.resume {
        resumed(&given.out)?
    } else {
        None
    };
    let args = begun.as_ref().unwrap_or(given);
    let options = Options {
        backends: args.backend.clone(),
        buffer_bytes: args.buffer_bytes.clone(),
        buffer_count: args.buffer_count.clone(),
        message_bytes: args.message_bytes.clone(),
        repeats: args.repeat.into(),
        duration: args.duration,
        rtt: args.rtt,
        references: !args.no_references,
        seed: args.seed,
        apart: args.netns,
        peer: args.peer()?,
        resume: args.resume,
        out: args.out.clone(),
        begun_with: None,
        program: std::env::current_exe().context("finding this program")?,
    };
    let words = match &begun {
        // What it was begun with stays what it is gone on with.
        Some(_) => None,
        None => Some(serde_json::to_string(&lasting_words(&own_words()))?),
    };
    let options = Options {
        begun_with: words.map(|words| (OPTIONS_FILE, words)),
        ..options
    };
    let report = sweep::run(&options, |line| note_line(format_args!("forebay: {line}")))?;
    match args.format {
        Format::Text => print_line(report.text()),
        Format::Json => print_line(serde_json::to_string(&report)?),
    }
    Ok(verdict(&report))
}

fn verdict(report: &Report) -> ExitCode {
    if report.interrupted {
        ExitCode::from(INTERRUPTED)
    } else if report.rows_with_residual > 0 || !report.failed.is_empty() {
        ExitCode::from(BROKEN)
    } else {
        ExitCode::SUCCESS
    }
}
