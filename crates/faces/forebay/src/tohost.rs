//! `forebay tohost`: detector links in, chunks out.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use forebay_run::record::Record;
use forebay_run_felix::CardEnd;
use forebay_run_felix::tohost::{ToHostFile, ToHostSummary};

use crate::output::{Format, counted, print_line};
use crate::record::{To, carry_out};
use crate::set::SetArg;
use crate::totals::print_totals;
use forebay_report::text::bytes;

/// Reads the DMA buffers of cards and publishes their chunks by E-link.
///
/// Blocks are decoded where the card has written them; each chunk is published under the 64-bit fid of its E-link, over the backend that the address names, to
/// subscribers of `forebay net sub`, `forebay swrod`, or a program of one's own. A subscriber of the policy `block` that does not follow lets the DMA buffer fill,
/// and the card raises BUSY; any other policy costs that subscriber alone.
/// Ends when the cards end, by Ctrl-C, or after duration_s.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay tohost examples/tohost.toml\n\nExit codes: 0 the books close, 1 they do not, 2 it could not be done, or a card was lost."
)]
pub(crate) struct ToHostArgs {
    /// What to read and where to publish it; `forebay check --reference` lists all keys.
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) set: SetArg,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

pub(crate) fn run(args: &ToHostArgs) -> Result<ExitCode> {
    let file: ToHostFile = args.set.load(&args.file)?;
    carry_out(file, args.format, To::Stdout, print)
}

fn print(record: &Record<ToHostSummary>) {
    for buffer in &record.buffers {
        let end = match buffer.end {
            CardEnd::InOrder => "ended in order",
            CardEnd::Lost => "LOST ITS CARD",
            CardEnd::Stopped => "stopped",
            CardEnd::Failed => "FAILED",
        };
        print_line(format_args!(
            "DMA buffer {} at {}: {}, {} of {}, {} published; {end}",
            buffer.number,
            buffer.address,
            counted(buffer.blocks, "block"),
            counted(buffer.chunks, "chunk"),
            bytes(buffer.chunk_bytes as f64),
            buffer.chunks_published,
        ));
        for (what, count) in buffer.damage.iter().chain(&buffer.chunks_flagged) {
            print_line(format_args!("  {what}: {count}"));
        }
        if buffer.held_up_s > 0.0 {
            print_line(format_args!(
                "  held up by subscribers for {:.3} s",
                buffer.held_up_s
            ));
        }
    }
    let items = (record.chunks, "chunk");
    print_totals(&record.envelope, items, record.chunk_bytes);
}
