//! The writing end.

use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::slice;
use std::time::Duration;

use crate::bell::{Notifier, Waiter};
use crate::error::{Full, PeerFault, RingError};
use crate::index::Tail;
use crate::record::{Carried, HEADER_BYTES, Header, Meta, RECORD_ALIGN, Record, record_bytes};
use crate::set::{RingParts, Side, map_side};
use crate::spec::RingSetSpec;
use crate::view::View;

/// The producer's side of a set. The rings may be moved out to threads; so may the two bells (the notifier can be cloned).
#[derive(Debug)]
pub struct Producers {
    /// The rings, in the order of the set's shape.
    pub rings: Vec<Producer>,
    /// Rings for the consumer: data is ready.
    pub data: Notifier,
    /// Wakes this side: space is free.
    pub space: Waiter,
}

impl Producers {
    /// Maps what [`crate::RingSetMemory::producer_fds`] gave, after checking size and seals of each file. The rings stand where this side's own
    /// page says that they were published; a restarted stage calls [`Producer::resume`] with the position from its book.
    ///
    /// A second producer of the same set is refused while any ring of the first one lives, in this process or in another.
    pub fn map(spec: &RingSetSpec, fds: Vec<OwnedFd>) -> Result<Self, RingError> {
        let parts = map_side(spec, fds, Side::Producer)?;
        let rings = parts
            .rings
            .into_iter()
            .map(|ring| Producer::new(ring, spec.record_bytes_max))
            .collect();
        Ok(Producers {
            rings,
            data: parts.notifier,
            space: parts.waiter,
        })
    }

    /// One ring.
    pub fn ring(&mut self, ring: usize) -> Option<&mut Producer> {
        self.rings.get_mut(ring)
    }

    /// After a batch of publishes: signals the consumer if it asked for it.
    pub fn notify(&self) -> bool {
        self.data.notify()
    }

    /// Asks to be signalled when space is freed; look at the rings again before sleeping.
    pub fn prepare_wait_space(&self) {
        self.space.prepare();
    }

    /// Awake again.
    pub fn finish_wait_space(&self) {
        self.space.finish();
    }

    /// Sleeps until a record of `len` bytes fits into `ring`, or something else was freed, or the time is over. Says whether it fits.
    pub fn wait_space(
        &mut self,
        ring: usize,
        len: usize,
        timeout: Duration,
    ) -> Result<bool, RingError> {
        let fits = |rings: &[Producer]| {
            rings
                .get(ring)
                .is_some_and(|ring| ring.free_bytes() >= record_bytes(len as u64))
        };
        self.space.prepare();
        let slept = if fits(&self.rings) {
            Ok(true)
        } else {
            self.space.sleep(timeout)
        };
        self.space.finish();
        slept.map(|_| fits(&self.rings))
    }
}

/// The writing end of one ring.
#[derive(Debug)]
pub struct Producer {
    tail: Tail,
    mask: u64,
    parts: RingParts,
    record_bytes_max: u32,
    carried: Carried,
    fault: Option<PeerFault>,
}

impl Producer {
    fn new(parts: RingParts, record_bytes_max: u32) -> Self {
        let tail = Tail::new(parts.capacity, &parts.own);
        Producer {
            tail,
            mask: parts.capacity - 1,
            parts,
            record_bytes_max,
            carried: Carried::default(),
            fault: None,
        }
    }

    /// Contiguous memory for a payload of up to `len` bytes, invisible to the consumer. Dropping the loan costs nothing.
    #[inline]
    pub fn reserve(&mut self, len: usize) -> Result<Loan<'_>, Full> {
        if len > self.record_bytes_max as usize {
            return Err(Full::TooLong {
                len,
                max: self.record_bytes_max,
            });
        }
        let needed_bytes = record_bytes(len as u64);
        if self.tail.free() < needed_bytes {
            self.make_room(needed_bytes)?;
        }
        let offset = (self.tail.private() & self.mask) as usize;
        // SAFETY: `offset < capacity` by the mask, and the mapping has twice the capacity.
        let at = unsafe { self.parts.data.base().add(offset) };
        Ok(Loan {
            at,
            len,
            producer: self,
        })
    }

    #[cold]
    fn make_room(&mut self, needed_bytes: u64) -> Result<(), Full> {
        if let Some(fault) = self.fault {
            return Err(Full::Peer(fault));
        }
        if let Err(fault) = self.tail.reload(&self.parts.peer) {
            self.fault = Some(fault);
            return Err(Full::Peer(fault));
        }
        let free_bytes = self.tail.free();
        if free_bytes < needed_bytes {
            Err(Full::NoSpace {
                needed_bytes,
                free_bytes,
            })
        } else {
            Ok(())
        }
    }

    /// Position after the last commit: what belongs into the book before `publish`.
    pub fn position(&self) -> u64 {
        self.tail.private()
    }

    /// Shows the consumer everything committed. First commit the book that holds [`Self::position`], then publish, then notify.
    #[inline]
    pub fn publish(&mut self) {
        self.tail.publish(&self.parts.own);
    }

    /// The records from `from` up to the private position, as this side finds them in its own memory: what a consumer that is gone, or
    /// does not get on, has left. Ends early where there is no record.
    pub fn written_since(&self, from: u64) -> impl Iterator<Item = Record> {
        let mut position = from;
        std::iter::from_fn(move || {
            let record = self.record_at(position)?;
            position = record.end;
            Some(record)
        })
    }

    fn record_at(&self, position: u64) -> Option<Record> {
        let left = self.position().wrapping_sub(position);
        let in_ring = (HEADER_BYTES..=self.capacity_bytes()).contains(&left);
        if !in_ring || !position.is_multiple_of(RECORD_ALIGN) {
            return None;
        }
        let offset = (position & self.mask) as usize;
        // SAFETY: `offset < capacity` by the mask and a multiple of 32, and the mapping has twice the capacity.
        let header = unsafe { Header::read(self.parts.data.base().add(offset)) };
        let bytes = record_bytes(u64::from(header.len));
        let is_record =
            header.position == position && header.len <= self.record_bytes_max && bytes <= left;
        is_record.then(|| Record {
            position: position.wrapping_add(HEADER_BYTES),
            len: header.len,
            meta: header.meta,
            end: position.wrapping_add(bytes),
        })
    }

    /// The bytes of a record that [`Self::written_since`] found; `None` if no record of this ring can be so long.
    pub fn view(&self, record: &Record) -> Option<View<'_>> {
        if u64::from(record.len) > self.capacity_bytes() {
            return None;
        }
        let offset = (record.position & self.mask) as usize;
        // SAFETY: `offset < capacity` by the mask and `len <= capacity`, so the range lies in the doubled mapping, which lives as long as `self` is borrowed.
        Some(unsafe { View::new(self.parts.data.base().add(offset), record.len as usize) })
    }

    /// What was committed since this side was mapped: what belongs into the book beside [`Self::position`].
    pub fn carried(&self) -> Carried {
        self.carried
    }

    /// What the consumer may see.
    pub fn published(&self) -> u64 {
        self.tail.published()
    }

    /// After a restart: goes on at the position from this side's own book, reopens the stream and publishes. Records that were committed to
    /// the ring but not to the book are overwritten. Refused if the consumer's page or this side's own do not admit the position.
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
                self.tail.published(),
                self.tail.published().wrapping_add(self.capacity_bytes()),
            ));
        }
        self.tail
            .resume(position, &self.parts.own, &self.parts.peer)
            .map_err(|bounds| refused(bounds.lowest, bounds.highest))?;
        self.fault = None;
        Ok(())
    }

    /// Size of the ring.
    pub fn capacity_bytes(&self) -> u64 {
        self.tail.capacity()
    }

    /// Bytes between what the consumer has released and what is committed, as of now.
    pub fn fill_bytes(&self) -> u64 {
        self.tail
            .look(&self.parts.peer)
            .map_or(self.capacity_bytes() - self.tail.free(), |head| {
                self.position().wrapping_sub(head)
            })
    }

    /// Bytes that are free as of now.
    pub fn free_bytes(&self) -> u64 {
        self.capacity_bytes() - self.fill_bytes()
    }

    /// What made this ring distrust its consumer.
    pub fn fault(&self) -> Option<PeerFault> {
        self.fault
    }

    /// Marks the end of the stream, after the last publish. `resume` opens it again.
    pub fn close(&mut self) {
        self.parts.own.close();
    }
}

/// Memory for one record, lent to its writer.
#[derive(Debug)]
pub struct Loan<'a> {
    at: NonNull<u8>,
    len: usize,
    producer: &'a mut Producer,
}

impl<'a> Loan<'a> {
    /// Makes the first `len_used` bytes (at most the loan's length) a record and returns the new private position.
    #[inline]
    pub fn commit(self, len_used: usize, meta: Meta) -> u64 {
        let len = len_used.min(self.len);
        let header = Header {
            len: len as u32,
            meta,
            position: self.producer.tail.private(),
        };
        // SAFETY: `reserve` has shown that header and payload are free and inside the mapping; positions are multiples of 32.
        unsafe { header.write(self.at) };
        self.producer.tail.advance(record_bytes(len as u64));
        self.producer.carried.add(meta.items, len as u32);
        self.producer.tail.private()
    }

    /// The memory for as long as the producer is borrowed, to be filled piece by piece: what is written here stays until a record is
    /// committed, so the same bytes are lent again by the next `reserve`.
    #[inline]
    pub fn into_slice(self) -> &'a mut [u8] {
        // SAFETY: as in `deref_mut`; the producer stays borrowed for the lifetime of the slice.
        unsafe { slice::from_raw_parts_mut(self.payload().as_ptr(), self.len) }
    }

    #[inline]
    fn payload(&self) -> NonNull<u8> {
        // SAFETY: the loan has `HEADER_BYTES + len` bytes.
        unsafe { self.at.add(HEADER_BYTES as usize) }
    }
}

// SAFETY: a loan is a unique borrow of a `Producer`, which is `Send`, and of memory that only that producer writes.
unsafe impl Send for Loan<'_> {}

impl Deref for Loan<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: these bytes are free: the only producer is borrowed by `self`, the consumer holds a read-only mapping and does not read them.
        unsafe { slice::from_raw_parts(self.payload().as_ptr(), self.len) }
    }
}

impl DerefMut for Loan<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed uniquely.
        unsafe { slice::from_raw_parts_mut(self.payload().as_ptr(), self.len) }
    }
}
