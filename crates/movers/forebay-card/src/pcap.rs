//! Files as a card: the frames of a capture come as fast as they are read, and what goes is written to another one.
//!
//! A file that is broken gives what stands before the break, and then an error. A full disk is no lack of room: what it does not take is given up, by name.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use forebay_link::pcap::Frames;
use forebay_mux::{Items, Mac};
use forebay_sys::clock;
use forebay_sys::eventfd::EventFd;
use forebay_wire::pcap::{file_header, packet_header};

use super::account::{CardInDrop, CardOutDrop, InDrops, ReceiveCounts, SendCounts};
use super::fates::Fates;
use super::{
    Card, CardState, Driver, DriverError, FRAME_BYTES_MAX, FRAME_BYTES_MIN, Fate, Fill, Flushed,
    Link, LinkCounts, ReceiveSide, SendSide, Sent,
};

/// Most frames that the driver has taken, and the file not yet.
const BATCH_FRAMES_MAX: u64 = 64;
/// Of the link types at tcpdump.org/linktypes.html.
const ETHERNET: i32 = 1;
const MTU_BYTES: u32 = 1_500;

/// Which files, and how the card is that they stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PcapOptions {
    /// What comes: pcap or pcapng, compressed or not. Nothing comes without it.
    pub input: Option<PathBuf>,
    /// Where what goes is written, as pcap with times in ns; a file that is there is written over. Without it all is given up, as by a card without a carrier.
    pub output: Option<PathBuf>,
    /// The longest frame that comes or goes, in bytes with its header.
    pub frame_bytes_max: usize,
    /// The card's address.
    pub mac: Mac,
}

impl Default for PcapOptions {
    fn default() -> Self {
        Self {
            input: None,
            output: None,
            frame_bytes_max: FRAME_BYTES_MAX,
            mac: Mac([2, 0, 0, 0, 0, 1]),
        }
    }
}

/// Opens both files.
///
/// # Errors
/// One cannot be opened or made, or the first is no capture.
pub fn open(options: &PcapOptions) -> Result<Driver, DriverError> {
    let name = match &options.input {
        Some(path) => path.display().to_string(),
        None => "none".into(),
    };
    Ok(Driver {
        receive: Box::new(PcapReceive::open(options)?),
        send: Box::new(PcapSend::open(options)?),
        card: Box::new(PcapCard {
            name,
            mac: options.mac,
        }),
        mode: match (&options.input, &options.output) {
            (Some(_), Some(_)) => "read and write",
            (Some(_), None) => "read",
            (None, _) => "write",
        },
    })
}

/// A capture that is read.
#[derive(Debug)]
struct Input {
    path: PathBuf,
    frames: Frames,
}

#[derive(Debug)]
struct PcapReceive {
    /// None at its end.
    input: Option<Input>,
    /// Readable as long as there may be a frame.
    ready: EventFd,
    frame_bytes_max: usize,
    /// Frames that the file had, by their number there.
    came: u64,
    visited: Items,
    dropped: InDrops,
}

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> DriverError {
    let path = path.to_owned();
    |source| DriverError::File { path, source }
}

impl Input {
    fn open(path: &Path) -> Result<Self, DriverError> {
        let file = File::open(path).map_err(file_error(path))?;
        let path = path.to_owned();
        match Frames::new(file) {
            Ok(frames) => Ok(Self { path, frames }),
            Err(source) => Err(DriverError::Capture { path, source }),
        }
    }

    /// Goes to the next frame; tells whether there is one.
    fn advance(&mut self) -> Result<bool, DriverError> {
        let path = || self.path.clone();
        let is_there = self.frames.advance().map_err(|source| {
            let path = path();
            DriverError::Capture { path, source }
        })?;
        let frame = self.frames.frame();
        if is_there && frame.link_type != ETHERNET {
            return Err(DriverError::LinkType {
                path: path(),
                packet: frame.number,
                link_type: frame.link_type,
            });
        }
        Ok(is_there)
    }
}

impl PcapReceive {
    fn open(options: &PcapOptions) -> Result<Self, DriverError> {
        let input = options.input.as_deref().map(Input::open).transpose()?;
        let ready = EventFd::create()?;
        if input.is_some() {
            ready.signal();
        }
        Ok(Self {
            input,
            ready,
            frame_bytes_max: options.frame_bytes_max,
            came: 0,
            visited: Items::default(),
            dropped: InDrops::default(),
        })
    }

    fn end(&mut self) {
        self.input = None;
        self.ready.drain();
    }

    /// Visits the next frame, if it can be; none at the end.
    fn step(&mut self, visit: &mut dyn FnMut(&[u8])) -> Result<Option<bool>, DriverError> {
        let Some(input) = &mut self.input else {
            return Ok(None);
        };
        if !input.advance()? {
            return Ok(None);
        }
        let frame = input.frames.frame();
        self.came = frame.number;
        let why = if frame.wire_bytes as usize > self.frame_bytes_max {
            CardInDrop::TooLong
        } else if frame.is_cut() {
            CardInDrop::Cut
        } else {
            self.visited.add(frame.wire_bytes);
            visit(frame.bytes);
            return Ok(Some(true));
        };
        self.dropped[why] += 1;
        Ok(Some(false))
    }
}

impl ReceiveSide for PcapReceive {
    fn receive(&mut self, most: usize, visit: &mut dyn FnMut(&[u8])) -> Result<usize, DriverError> {
        let mut visited = 0;
        for _ in 0..most {
            match self.step(visit) {
                Ok(Some(was_visited)) => visited += usize::from(was_visited),
                Ok(None) => {
                    self.end();
                    break;
                }
                Err(error) => {
                    self.end();
                    return Err(error);
                }
            }
        }
        Ok(visited)
    }

    fn is_ready(&mut self) -> bool {
        self.input.is_some()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    fn settle(&mut self) {}

    fn close(&mut self) {
        self.end();
    }

    fn counts(&mut self) -> Result<ReceiveCounts, DriverError> {
        Ok(ReceiveCounts {
            came: self.came,
            visited: self.visited,
            dropped: self.dropped,
            held: 0,
            checksums_completed: 0,
        })
    }
}

/// A capture that is written, which has whole frames alone.
#[derive(Debug)]
struct Output {
    file: File,
    /// Up to here all is whole.
    whole_bytes: u64,
    /// A part of a frame could not be taken out again: nothing more is written behind it.
    is_torn: bool,
}

impl Output {
    /// Writes all of this, or nothing.
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.is_torn {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        let written = self.file.write_all(bytes);
        if written.is_ok() {
            self.whole_bytes += bytes.len() as u64;
        } else {
            // As when a disk is full: the next frames may find room again.
            let cut = self.file.set_len(self.whole_bytes);
            let back = cut.and_then(|()| self.file.seek(SeekFrom::Start(self.whole_bytes)));
            self.is_torn = back.is_err();
        }
        written
    }
}

#[derive(Debug)]
struct PcapSend {
    output: Option<Output>,
    /// Frames with their heads, as they will be in the file.
    batch: Vec<u8>,
    batch_frames: u64,
    fates: Fates,
    /// Always writable.
    room: EventFd,
    frame_bytes_max: usize,
    counts: SendCounts,
}

impl PcapSend {
    fn open(options: &PcapOptions) -> Result<Self, DriverError> {
        let create = |path: &PathBuf| {
            let mut output = Output {
                file: File::create(path).map_err(file_error(path))?,
                whole_bytes: 0,
                is_torn: false,
            };
            let head = file_header(ETHERNET as u32, options.frame_bytes_max as u32);
            output.append(&head).map_err(file_error(path))?;
            Ok::<_, DriverError>(output)
        };
        Ok(Self {
            output: options.output.as_ref().map(create).transpose()?,
            batch: Vec::new(),
            batch_frames: 0,
            fates: Fates::default(),
            room: EventFd::create()?,
            frame_bytes_max: options.frame_bytes_max,
            counts: SendCounts::default(),
        })
    }
}

impl PcapSend {
    /// Has a frame written behind the others, with its head; or nothing of it, and false.
    fn append(&mut self, bytes: usize, fill: Fill<'_>) -> bool {
        let before = self.batch.len();
        let head = packet_header(clock::realtime_ns(), bytes as u32, bytes as u32);
        self.batch.extend(head);
        let from = self.batch.len();
        self.batch.resize(from + bytes, 0);
        let is_filled = self.batch.get_mut(from..).is_some_and(fill);
        if !is_filled {
            self.batch.truncate(before);
        }
        is_filled
    }
}

impl SendSide for PcapSend {
    fn send_with(&mut self, bytes: usize, fill: Fill<'_>) -> Sent {
        let why = match bytes {
            long if long > self.frame_bytes_max => CardOutDrop::TooLong,
            short if short < FRAME_BYTES_MIN => CardOutDrop::TooShort,
            _ if !self.append(bytes, fill) => CardOutDrop::NotFilled,
            _ => {
                self.batch_frames += 1;
                self.counts.taken.add(bytes as u32);
                if self.batch_frames == BATCH_FRAMES_MAX {
                    self.flush();
                }
                return Sent::Taken;
            }
        };
        self.counts.refused[why] += 1;
        Sent::Refused(why)
    }

    fn flush(&mut self) -> Flushed {
        let frames = std::mem::take(&mut self.batch_frames);
        let written = match &mut self.output {
            Some(output) => output.append(&self.batch).map_err(|_| CardOutDrop::Other),
            None => Err(CardOutDrop::Device),
        };
        self.batch.clear();
        match written {
            Ok(()) => {
                self.counts.out += frames;
                self.fates.note(Fate::Out, frames);
            }
            Err(why) => {
                self.counts.dropped[why] += frames;
                self.fates.note(Fate::Dropped(why), frames);
            }
        }
        Flushed::All
    }

    fn fates(&mut self, told: &mut dyn FnMut(Fate)) {
        self.fates.tell(told);
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.room.as_fd()
    }

    fn counts(&mut self) -> Result<SendCounts, DriverError> {
        let mut counts = self.counts;
        counts.held = self.batch_frames;
        Ok(counts)
    }
}

#[derive(Debug)]
struct PcapCard {
    name: String,
    mac: Mac,
}

impl Card for PcapCard {
    fn name(&self) -> &str {
        &self.name
    }

    fn look(&mut self) -> CardState {
        CardState {
            link: Link::Up,
            mtu_bytes: MTU_BYTES,
            mac: self.mac,
        }
    }

    fn link_counts(&mut self) -> Result<Option<LinkCounts>, DriverError> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn written(folder: &Path, link_type: u32, frames: &[(u32, &[u8])]) -> PathBuf {
        let path = folder.join("in.pcap");
        let mut bytes = file_header(link_type, 65_535).to_vec();
        for (wire_bytes, frame) in frames {
            bytes.extend(packet_header(1_000, frame.len() as u32, *wire_bytes));
            bytes.extend_from_slice(frame);
        }
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn opened(input: Option<PathBuf>, output: Option<PathBuf>) -> Result<Driver, DriverError> {
        open(&PcapOptions {
            input,
            output,
            ..PcapOptions::default()
        })
    }

    #[test]
    fn frames_that_are_cut_or_too_long_are_counted_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let long = [1; 1_519];
        let frames: [(u32, &[u8]); 4] = [
            (60, &[1; 60]),
            (61, &[2; 60]),
            (1_519, &long),
            (60, &[3; 60]),
        ];
        let path = written(folder.path(), 1, &frames);
        let mut receive = opened(Some(path), None).unwrap().receive;
        let mut came = Vec::new();
        while receive.is_ready() {
            let visited = receive.receive(1, &mut |frame| came.push(frame[0]));
            assert!(visited.unwrap() <= 1);
        }
        assert_eq!(came, [1, 3]);
        let counts = receive.counts().unwrap();
        assert_eq!((counts.came, counts.residual()), (4, 0));
        let wanted = [(CardInDrop::Cut, 1), (CardInDrop::TooLong, 1)];
        assert_eq!(counts.dropped, wanted.into());
    }

    #[test]
    fn a_file_that_breaks_gives_what_stands_before_and_then_an_error_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path(), 1, &[(60, &[1; 60]), (60, &[2; 60])]);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let mut receive = opened(Some(path), None).unwrap().receive;
        assert_eq!(receive.receive(1, &mut |_| {}).unwrap(), 1);
        let error = receive.receive(1, &mut |_| {}).unwrap_err().to_string();
        assert!(
            error.contains("in.pcap: the file ends within packet 2"),
            "{error}"
        );
        assert_eq!(receive.receive(1, &mut |_| {}).unwrap(), 0);
        assert_eq!(receive.counts().unwrap().residual(), 0);
    }

    #[test]
    fn packets_that_are_no_frames_and_files_that_are_not_there_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path(), 101, &[(60, &[0x45; 60])]);
        let mut receive = opened(Some(path), None).unwrap().receive;
        let error = receive.receive(1, &mut |_| {}).unwrap_err().to_string();
        assert!(
            error.contains("link type 101; Ethernet (1) is expected"),
            "{error}"
        );
        let nowhere = folder.path().join("no/such");
        for (input, output) in [(Some(nowhere.clone()), None), (None, Some(nowhere))] {
            let error = opened(input, output).unwrap_err().to_string();
            assert!(error.contains("no/such"), "{error}");
        }
    }

    #[test]
    fn what_no_file_takes_is_given_up_by_name() {
        let mut send = opened(None, None).unwrap().send;
        assert_eq!(send.send(&[1; 60]), Sent::Taken);
        assert_eq!(send.flush(), Flushed::All);
        let mut full = opened(None, Some("/dev/full".into()));
        // The head of the file does not find room, either.
        assert!(full.as_mut().is_err());
        let counts = send.counts().unwrap();
        assert_eq!(
            (counts.dropped[CardOutDrop::Device], counts.residual()),
            (1, 0)
        );
    }

    #[test]
    fn frames_that_are_not_visited_are_part_of_a_batch() {
        let folder = tempfile::tempdir().unwrap();
        let long = [1; 1_519];
        let frames = [(1_519, &long[..]); 10];
        let path = written(folder.path(), 1, &frames);
        let mut receive = opened(Some(path), None).unwrap().receive;
        assert_eq!(receive.receive(4, &mut |_| panic!("visited")).unwrap(), 0);
        assert_eq!(receive.counts().unwrap().came, 4);
        assert!(receive.is_ready());
    }

    #[test]
    fn what_a_full_disk_takes_a_part_of_is_taken_out_again() {
        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
        // A file that cannot grow takes what fits into its first page, and a part of what does not.
        let flags = MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("full", flags).unwrap();
        ftruncate(&file, 8_192).unwrap();
        fcntl_add_seals(&file, SealFlags::GROW).unwrap();
        let mut output = Output {
            file: file.into(),
            whole_bytes: 0,
            is_torn: false,
        };
        output.append(&[1; 3_000]).unwrap();
        assert!(output.append(&[2; 6_000]).is_err());
        assert_eq!(output.file.metadata().unwrap().len(), 3_000);
        assert_eq!(output.file.stream_position().unwrap(), 3_000);
        assert!(!output.is_torn);
        // Where that cannot be, nothing more is written.
        output.file = File::open("/dev/null").unwrap();
        assert!(output.append(&[3; 10]).is_err());
        output.file = File::create(tempfile::tempdir().unwrap().path().join("x")).unwrap();
        assert!(output.append(&[3; 10]).is_err());
    }
}
