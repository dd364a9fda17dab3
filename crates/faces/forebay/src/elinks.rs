//! `forebay elinks`: which E-link goes into which DMA buffer.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Subcommand;
use forebay_config::load;
use forebay_run_emu::card::CardPlan;
use forebay_run_emu::map::{Change, ElinkMap, change, svg};
use forebay_wire::felix::Elink;

use crate::elink_text::{Links, elink, links};
use crate::output::{Format, print_line};
use crate::session::BROKEN;
use forebay_report::text::{bytes, si};

/// Which E-link of a card goes into which DMA buffer, and what each can carry.
#[derive(Debug, clap::Args)]
pub(crate) struct ElinksArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Show(ShowArgs),
    Set(SetArgs),
    Check(CheckArgs),
}

/// Shows the map of a card's file, and draws it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay elinks show examples/card.toml --svg map.svg")]
struct ShowArgs {
    /// The card's file.
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Draws the map there.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Says what a map cannot carry, or leaves idle. Exit code 1 when there is something.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay elinks check examples/card.toml")]
struct CheckArgs {
    /// The card's file.
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Changes the map in a card's file: links and E-links that are named come into a block of their own, or go. The rest of the file stays as it is written.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: forebay elinks set card.toml --links 6-11 --dma-buffer 1")]
struct SetArgs {
    /// The card's file.
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// Whole links in FULL mode, as 3 or 0-11.
    #[arg(long, value_name = "LINKS", value_delimiter = ',', value_parser = links)]
    links: Vec<Links>,
    /// E-links of GBT links by number, as 64 or 0x48.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = elink)]
    elinks: Vec<Elink>,
    /// Takes them out.
    #[arg(long, conflicts_with_all = ["dma_buffer", "width_bits", "stream"])]
    remove: bool,
    /// The DMA buffer that their blocks go into.
    #[arg(long, value_name = "N")]
    dma_buffer: Option<u8>,
    /// Bits of each 25 ns, of E-links of GBT links: 2, 4, 8, 16 or 32.
    #[arg(long, value_name = "BITS")]
    width_bits: Option<u8>,
    /// First byte of their chunks.
    #[arg(long, value_name = "N")]
    stream: Option<u8>,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &ElinksArgs) -> Result<ExitCode> {
    match &args.what {
        What::Show(args) => {
            let map = ElinkMap::of(&load::<CardPlan>(&args.file, &[])?.config);
            if let Some(path) = &args.svg {
                let picture = svg(&map, &args.file.display().to_string());
                fs::write(path, picture).with_context(|| format!("writing {}", path.display()))?;
            }
            tell(&map, args.format)?;
            Ok(ExitCode::SUCCESS)
        }
        What::Check(args) => {
            let map = ElinkMap::of(&load::<CardPlan>(&args.file, &[])?.config);
            match args.format {
                Format::Json => print_line(serde_json::to_string(&map)?),
                Format::Text if map.findings.is_empty() => print_line(format_args!(
                    "{} E-links carry what is asked of them",
                    map.elinks.len()
                )),
                Format::Text => map.findings.iter().for_each(print_line),
            }
            Ok(if map.findings.is_empty() {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(BROKEN)
            })
        }
        What::Set(args) => set(args),
    }
}

fn set(args: &SetArgs) -> Result<ExitCode> {
    let file = args.file.display().to_string();
    // Also for what it says of a file that is not there, or too long.
    load::<CardPlan>(&args.file, &[])?;
    let text = fs::read_to_string(&args.file).with_context(|| format!("reading {file}"))?;
    let all = args.links.iter().flat_map(|links| links.elinks());
    let changed = change(
        &file,
        &text,
        &Change {
            links: all.map(Elink::link).collect(),
            elinks: args.elinks.clone(),
            remove: args.remove,
            dma_buffer: args.dma_buffer,
            width_bits: args.width_bits,
            stream: args.stream,
        },
    )?;
    // Whole or not at all: a card may be started from it at any time.
    let target = fs::canonicalize(&args.file).with_context(|| format!("finding {file}"))?;
    let new = target.with_extension(format!("toml.{}", std::process::id()));
    let written = fs::File::create_new(&new)
        .and_then(|mut made| {
            made.set_permissions(fs::metadata(&target)?.permissions())?;
            made.write_all(changed.as_bytes())
        })
        .and_then(|()| fs::rename(&new, &target));
    if written.is_err() {
        // What is half written is nobody's.
        let _ = fs::remove_file(&new);
    }
    written.with_context(|| format!("writing {}", target.display()))?;
    tell(
        &ElinkMap::of(&load::<CardPlan>(&args.file, &[])?.config),
        args.format,
    )?;
    Ok(ExitCode::SUCCESS)
}

fn tell(map: &ElinkMap, format: Format) -> Result<()> {
    if format == Format::Json {
        print_line(serde_json::to_string(map)?);
        return Ok(());
    }
    print_line("E-link  link  kind  width  DMA buffer       carries     full at  asked for");
    for row in &map.elinks {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        print_line(format_args!(
            "{:#05x}   {:>4}  {:4}  {:>5}  {:>10}  {:>12}  {:>10}  {:>9}",
            row.elink,
            row.link,
            row.kind,
            or_none(row.width_bits.map(|bits| bits.to_string())),
            row.dma_buffer,
            or_none(
                row.budget_bytes_per_second
                    .map(|rate| format!("{}/s", bytes(rate)))
            ),
            or_none(row.limit_hz.map(|hz| si(hz, "Hz"))),
            or_none(row.utilisation.map(|part| format!("{:.1} %", 100.0 * part))),
        ));
    }
    for row in &map.buffers {
        print_line(format_args!(
            "DMA buffer {}: {} E-links, {}/s",
            row.dma_buffer,
            row.elinks,
            bytes(row.bytes_per_second)
        ));
    }
    map.findings.iter().for_each(print_line);
    Ok(())
}
