//! `forebay emulate card`: a card of detector links, as a process of its own.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use forebay_run::readout::card::{self, CardSummary};
use forebay_run::readout::config;

use crate::output::{Format, bytes, counted, note_line, print_line, si};
use crate::session::BROKEN;

/// A card of detector links: front ends, links, blocks and DMA buffers in shared memory, which `forebay tohost` opens.
///
/// It holds triggers back (BUSY) when a link cannot carry more or a DMA buffer is full, and says how many. Ends after the triggers or the time that its file says, or
/// by Ctrl-C, when everything has been read.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: forebay emulate card examples/card.toml\n\nExit codes: 0 the books close, 1 they do not, 2 it could not be done, or its readers left something unread."
)]
pub(super) struct CardArgs {
    /// What the card is; `forebay check --reference` lists all keys.
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(args: &CardArgs) -> Result<ExitCode> {
    let plan = config::load_card(&args.file)?;
    let signals = forebay_run::signals()?;
    let summary = card::run(
        &plan,
        &signals,
        |socket| {
            note_line(format_args!(
                "forebay: {} is at {}",
                plan.name,
                socket.display()
            ));
        },
        |warning| note_line(format_args!("forebay: warning: {warning}")),
    )?;
    match args.format {
        Format::Json => print_line(serde_json::to_string(&summary)?),
        Format::Text => print(&summary),
    }
    let unread: u64 = summary.dma.iter().map(|dma| dma.blocks_unread).sum();
    if unread > 0 || summary.held > 0 {
        note_line(format_args!(
            "forebay: {} and {} in front of them were left: nobody has read them",
            counted(unread, "block"),
            counted(summary.held, "chunk"),
        ));
    }
    Ok(
        match (summary.residual_items + summary.residual_bytes, unread) {
            (0, 0) => ExitCode::SUCCESS,
            (0, _) => ExitCode::from(2),
            _ => ExitCode::from(BROKEN),
        },
    )
}

fn print(summary: &CardSummary) {
    print_line(format_args!(
        "{} ({} asked for, {} held back by links, {} by full DMA buffers, {} by dead time) at {}; BUSY {:.2} % of the time",
        counted(summary.triggers, "trigger"),
        summary.triggers_requested,
        summary.held_by_link,
        summary.held_by_dma,
        summary.held_by_dead_time,
        si(summary.trigger_rate_hz, "Hz"),
        100.0 * summary.busy_fraction,
    ));
    print_line(format_args!(
        "{} of {} made, {} in DMA buffers, {} cut off",
        counted(summary.chunks, "chunk"),
        bytes(summary.chunk_bytes as f64),
        summary.chunks_out,
        summary.chunks_truncated,
    ));
    for (reason, count) in &summary.dropped {
        print_line(format_args!("lost by {reason}: {count}"));
    }
    for (fault, count) in &summary.faults {
        print_line(format_args!("injected: {fault}, {count} times"));
    }
    if summary.host_limited {
        print_line("This host was the limit of this run: the card could not keep its time.");
    }
    print_line(format_args!(
        "CPU {:.2} s; residual {} items, {} bytes",
        summary.cpu_seconds, summary.residual_items, summary.residual_bytes
    ));
}
