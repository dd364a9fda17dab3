//! Where messages go: a file, standard output, or nowhere.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use forebay_run::net::Untaken;

/// What is gathered before it is written; what is as long by itself is not copied.
const GATHERED_BYTES_MAX: usize = 1 << 18;

/// What becomes of what comes.
#[derive(Debug, clap::Args)]
pub(super) struct SinkArgs {
    /// A file that is not there yet, a pipe or a device that is, `-` for standard output, or `null` for nowhere.
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

/// Messages, and bytes of their payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

impl Sum {
    fn add(&mut self, payload_bytes: usize) {
        self.messages += 1;
        self.bytes += payload_bytes as u64;
    }
}

/// What became of messages since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Became {
    /// The system took all bytes of them; or nowhere is where they go.
    pub(super) written: Sum,
    /// More than were asked for, or a pipe's reader has gone.
    pub(super) not_wanted: Sum,
    /// Writing failed.
    pub(super) not_written: Sum,
}

pub(super) struct Sink {
    to: Option<File>,
    as_: As,
    on_stdout: bool,
    name: String,
    /// What is to be written.
    gathered: Vec<u8>,
    /// Where each message in it ends, and the bytes of its payload.
    ends: Vec<(usize, usize)>,
    became: Became,
    /// Why nothing is written any more.
    fault: Option<Untaken>,
    trouble: Option<io::Error>,
}

impl SinkArgs {
    pub(super) fn open(&self) -> Result<Sink> {
        // Where standard output is a file, opening it anew would begin at the front of what is there.
        let own_names = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
        let on_stdout = own_names.contains(&self.output.as_str());
        let to = match self.output.as_str() {
            "null" => None,
            // Not the library's own, which keeps some of it back and does not say how much was written.
            _ if on_stdout => {
                let own = io::stdout().as_fd().try_clone_to_owned();
                Some(File::from(own.context("opening standard output")?))
            }
            path => Some(open(Path::new(path))?),
        };
        Ok(Sink {
            to,
            as_: self.as_,
            on_stdout,
            name: self.output.clone(),
            gathered: Vec::new(),
            ends: Vec::new(),
            became: Became::default(),
            fault: None,
            trouble: None,
        })
    }
}

/// Makes a file, or opens a pipe or a device that is there: those keep nothing that could be overwritten. A pipe is waited for until somebody reads.
fn open(path: &Path) -> Result<File> {
    let keeps_nothing = |data: io::Result<Metadata>| {
        data.is_ok_and(|data| data.file_type().is_fifo() || data.file_type().is_char_device())
    };
    let shown = path.display();
    if keeps_nothing(path.metadata()) {
        let opened = File::options().write(true).open(path);
        let file = opened.with_context(|| format!("opening {shown}"))?;
        // It may be another one meanwhile.
        if keeps_nothing(file.metadata()) {
            return Ok(file);
        }
    }
    File::create_new(path)
        .with_context(|| format!("creating {shown}; a file that is there is not overwritten"))
}

/// Writes all of it, or says how much was.
fn write_all(mut to: &File, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut at = 0;
    while at < bytes.len() {
        match to.write(&bytes[at..]) {
            Ok(0) => return (at, Err(ErrorKind::WriteZero.into())),
            Ok(count) => at += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (at, Err(error)),
        }
    }
    (at, Ok(()))
}

impl Sink {
    pub(super) fn is_stdout(&self) -> bool {
        self.on_stdout
    }

    /// Writes a message; what goes wrong is found by [`check`](Self::check).
    pub(super) fn write(&mut self, tag: u64, payload: &[u8]) {
        if self.to.is_none() {
            self.became.written.add(payload.len());
            return;
        }
        if self.gathered.len() + payload.len() > GATHERED_BYTES_MAX {
            self.flush();
        }
        if let Some(why) = self.fault {
            self.lose(why, payload.len());
            return;
        }
        if self.as_ == As::Tagged {
            // A vector takes all.
            let _ = write!(self.gathered, "{tag:#018x} {} ", payload.len());
        }
        if payload.len() > GATHERED_BYTES_MAX {
            self.write_long(payload);
            return;
        }
        self.gathered.extend_from_slice(payload);
        if self.as_ != As::Raw {
            self.gathered.push(b'\n');
        }
        self.ends.push((self.gathered.len(), payload.len()));
    }

    /// What is gathered is its head.
    fn write_long(&mut self, payload: &[u8]) {
        self.flush();
        if let (None, Some(to)) = (self.fault, &self.to) {
            let tail: &[u8] = if self.as_ == As::Raw { b"" } else { b"\n" };
            let written = write_all(to, payload).1;
            if let Err(error) = written.and_then(|()| write_all(to, tail).1) {
                self.fail(error);
            }
        }
        match self.fault {
            None => self.became.written.add(payload.len()),
            Some(why) => self.lose(why, payload.len()),
        }
    }

    /// Nobody asked for this one.
    pub(super) fn decline(&mut self, payload: &[u8]) {
        self.became.not_wanted.add(payload.len());
    }

    fn lose(&mut self, why: Untaken, payload_bytes: usize) {
        match why {
            Untaken::NotWanted => self.became.not_wanted.add(payload_bytes),
            Untaken::NotWritten => self.became.not_written.add(payload_bytes),
        }
    }

    fn fail(&mut self, error: io::Error) {
        self.fault = Some(if error.kind() == ErrorKind::BrokenPipe {
            Untaken::NotWanted
        } else {
            Untaken::NotWritten
        });
        self.trouble = Some(error);
    }

    /// Nothing stays behind while nothing comes.
    pub(super) fn flush(&mut self) {
        let Some(to) = &self.to else {
            return;
        };
        let (written_bytes, written) = write_all(to, &self.gathered);
        if let Err(error) = written {
            self.fail(error);
        }
        let whole = self.ends.partition_point(|(end, _)| *end <= written_bytes);
        let mut ends = std::mem::take(&mut self.ends);
        for (at, (_, payload_bytes)) in ends.drain(..).enumerate() {
            match self.fault {
                Some(why) if at >= whole => self.lose(why, payload_bytes),
                _ => self.became.written.add(payload_bytes),
            }
        }
        self.ends = ends;
        self.gathered.clear();
    }

    /// What became of messages since this was last asked; of those that are gathered, nothing yet.
    pub(super) fn became(&mut self) -> Became {
        std::mem::take(&mut self.became)
    }

    /// Whether somebody still wants it; false when a pipe's reader has gone.
    pub(super) fn check(&mut self) -> Result<bool> {
        match self.trouble.take() {
            None => Ok(self.fault != Some(Untaken::NotWanted)),
            Some(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            Some(error) => Err(error).with_context(|| format!("writing to {}", self.name)),
        }
    }
}
