//! The reading end.

use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::bell::{Notifier, Waiter};
use crate::error::{PeerFault, RingError};
use crate::index::Head;
use crate::record::{Carried, HEADER_BYTES, Header, RECORD_ALIGN, Record, record_bytes};
use crate::set::{RingParts, Side, map_side};
use crate::spec::RingSetSpec;
use crate::view::View;

/// The consumer's side of a set. The rings may be moved out to threads; so may the two bells (the notifier can be cloned).
#[derive(Debug)]
pub struct Consumers {
    /// The rings, in the order of the set's shape.
    pub rings: Vec<Consumer>,
    /// Rings for the producer: space is free.
    pub space: Notifier,
    /// Wakes this side: data is ready.
    pub data: Waiter,
}

impl Consumers {
    /// Maps what [`crate::RingSetMemory::consumer_fds`] gave, after checking size and seals of each file. The rings stand where this side's own
    /// page says that they were released; a restarted stage calls [`Consumer::resume`] with the position from its book.
    ///
    /// A second consumer of the same set is refused while any ring of the first one lives, in this process or in another.
    pub fn map(spec: &RingSetSpec, fds: Vec<OwnedFd>) -> Result<Self, RingError> {
        let parts = map_side(spec, fds, Side::Consumer)?;
        let rings = parts
            .rings
            .into_iter()
            .map(|ring| Consumer::new(ring, spec.record_bytes_max))
            .collect();
        Ok(Consumers {
            rings,
            space: parts.notifier,
            data: parts.waiter,
        })
    }

    /// One ring.
    pub fn ring(&mut self, ring: usize) -> Option<&mut Consumer> {
        self.rings.get_mut(ring)
    }

    /// After a batch of releases: signals the producer if it asked for it.
    pub fn notify_space(&self) -> bool {
        self.space.notify()
    }

    /// Asks to be signalled when data is published; look at the rings again before sleeping.
    pub fn prepare_wait(&self) {
        self.data.prepare();
    }

    /// Awake again.
    pub fn finish_wait(&self) {
        self.data.finish();
    }

    /// Sleeps until a ring has something new (records, the end of the stream, a fault), or the time is over. Says whether one has.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, RingError> {
        self.data.prepare();
        let has_news = self
            .rings
            .iter()
            .any(|ring| ring.has_news(ring.is_closed()));
        let slept = if has_news {
            Ok(true)
        } else {
            self.data.sleep(timeout)
        };
        self.data.finish();
        slept?;
        Ok(self.rings.iter_mut().any(Consumer::take_news))
    }

    /// Rings that are in the error state.
    pub fn poisoned(&self) -> usize {
        self.rings
            .iter()
            .filter(|ring| ring.fault.is_some())
            .count()
    }
}

/// The reading end of one ring. Two cursors: what was read (private), and what was released (the producer may overwrite it).
#[derive(Debug)]
pub struct Consumer {
    head: Head,
    mask: u64,
    parts: RingParts,
    record_bytes_max: u32,
    carried: Carried,
    /// Where the newest record that was counted ends.
    counted_to: u64,
    fault: Option<PeerFault>,
    refused_calls: u64,
    end_told: bool,
}

impl Consumer {
    fn new(parts: RingParts, record_bytes_max: u32) -> Self {
        let head = Head::new(parts.capacity, &parts.own);
        Consumer {
            counted_to: head.read(),
            head,
            mask: parts.capacity - 1,
            parts,
            record_bytes_max,
            carried: Carried::default(),
            fault: None,
            refused_calls: 0,
            end_told: false,
        }
    }

    /// The next published record, if any; moves the read cursor over it. After an error the ring stays in the error state.
    #[allow(
        clippy::should_implement_trait,
        reason = "a record is followed by more when the producer publishes; an iterator would end"
    )]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Record>, RingError> {
        if self.head.unread() == 0 && !self.more()? {
            return Ok(None);
        }
        match self.parse() {
            Ok(record) => {
                self.head.advance(record_bytes(u64::from(record.len)));
                if record.end.wrapping_sub(self.counted_to).cast_signed() > 0 {
                    self.counted_to = record.end;
                    self.carried.add(record.meta.items, record.len);
                }
                Ok(Some(record))
            }
            Err(fault) => Err(self.poison(fault)),
        }
    }

    fn more(&mut self) -> Result<bool, RingError> {
        if let Some(fault) = self.fault {
            return Err(self.poison(fault));
        }
        match self.head.reload(&self.parts.peer) {
            Ok(()) => Ok(self.head.unread() > 0),
            Err(fault) => Err(self.poison(fault)),
        }
    }

    #[inline]
    fn parse(&self) -> Result<Record, PeerFault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let (position, available) = (self.head.read(), self.head.unread());
        if available < HEADER_BYTES {
            return Err(PeerFault::HeaderCut {
                position,
                available,
            });
        }
        let offset = (position & self.mask) as usize;
        // SAFETY: `offset < capacity` by the mask and a multiple of 32 (so is every position that the read cursor takes); the mapping has twice
        // the capacity, which is at least 64 KiB.
        let header = unsafe { Header::read(self.parts.data.base().add(offset)) };
        let Header { len, meta, .. } = header;
        if header.position != position {
            return Err(PeerFault::RecordMisplaced {
                position,
                found: header.position,
            });
        }
        if len > self.record_bytes_max {
            return Err(PeerFault::RecordTooLong {
                position,
                len,
                max: self.record_bytes_max,
            });
        }
        let bytes = record_bytes(u64::from(len));
        if bytes > available {
            return Err(PeerFault::RecordBeyondTail {
                position,
                len,
                available,
            });
        }
        Ok(Record {
            position: position.wrapping_add(HEADER_BYTES),
            len,
            meta,
            end: position.wrapping_add(bytes),
        })
    }

    #[cold]
    fn poison(&mut self, fault: PeerFault) -> RingError {
        self.fault = Some(fault);
        self.refused_calls += 1;
        RingError::Peer {
            ring: self.parts.ring,
            fault,
        }
    }

    /// The bytes `[position, position + len)`; `None` unless all of them lie between the released position and the read cursor.
    #[inline]
    pub fn view(&self, position: u64, len: usize) -> Option<View<'_>> {
        if !self.head.holds(position, len as u64) {
            return None;
        }
        let offset = (position & self.mask) as usize;
        // SAFETY: `offset < capacity` by the mask and `len <= capacity` (the read cursor is never further from the released position), so the
        // range lies in the doubled mapping, which lives as long as `self` is borrowed.
        Some(unsafe { View::new(self.parts.data.base().add(offset), len) })
    }

    /// Gives everything before `position`, the end of a record, back to the producer. `false`, and nothing done, if it is not between the
    /// released position and the read cursor, or no record can end there.
    pub fn release(&mut self, position: u64) -> bool {
        position.is_multiple_of(RECORD_ALIGN) && self.head.release(position, &self.parts.own)
    }

    /// What was read since this side was mapped, without what was read a second time after a [`Self::resume`].
    pub fn carried(&self) -> Carried {
        self.carried
    }

    /// After a restart: records up to `position` are in the book of a predecessor already, and are not counted again when they are read.
    pub fn count_from(&mut self, position: u64) {
        self.counted_to = position;
    }

    /// Where the next record is read.
    pub fn read_position(&self) -> u64 {
        self.head.read()
    }

    /// What was given back.
    pub fn released(&self) -> u64 {
        self.head.released()
    }

    /// After a restart: goes on at the position from this side's own book, and releases everything before it. Refused if the producer's page or
    /// this side's own do not admit the position.
    pub fn resume(&mut self, position: u64) -> Result<(), RingError> {
        let ring = self.parts.ring;
        let refused = |lowest, highest| RingError::Resume {
            ring,
            given: position,
            lowest,
            highest,
            step: RECORD_ALIGN,
        };
        if !position.is_multiple_of(RECORD_ALIGN) {
            return Err(refused(
                self.head.released(),
                self.head.released().wrapping_add(self.capacity_bytes()),
            ));
        }
        self.head
            .resume(position, &self.parts.own, &self.parts.peer)
            .map_err(|bounds| refused(bounds.lowest, bounds.highest))?;
        self.fault = None;
        Ok(())
    }

    /// Size of the ring.
    pub fn capacity_bytes(&self) -> u64 {
        self.head.capacity()
    }

    /// Bytes between what was released and what is published, as of now.
    pub fn fill_bytes(&self) -> u64 {
        let known = self.head.read().wrapping_add(self.head.unread());
        self.head
            .look(&self.parts.peer)
            .unwrap_or(known)
            .wrapping_sub(self.head.released())
    }

    /// Whether the producer has ended the stream and every record of it was read.
    pub fn is_closed(&self) -> bool {
        self.parts.peer.is_closed() && self.head.look(&self.parts.peer) == Ok(self.head.read())
    }

    /// What put this ring into the error state.
    pub fn fault(&self) -> Option<PeerFault> {
        self.fault
    }

    /// Calls of `next` that ended with an error.
    pub fn refused_calls(&self) -> u64 {
        self.refused_calls
    }

    /// Something that `next` or `is_closed` would report now and that `wait` has not reported yet.
    fn has_news(&self, closed: bool) -> bool {
        let new = if closed {
            !self.end_told
        } else {
            self.head.look(&self.parts.peer) != Ok(self.head.read())
        };
        new && self.fault.is_none()
    }

    /// As `has_news`, and an end of the stream counts as reported.
    fn take_news(&mut self) -> bool {
        let closed = self.is_closed();
        let news = self.has_news(closed);
        self.end_told = closed;
        news
    }
}
