//! The index protocol: two free-running positions, each written by one side, each checked by the other.
//!
//! A position counts bytes (or entries) since the beginning of the ring's life and wraps at 2⁶⁴; positions are compared by wrapping
//! subtraction. A side keeps *shadows* of all it needs in private memory (`Tail`, `Head`): the capacity, its own position and the
//! last good value of the peer's. The peer's slot is read in one place per side, and each value read is checked before it is used.
//!
//! This module is what loom checks: it is compiled as it stands against loom's atomics.

use crate::atomics::{AtomicU64, Ordering};
use crate::error::PeerFault;

/// What one side tells the other about one ring. It lies in memory that only its owner can write; 128 bytes keep adjacent-line
/// prefetch of two rings apart.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Slot {
    position: AtomicU64,
    closed: AtomicU64,
}

impl Default for Slot {
    fn default() -> Self {
        Slot {
            position: AtomicU64::new(0),
            closed: AtomicU64::new(0),
        }
    }
}

impl Slot {
    /// The owner's position as it stands: for the owner itself, which needs no order, and for gauges.
    pub fn own_position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    /// Marks the end of the stream (producer's slot).
    pub fn close(&self) {
        // SYNC POINT: pairs with the acquire load in `is_closed`: a side that sees the mark sees every position stored before it.
        self.closed.store(1, Ordering::Release);
    }

    /// Whether the end of the stream was marked. Load the position after it, not before.
    pub fn is_closed(&self) -> bool {
        // SYNC POINT: pairs with the release store in `close`.
        self.closed.load(Ordering::Acquire) != 0
    }

    fn reopen(&self) {
        // Relaxed: a mark seen late only makes the peer think once more that the stream ended, as it did before the restart.
        self.closed.store(0, Ordering::Relaxed);
    }
}

/// Why a position is not accepted for a restart: the bounds in which it must lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumeBounds {
    /// Lowest position possible.
    pub lowest: u64,
    /// Highest position possible.
    pub highest: u64,
}

impl ResumeBounds {
    fn admit(self, position: u64) -> Result<(), ResumeBounds> {
        if within(position, self.lowest, self.highest) {
            Ok(())
        } else {
            Err(self)
        }
    }
}

fn within(found: u64, lowest: u64, highest: u64) -> bool {
    found.wrapping_sub(lowest) <= highest.wrapping_sub(lowest)
}

fn check(found: u64, last: u64, limit: u64) -> Result<u64, PeerFault> {
    if within(found, last, limit) {
        Ok(found)
    } else if (found.wrapping_sub(last) as i64) < 0 {
        Err(PeerFault::IndexBackwards { found, last })
    } else {
        Err(PeerFault::IndexBeyond { found, limit })
    }
}

/// The producer's private half: where it writes, what it has published, what it knows the consumer to have freed.
#[derive(Debug)]
pub struct Tail {
    capacity: u64,
    private: u64,
    published: u64,
    head: u64,
}

impl Tail {
    /// At the position that the producer's own slot holds, with nothing free until the first `reload`.
    pub fn new(capacity: u64, own: &Slot) -> Self {
        let at = own.own_position();
        Tail {
            capacity,
            private: at,
            published: at,
            head: at.wrapping_sub(capacity),
        }
    }

    /// Size of the ring.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Where the next record goes.
    pub fn private(&self) -> u64 {
        self.private
    }

    /// What the consumer may see.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// Bytes known to be free.
    pub fn free(&self) -> u64 {
        self.capacity - self.private.wrapping_sub(self.head)
    }

    /// Looks at the consumer's slot.
    pub fn reload(&mut self, peer: &Slot) -> Result<(), PeerFault> {
        self.head = self.look(peer)?;
        Ok(())
    }

    /// The consumer's position now, checked, without taking note of it.
    pub fn look(&self, peer: &Slot) -> Result<u64, PeerFault> {
        // SYNC POINT: pairs with the release store in `Head::release`: the consumer's reads of the freed bytes come before our writes.
        check(
            peer.position.load(Ordering::Acquire),
            self.head,
            self.published,
        )
    }

    /// Takes bytes that `free` has shown to be free; not visible to the consumer before `publish`.
    pub fn advance(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.free());
        self.private = self.private.wrapping_add(bytes);
    }

    /// Shows the consumer everything up to the private position.
    pub fn publish(&mut self, own: &Slot) {
        self.published = self.private;
        // SYNC POINT: pairs with the acquire load in `Head::look`: our writes of the records come before its reads.
        own.position.store(self.published, Ordering::Release);
    }

    /// After a restart: goes on at `position`, the word of the producer's own book, and publishes it. The consumer's slot must admit it
    /// (`head ≤ position ≤ head + capacity`), and it must not lie before what this producer itself had published.
    pub fn resume(&mut self, position: u64, own: &Slot, peer: &Slot) -> Result<(), ResumeBounds> {
        // SYNC POINT: pairs with the release store in `Head::release`, as in `look`; there is no earlier value to compare it with.
        let head = peer.position.load(Ordering::Acquire);
        let bounds = ResumeBounds {
            lowest: head,
            highest: head.wrapping_add(self.capacity),
        };
        let published = own.own_position();
        bounds.admit(position)?;
        bounds.admit(published)?;
        ResumeBounds {
            lowest: published,
            ..bounds
        }
        .admit(position)?;
        self.head = head;
        self.private = position;
        own.reopen();
        self.publish(own);
        Ok(())
    }
}

/// The consumer's private half: where it reads, what it has released, what it knows the producer to have published.
#[derive(Debug)]
pub struct Head {
    capacity: u64,
    read: u64,
    released: u64,
    tail: u64,
}

impl Head {
    /// At the position that the consumer's own slot holds, with nothing to read until the first `reload`.
    pub fn new(capacity: u64, own: &Slot) -> Self {
        let at = own.own_position();
        Head {
            capacity,
            read: at,
            released: at,
            tail: at,
        }
    }

    /// Size of the ring.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Where the next record is read.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// What the producer may overwrite.
    pub fn released(&self) -> u64 {
        self.released
    }

    /// Bytes known to be published and not yet read.
    pub fn unread(&self) -> u64 {
        self.tail.wrapping_sub(self.read)
    }

    /// Looks at the producer's slot.
    pub fn reload(&mut self, peer: &Slot) -> Result<(), PeerFault> {
        self.tail = self.look(peer)?;
        Ok(())
    }

    /// The producer's position now, checked, without taking note of it.
    pub fn look(&self, peer: &Slot) -> Result<u64, PeerFault> {
        let limit = self.released.wrapping_add(self.capacity);
        // SYNC POINT: pairs with the release store in `Tail::publish`: the producer's writes of the records come before our reads.
        check(peer.position.load(Ordering::Acquire), self.tail, limit)
    }

    /// Moves the read cursor over bytes that `unread` has shown.
    pub fn advance(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.unread());
        self.read = self.read.wrapping_add(bytes);
    }

    /// Whether `[position, position + len)` lies between the released position and the read cursor.
    #[inline]
    pub fn holds(&self, position: u64, len: u64) -> bool {
        let held = self.read.wrapping_sub(self.released);
        let from = position.wrapping_sub(self.released);
        from <= held && len <= held - from
    }

    /// Gives everything before `position` back to the producer; `false` if the position is not between released and read.
    pub fn release(&mut self, position: u64, own: &Slot) -> bool {
        let admitted = within(position, self.released, self.read);
        if admitted {
            self.released = position;
            // SYNC POINT: pairs with the acquire load in `Tail::look`: our reads of these bytes come before the producer's writes.
            own.position.store(position, Ordering::Release);
        }
        admitted
    }

    /// After a restart: goes on at `position`, the word of the consumer's own book, and releases everything before it. It must lie between
    /// what this consumer itself had released and what the producer has published, and that no further apart than the capacity.
    pub fn resume(&mut self, position: u64, own: &Slot, peer: &Slot) -> Result<(), ResumeBounds> {
        // SYNC POINT: pairs with the release store in `Tail::publish`, as in `look`; there is no earlier value to compare it with.
        let tail = peer.position.load(Ordering::Acquire);
        let released = own.own_position();
        let bounds = ResumeBounds {
            lowest: released,
            highest: tail,
        };
        ResumeBounds {
            lowest: tail.wrapping_sub(self.capacity),
            ..bounds
        }
        .admit(released)?;
        bounds.admit(position)?;
        self.read = position;
        self.tail = tail;
        self.released = position;
        // SYNC POINT: pairs with the acquire load in `Tail::look`, as in `release`: it is the last life's reads that come before.
        own.position.store(position, Ordering::Release);
        Ok(())
    }
}
