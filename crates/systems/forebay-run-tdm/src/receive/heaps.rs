//! Heaps of one sender: whole ones are written or handed on as messages, the others are listed, and each is counted.

mod hand_on;
mod records;

use std::fs::File;
use std::io::Write;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};

use forebay_ledger::{DropReason, OneOf, PerReason, reasons};
use forebay_run_net::NetRecord;
use forebay_sys::watched::WatchedFile;
use forebay_tdm::heaps::{Event, Heap, Joiner, Why};

use super::super::TdmError;
use super::found::{Found, Kind};
use super::lines::Lines;
use hand_on::HandOn;
use records::{Out, Records};

/// Heaps, and bytes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) heaps: u64,
    pub(super) bytes: u64,
}

impl AddAssign for Sum {
    fn add_assign(&mut self, more: Self) {
        self.add(more.heaps, more.bytes);
    }
}

impl Sum {
    pub(super) const fn add(&mut self, heaps: u64, bytes: u64) {
        self.heaps += heaps;
        self.bytes += bytes;
    }
}

reasons! {
    /// Why heaps that are whole do not get further.
    pub(super) enum Unplaced {
        /// Those that take them take them too slowly.
        OutputFull = "output_full",
        /// They are longer than those that take them take.
        TooLong = "too_long",
        /// The disk, or the program that takes them, took them not.
        NotWritten = "not_written",
    }
}

/// Why heaps are dropped: by the engine, and by what they are handed to.
pub(super) type HeapDrop = OneOf<Why, Unplaced>;

/// What has become of heaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeapTally {
    /// Heard of.
    pub(super) sent: Sum,
    /// Written, or handed on.
    pub(super) whole: Sum,
    pub(super) dropped: PerReason<HeapDrop, Sum, { HeapDrop::COUNT }>,
    /// Packets that were not pieces to their end.
    pub(super) broken_packets: u64,
}

impl HeapTally {
    fn drop(&mut self, why: Unplaced, heaps: u64, bytes: u64) {
        self.dropped[OneOf::Second(why)].add(heaps, bytes);
    }

    /// Those that are whole or dropped.
    #[cfg(test)]
    fn ended(&self) -> Sum {
        let mut all = self.whole;
        all += self.dropped.total();
        all
    }

    pub(super) fn add(&mut self, more: &Self) {
        self.sent += more.sent;
        self.whole += more.whole;
        self.broken_packets += more.broken_packets;
        self.dropped.add(&more.dropped);
    }
}

/// Where whole heaps go.
enum To {
    /// They are counted alone.
    Nowhere,
    /// A file or standard output: each as one piece.
    Records(Records),
    /// Messages for somebody else.
    Messages(HandOn),
}

/// The heaps of one start of a sender.
pub(super) struct HeapStream {
    joiner: Joiner,
    to: To,
    /// What it is called in errors.
    name: String,
    list: Option<Lines>,
    /// The list has lines that its file has not.
    is_behind: bool,
    /// Those that were not written one behind the other are one line of the list: their first, how many, and bytes.
    unlisted: Option<(u64, Sum)>,
    tally: HeapTally,
    pub(super) failed: Option<String>,
}

impl HeapStream {
    fn to(to: To, name: String) -> Self {
        Self {
            joiner: Joiner::default(),
            to,
            name,
            list: None,
            is_behind: false,
            unlisted: None,
            tally: HeapTally::default(),
            failed: None,
        }
    }

    pub(super) fn nowhere() -> Self {
        Self::to(To::Nowhere, String::new())
    }

    /// Onto a pipe or whatever else takes them in order.
    pub(super) fn stream(name: &str, out: Box<dyn Write + Send>) -> Self {
        Self::to(To::Records(Records::new(Out::Stream(out))), name.to_owned())
    }

    /// Into a file, with the list of those that are missing beside it.
    pub(super) fn file(path: &Path, file: File) -> Result<Self, TdmError> {
        let list_path = PathBuf::from(format!("{}.lost.csv", path.display()));
        let list = File::create_new(&list_path).map_err(TdmError::file("creating", &list_path))?;
        let list = Lines::new(list, &list_path, "heap,heaps,bytes,missing_bytes,why\n");
        let list = list.map_err(TdmError::file("writing", list_path))?;
        let out = Out::File(WatchedFile::of(file, path));
        let name = path.display().to_string();
        Ok(Self {
            list: Some(list),
            ..Self::to(To::Records(Records::new(out)), name)
        })
    }

    /// As messages to an address.
    pub(super) fn messages(address: &str) -> Result<Self, TdmError> {
        let hand_on = HandOn::connect(address)?;
        Ok(Self::to(To::Messages(hand_on), address.to_owned()))
    }

    /// The same sender begins anew: its messages go where those before went. False when they do not go there.
    pub(super) fn begin_anew(&mut self, address: &str) -> bool {
        if !matches!(self.to, To::Messages(_)) || self.name != address {
            return false;
        }
        self.joiner.finish(None);
        self.settle();
        self.tally.broken_packets += self.joiner.broken_packets;
        self.joiner = Joiner::default();
        true
    }

    /// A packet's payload came for the first time.
    pub(super) fn write(&mut self, offset: u64, payload: &[u8]) {
        self.joiner.handle_packet(offset, payload);
        self.settle();
    }

    /// Bytes of the stream that will not come.
    pub(super) fn lost(&mut self, offset: u64, bytes: u64) {
        self.joiner.handle_lost(offset, bytes);
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(event) = self.joiner.poll() {
            match event {
                Event::Heard { heaps, bytes } => self.tally.sent.add(heaps, bytes),
                Event::Whole {
                    heap,
                    tag,
                    status,
                    bytes,
                } => {
                    let whole = Heap { tag, status, bytes };
                    self.hand_on(heap, whole);
                }
                Event::Dropped {
                    heap,
                    heaps,
                    bytes,
                    missing_bytes,
                    why,
                } => {
                    self.tally.dropped[OneOf::First(why)].add(heaps, bytes);
                    self.list(heap, heaps, bytes, missing_bytes, why.name());
                }
            }
        }
    }

    fn hand_on(&mut self, number: u64, heap: Heap) {
        let bytes = heap.bytes.len() as u64;
        match &mut self.to {
            To::Nowhere => self.tally.whole.add(1, bytes),
            To::Records(records) => {
                if records.give(number, &heap) {
                    self.flush_records();
                }
            }
            To::Messages(hand_on) => {
                if !hand_on.give(heap) {
                    self.tally.drop(Unplaced::OutputFull, 1, bytes);
                    self.list(number, 1, bytes, 0, Unplaced::OutputFull.name());
                }
            }
        }
    }

    fn list(&mut self, heap: u64, heaps: u64, bytes: u64, missing_bytes: u64, why: &str) {
        let Some(list) = &mut self.list else {
            return;
        };
        self.is_behind = true;
        let written = write!(list, "{heap},{heaps},{bytes},{missing_bytes},{why}");
        if let Err(error) = written.and_then(|()| list.end_line()) {
            self.failed
                .get_or_insert(format!("listing heaps of {}: {error}", self.name));
        }
    }

    /// What has become of heaps since it was last asked.
    pub(super) fn became(&mut self) -> HeapTally {
        if let To::Messages(hand_on) = &mut self.to {
            hand_on.became(&mut self.tally);
            if let Some(error) = hand_on.failure() {
                self.failed.get_or_insert(error);
            }
        }
        self.tally.broken_packets += std::mem::take(&mut self.joiner.broken_packets);
        std::mem::take(&mut self.tally)
    }

    /// Heaps that lie here now: they wait for pieces, for the next flush, or for room with the receiver of messages.
    pub(super) fn held(&self) -> Sum {
        let mut held = Sum {
            heaps: self.joiner.waiting(),
            bytes: self.joiner.waiting_bytes(),
        };
        let behind = match &self.to {
            To::Nowhere => Sum::default(),
            To::Records(records) => records.held(),
            To::Messages(hand_on) => hand_on.held(),
        };
        held.add(behind.heaps, behind.bytes);
        held
    }

    /// What is known to be missing stands in the list, also when this process is killed.
    fn flush_list(&mut self) {
        self.list_unwritten();
        if let Some(list) = self.list.as_mut().filter(|_| self.is_behind) {
            match list.flush() {
                Ok(()) => self.is_behind = false,
                Err(error) => {
                    self.failed
                        .get_or_insert(format!("listing heaps of {}: {error}", self.name));
                }
            }
        }
    }

    /// What somebody did to file and list.
    pub(super) fn look(&mut self, found: &mut Found) {
        if let To::Records(records) = &mut self.to {
            records.look(found);
        }
        if let Some(list) = &mut self.list {
            found.add(Kind::Lines, list.look(), list.notes());
        }
    }

    /// What is gathered is written, and counts as whole as far as it was taken; the list is on the disk.
    pub(super) fn flush(&mut self) {
        self.flush_records();
        self.flush_list();
    }

    fn flush_records(&mut self) {
        let To::Records(records) = &mut self.to else {
            return;
        };
        let flushed = records.flush();
        for given in &flushed.written {
            self.tally.whole.add(1, given.bytes);
        }
        if let Some(error) = flushed.error {
            self.failed
                .get_or_insert(format!("writing {}: {error}", self.name));
        }
        for given in &flushed.not_written {
            self.tally.drop(Unplaced::NotWritten, 1, given.bytes);
            match &mut self.unlisted {
                Some((first, sum)) if *first + sum.heaps == given.heap => sum.add(1, given.bytes),
                _ => {
                    self.list_unwritten();
                    let mut sum = Sum::default();
                    sum.add(1, given.bytes);
                    self.unlisted = Some((given.heap, sum));
                }
            }
        }
    }

    fn list_unwritten(&mut self) {
        if let Some((first, sum)) = self.unlisted.take() {
            self.list(first, sum.heaps, sum.bytes, 0, Unplaced::NotWritten.name());
        }
    }

    /// Nothing more comes; `heaps` were sent, if its sender has said so. What the end of messaging has to say, where there is one.
    pub(super) fn finish(&mut self, heaps: Option<u64>) -> Option<NetRecord> {
        self.joiner.finish(heaps);
        self.settle();
        self.flush();
        match &mut self.to {
            To::Messages(hand_on) => hand_on.end(),
            To::Nowhere | To::Records(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_whole_nor_dropped_lies_here() {
        let piece = |heap, offset: u32, bytes: &[u8]| {
            let piece = forebay_wire::heap::Piece {
                heap,
                tag: 1,
                status: 0,
                heap_bytes: 6,
                offset,
                bytes,
            };
            [&piece.head()[..], bytes].concat()
        };
        let mut stream = HeapStream::stream("a pipe", Box::new(std::io::sink()));
        let mut all = HeapTally::default();
        let mut ended = |stream: &mut HeapStream| {
            all.add(&stream.became());
            let (ended, held) = (all.ended(), stream.held());
            let both = (ended.heaps + held.heaps, ended.bytes + held.bytes);
            assert_eq!(both, (all.sent.heaps, all.sent.bytes), "{all:?}");
            (ended.heaps, held.heaps, held.bytes)
        };
        stream.write(0, &piece(0, 0, b"whole!"));
        assert_eq!(ended(&mut stream), (0, 1, 6), "for the next flush");
        stream.write(100, &piece(1, 0, b"abc"));
        // Of number 2 nothing has come.
        stream.write(200, &piece(3, 3, b"def"));
        assert_eq!(ended(&mut stream), (0, 4, 18));
        stream.flush();
        assert_eq!(ended(&mut stream), (1, 3, 12));
        stream.lost(140, 30);
        assert_eq!(ended(&mut stream), (2, 2, 6), "number 1 has a hole");
        stream.write(300, &piece(3, 0, b"abc"));
        assert_eq!(ended(&mut stream), (2, 2, 6));
        stream.finish(Some(6));
        assert_eq!(ended(&mut stream), (6, 0, 0));
    }

    #[test]
    fn heaps_on_a_full_disk_are_not_whole_and_are_listed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.heaps");
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut stream = HeapStream::file(&path, full).unwrap();
        let mut offset = 0;
        for heap in 0..3 {
            let piece = forebay_wire::heap::Piece {
                heap,
                tag: 1,
                status: 0,
                heap_bytes: 4,
                offset: 0,
                bytes: b"abcd",
            };
            let packet = [&piece.head()[..], piece.bytes].concat();
            stream.write(offset, &packet);
            offset += packet.len() as u64;
        }
        let came = stream.became();
        assert_eq!((came.sent.heaps, came.whole.heaps), (3, 0));
        assert_eq!(came.dropped, PerReason::default());
        assert_eq!(stream.held(), came.sent);
        stream.flush();
        assert_eq!(stream.held(), Sum::default());
        stream.finish(Some(4));
        let ended = stream.became();
        assert_eq!(ended.whole, Sum::default());
        let dropped = |why: HeapDrop| (ended.dropped[why].heaps, ended.dropped[why].bytes);
        assert_eq!(dropped(OneOf::Second(Unplaced::NotWritten)), (3, 12));
        assert_eq!(
            (ended.sent.heaps, dropped(OneOf::First(Why::Lost))),
            (1, (1, 0))
        );
        assert!(stream.failed.is_some_and(|why| why.contains("a.heaps")));
        let list = std::fs::read_to_string(directory.path().join("a.heaps.lost.csv")).unwrap();
        let lines: Vec<&str> = list.lines().skip(1).collect();
        assert!(lines.contains(&"0,3,12,0,not_written"), "{list}");
        assert_eq!(lines.len(), 2, "{list}");
    }
}
