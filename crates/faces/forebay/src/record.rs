//! How every program ends: its record or its tables, what failed, and the exit code.

use std::process::ExitCode;

use anyhow::Result;
use forebay_run::record::Record;
use forebay_run::{Host, System};
use serde::Serialize;

use crate::output::{Format, Notes, note_line, print_line, result_to_stderr};

/// Where the result goes: to standard error where standard output has the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Stdout,
    Stderr,
}

impl To {
    /// That of a program that may have its data on standard output.
    pub(crate) fn beside(data_on_stdout: bool) -> Self {
        if data_on_stdout {
            Self::Stderr
        } else {
            Self::Stdout
        }
    }

    fn print(self, text: impl std::fmt::Display) {
        match self {
            Self::Stdout => print_line(text),
            Self::Stderr => result_to_stderr(text),
        }
    }
}

/// The last lines of a program's text: what was lost by name, what taints the run, and whether the books close.
pub(crate) fn print_closing<S>(record: &Record<S>) {
    for (name, lost) in &record.envelope.drops {
        print_line(format_args!("{name}: {}", lost.items));
    }
    for taint in &record.envelope.taints {
        print_line(format_args!("TAINTED: {taint}"));
    }
    let closes = if record.is_closed() {
        "The books close."
    } else {
        "THE BOOKS DO NOT CLOSE."
    };
    print_line(closes);
}

/// Runs a system in this process, and tells how it went: its exit code.
pub(crate) fn carry_out<S>(
    system: S,
    format: Format,
    to: To,
    tables: impl FnOnce(&Record<S::Summary>),
) -> Result<ExitCode>
where
    S: System<Summary: Serialize, Error: Into<anyhow::Error>>,
{
    recorded(system, format, to, tables).map(|(_, code)| code)
}

/// The same with its record.
pub(crate) fn recorded<S>(
    system: S,
    format: Format,
    to: To,
    tables: impl FnOnce(&Record<S::Summary>),
) -> Result<(Record<S::Summary>, ExitCode)>
where
    S: System<Summary: Serialize, Error: Into<anyhow::Error>>,
{
    let host = Host::of_process(S::HOPS, Notes)?;
    let record = system.run(&host).map_err(Into::into)?;
    let code = conclude(&record, format, to, tables)?;
    Ok((record, code))
}

/// Tells how it went, and says its exit code; `tables` prints what people want to see.
pub(crate) fn conclude<S: Serialize>(
    record: &Record<S>,
    format: Format,
    to: To,
    tables: impl FnOnce(&Record<S>),
) -> Result<ExitCode> {
    let Record { envelope, .. } = record;
    let unkept = envelope.warnings.last().filter(|_| envelope.unkept);
    if let Some(why) = unkept {
        note_line(format_args!("forebay: warning: {why}"));
    }
    match format {
        Format::Json => to.print(serde_json::to_string(record)?),
        Format::Text => {
            tables(record);
            if unkept.is_some() {
                note_line(
                    "forebay: the record could not be written into its directory; this is it:",
                );
                to.print(serde_json::to_string_pretty(record)?);
            }
        }
    }
    if let Some(failed) = &envelope.failed {
        note_line(format_args!("forebay: {failed}"));
    }
    Ok(ExitCode::from(envelope.exit() as u8))
}
