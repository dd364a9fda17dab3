//! Pieces into heaps.

use std::collections::{BTreeMap, VecDeque};

use forebay_ledger::reasons;
use forebay_wire::heap::{PIECE_HEAD_BYTES, Piece};

/// Heaps that may wait for pieces, and bytes of them; beyond it the oldest is given up.
const OPEN_MAX: usize = 65_536;
const OPEN_BYTES_MAX: u64 = 256 << 20;
/// Ranges of heaps of which no piece has come; beyond it the oldest counts as lost.
const UNHEARD_MAX: usize = 4096;

reasons! {
    /// Why a heap is not handed on; its name in accounts and lists.
    pub enum Why {
        /// A part of it was lost.
        Hole = "heap_with_hole",
        /// All of it was lost.
        Lost = "heap_lost",
        /// Its pieces contradict each other.
        Broken = "heap_broken",
        /// Too much waited for pieces.
        NoRoom = "no_room",
    }
}

/// What has become known of heaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// So many more are known to have been sent, and so many more bytes of heaps. Each is followed by its end: whole, or dropped.
    Heard {
        /// Heaps.
        heaps: u64,
        /// Bytes of heaps whose length has become known.
        bytes: u64,
    },
    /// One is whole.
    Whole {
        /// Its number.
        heap: u64,
        /// Its tag.
        tag: u64,
        /// Its status.
        status: u8,
        /// Its payload.
        bytes: Vec<u8>,
    },
    /// Some will never be.
    Dropped {
        /// The first.
        heap: u64,
        /// How many.
        heaps: u64,
        /// Bytes that they have together; 0 where nobody knows.
        bytes: u64,
        /// Of these, bytes that did not come.
        missing_bytes: u64,
        /// Why.
        why: Why,
    },
}

/// Joins the pieces of one stream.
#[derive(Debug, Default)]
pub struct Joiner {
    open: BTreeMap<u64, Open>,
    open_bytes: u64,
    /// Heaps of which nothing has come, by the first of each range.
    unheard: BTreeMap<u64, Unheard>,
    /// All below it are known to have been sent.
    known: u64,
    /// All of the stream below it has come, or was lost.
    settled: u64,
    events: VecDeque<Event>,
    /// Packets that were not pieces to their end.
    pub broken_packets: u64,
    /// Pieces of heaps that were done with.
    pub late_pieces: u64,
}

/// A heap that misses something.
#[derive(Debug)]
struct Open {
    tag: u64,
    status: u8,
    bytes: Vec<u8>,
    came: usize,
    /// In order, none touching another.
    parts: Vec<Part>,
}

/// What came of a heap, and where it lay in the stream.
#[derive(Clone, Copy, Debug)]
struct Part {
    from: usize,
    to: usize,
    stream_from: u64,
    stream_to: u64,
}

#[derive(Clone, Copy, Debug)]
struct Unheard {
    end: u64,
    /// They lay before this place of the stream.
    before: u64,
}

impl Open {
    /// Takes a part in; false when some of it was there.
    fn add(&mut self, part: Part, bytes: &[u8]) -> bool {
        let at = self.parts.partition_point(|other| other.to <= part.from);
        if self.parts.get(at).is_some_and(|next| next.from < part.to) {
            return false;
        }
        let Some(place) = self.bytes.get_mut(part.from..part.to) else {
            return false;
        };
        place.copy_from_slice(bytes);
        self.came += bytes.len();
        self.parts.insert(at, part);
        self.merge(at);
        if let Some(before) = at.checked_sub(1) {
            self.merge(before);
        }
        true
    }

    /// Makes one of this part and the next if they touch.
    fn merge(&mut self, at: usize) {
        if let (Some(one), Some(next)) = (self.parts.get(at), self.parts.get(at + 1).copied())
            && one.to == next.from
        {
            self.parts.remove(at + 1);
            if let Some(one) = self.parts.get_mut(at) {
                (one.to, one.stream_to) = (next.to, next.stream_to);
            }
        }
    }

    /// A byte of it lay below `settled`, and has not come.
    fn has_hole(&self, settled: u64) -> bool {
        let front = self
            .parts
            .first()
            .is_some_and(|first| first.from > 0 && first.stream_from <= settled);
        let behind = |part: &Part| part.to < self.bytes.len() && part.stream_to < settled;
        front || self.parts.iter().any(behind)
    }
}

impl Joiner {
    /// A packet's payload came, which lies at `offset` of the stream.
    pub fn handle_packet(&mut self, offset: u64, payload: &[u8]) {
        let mut rest = payload;
        while !rest.is_empty() {
            let Ok((piece, behind)) = Piece::parse(rest) else {
                // What lies behind is not looked for: the next packet begins with a piece. Zeroes fill up what has no room for one.
                let is_filler =
                    rest.len() <= PIECE_HEAD_BYTES && rest.iter().all(|byte| *byte == 0);
                self.broken_packets += u64::from(!is_filler);
                return;
            };
            let at = offset + (payload.len() - rest.len()) as u64;
            let end = offset + (payload.len() - behind.len()) as u64;
            self.piece(&piece, at, end);
            rest = behind;
        }
    }

    fn piece(&mut self, piece: &Piece<'_>, stream_from: u64, stream_to: u64) {
        let total = piece.heap_bytes as usize;
        let is_new = !self.open.contains_key(&piece.heap);
        if is_new && !self.hears(piece.heap, stream_from, u64::from(piece.heap_bytes)) {
            self.late_pieces += 1;
            return;
        }
        if is_new && piece.bytes.len() == total {
            self.events.push_back(Event::Whole {
                heap: piece.heap,
                tag: piece.tag,
                status: piece.status,
                bytes: piece.bytes.to_vec(),
            });
            return;
        }
        if is_new {
            self.open_bytes += total as u64;
            let open = Open {
                tag: piece.tag,
                status: piece.status,
                bytes: vec![0; total],
                came: 0,
                parts: Vec::new(),
            };
            self.open.insert(piece.heap, open);
        }
        let Some(open) = self.open.get_mut(&piece.heap) else {
            return;
        };
        let from = piece.offset as usize;
        let part = Part {
            from,
            to: from + piece.bytes.len(),
            stream_from,
            stream_to,
        };
        let same = (open.tag, open.status, open.bytes.len()) == (piece.tag, piece.status, total);
        if !same || !open.add(part, piece.bytes) {
            self.give_up(piece.heap, Why::Broken);
        } else if open.came == total
            && let Some(open) = self.open.remove(&piece.heap)
        {
            self.open_bytes -= total as u64;
            self.events.push_back(Event::Whole {
                heap: piece.heap,
                tag: open.tag,
                status: open.status,
                bytes: open.bytes,
            });
        }
        while (self.open.len() > OPEN_MAX || self.open_bytes > OPEN_BYTES_MAX)
            && let Some((&oldest, _)) = self.open.first_key_value()
        {
            self.give_up(oldest, Why::NoRoom);
        }
    }

    /// A heap is heard of by its first piece. False when it is done with.
    fn hears(&mut self, heap: u64, at: u64, bytes: u64) -> bool {
        if heap >= self.known {
            let heaps = heap + 1 - self.known;
            if heap > self.known {
                let unheard = Unheard {
                    end: heap,
                    before: at,
                };
                self.unheard.insert(self.known, unheard);
            }
            self.known = heap + 1;
            self.events.push_back(Event::Heard { heaps, bytes });
            self.bound_unheard();
            return true;
        }
        // One that was overtaken.
        let range = self.unheard.range(..=heap).next_back();
        let Some((&first, &range)) = range.filter(|(_, range)| heap < range.end) else {
            return false;
        };
        self.unheard.remove(&first);
        if first < heap {
            let front = Unheard {
                end: heap,
                before: at,
            };
            self.unheard.insert(first, front);
        }
        if heap + 1 < range.end {
            self.unheard.insert(heap + 1, range);
        }
        self.events.push_back(Event::Heard { heaps: 0, bytes });
        self.bound_unheard();
        true
    }

    fn bound_unheard(&mut self) {
        while self.unheard.len() > UNHEARD_MAX
            && let Some((first, range)) = self.unheard.pop_first()
        {
            self.lose(first, range.end);
        }
    }

    /// So many bytes of the stream will not come, nor anything before them that is not there.
    pub fn handle_lost(&mut self, offset: u64, bytes: u64) {
        self.settled = self.settled.max(offset.saturating_add(bytes));
        let settled = self.settled;
        let with_hole = self.open.iter().filter(|(_, open)| open.has_hole(settled));
        let with_hole: Vec<u64> = with_hole.map(|(heap, _)| *heap).collect();
        for heap in with_hole {
            self.give_up(heap, Why::Hole);
        }
        let gone = |range: &Unheard| range.before <= settled;
        let lost = self.unheard.extract_if(.., |_, range| gone(range));
        let lost: Vec<(u64, Unheard)> = lost.collect();
        for (first, range) in lost {
            self.lose(first, range.end);
        }
    }

    /// Nothing more comes. With `heaps`, that many were sent.
    pub fn finish(&mut self, heaps: Option<u64>) {
        if let Some(end) = heaps.filter(|heaps| *heaps > self.known) {
            let unheard = Unheard {
                end,
                before: u64::MAX,
            };
            self.unheard.insert(self.known, unheard);
            let heaps = end - std::mem::replace(&mut self.known, end);
            self.events.push_back(Event::Heard { heaps, bytes: 0 });
        }
        while let Some((&heap, _)) = self.open.first_key_value() {
            self.give_up(heap, Why::Hole);
        }
        while let Some((first, range)) = self.unheard.pop_first() {
            self.lose(first, range.end);
        }
    }

    fn give_up(&mut self, heap: u64, why: Why) {
        if let Some(open) = self.open.remove(&heap) {
            let bytes = open.bytes.len() as u64;
            self.open_bytes -= bytes;
            self.events.push_back(Event::Dropped {
                heap,
                heaps: 1,
                bytes,
                missing_bytes: bytes - open.came as u64,
                why,
            });
        }
    }

    fn lose(&mut self, first: u64, end: u64) {
        self.events.push_back(Event::Dropped {
            heap: first,
            heaps: end - first,
            bytes: 0,
            missing_bytes: 0,
            why: Why::Lost,
        });
    }

    /// The next thing that has become known.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Bytes of the heaps that wait for pieces; of those of which nothing has come nobody knows any.
    #[must_use]
    pub const fn waiting_bytes(&self) -> u64 {
        self.open_bytes
    }

    /// Heaps that wait for pieces, or of which nothing has come yet.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        let unheard = self.unheard.iter().map(|(first, range)| range.end - first);
        self.open.len() as u64 + unheard.sum::<u64>()
    }
}
