//! Where payloads go: a file for each sender, standard output, or nowhere; and the list of what is missing.

mod gathered;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use forebay_run::whole_file::BeginError;
use forebay_run_net::NetRecord;
use forebay_sys::watched;
use forebay_tdm::ordered::Ordered;
use forebay_tdm::pattern;
use forebay_tdm::receiver::LostRange;
pub(super) use forebay_tdm::written::{Sum, WriteDrop, Written};
use forebay_wire::tdm::Carries;

use super::super::TdmError;
use super::found::Found;
use super::heaps::{HeapStream, HeapTally, Sum as HeapSum};
use gathered::Gathered;

/// Names in the directory that are the run's own.
const RESERVED: [&str; 4] = ["ledger", "run.json", "windows.csv", "windows.parquet"];

/// What becomes of payloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// They are counted, and nothing more.
    Discard,
    /// They are compared with the test stream.
    Verify,
    /// A file for each sender, by its name, in this directory.
    Directory(PathBuf),
    /// One sender's stream goes to standard output.
    Stdout,
    /// Heaps go on as messages to this address, in which `{name}` stands for the sender's name.
    Messages(String),
}

/// The streams of all senders.
pub(super) struct Streams {
    output: Output,
    streams: Vec<Stream>,
    pattern: Vec<u8>,
    /// Payloads that were not those of the test stream.
    pub(super) wrong: u64,
    /// What has become of heaps of each sender, until the books ask; and what messaging had to say at the end.
    heaps: Vec<HeapTally>,
    pub(super) handed_on: Vec<Option<NetRecord>>,
    /// The first thing that failed of starts that are over.
    failed: Option<String>,
    /// What somebody did to files, until it is asked for.
    found: Found,
}

enum Stream {
    Nowhere,
    /// Its file could not be made.
    Failed(String),
    File(Box<Gathered>),
    Ordered(Box<Ordered>),
    Heaps(Box<HeapStream>),
}

/// A sender's name as the name of a file.
pub(super) fn file_name(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+@=,".contains(&byte);
    let mut text = String::new();
    let first_is_plain =
        !name.starts_with('.') && !RESERVED.contains(&name) && !name.ends_with(".lost.csv");
    for (at, byte) in name.bytes().enumerate() {
        if plain(byte) && (at > 0 || first_is_plain) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

impl Streams {
    pub(super) fn new(output: Output) -> Self {
        let pattern = if output == Output::Verify {
            pattern::bytes()
        } else {
            Vec::new()
        };
        Self {
            output,
            streams: Vec::new(),
            pattern,
            wrong: 0,
            heaps: Vec::new(),
            handed_on: Vec::new(),
            failed: None,
            found: Found::default(),
        }
    }

    /// What somebody did to files since it was asked last.
    pub(super) fn look(&mut self) -> Found {
        for stream in &mut self.streams {
            stream.look(&mut self.found);
        }
        std::mem::take(&mut self.found)
    }

    /// Sender number `sender` has begun, for the first time or anew. Tells the name of its file, where that is not the sender's own.
    pub(super) fn open(&mut self, sender: usize, name: &str, carries: Carries) -> Option<String> {
        let mut taken = None;
        let failed = |error: TdmError| Stream::Failed(error.to_string());
        let heaps = |stream| Stream::Heaps(Box::new(stream));
        let stream = match (&self.output, carries) {
            (Output::Messages(address), Carries::Heaps) => {
                let address = address.replace("{name}", &file_name(name));
                if let Some(Stream::Heaps(before)) = self.streams.get_mut(sender)
                    && before.begin_anew(&address)
                {
                    return None;
                }
                HeapStream::messages(&address).map_or_else(failed, heaps)
            }
            (Output::Messages(address), Carries::Bytes) => failed(TdmError::NoHeaps {
                name: name.to_owned(),
                address: address.clone(),
            }),
            (Output::Discard | Output::Verify, Carries::Heaps) => heaps(HeapStream::nowhere()),
            (Output::Stdout, Carries::Heaps) => match standard_output() {
                Ok(out) => heaps(HeapStream::stream(STDOUT, Box::new(out))),
                Err(error) => failed(error),
            },
            (Output::Directory(directory), Carries::Heaps) => {
                let made = create_free(directory, &format!("{}.heaps", file_name(name)));
                let opened = made.and_then(|(path, file)| HeapStream::file(&path, file));
                opened.map_or_else(failed, heaps)
            }
            (output, Carries::Bytes) => match output {
                Output::Discard | Output::Verify => Stream::Nowhere,
                Output::Stdout => {
                    if let Some(Stream::Ordered(before)) = self.streams.get_mut(sender) {
                        before.begin_anew();
                        return None;
                    }
                    standard_output().map_or_else(failed, |out| {
                        Stream::Ordered(Box::new(Ordered::new(Box::new(out))))
                    })
                }
                Output::Directory(directory) => match Gathered::create(directory, name) {
                    Ok(file) => {
                        let own = file.path.file_name().is_some_and(|file| file == name);
                        taken = (!own).then(|| file.path.display().to_string());
                        Stream::File(Box::new(file))
                    }
                    Err(error) => Stream::Failed(error.to_string()),
                },
                Output::Messages(_) => Stream::Nowhere,
            },
        };
        self.end_heaps(sender, None);
        match self.streams.get_mut(sender) {
            Some(place) => *place = stream,
            None => {
                self.streams.push(stream);
                self.heaps.push(HeapTally::default());
                self.handed_on.push(None);
            }
        }
        taken
    }

    /// Payload that came for the first time.
    pub(super) fn write(&mut self, sender: u16, offset: u64, payload: &[u8]) -> Written {
        if self.output == Output::Verify
            && pattern::at(&self.pattern, offset, payload.len()) != payload
        {
            self.wrong += 1;
        }
        match self.streams.get_mut(usize::from(sender)) {
            Some(Stream::File(file)) => file.write(offset, payload),
            Some(Stream::Ordered(ordered)) => ordered.write(offset, payload),
            Some(Stream::Heaps(heaps)) => {
                heaps.write(offset, payload);
                Written::whole(payload)
            }
            Some(Stream::Failed(_)) => Written::failed(payload),
            Some(Stream::Nowhere) | None => Written::whole(payload),
        }
    }

    /// Bytes that will not come. This start of the sender begins at `begins` of its stream.
    pub(super) fn lost(&mut self, range: &LostRange, begins: u64) -> Written {
        match self.streams.get_mut(usize::from(range.sender)) {
            Some(Stream::File(file)) => {
                file.lost(range.offset, range.bytes);
                Written::default()
            }
            Some(Stream::Ordered(ordered)) => {
                let resumes = range.offset == 0 && range.bytes == begins;
                ordered.skip(range.offset, range.bytes, resumes)
            }
            Some(Stream::Heaps(heaps)) => {
                heaps.lost(range.offset, range.bytes);
                Written::default()
            }
            Some(Stream::Nowhere | Stream::Failed(_)) | None => Written::default(),
        }
    }

    /// Bytes that came and found no room in the writer's queue.
    pub(super) fn missed(&mut self, sender: u16, offset: u64, bytes: u64) -> Written {
        match self.streams.get_mut(usize::from(sender)) {
            Some(Stream::File(file)) => {
                file.missed(offset, bytes);
                Written::default()
            }
            Some(Stream::Ordered(ordered)) => ordered.skip(offset, bytes, false),
            Some(Stream::Heaps(heaps)) => {
                heaps.lost(offset, bytes);
                Written::default()
            }
            Some(Stream::Nowhere | Stream::Failed(_)) | None => Written::default(),
        }
    }

    /// Whatever is gathered is written.
    pub(super) fn flush(&mut self) -> Vec<(u16, Written)> {
        let streams = self.streams.iter_mut().enumerate();
        streams
            .map(|(sender, stream)| {
                let written = match stream {
                    Stream::File(file) => {
                        let written = file.flush();
                        file.flush_list();
                        written
                    }
                    Stream::Heaps(heaps) => {
                        heaps.flush();
                        Written::default()
                    }
                    Stream::Ordered(_) | Stream::Nowhere | Stream::Failed(_) => Written::default(),
                };
                (sender as u16, written)
            })
            .collect()
    }

    /// The first thing that could not be written.
    pub(super) fn failure(&self) -> Option<String> {
        let now = || self.streams.iter().find_map(Stream::failure);
        self.failed.clone().or_else(now)
    }

    /// Zeroes that are due are written, as many as one turn has.
    pub(super) fn turn(&mut self) -> Option<(u16, Written)> {
        let mut streams = (0..).zip(&mut self.streams);
        streams.find_map(|(sender, stream)| match stream {
            Stream::Ordered(ordered) => Some((sender, ordered.turn())),
            _ => None,
        })
    }

    /// Zeroes are due that no turn had room for.
    pub(super) fn is_behind(&self) -> bool {
        let behind = |stream: &Stream| matches!(stream, Stream::Ordered(it) if it.is_behind());
        self.streams.iter().any(behind)
    }

    /// This place's start is over: what is gathered is written, and what failed is kept.
    pub(super) fn close(&mut self, sender: usize) -> Written {
        let Some(stream) = self.streams.get_mut(sender) else {
            return Written::default();
        };
        let written = match stream {
            Stream::File(file) => file.finish(),
            Stream::Ordered(ordered) => ordered.finish(),
            Stream::Heaps(_) | Stream::Nowhere | Stream::Failed(_) => Written::default(),
        };
        stream.look(&mut self.found);
        if self.failed.is_none() {
            self.failed = stream.failure();
        }
        written
    }

    /// What has become of heaps since this was asked last.
    pub(super) fn heaps_became(&mut self) -> impl Iterator<Item = (u16, HeapTally)> {
        for (stream, tally) in self.streams.iter_mut().zip(&mut self.heaps) {
            if let Stream::Heaps(heaps) = stream {
                tally.add(&heaps.became());
            }
        }
        let tallies = self.heaps.iter_mut().map(std::mem::take);
        (0..).zip(tallies)
    }

    /// Packets and heaps that lie in each sender's stream now, when [`Self::heaps_became`] was asked right before.
    pub(super) fn held(&self) -> impl Iterator<Item = (u16, Sum, HeapSum)> {
        (0..).zip(&self.streams).map(|(sender, stream)| {
            let (packets, heaps) = stream.held();
            (sender, packets, heaps)
        })
    }

    /// The heaps of this place's stream are complete, if there are any.
    fn end_heaps(&mut self, sender: usize, sent: Option<u64>) {
        if let Some(Stream::Heaps(heaps)) = self.streams.get_mut(sender) {
            let handed_on = heaps.finish(sent);
            heaps.look(&mut self.found);
            if let (Some(tally), Some(place)) =
                (self.heaps.get_mut(sender), self.handed_on.get_mut(sender))
            {
                tally.add(&heaps.became());
                *place = handed_on;
            }
            if self.failed.is_none() {
                self.failed.clone_from(&heaps.failed);
            }
        }
    }

    /// The end: lists are complete, and what waits for its turn is written. Each sender may have said how many heaps it sent.
    pub(super) fn finish(&mut self, heaps_sent: &[Option<u64>]) -> Vec<(u16, Written)> {
        for (sender, sent) in heaps_sent.iter().enumerate() {
            self.end_heaps(sender, *sent);
        }
        let places = 0..self.streams.len();
        places
            .map(|sender| (sender as u16, self.close(sender)))
            .collect()
    }
}

impl Stream {
    fn held(&self) -> (Sum, HeapSum) {
        match self {
            Self::File(file) => (file.held(), HeapSum::default()),
            Self::Ordered(ordered) => (ordered.held(), HeapSum::default()),
            Self::Heaps(heaps) => (Sum::default(), heaps.held()),
            Self::Failed(_) | Self::Nowhere => (Sum::default(), HeapSum::default()),
        }
    }

    fn look(&mut self, found: &mut Found) {
        match self {
            Self::File(file) => file.look(found),
            Self::Heaps(heaps) => heaps.look(found),
            Self::Ordered(_) | Self::Failed(_) | Self::Nowhere => {}
        }
    }

    fn failure(&self) -> Option<String> {
        match self {
            Self::File(file) => file
                .failed
                .as_ref()
                .map(|error| format!("writing {}: {error}", file.path.display())),
            Self::Ordered(ordered) => ordered
                .failure()
                .map(|error| format!("writing to {STDOUT}: {error}")),
            Self::Failed(why) => Some(why.clone()),
            Self::Heaps(heaps) => heaps.failed.clone(),
            Self::Nowhere => None,
        }
    }
}

/// What it is called in errors.
const STDOUT: &str = "standard output";

/// Standard output without a buffer: what was taken is known.
fn standard_output() -> Result<File, TdmError> {
    let own = io::stdout().as_fd().try_clone_to_owned();
    own.map(File::from)
        .map_err(TdmError::file("opening", STDOUT))
}

/// Makes a file that is not there; `option` gives it another name.
pub(super) fn create_new(path: &Path, option: &'static str) -> Result<File, TdmError> {
    File::create_new(path).map_err(|source| {
        let path = path.to_path_buf();
        let error = if source.kind() == io::ErrorKind::AlreadyExists {
            BeginError::Taken { path, option }
        } else {
            BeginError::Place {
                path,
                option,
                source,
            }
        };
        error.into()
    })
}

/// Makes a file under a name that is free: nothing is ever written over.
fn create_free(directory: &Path, plain: &str) -> Result<(PathBuf, File), TdmError> {
    let path = directory.join(plain);
    watched::create_free(&path).map_err(TdmError::file("creating", path))
}

#[cfg(test)]
mod tests;
