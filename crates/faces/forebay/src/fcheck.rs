//! `forebay fcheck FILE`: what is in a file of raw FELIX blocks, and what is wrong with it.
//!
//! Exit codes: 0 no errors, 1 errors, 2 it could not be checked.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use forebay_run_felix::check::{Check, CheckError, Payload, Report, Settings};
use forebay_wire::felix::{BlockFormat, Elink};

mod show;
mod text;

use crate::elink_text::elink;
use crate::output::{Format, print_line};
use show::Show;

/// Checks and shows a file of raw FELIX blocks.
///
/// Reads blocks, joins their chunks and tells what each E-link had and every kind of error. After a damaged block it goes on at the next one; where bytes were
/// lost or inserted it looks for the next block, and every byte of the file is accounted for. Flags that the firmware has set are counted and are no errors of
/// the file. A file that was cut out of a running readout begins and ends within chunks: `orphan` and `unfinished`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  forebay fcheck blocks.dat
  forebay fcheck blocks.dat --elink 0x40 --dump 2 --chunks 1
  zstdcat blocks.dat.zst | forebay fcheck - --format json

Exit codes:
  0  no errors
  1  errors, each counted under its kind; or a residual
  2  it could not be checked: no such file, or no block in it; the error says what would be right")]
pub(crate) struct FcheckArgs {
    /// The file; `-` is standard input.
    file: PathBuf,
    /// Format of the blocks: abcd, abce, or c0ce-1Ki to c0ce-16Ki. The first block tells it, when it is not given.
    #[arg(long, value_name = "FORMAT", value_parser = block_format)]
    blocks: Option<BlockFormat>,
    /// Subchunks have their words in front: a variant of this program alone.
    #[arg(long)]
    subchunk_headers: bool,
    /// What chunks are held against.
    #[arg(long, value_enum, default_value_t)]
    payload: PayloadArg,
    /// Tells of this E-link alone; may be given several times.
    #[arg(long = "elink", value_name = "N", value_delimiter = ',', value_parser = elink)]
    elinks: Vec<Elink>,
    /// Shows the first N blocks with their subchunks, or all.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "18446744073709551615", conflicts_with = "format")]
    dump: Option<u64>,
    /// Shows the bytes of the first N chunks.
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "format")]
    chunks: u64,
    /// Lists the first N errors with their places.
    #[arg(long, value_name = "N", default_value_t = 20)]
    errors: usize,
    /// Text for people, or one JSON object.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What chunks are held against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum PayloadArg {
    /// Messages about triggers on E-link 0x600; on any other one generated chunks, from the first on that looks like one.
    #[default]
    Auto,
    /// Chunks of the firmware's data generator; on E-link 0x600 messages about triggers, unless they look generated.
    Generated,
    /// Messages about triggers, on all E-links.
    Ttc,
    /// Nothing.
    None,
}

impl From<PayloadArg> for Payload {
    fn from(payload: PayloadArg) -> Self {
        match payload {
            PayloadArg::Auto => Self::Auto,
            PayloadArg::Generated => Self::Generated,
            PayloadArg::Ttc => Self::Ttc,
            PayloadArg::None => Self::None,
        }
    }
}

fn block_format(text: &str) -> Result<BlockFormat, String> {
    let wrong =
        || format!("{text:?} is no format of blocks; write abcd, abce, or c0ce-1Ki to c0ce-16Ki");
    match text.to_ascii_lowercase().as_str() {
        "abcd" => Ok(BlockFormat::PHASE1),
        "abce" => Ok(BlockFormat::PHASE1_WIDE),
        other => {
            let kib = other
                .strip_prefix("c0ce-")
                .and_then(|size| size.strip_suffix("ki"));
            let kib: usize = kib.and_then(|kib| kib.parse().ok()).ok_or_else(wrong)?;
            BlockFormat::phase2(kib.saturating_mul(1024)).map_err(|_| wrong())
        }
    }
}

pub(crate) fn run(args: &FcheckArgs) -> Result<ExitCode> {
    let settings = Settings {
        blocks: args.blocks,
        has_headers: args.subchunk_headers,
        payload: args.payload.into(),
        elinks: args.elinks.clone(),
        findings_max: args.errors,
        ..Settings::default()
    };
    let (mut file, size) = open(&args.file)?;
    let mut show = Show::new(args.dump.unwrap_or(0), args.chunks, size);
    let checked = Check::run(&mut file, &settings, &mut show);
    show.end();
    let name = args.file.display();
    let report = match checked {
        Ok(report) => report,
        // A reader that has read enough, as `head`, decides nothing.
        Err(CheckError::Watch(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => return Err(error).with_context(|| format!("cannot check {name}")),
    };
    show.flush()?;
    match args.format {
        Format::Json => print_line(json(args, &report)?),
        Format::Text => print_line(text::summary(&args.file, &report).trim_end()),
    }
    Ok(ExitCode::from(u8::from(!report.is_sound())))
}

fn json(args: &FcheckArgs, report: &Report) -> Result<String> {
    let mut object = serde_json::to_value(report)?;
    object["file"] = args.file.to_string_lossy().into();
    object["sound"] = report.is_sound().into();
    Ok(object.to_string())
}

/// The file, and its size where it has one.
fn open(path: &Path) -> Result<(Box<dyn Read>, Option<u64>)> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin().lock()), None));
    }
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let data = file
        .metadata()
        .with_context(|| format!("cannot read {}", path.display()))?;
    if data.is_dir() {
        bail!("{} is a directory, not a file of blocks", path.display());
    }
    let size = data.is_file().then_some(data.len());
    Ok((Box::new(file), size))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    #[test]
    fn formats_are_read_as_they_are_written() {
        for (text, marker) in [
            ("abcd", 0xabcd),
            ("ABCE", 0xabce),
            ("c0ce-1Ki", 0xc0ce),
            ("c0ce-16ki", 0xcfce),
        ] {
            assert_eq!(block_format(text).unwrap().marker(), marker);
        }
        for text in [
            "",
            "c0ce",
            "c0ce-0Ki",
            "c0ce-17Ki",
            "0xabcd",
            "c0ce-99999999999999999999Ki",
        ] {
            assert!(
                block_format(text)
                    .unwrap_err()
                    .contains("c0ce-1Ki to c0ce-16Ki")
            );
        }
    }
}
