//! Where messages go: a file, standard output, or nowhere.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use forebay_run_net::Untaken;
use forebay_sys::watched::WatchedFile;

use super::writer::{Batch, Found, Writer, Written};
use crate::output::note_line;

/// When so much is gathered while earlier messages are being written, no more are taken for now.
const GATHERED_BYTES: usize = 1 << 18;
/// So much is gathered at the most: what comes in one turn is more than that only where buffers are very large, and then that turn waits.
const GATHERED_BYTES_MAX: usize = 32 << 20;

/// One wait for an output.
const PATIENCE: Duration = Duration::from_millis(20);

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
    /// Written before, and gone with files that somebody removed or cut.
    pub(super) removed: Sum,
    pub(super) removed_files: u64,
}

pub(super) struct Sink {
    /// None for nowhere.
    writer: Option<Writer>,
    as_: As,
    on_stdout: bool,
    name: String,
    /// What is to be written.
    gathered: Batch,
    /// The messages that are being written, as in their batch.
    under_way: Vec<(usize, usize)>,
    /// Memory for what is gathered next.
    spare: Batch,
    became: Became,
    /// Not asked for, while earlier ones wait to be written: what became of them is told in the order in which they came.
    declined: Sum,
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
                let own = File::from(own.context("opening standard output")?);
                Some(WatchedFile::unwatched(own, Path::new(&self.output)))
            }
            path => Some(WatchedFile::of(open(Path::new(path))?, Path::new(path))),
        };
        let writer = to.map(Writer::start).transpose();
        let writer = writer.context("starting the thread that writes")?;
        Ok(Sink {
            writer,
            as_: self.as_,
            on_stdout,
            name: self.output.clone(),
            gathered: Batch::default(),
            under_way: Vec::new(),
            spare: Batch::default(),
            became: Became::default(),
            declined: Sum::default(),
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

impl Sink {
    pub(super) fn is_stdout(&self) -> bool {
        self.on_stdout
    }

    /// Takes a message to be written; what goes wrong is found by [`check`](Self::check).
    pub(super) fn write(&mut self, tag: u64, payload: &[u8]) {
        if self.writer.is_none() {
            self.became.written.add(payload.len());
            return;
        }
        if self.gathered.bytes.len() + payload.len() > GATHERED_BYTES_MAX {
            while self.settle(PATIENCE) {}
            self.begin();
        }
        if let Some(why) = self.fault {
            self.lose(why, payload.len());
            return;
        }
        let Batch { bytes, ends } = &mut self.gathered;
        if self.as_ == As::Tagged {
            // A vector takes all.
            let _ = write!(bytes, "{tag:#018x} {} ", payload.len());
        }
        bytes.extend_from_slice(payload);
        if self.as_ != As::Raw {
            bytes.push(b'\n');
        }
        ends.push((bytes.len(), payload.len()));
    }

    /// Nobody asked for this one.
    pub(super) fn decline(&mut self, payload: &[u8]) {
        self.declined.add(payload.len());
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

    /// Lets what is gathered be written, if what was written before is done with. Nothing waits.
    pub(super) fn flush(&mut self) {
        if !self.settle(Duration::ZERO) {
            self.begin();
        }
    }

    /// Whether so much is gathered that it is to be written at once.
    pub(super) fn has_much(&self) -> bool {
        self.gathered.bytes.len() >= GATHERED_BYTES
    }

    /// Whether so much is gathered, and the output takes so little, that no more is to be taken for now.
    pub(super) fn is_behind(&self) -> bool {
        self.has_much() && self.is_writing()
    }

    /// Takes in what was written meanwhile.
    pub(super) fn look(&mut self) {
        self.settle(Duration::ZERO);
        while let Some(found) = self.writer.as_ref().and_then(Writer::found) {
            self.tell(&found);
        }
    }

    /// Nothing more is written: the file is looked at once more, unless that would be waited for.
    pub(super) fn finish(&mut self) {
        if self.is_writing() {
            return;
        }
        let found = self.writer.as_mut().map(Writer::end);
        found.into_iter().flatten().for_each(|one| self.tell(&one));
    }

    /// Tells what somebody did to the file.
    fn tell(&mut self, found: &Found) {
        match found {
            Found::Note(note) => note_line(format_args!("forebay: warning: {note}")),
            Found::Gone(gone) => {
                let removed = &mut self.became.removed;
                removed.messages += gone.items;
                removed.bytes += gone.bytes;
                self.became.removed_files += 1;
                note_line(format_args!("forebay: {}", gone.told("messages")));
            }
        }
    }

    fn is_writing(&self) -> bool {
        self.writer.as_ref().is_some_and(Writer::is_busy)
    }

    /// Whether something is not yet written.
    pub(super) fn is_pending(&self) -> bool {
        self.is_writing() || !self.gathered.ends.is_empty()
    }

    /// Waits up to `most` for what is being written, and then lets the next be written.
    pub(super) fn wait(&mut self, most: Duration) {
        self.settle(most);
        self.flush();
    }

    /// Gives up what is not yet written: nobody knows how much of it is.
    pub(super) fn abandon(&mut self) {
        let under_way = self
            .under_way
            .drain(..)
            .map(|(_, payload_bytes)| payload_bytes);
        let gathered = self
            .gathered
            .ends
            .drain(..)
            .map(|(_, payload_bytes)| payload_bytes);
        let lost: Vec<usize> = under_way.chain(gathered).collect();
        lost.into_iter()
            .for_each(|payload_bytes| self.lose(Untaken::NotWritten, payload_bytes));
    }

    fn begin(&mut self) {
        let (Some(writer), false) = (&mut self.writer, self.gathered.ends.is_empty()) else {
            return;
        };
        let next = std::mem::take(&mut self.spare);
        let batch = std::mem::replace(&mut self.gathered, next);
        self.under_way.clone_from(&batch.ends);
        writer.begin(batch);
    }

    /// Takes in what became of what was being written, if that shows within `most`. Whether something is still being written.
    fn settle(&mut self, most: Duration) -> bool {
        let done = self.writer.as_mut().and_then(|writer| writer.done(most));
        let Some(written) = done else {
            return self.is_writing();
        };
        let Written {
            mut batch,
            bytes,
            outcome,
        } = written;
        if let Err(error) = outcome {
            self.fail(error);
        }
        let under_way = std::mem::take(&mut self.under_way);
        let whole = under_way.partition_point(|(end, _)| *end <= bytes);
        for (at, (_, payload_bytes)) in under_way.into_iter().enumerate() {
            match self.fault {
                Some(why) if at >= whole => self.lose(why, payload_bytes),
                _ => self.became.written.add(payload_bytes),
            }
        }
        if let Some(why) = self.fault {
            // Nothing more is written.
            let gathered = std::mem::take(&mut self.gathered);
            for (_, payload_bytes) in gathered.ends {
                self.lose(why, payload_bytes);
            }
        }
        batch.bytes.clear();
        batch.ends.clear();
        self.spare = batch;
        false
    }

    /// What became of messages since this was last asked; of those that are gathered, nothing yet.
    pub(super) fn became(&mut self) -> Became {
        if !self.is_pending() {
            let declined = std::mem::take(&mut self.declined);
            self.became.not_wanted.messages += declined.messages;
            self.became.not_wanted.bytes += declined.bytes;
        }
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
