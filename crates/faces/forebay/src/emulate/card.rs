//! `forebay emulate card`: a card of detector links, as a process of its own.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use forebay_run::record::Record;
use forebay_run_emu::card::replay::{BlockReplay, CardReplay, ReplaySummary};
use forebay_run_emu::card::{CardPlan, CardSummary};

use crate::output::{Format, counted, note_line, print_line};
use crate::record::{To, carry_out, recorded};
use crate::set::SetArg;
use crate::totals::print_left;
use forebay_report::text::{bytes, si};

/// A card of detector links: front ends, links, blocks and DMA buffers in shared memory, which `forebay tohost` opens.
///
/// Front ends can be sent messages, with `forebay toflx`; those of E-links with loop_back send them back.
///
/// It holds triggers back (BUSY) when a link cannot carry more or a DMA buffer is full or nearly, and says how many. Ends after the triggers or the time that its file says, or
/// by Ctrl-C, when everything has been read.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  forebay emulate card examples/card.toml\n  forebay emulate card --replay blocks.dat --socket card0.sock --loops 10\n\nExit codes: 0 the books close, 1 they do not, 2 it could not be done, or its readers left something unread."
)]
pub(crate) struct CardArgs {
    /// What the card is; `forebay check --reference` lists all keys. With --replay it may be left out, and says only the card's name, socket, DMA buffers and
    /// which E-links go into which of them.
    #[arg(value_name = "FILE.toml", required_unless_present = "replay")]
    file: Option<PathBuf>,
    /// Shows readers the blocks of this file, in its order, in the place of what front ends would send.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Blocks in a second; as fast as readers make room, when it is not given.
    #[arg(long, value_name = "HZ", requires = "replay", value_parser = clap::value_parser!(u64).range(1..))]
    blocks_hz: Option<u64>,
    /// How often the file is gone through; sequence numbers go on from one time to the next.
    #[arg(long, value_name = "N", requires = "replay", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    loops: u64,
    /// The words of its blocks stand in front of the data, a variant of this project.
    #[arg(long, requires = "replay")]
    subchunk_headers: bool,
    /// Where readers open the card; instead of what the file says.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    set: SetArg,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl CardArgs {
    /// The card of a file, as the file says.
    pub(crate) fn of_file(file: PathBuf, set: SetArg, format: Format) -> Self {
        Self {
            file: Some(file),
            replay: None,
            blocks_hz: None,
            loops: 1,
            subchunk_headers: false,
            socket: None,
            set,
            format,
        }
    }
}

pub(crate) fn run(args: &CardArgs) -> Result<ExitCode> {
    let mut plan = match &args.file {
        Some(file) => args.set.load(file)?,
        None => CardPlan::of_replay(),
    };
    if let Some(socket) = &args.socket {
        plan.socket.clone_from(socket);
    }
    if let Some(file) = &args.replay {
        let replay = BlockReplay {
            file: file.clone(),
            blocks_hz: args.blocks_hz,
            loops: args.loops,
            headers: args.subchunk_headers,
        };
        let system = CardReplay { plan, replay };
        return carry_out(system, args.format, To::Stdout, print_replay);
    }
    let (record, code) = recorded(plan, args.format, To::Stdout, print)?;
    if record.held > 0 && record.envelope.failed.is_none() {
        note_line(format_args!(
            "forebay: {} did not come into a block before the end",
            counted(record.held, "chunk")
        ));
    }
    Ok(code)
}

fn print_replay(record: &Record<ReplaySummary>) {
    let Record { envelope, summary } = record;
    print_line(format_args!(
        "{} ({}) of {}, {} in {:.2} s; the file held back for {:.2} s by DMA buffers without room",
        counted(summary.blocks, "block"),
        summary.blocks_format,
        counted(summary.elinks.len() as u64, "E-link"),
        bytes(summary.bytes as f64),
        summary.replay_s,
        summary.held_up_s,
    ));
    let lost = [
        (summary.skipped_bytes, "in which no block begins"),
        (summary.tail_bytes, "of a block that is cut off"),
    ];
    for (count, why) in lost.into_iter().filter(|(count, _)| *count > 0) {
        print_line(format_args!(
            "{} of the file, {why}",
            counted(count, "byte")
        ));
    }
    print_line(format_args!(
        "CPU {:.2} s; residual {} blocks, {} bytes",
        envelope.cpu_s(),
        envelope.books.residual_items,
        envelope.books.residual_bytes
    ));
    print_left(&envelope.books);
}

fn print(record: &Record<CardSummary>) {
    let Record { envelope, summary } = record;
    print_line(format_args!(
        "{} ({} asked for, {} held back by links, {} by DMA buffers that are full or nearly, {} by dead time) at {}; BUSY {:.2} % of the time",
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
    let busy = summary.dma.iter().map(|dma| dma.busy.unwrap_or(0));
    for (buffer, times) in busy.enumerate().filter(|(_, times)| *times > 0) {
        let times = counted(times, "time");
        print_line(format_args!("BUSY by DMA buffer {buffer}: {times}"));
    }
    for (reason, count) in &summary.dropped {
        print_line(format_args!("lost by {reason}: {count}"));
    }
    for (fault, count) in &summary.faults {
        print_line(format_args!("injected: {fault}, {count} times"));
    }
    let sent = &summary.from_host;
    if sent.packets > 0 {
        print_line(format_args!(
            "{} of {} in {}: {} sent back, {} taken",
            counted(sent.messages, "message"),
            bytes(sent.bytes as f64),
            counted(sent.packets, "packet"),
            sent.looped,
            sent.sunk,
        ));
        for (reason, count) in &sent.dropped_packets {
            print_line(format_args!(
                "lost by {reason}: {}",
                counted(*count, "packet")
            ));
        }
    }
    if summary.host_limited {
        print_line("This host was the limit of this run: the card could not keep its time.");
    }
    print_line(format_args!(
        "CPU {:.2} s; residual {} items, {} bytes",
        envelope.cpu_s(),
        envelope.books.residual_items,
        envelope.books.residual_bytes
    ));
    print_left(&envelope.books);
}
