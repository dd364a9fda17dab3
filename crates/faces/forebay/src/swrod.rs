//! `forebay swrod`: a subscriber of chunks that looks at every byte of them.
//!
//! Exit codes: 0 all came as it should, 1 something did not or the books do not close, 2 it could not be done.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::ValueEnum;
use forebay_run::Stop;
use forebay_run::record::Record;
use forebay_run_felix::hops::SWROD;
use forebay_run_felix::swrod::{Payload, Publishers, SwrodPlan, SwrodReport, subscribe};
use forebay_run_net::bus::Bus;
use forebay_run_net::{Address, Entry};
use forebay_wire::felix::{Elink, Fid};

mod text;

use crate::elink_text::{Links, elink, links};
use crate::net::manner::{CommonArgs, SlowArg, tag};
use crate::output::{counted, note_line, print_line};
use crate::record::{To, conclude};
use crate::session::BROKEN;

/// The bits of a number that say version, detector and connector.
const CONNECTOR_BITS: u64 = 0xffff_fff0_0000_0000;

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
    /// E-links one by one, and patterns.
    fn entries(&self) -> (Vec<u64>, Vec<Entry>) {
        let (detector, connector) = (self.detector.unwrap_or(0), self.connector.unwrap_or(0));
        let links = self.elinks.iter().flat_map(|links| links.elinks());
        let numbers = links.chain(self.elink.iter().copied());
        let mut tags: Vec<u64> = self.fids.clone();
        tags.extend(numbers.map(|elink| Fid::to_host(detector, connector, elink).0));
        tags.sort_unstable();
        tags.dedup();
        let is_pattern = self.elinks.is_empty() && self.elink.is_empty();
        let mask = match (self.detector, self.connector) {
            (None, None) => None,
            (Some(_), Some(_)) => Some(CONNECTOR_BITS),
            (Some(_), None) => Some(CONNECTOR_BITS & !(0xffff << 36)),
            (None, Some(_)) => Some(CONNECTOR_BITS & !(0xff << 52)),
        };
        let pattern = mask.filter(|_| is_pattern).map(|mask| Entry {
            tag: Fid::to_host(detector, connector, Elink::default()).0 & mask,
            mask,
        });
        (tags, pattern.into_iter().collect())
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
    fn plan(&self, stop: &Stop) -> Result<SwrodPlan> {
        let (tags, patterns) = self.which.entries();
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
        let mut settings = self.common.settings_with(stop.clone(), SWROD)?;
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
    let stop = Stop::of_process()?;
    let plan = args.plan(&stop)?;
    let report = subscribe(&plan, &stop, |publishers| {
        let publishers = counted(publishers as u64, "publisher");
        note_line(format_args!("forebay: subscribed at {publishers}"));
    })?;
    let print = |record: &Record<SwrodReport>| print_line(text::summary(record).trim_end());
    let code = conclude(&report, args.common.format, To::Stdout, print)?;
    if let Some(why) = &report.nothing_came {
        bail!("no chunk came, and nothing was checked; {why}");
    }
    Ok(match report.has_loss() {
        true if code == ExitCode::SUCCESS => ExitCode::from(BROKEN),
        _ => code,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    #[test]
    fn e_links_are_asked_for_one_by_one_or_by_connector() {
        let mut which = WhichArgs {
            elinks: vec![links("0-1").unwrap()],
            elink: vec![Elink::TTC_TO_HOST],
            fids: vec![42],
            detector: None,
            connector: Some(7),
        };
        let (tags, patterns) = which.entries();
        let to_host = |number| Fid::to_host(0, 7, Elink::new(number).unwrap()).0;
        assert_eq!(tags, [42, to_host(0), to_host(64), to_host(0x600)]);
        assert!(patterns.is_empty());

        which.elinks.clear();
        which.elink.clear();
        let [pattern] = which.entries().1.try_into().unwrap();
        let of = |detector, connector| Fid::to_host(detector, connector, Elink::TTC_TO_HOST).0;
        let fits = |tag| tag & pattern.mask == pattern.tag;
        assert!(fits(of(0, 7)) && fits(of(9, 7)) && !fits(of(0, 8)));
        which.detector = Some(9);
        let [pattern] = which.entries().1.try_into().unwrap();
        let fits = |tag| tag & pattern.mask == pattern.tag;
        assert!(fits(of(9, 7)) && !fits(of(0, 7)) && !fits(of(9, 8)));
        which.connector = None;
        let [pattern] = which.entries().1.try_into().unwrap();
        let fits = |tag| tag & pattern.mask == pattern.tag;
        assert!(fits(of(9, 7)) && fits(of(9, 8)) && !fits(of(8, 7)));
    }
}
