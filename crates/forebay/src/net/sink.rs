//! Where messages go: a file, standard output, or nowhere.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;

/// What becomes of what comes.
#[derive(Debug, clap::Args)]
pub(super) struct SinkArgs {
    /// A file, `-` for standard output, or `null` for nowhere.
    #[arg(long, value_name = "TO", default_value = "-")]
    output: String,
    /// How messages are written.
    #[arg(long = "as", value_enum, default_value_t)]
    as_: As,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum As {
    /// Each on a line of its own.
    #[default]
    Lines,
    /// One after the other.
    Raw,
    /// Tag in hexadecimal, bytes and the payload, each on a line of its own.
    Tagged,
}

pub(super) struct Sink {
    to: Option<BufWriter<Box<dyn Write>>>,
    as_: As,
    on_stdout: bool,
    name: String,
    trouble: Option<io::Error>,
}

impl SinkArgs {
    pub(super) fn open(&self) -> Result<Sink> {
        let to: Option<Box<dyn Write>> = match self.output.as_str() {
            "null" => None,
            "-" => Some(Box::new(io::stdout().lock())),
            path => {
                let file = File::create_new(Path::new(path)).with_context(|| {
                    format!("creating {path}; a file that is there is not overwritten")
                })?;
                Some(Box::new(file))
            }
        };
        Ok(Sink {
            to: to.map(|to| BufWriter::with_capacity(1 << 18, to)),
            as_: self.as_,
            on_stdout: self.output == "-",
            name: self.output.clone(),
            trouble: None,
        })
    }
}

impl Sink {
    pub(super) fn is_stdout(&self) -> bool {
        self.on_stdout
    }

    /// Writes a message; what goes wrong is found by [`check`](Self::check).
    pub(super) fn write(&mut self, tag: u64, payload: &[u8]) {
        let Some(to) = &mut self.to else {
            return;
        };
        if self.trouble.is_some() {
            return;
        }
        let written = match self.as_ {
            As::Raw => to.write_all(payload),
            As::Lines => to.write_all(payload).and_then(|()| to.write_all(b"\n")),
            As::Tagged => write!(to, "{tag:#018x} {} ", payload.len())
                .and_then(|()| to.write_all(payload))
                .and_then(|()| to.write_all(b"\n")),
        };
        self.trouble = written.err();
    }

    /// Nothing stays behind while nothing comes.
    pub(super) fn flush(&mut self) {
        if let Some(to) = &mut self.to
            && self.trouble.is_none()
        {
            self.trouble = to.flush().err();
        }
    }

    /// Whether somebody still wants it; false when a pipe's reader has gone.
    pub(super) fn check(&mut self) -> Result<bool> {
        match self.trouble.take() {
            None => Ok(true),
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.to = None;
                Ok(false)
            }
            Some(error) => {
                self.to = None;
                Err(error).with_context(|| format!("writing to {}", self.name))
            }
        }
    }
}
