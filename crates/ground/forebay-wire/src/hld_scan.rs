//! Finds the events of an HLD file in bytes that come in pieces, and never stops at damage.
//!
//! The scanner holds one event at a time, whole, up to [`Scanner::with_limit`] bytes. Where the bytes do not make sense it
//! looks for the next event header that does, and says what lay between as [`Item::Broken`].
//!
//! ```
//! use forebay_wire::hld::{EventHeader, EventId};
//! use forebay_wire::hld_scan::{Ending, Item, Scanner};
//!
//! let mut scanner = Scanner::new();
//! for id in [EventId::START, EventId::data(1), EventId::STOP] {
//!     scanner.feed(&EventHeader::new(id, 1_795_289_046, 7).to_bytes());
//! }
//! scanner.finish();
//! let mut events = 0;
//! while let Some(item) = scanner.poll_item() {
//!     events += u32::from(matches!(item, Item::Event(_)));
//! }
//! assert_eq!((events, scanner.ending()), (1, Some(Ending::Clean)));
//! ```

use crate::Error;
use crate::hld::{EVENT_DECODING, EVENT_HEADER_BYTES, Event, EventHeader, EventId};
use crate::scan_buffer::ScanBuffer;
pub use crate::scan_item::{Broken, Ending, Found, Item, Reason};
use crate::subevent::{SUB_EVENT_HEADER_BYTES, SubEventHeader};
use crate::unit::{UNIT_HEADER_BYTES, round_up_8};

/// The largest event that is held in memory, unless the caller says otherwise: 256 MiB.
pub const EVENT_LIMIT_BYTES: usize = 256 << 20;

/// Sub-event headers that are looked at in vain behind one place of damage before the search takes larger steps: without a
/// limit a file made for it would cost the square of its length.
const SEARCH_LIMIT_SUB_EVENTS: u64 = 1 << 20;

/// An event that is being walked through while its bytes arrive.
#[derive(Clone, Copy, Debug)]
struct Pending {
    header: EventHeader,
    /// Where the next sub-event's header is, from the event's start.
    walk: usize,
    /// Where the last one's was.
    last: usize,
    sub_events: u32,
}

/// What one step found, as positions in the buffer.
enum Step {
    /// More bytes are needed.
    Starved,
    /// Nothing to report yet, look again.
    Again,
    Broken(Broken),
    Unit(Pending, usize),
}

/// The sans-IO reader of HLD files: `feed` bytes, `finish`, and `poll_item` until it is empty.
#[derive(Debug)]
pub struct Scanner {
    buffer: ScanBuffer,
    limit: usize,
    finished: bool,
    pending: Option<Pending>,
    /// The damage that is being skipped.
    damage: Option<(u64, Reason)>,
    /// Sub-event headers looked at in vain behind it.
    searched: u64,
    /// Run numbers that a header found after damage may have: of the start event and of the last event.
    runs: Option<(u32, u32)>,
    /// Between a start and a stop event.
    inside: bool,
    complete_end: u64,
    ending: Option<Ending>,
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

impl Scanner {
    /// A scanner that holds events of up to [`EVENT_LIMIT_BYTES`].
    pub fn new() -> Self {
        Self::with_limit(EVENT_LIMIT_BYTES)
    }

    /// A scanner that holds events of up to `event_limit_bytes`; larger ones are reported as broken.
    pub fn with_limit(event_limit_bytes: usize) -> Self {
        Self {
            buffer: ScanBuffer::default(),
            limit: event_limit_bytes,
            finished: false,
            pending: None,
            damage: None,
            searched: 0,
            runs: None,
            inside: false,
            complete_end: 0,
            ending: None,
        }
    }

    /// Takes the next bytes of the input.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.filled(bytes.len());
    }

    /// Lends room for at least `least` bytes, to read into without a further copy; [`Scanner::filled`] takes them.
    pub fn room(&mut self, least: usize) -> &mut [u8] {
        self.buffer.room(least)
    }

    /// Takes the first `count` bytes of the room lent last.
    pub fn filled(&mut self, count: usize) {
        self.buffer.filled(count);
    }

    /// Says that the input has ended; what is left is decided by [`Scanner::poll_item`].
    pub const fn finish(&mut self) {
        self.finished = true;
    }

    /// The end of the last complete event, start or stop event: a file cut here is sound.
    pub const fn complete_end(&self) -> u64 {
        self.complete_end
    }

    /// How the input ended; known when [`Scanner::poll_item`] has returned `None` after [`Scanner::finish`].
    pub const fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// The next item, or `None` when more bytes are needed or, after [`Scanner::finish`], when all is said.
    pub fn poll_item(&mut self) -> Option<Item<'_>> {
        loop {
            let step = match (self.pending, self.damage) {
                (Some(pending), _) => self.walk(pending),
                (None, Some(_)) => self.search(),
                (None, None) => self.take_header(),
            };
            match step {
                Step::Again => {}
                Step::Starved => return None,
                Step::Broken(broken) => return Some(Item::Broken(broken)),
                Step::Unit(pending, end) => return self.report(pending, end),
            }
        }
    }

    /// At a boundary: the next unit's header.
    fn take_header(&mut self) -> Step {
        let held = self.buffer.held();
        let Some(head) = held.first_chunk() else {
            return match (self.finished, held.len()) {
                (false, _) => Step::Starved,
                (true, 0) => self.end_at_boundary(),
                (true, have) => self.fail(Reason::Header(Error::Truncated {
                    need: EVENT_HEADER_BYTES,
                    have,
                })),
            };
        };
        match self.checked_header(head) {
            Ok(header) => self.start_walk(header),
            Err(reason) => self.fail(reason),
        }
    }

    /// A header within the limit; the old decoding word is a weak sign (0 and 1), so that the date must make sense too.
    fn checked_header(&self, head: &[u8; EVENT_HEADER_BYTES]) -> Result<EventHeader, Reason> {
        let header = EventHeader::parse(head).map_err(Reason::Header)?;
        let decoding = header.decoding;
        if decoding != EVENT_DECODING && !header.at().is_plausible() {
            return Err(Reason::Header(Error::NotAnEvent { decoding }));
        }
        if header.size as usize > self.limit {
            return Err(Reason::BeyondLimit {
                size: header.size,
                limit: self.limit as u64,
            });
        }
        Ok(header)
    }

    const fn start_walk(&mut self, header: EventHeader) -> Step {
        self.pending = Some(Pending {
            header,
            walk: EVENT_HEADER_BYTES,
            last: 0,
            sub_events: 0,
        });
        Step::Again
    }

    /// Goes through the sub-event headers that have arrived.
    fn walk(&mut self, mut pending: Pending) -> Step {
        let held = self.buffer.held();
        let size = pending.header.size as usize;
        let alignment = pending.header.alignment();
        while pending.walk < size {
            let room = size - pending.walk;
            let head = held.get(pending.walk..).and_then(<[u8]>::first_chunk);
            let sub_bytes = match (room < SUB_EVENT_HEADER_BYTES, head) {
                (true, _) => Err(Reason::SubEvent(Error::Leftover {
                    offset: pending.walk,
                    room,
                })),
                (false, None) => return self.await_more(pending),
                (false, Some(head)) => sub_event_bytes(head, pending.walk, room),
            };
            match sub_bytes {
                Ok(bytes) => {
                    pending.last = pending.walk;
                    pending.walk = (pending.walk + bytes).next_multiple_of(alignment);
                    pending.sub_events += 1;
                }
                Err(reason) => {
                    self.pending = Some(pending);
                    return self.fail(reason);
                }
            }
        }
        match self.unit_end(size) {
            Some(end) => self.complete(pending, end),
            None => self.await_more(pending),
        }
    }

    /// Where the next unit starts: at the size rounded up to 8, or at the plain size when only there a unit follows.
    /// `None` while bytes are missing.
    fn unit_end(&self, size: usize) -> Option<usize> {
        let held = self.buffer.held();
        let padded = round_up_8(size as u64) as usize;
        if padded == size || held.len() < size {
            return (held.len() >= size).then_some(size);
        }
        if held.len() < padded + UNIT_HEADER_BYTES {
            return self.finished.then_some(padded.min(held.len()));
        }
        let unit_at = |at: usize| {
            let word = held.get(at + 4..at + UNIT_HEADER_BYTES);
            word == Some(&EVENT_DECODING.to_le_bytes())
                || word == Some(&EVENT_DECODING.to_be_bytes())
        };
        Some(match unit_at(size) && !unit_at(padded) {
            true => size,
            false => padded,
        })
    }

    fn await_more(&mut self, pending: Pending) -> Step {
        self.pending = Some(pending);
        if !self.finished {
            return Step::Starved;
        }
        self.fail(Reason::CutInside {
            size: pending.header.size,
            have: self.buffer.held().len() as u64,
        })
    }

    /// Damage at the current position: look for the next header behind it. What is being skipped keeps its first reason.
    fn fail(&mut self, reason: Reason) -> Step {
        let offset = self.buffer.offset();
        self.damage.get_or_insert((offset, reason));
        let mut skip = 1;
        if let Some(pending) = self.pending.take() {
            self.searched += u64::from(pending.sub_events);
            if self.searched > SEARCH_LIMIT_SUB_EVENTS {
                skip = pending.last.max(1);
            }
        }
        self.buffer.consume(skip);
        Step::Again
    }

    /// Looks for the next header that makes sense.
    fn search(&mut self) -> Step {
        let held = self.buffer.held();
        let last = held.len().saturating_sub(EVENT_HEADER_BYTES - 1);
        for at in 0..last {
            if !has_event_decoding(held, at) {
                continue;
            }
            let head = held.get(at..).and_then(<[u8]>::first_chunk);
            let header = head.and_then(|head| self.checked_header(head).ok());
            if let Some(header) = header.filter(|header| self.is_plausible(header)) {
                self.buffer.consume(at);
                return self.start_walk(header);
            }
        }
        self.buffer.consume(last);
        if !self.finished {
            return Step::Starved;
        }
        self.buffer.consume(self.buffer.held().len());
        self.ending = Some(Ending::Cut);
        self.inside = false;
        self.take_damage().map_or(Step::Starved, Step::Broken)
    }

    /// Whether a header found by searching is likely to be one.
    const fn is_plausible(&self, header: &EventHeader) -> bool {
        let known_run = match self.runs {
            Some((start, last)) => header.run == start || header.run == last,
            None => true,
        };
        header.at().is_plausible() && (known_run || header.id.0 == EventId::START.0)
    }

    /// The damage up to the current position, once.
    fn take_damage(&mut self) -> Option<Broken> {
        let (offset, reason) = self.damage.take()?;
        self.searched = 0;
        Some(Broken {
            offset,
            reason,
            bytes: self.buffer.offset() - offset,
        })
    }

    /// A unit is complete: first say what was wrong before it, then hand it out.
    fn complete(&mut self, pending: Pending, end: usize) -> Step {
        self.pending = Some(pending);
        if let Some(broken) = self.take_damage() {
            return Step::Broken(broken);
        }
        if self.inside == (pending.header.id == EventId::START) {
            self.inside = !self.inside;
            return Step::Broken(Broken {
                offset: self.buffer.offset(),
                reason: match self.inside {
                    true => Reason::NoStartEvent,
                    false => Reason::NoStopEvent,
                },
                bytes: 0,
            });
        }
        Step::Unit(pending, end)
    }

    /// Moves on behind a complete unit and lends it out.
    fn report(&mut self, pending: Pending, end: usize) -> Option<Item<'_>> {
        let header = pending.header;
        let offset = self.buffer.offset();
        self.pending = None;
        self.complete_end = offset + end as u64;
        let start_run = match self.runs {
            Some((start, _)) if header.id != EventId::START => start,
            _ => header.run,
        };
        self.runs = Some((start_run, header.run));
        match header.id {
            EventId::START => self.inside = true,
            EventId::STOP => self.inside = false,
            _ => {}
        }
        let bytes = self.buffer.consume(end);
        match header.id {
            EventId::START => Some(Item::Start { offset, header }),
            EventId::STOP => Some(Item::Stop { offset, header }),
            _ => Some(Item::Event(Found {
                offset,
                event: Event::new_checked(bytes).ok()?,
                sub_events: pending.sub_events,
            })),
        }
    }

    /// The input ended behind a complete unit (or was empty): say once if the stop event is missing.
    fn end_at_boundary(&mut self) -> Step {
        if self.ending.is_some() {
            return Step::Starved;
        }
        let reason = match (self.inside, self.complete_end) {
            (true, _) => Reason::NoStopEvent,
            (false, 0) => Reason::NoStartEvent,
            (false, _) => {
                self.ending = Some(Ending::Clean);
                return Step::Starved;
            }
        };
        self.ending = Some(Ending::Boundary);
        Step::Broken(Broken {
            offset: self.buffer.offset(),
            reason,
            bytes: 0,
        })
    }
}

/// The size of a sub-event in `room` bytes of an event, or what is wrong with it.
#[inline]
fn sub_event_bytes(
    head: &[u8; SUB_EVENT_HEADER_BYTES],
    offset: usize,
    room: usize,
) -> Result<usize, Reason> {
    let header = SubEventHeader::parse(head).map_err(Reason::SubEvent)?;
    if header.decoding == EVENT_DECODING {
        return Err(Reason::EventInside {
            offset: offset as u64,
        });
    }
    if header.size as usize > room {
        return Err(Reason::SubEvent(Error::Overrun {
            offset,
            size: header.size,
            room,
        }));
    }
    Ok(header.size as usize)
}

/// Whether an event's decoding word stands where the header at `at` would have it, in either order.
#[inline]
fn has_event_decoding(held: &[u8], at: usize) -> bool {
    let word = held.get(at + 4..).and_then(<[u8]>::first_chunk::<4>);
    word.is_some_and(|&word| {
        let word = u32::from_le_bytes(word);
        word == EVENT_DECODING || word == EVENT_DECODING.swap_bytes()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of a start event, one event with one big-endian sub-event, and a stop event.
    const GOLDEN: [u8; 120] = [
        0x20, 0, 0, 0, 0x01, 0, 0x03, 0, 0x02, 0, 0x01, 0, 0, 0, 0, 0, // start
        0x15, 0x0a, 0x7e, 0, 0x06, 0x18, 0x13, 0, 0x07, 0x64, 0x7b, 0x23, 0, 0, 0, 0, //
        0x38, 0, 0, 0, 0x01, 0, 0x03, 0, 0x01, 0x20, 0, 0, 0x01, 0, 0,
        0, // 56 bytes, id 0x2001
        0x15, 0x0a, 0x7e, 0, 0x06, 0x18, 0x13, 0, 0x07, 0x64, 0x7b, 0x23, 0, 0, 0, 0, //
        0, 0, 0, 0x14, 0, 0x02, 0, 0x11, 0, 0, 0x80, 0, 0, 0, 0x0d,
        0x42, // 20 bytes of 0x8000
        0xa5, 0, 0, 0x01, 0xaa, 0xaa, 0xaa, 0xaa, // one word, padding
        0x20, 0, 0, 0, 0x01, 0, 0x03, 0, 0x03, 0, 0x01, 0, 0, 0, 0, 0, // stop
        0x15, 0x0a, 0x7e, 0, 0x08, 0x19, 0x13, 0, 0x07, 0x64, 0x7b, 0x23, 0, 0, 0, 0, //
    ];

    #[test]
    fn golden_file() {
        let mut scanner = Scanner::new();
        scanner.feed(&GOLDEN);
        scanner.finish();
        assert!(matches!(
            scanner.poll_item(),
            Some(Item::Start { offset: 0, .. })
        ));
        let Some(Item::Event(found)) = scanner.poll_item() else {
            panic!("no event");
        };
        assert_eq!((found.offset, found.sub_events), (32, 1));
        assert_eq!(found.event.as_bytes(), &GOLDEN[32..88]);
        assert!(matches!(
            scanner.poll_item(),
            Some(Item::Stop { offset: 88, .. })
        ));
        assert!(scanner.poll_item().is_none());
        assert_eq!(scanner.ending(), Some(Ending::Clean));
    }
}
