//! `forebay toflx`: messages in, to the front ends of detector links.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use forebay_run::record::Record;
use forebay_run_felix::CardEnd;
use forebay_run_felix::toflx::{ToFlxPlan, ToFlxSummary};

use crate::output::{Format, counted, note_line, print_line};
use crate::record::{To, recorded};
use crate::set::SetArg;
use crate::totals::print_totals;
use forebay_report::text::bytes;

/// Receives messages and writes them to the E-links of cards, in from-host packets.
///
/// A message's tag is the 64-bit fid of its E-link, with the bit of the direction to the front end; senders are those of `forebay net send`, or programs of one's own,
/// over the backend that the address names. A card whose buffer is full holds the senders back; what is for a card that is not there, or that nobody can be told
/// of, is lost by name and holds nobody up. A card that comes back is opened again.
/// Ends when the cards end, by Ctrl-C, or after duration_s.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay toflx examples/toflx.toml\n\nExit codes: 0 the books close, 1 they do not, 2 it could not be done, or a card was lost."
)]
pub(crate) struct ToFlxArgs {
    /// Where to receive and which cards to write; `forebay check --reference` lists all keys.
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) set: SetArg,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

pub(crate) fn run(args: &ToFlxArgs) -> Result<ExitCode> {
    let plan: ToFlxPlan = args.set.load(&args.file)?;
    let (record, code) = recorded(plan, args.format, To::Stdout, print)?;
    for card in &record.cards {
        if let Some(fault) = &card.broken {
            note_line(format_args!(
                "forebay: the card at {} is broken or hostile: {fault}",
                card.socket
            ));
        }
    }
    Ok(code)
}

fn print(record: &Record<ToFlxSummary>) {
    for card in &record.cards {
        let end = match card.end {
            CardEnd::InOrder => "ended in order",
            CardEnd::Lost => "LOST",
            CardEnd::Stopped => "stopped",
            CardEnd::Failed => "FAILED",
        };
        print_line(format_args!(
            "card at {}: {} of {}, {}, {} taken, {} lost, {} left; {end}",
            card.socket,
            counted(card.written, "message"),
            bytes(card.written_bytes as f64),
            counted(card.packets, "packet"),
            card.packets_taken,
            card.packets_lost,
            card.packets_left,
        ));
    }
    if record.held_up_s > 0.0 {
        print_line(format_args!(
            "senders were held up by full cards for {:.3} s",
            record.held_up_s
        ));
    }
    let items = (record.messages, "message");
    print_totals(&record.envelope, items, record.bytes);
}
