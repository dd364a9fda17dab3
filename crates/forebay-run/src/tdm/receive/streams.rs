//! Where payloads go: a file for each sender, standard output, or nowhere; and the list of what is missing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use forebay_tdm::receiver::LostRange;
use forebay_wire::tdm::Carries;

use super::super::{TdmError, pattern};
use super::heaps::{HeapStream, HeapTally};
use crate::net::NetSummary;

/// Bytes that are gathered before they are written.
const GATHER_BYTES: usize = 1 << 20;
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
    pub(super) handed_on: Vec<Option<NetSummary>>,
}

enum Stream {
    Nowhere,
    /// Its file could not be made.
    Failed(String),
    File(Gathered),
    Ordered(Ordered),
    Heaps(Box<HeapStream>),
}

/// A file and what is not in it yet.
struct Gathered {
    path: PathBuf,
    file: File,
    bytes: Vec<u8>,
    packets: u64,
    at: u64,
    lost: BufWriter<File>,
    failed: Option<io::Error>,
}

/// Bytes in order, with zeroes where some are lost.
#[derive(Default)]
struct Ordered {
    next: u64,
    waiting: BTreeMap<u64, Vec<u8>>,
    failed: Option<io::Error>,
}

/// Packets and bytes that were written, and those that could not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) failed_packets: u64,
    pub(super) failed_bytes: u64,
}

impl Written {
    fn whole(payload: &[u8]) -> Self {
        Self {
            packets: 1,
            bytes: payload.len() as u64,
            ..Self::default()
        }
    }

    /// So many were written, or could not be; the first reason is kept.
    fn of(done: io::Result<()>, packets: u64, bytes: u64, failed: &mut Option<io::Error>) -> Self {
        match done {
            Ok(()) => Self {
                packets,
                bytes,
                ..Self::default()
            },
            Err(error) => {
                failed.get_or_insert(error);
                Self {
                    failed_packets: packets,
                    failed_bytes: bytes,
                    ..Self::default()
                }
            }
        }
    }
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
        }
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
            (Output::Stdout, Carries::Heaps) => heaps(HeapStream::stdout()),
            (Output::Directory(directory), Carries::Heaps) => {
                let made = create_free(directory, &format!("{}.heaps", file_name(name)));
                let opened = made.and_then(|(path, file)| HeapStream::file(&path, file));
                opened.map_or_else(failed, heaps)
            }
            (output, Carries::Bytes) => match output {
                Output::Discard | Output::Verify => Stream::Nowhere,
                Output::Stdout => Stream::Ordered(Ordered::default()),
                Output::Directory(directory) => match Gathered::create(directory, name) {
                    Ok(file) => {
                        let own = file.path.file_name().is_some_and(|file| file == name);
                        taken = (!own).then(|| file.path.display().to_string());
                        Stream::File(file)
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

    pub(super) fn len(&self) -> usize {
        self.streams.len()
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
            Some(Stream::Failed(_)) => Written {
                failed_packets: 1,
                failed_bytes: payload.len() as u64,
                ..Written::default()
            },
            Some(Stream::Nowhere) | None => Written::whole(payload),
        }
    }

    /// Bytes that will not come.
    pub(super) fn lost(&mut self, range: &LostRange) -> Written {
        match self.streams.get_mut(usize::from(range.sender)) {
            Some(Stream::File(file)) => {
                let line = writeln!(file.lost, "{},{}", range.offset, range.bytes);
                if let Err(error) = line {
                    file.failed.get_or_insert(error);
                }
                Written::default()
            }
            Some(Stream::Ordered(ordered)) => ordered.skip(range.offset, range.bytes),
            Some(Stream::Heaps(heaps)) => {
                heaps.lost(range.offset, range.bytes);
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
                    Stream::File(file) => file.flush(),
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
        self.streams.iter().find_map(|stream| match stream {
            Stream::File(file) => file
                .failed
                .as_ref()
                .map(|error| format!("writing {}: {error}", file.path.display())),
            Stream::Ordered(ordered) => ordered
                .failed
                .as_ref()
                .map(|error| format!("writing to standard output: {error}")),
            Stream::Failed(why) => Some(why.clone()),
            Stream::Heaps(heaps) => heaps.failed.clone(),
            Stream::Nowhere => None,
        })
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

    /// The heaps of this place's stream are complete, if there are any.
    fn end_heaps(&mut self, sender: usize, sent: Option<u64>) {
        if let Some(Stream::Heaps(heaps)) = self.streams.get_mut(sender) {
            let handed_on = heaps.finish(sent);
            if let (Some(tally), Some(place)) =
                (self.heaps.get_mut(sender), self.handed_on.get_mut(sender))
            {
                tally.add(&heaps.became());
                *place = handed_on;
            }
        }
    }

    /// The end: lists are complete, and what waits for its turn is written. Each sender may have said how many heaps it sent.
    pub(super) fn finish(&mut self, heaps_sent: &[Option<u64>]) -> Vec<(u16, Written)> {
        for (sender, sent) in heaps_sent.iter().enumerate() {
            self.end_heaps(sender, *sent);
        }
        let mut written = self.flush();
        for (sender, stream) in self.streams.iter_mut().enumerate() {
            match stream {
                Stream::File(file) => {
                    if let Err(error) = file.lost.flush() {
                        file.failed.get_or_insert(error);
                    }
                }
                Stream::Ordered(ordered) => written.push((sender as u16, ordered.finish())),
                Stream::Nowhere | Stream::Failed(_) | Stream::Heaps(_) => {}
            }
        }
        written
    }
}

/// Names that are tried for one sender.
const NAMES_MAX: u32 = 10_000;

/// Makes a file under a name that is free: nothing is ever written over.
fn create_free(directory: &Path, plain: &str) -> Result<(PathBuf, File), TdmError> {
    let mut number = 0;
    loop {
        let path = match number {
            0 => directory.join(plain),
            _ => directory.join(format!("{plain}.{number}")),
        };
        let made = File::options().write(true).create_new(true).open(&path);
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < NAMES_MAX => {
                number += 1;
            }
            made => {
                return Ok((
                    path.clone(),
                    made.map_err(TdmError::file("creating", path))?,
                ));
            }
        }
    }
}

impl Gathered {
    /// The sender's file and its list.
    fn create(directory: &Path, name: &str) -> Result<Self, TdmError> {
        let (path, file) = create_free(directory, &file_name(name))?;
        let list = PathBuf::from(format!("{}.lost.csv", path.display()));
        let lost = File::create_new(&list).map_err(TdmError::file("creating", &list))?;
        let mut lost = BufWriter::new(lost);
        writeln!(lost, "offset_bytes,length_bytes").map_err(TdmError::file("writing", list))?;
        Ok(Self {
            path,
            file,
            bytes: Vec::with_capacity(GATHER_BYTES),
            packets: 0,
            at: 0,
            lost,
            failed: None,
        })
    }

    fn write(&mut self, offset: u64, payload: &[u8]) -> Written {
        let end = self.at + self.bytes.len() as u64;
        let full = self.bytes.len() + payload.len() > GATHER_BYTES;
        let mut written = Written::default();
        if offset != end || full {
            written = self.flush();
            self.at = offset;
        }
        // The one copy of the payload here: out of the receive buffer, which is used again.
        self.bytes.extend_from_slice(payload);
        self.packets += 1;
        written
    }

    fn flush(&mut self) -> Written {
        let (packets, bytes) = (std::mem::take(&mut self.packets), self.bytes.len() as u64);
        if bytes == 0 {
            return Written::default();
        }
        let done = self.file.write_all_at(&self.bytes, self.at);
        self.at += bytes;
        self.bytes.clear();
        Written::of(done, packets, bytes, &mut self.failed)
    }
}

impl Ordered {
    fn write(&mut self, offset: u64, payload: &[u8]) -> Written {
        if offset != self.next {
            self.waiting.insert(offset, payload.to_vec());
            return Written::default();
        }
        let mut written = self.put(payload, 1);
        self.go_on(&mut written);
        written
    }

    /// What waited for the bytes that are there now.
    fn go_on(&mut self, written: &mut Written) {
        while let Some(entry) = self.waiting.first_entry() {
            if *entry.key() != self.next {
                break;
            }
            let payload = entry.remove();
            add(written, self.put(&payload, 1));
        }
    }

    /// Zeroes stand for what is lost.
    fn skip(&mut self, offset: u64, bytes: u64) -> Written {
        let mut written = Written::default();
        if offset != self.next {
            // The holes of a stream are told in order; before this one is data that waits for another.
            return written;
        }
        let zeroes = [0; 4096];
        let mut left = bytes;
        while left > 0 {
            let part = left.min(zeroes.len() as u64);
            self.put(zeroes.get(..part as usize).unwrap_or_default(), 0);
            left -= part;
        }
        self.go_on(&mut written);
        written
    }

    fn put(&mut self, bytes: &[u8], packets: u64) -> Written {
        self.next += bytes.len() as u64;
        let length = if packets == 0 { 0 } else { bytes.len() as u64 };
        let done = match &self.failed {
            None => io::stdout().lock().write_all(bytes),
            Some(_) => Err(io::Error::other("it has failed before")),
        };
        Written::of(done, packets, length, &mut self.failed)
    }

    fn finish(&mut self) -> Written {
        let mut written = Written::default();
        while let Some((offset, payload)) = self.waiting.pop_first() {
            let hole = offset.saturating_sub(self.next);
            self.skip(self.next, hole);
            add(&mut written, self.put(&payload, 1));
        }
        if let Err(error) = io::stdout().lock().flush() {
            self.failed.get_or_insert(error);
        }
        written
    }
}

fn add(sum: &mut Written, more: Written) {
    sum.packets += more.packets;
    sum.bytes += more.bytes;
    sum.failed_packets += more.failed_packets;
    sum.failed_bytes += more.failed_bytes;
}

#[cfg(test)]
mod tests;
