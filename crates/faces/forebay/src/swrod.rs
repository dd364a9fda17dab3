//! `forebay swrod`: a subscriber of chunks that looks at every byte of them.
//!
//! Exit codes: 0 all came as it should, 1 something did not or the books do not close, 2 it could not be done.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::ValueEnum;
use forebay_run::record::Record;
use forebay_run_felix::config::SwrodFile;
use forebay_run_felix::swrod::{Payload, Publishers, Selection, SwrodPlan, SwrodReport};
use forebay_run_net::Address;
use forebay_run_net::bus::Bus;
use forebay_wire::felix::Elink;

mod text;

use crate::elink_text::{Links, elink, links};
use crate::net::manner::{CommonArgs, SlowArg, tag};
use crate::output::{Format, print_line};
use crate::record::{To, recorded};
use crate::session::BROKEN;

/// Subscribes to E-links and checks every chunk that comes.
///
/// It stands where an experiment's readout software would. Chunks are held against what the firmware's data generator makes: every byte, and that the
/// low 8 bits of trigger numbers follow each other, E-link by E-link; messages about triggers on E-link 0x600 by their 24 bits and resets. Ends when the
/// publishers end in order, after --duration or --count, or by Ctrl-C, each time with its report. It writes nothing: what builds the chunks of each trigger
/// to events in files is `forebay evb` with sources that name elinks.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  forebay swrod shm://felix0
  forebay swrod tcp://127.0.0.1:7100 tcp://127.0.0.1:7101 --elinks 0-11 --fragments --duration 10s --format json

Exit codes:
  0  all chunks came as they should, and the books close
  1  chunks are missing, came twice, are damaged or flagged, or a connection was lost; or a residual
  2  it could not be done: a mistake on the command line, something that the host or a publisher
     refuses, or nothing came; the error says what would be right")]
pub(crate) struct SwrodArgs {
    /// Where the publishers listen.
    #[arg(required_unless_present = "bus", value_name = "ADDRESS")]
    addresses: Vec<Address>,
    /// A bus to find them on: dir:PATH or tcp://HOST:PORT of `forebay net bus`.
    #[arg(long, value_name = "BUS", conflicts_with = "addresses")]
    bus: Option<Bus>,
    #[command(flatten)]
    which: WhichArgs,
    /// What chunks are held against.
    #[arg(long, value_enum, default_value_t)]
    payload: PayloadArg,
    /// Joins the chunks of each trigger of all these E-links, and counts complete fragments.
    #[arg(long)]
    fragments: bool,
    /// Triggers that may be under way at a time; one that is older is incomplete. What several publishers have in their buffers has to find room.
    #[arg(long, value_name = "N", default_value_t = 65_536, requires = "fragments", value_parser = clap::value_parser!(u32).range(256..=1_048_576))]
    fragments_window: u32,
    /// Ends so long after the first chunk.
    #[arg(long, value_name = "TIME", value_parser = crate::range::duration)]
    duration: Option<Duration>,
    /// Ends when so many chunks have come; those that are on their way then are checked too.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// The file that trigger_times in the file of the emulated card names: measures how long chunks took from their trigger to here.
    ///
    /// Each 256th chunk of an E-link is measured. That needs a subscriber that was there before the first trigger, and a card on this host whose
    /// trigger numbers are not reset (ecr_period_us).
    #[arg(long, value_name = "PATH")]
    trigger_times: Option<PathBuf>,
    /// What becomes of chunks for which this side is too slow.
    #[arg(long, value_enum, default_value_t)]
    slow: SlowArg,
    #[command(flatten)]
    common: CommonArgs,
}

/// E-links; all that there are, when none are given.
#[derive(Clone, Debug, clap::Args)]
struct WhichArgs {
    /// Links in FULL mode, as 3 or 0-11.
    #[arg(long, value_name = "LINKS", value_delimiter = ',', value_parser = links)]
    elinks: Vec<Links>,
    /// Numbers of E-links, as 64 or 0x600; may be given several times.
    #[arg(long = "elink", value_name = "N", value_delimiter = ',', value_parser = elink)]
    elink: Vec<Elink>,
    /// Whole 64-bit numbers of E-links.
    #[arg(long = "fid", value_name = "FID", value_delimiter = ',', value_parser = tag)]
    fids: Vec<u64>,
    /// Detector of the E-links; with no E-link, all of it.
    #[arg(long, value_name = "N")]
    detector: Option<u8>,
    /// Connector of the E-links; with no E-link, all of it.
    #[arg(long, value_name = "N")]
    connector: Option<u16>,
}

impl WhichArgs {
    fn selection(&self) -> Selection {
        let links = self.elinks.iter().flat_map(|links| links.elinks());
        Selection {
            elinks: links.chain(self.elink.iter().copied()).collect(),
            fids: self.fids.clone(),
            detector: self.detector,
            connector: self.connector,
        }
    }
}

/// What chunks are held against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum PayloadArg {
    /// What the firmware's data generator makes, and on E-link 0x600 messages about triggers.
    #[default]
    Generated,
    /// Nothing: they are counted.
    None,
}

impl SwrodArgs {
    fn plan(&self) -> Result<SwrodPlan> {
        let (tags, patterns) = self.which.selection().entries();
        if self.fragments && (tags.is_empty() || !patterns.is_empty()) {
            bail!(
                "--fragments needs to know all E-links of a fragment; give them by --elinks 0-11, --elink N or --fid FID"
            );
        }
        if self.fragments && self.payload == PayloadArg::None {
            bail!("--fragments needs trigger numbers, which --payload none does not read");
        }
        if self.trigger_times.is_some() && self.payload == PayloadArg::None {
            bail!("--trigger-times needs trigger numbers, which --payload none does not read");
        }
        let mut settings = self.common.settings()?;
        settings.messages.slow = self.slow.into();
        Ok(SwrodPlan {
            publishers: match &self.bus {
                Some(bus) => Publishers::On(bus.clone()),
                None => Publishers::At(self.addresses.clone()),
            },
            tags,
            patterns,
            payload: match self.payload {
                PayloadArg::Generated => Payload::Generated,
                PayloadArg::None => Payload::None,
            },
            fragments_window: self.fragments.then_some(self.fragments_window as usize),
            duration: self.duration,
            count: self.count,
            trigger_times: self.trigger_times.clone(),
            settings,
        })
    }
}

pub(crate) fn run(args: &SwrodArgs) -> Result<ExitCode> {
    let file = SwrodFile {
        plan: args.plan()?,
        metrics: args.common.metrics,
    };
    run_file(file, args.common.format)
}

/// The same by a file.
pub(crate) fn run_file(file: SwrodFile, format: Format) -> Result<ExitCode> {
    let print = |record: &Record<SwrodReport>| print_line(text::summary(record).trim_end());
    let (report, code) = recorded(file, format, To::Stdout, print)?;
    if let Some(why) = &report.nothing_came {
        bail!("no chunk came, and nothing was checked; {why}");
    }
    Ok(match report.has_loss() {
        true if code == ExitCode::SUCCESS => ExitCode::from(BROKEN),
        _ => code,
    })
}
