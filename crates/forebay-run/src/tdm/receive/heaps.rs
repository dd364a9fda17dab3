//! Heaps of one sender: whole ones are written or handed on as messages, the others are listed, and each is counted.

mod hand_on;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use forebay_tdm::heaps::{Event, Heap, Joiner, Why};
use forebay_wire::heap::Piece;

use super::super::TdmError;
use crate::net::NetSummary;
use hand_on::HandOn;

/// Heaps, and bytes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) heaps: u64,
    pub(super) bytes: u64,
}

impl Sum {
    pub(super) const fn add(&mut self, heaps: u64, bytes: u64) {
        self.heaps += heaps;
        self.bytes += bytes;
    }
}

/// Why heaps are dropped: those of the engine, and those of what they are handed to.
pub(super) const REASONS: [&str; 7] = [
    Why::Hole.name(),
    Why::Lost.name(),
    Why::Broken.name(),
    Why::NoRoom.name(),
    "output_full",
    "too_long",
    "not_written",
];
const OUTPUT_FULL: usize = 4;
const TOO_LONG: usize = 5;
const NOT_WRITTEN: usize = 6;

/// What has become of heaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeapTally {
    /// Heard of.
    pub(super) sent: Sum,
    /// Written, or handed on.
    pub(super) whole: Sum,
    /// As [`REASONS`] has them.
    pub(super) dropped: [Sum; REASONS.len()],
    /// Packets that were not pieces to their end.
    pub(super) broken_packets: u64,
}

impl HeapTally {
    fn drop(&mut self, reason: usize, heaps: u64, bytes: u64) {
        if let Some(sum) = self.dropped.get_mut(reason) {
            sum.add(heaps, bytes);
        }
    }

    pub(super) fn add(&mut self, more: &Self) {
        self.sent.add(more.sent.heaps, more.sent.bytes);
        self.whole.add(more.whole.heaps, more.whole.bytes);
        self.broken_packets += more.broken_packets;
        for (sum, more) in self.dropped.iter_mut().zip(&more.dropped) {
            sum.add(more.heaps, more.bytes);
        }
    }
}

/// Where whole heaps go.
enum To {
    /// They are counted alone.
    Nowhere,
    /// A file or standard output: each as one piece.
    Records(Box<dyn Write + Send>),
    /// Messages for somebody else.
    Messages(HandOn),
}

/// The heaps of one start of a sender.
pub(super) struct HeapStream {
    joiner: Joiner,
    to: To,
    /// What it is called in errors.
    name: String,
    list: Option<BufWriter<File>>,
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
            tally: HeapTally::default(),
            failed: None,
        }
    }

    pub(super) fn nowhere() -> Self {
        Self::to(To::Nowhere, String::new())
    }

    pub(super) fn stdout() -> Self {
        Self::to(
            To::Records(Box::new(BufWriter::new(io::stdout()))),
            "standard output".to_owned(),
        )
    }

    /// Into a file, with the list of those that are missing beside it.
    pub(super) fn file(path: &Path, file: File) -> Result<Self, TdmError> {
        let list_path = PathBuf::from(format!("{}.lost.csv", path.display()));
        let list = File::create_new(&list_path).map_err(TdmError::file("creating", &list_path))?;
        let mut list = BufWriter::new(list);
        writeln!(list, "heap,heaps,bytes,missing_bytes,why")
            .map_err(TdmError::file("writing", list_path))?;
        let to = To::Records(Box::new(BufWriter::with_capacity(1 << 20, file)));
        Ok(Self {
            list: Some(list),
            ..Self::to(to, path.display().to_string())
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
                    let at = Why::ALL.iter().position(|other| *other == why);
                    self.tally.drop(at.unwrap_or(0), heaps, bytes);
                    self.list(heap, heaps, bytes, missing_bytes, why.name());
                }
            }
        }
    }

    fn hand_on(&mut self, number: u64, heap: Heap) {
        let bytes = heap.bytes.len() as u64;
        match &mut self.to {
            To::Nowhere => self.tally.whole.add(1, bytes),
            To::Records(_) if self.failed.is_some() => self.tally.drop(NOT_WRITTEN, 1, bytes),
            To::Records(records) => {
                let record = Piece {
                    heap: number,
                    tag: heap.tag,
                    status: heap.status,
                    heap_bytes: heap.bytes.len() as u32,
                    offset: 0,
                    bytes: &heap.bytes,
                };
                let head = records.write_all(&record.head());
                match head.and_then(|()| records.write_all(record.bytes)) {
                    Ok(()) => self.tally.whole.add(1, bytes),
                    Err(error) => {
                        self.tally.drop(NOT_WRITTEN, 1, bytes);
                        self.failed = Some(format!("writing {}: {error}", self.name));
                    }
                }
            }
            To::Messages(hand_on) => {
                if !hand_on.give(heap) {
                    self.tally.drop(OUTPUT_FULL, 1, bytes);
                    self.list(number, 1, bytes, 0, "output_full");
                }
            }
        }
    }

    fn list(&mut self, heap: u64, heaps: u64, bytes: u64, missing_bytes: u64, why: &str) {
        let Some(list) = &mut self.list else {
            return;
        };
        if let Err(error) = writeln!(list, "{heap},{heaps},{bytes},{missing_bytes},{why}") {
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

    /// Heaps that wait for pieces: the file has the others.
    pub(super) fn flush(&mut self) {
        if let To::Records(records) = &mut self.to
            && let Err(error) = records.flush()
        {
            self.failed
                .get_or_insert(format!("writing {}: {error}", self.name));
        }
    }

    /// Nothing more comes; `heaps` were sent, if its sender has said so. What the end of messaging has to say, where there is one.
    pub(super) fn finish(&mut self, heaps: Option<u64>) -> Option<NetSummary> {
        self.joiner.finish(heaps);
        self.settle();
        self.flush();
        if let Some(list) = &mut self.list
            && let Err(error) = list.flush()
        {
            self.failed
                .get_or_insert(format!("listing heaps of {}: {error}", self.name));
        }
        match &mut self.to {
            To::Messages(hand_on) => hand_on.end(),
            To::Nowhere | To::Records(_) => None,
        }
    }
}
