//! The receive buffers, and which client holds which of them.
//!
//! A fixed pool. Each client has a *queue*, the most buffers that it may hold, and a *guarantee*, as many of them as no other client can take from it: what
//! others may have is what is left when all guarantees are kept. So a client that never gives back harms itself.
//!
//! A client that comes when others hold what it is guaranteed has its guarantee as they give back, before all others: until then it takes nothing that a
//! third client is guaranteed.
//!
//! A frame to several clients lies in one buffer with a reference for each. Each reference is charged as a whole buffer to its client: a shared buffer is
//! free again only when the slowest has given it back, and if it counted once, a client could lose its guarantee to one that keeps what both hold. Sharing so
//! saves the copies, and not the room. As there are at most as many buffers in use as there are references, the pool is never shorter than the charges say.
//!
//! Where a card receives into the buffers themselves it has some of them *lent* ([`Lent`]), and as many are there beyond those that clients share: whatever clients keep,
//! the card has its own number of buffers to receive into. A buffer in which a frame came for a client is the client's, and the card is lent another one.

use forebay_ledger::{DropReason, PerReason, reasons};
use thiserror::Error;

mod lent;

use crate::account::Items;
use crate::client::{CLIENTS_MAX, ClientId, ClientSet};
use forebay_settings::{OutOfRange, in_range};

pub use lent::Lent;

/// Most buffers of a pool.
pub const BUFFERS_MAX: u32 = 1 << 20;

reasons! {
    /// Why a client does not get a frame that is for it.
    pub enum DeliveryDrop {
        /// It holds as many buffers as its queue has.
        QueueFull = "queue_full",
        /// It holds as many buffers as it is guaranteed, and what is left belongs to the guarantees of others.
        PoolEmpty = "pool_empty",
        /// It is not there.
        ClientGone = "client_gone",
    }
}

reasons! {
    /// What a client lies about when it gives back a buffer.
    pub enum ReturnFault {
        /// There is no such buffer.
        BufferUnknown = "buffer_unknown",
        /// It does not hold this buffer: it never did, or has given it back before.
        NotHeld = "not_held",
    }
}

/// How a client shares the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Most buffers that it may hold, 1 to [`BUFFERS_MAX`].
    pub queue_frames: u32,
    /// Buffers that it always gets, 0 to its queue.
    pub guaranteed_frames: u32,
}

impl Share {
    fn check(self) -> Result<(), OutOfRange> {
        let (queue, guaranteed) = (self.queue_frames, self.guaranteed_frames);
        in_range("queue_frames", queue.into(), 1, BUFFERS_MAX.into())?;
        in_range("guaranteed_frames", guaranteed.into(), 0, queue.into())
    }
}

/// A share of the pool that a client cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ShareError {
    /// A setting is outside its range.
    #[error(transparent)]
    Config(#[from] OutOfRange),
    /// More is guaranteed than there is.
    #[error("{asked} buffers guaranteed to {client}; {left} of the pool are not promised yet")]
    Promised {
        /// The client.
        client: ClientId,
        /// Its guarantee.
        asked: u32,
        /// What is left for guarantees.
        left: u32,
    },
    /// It is there already.
    #[error("{client} is there already")]
    Known {
        /// The client.
        client: ClientId,
    },
    /// It is not there.
    #[error("{client} is not there")]
    Unknown {
        /// The client.
        client: ClientId,
    },
}

/// A buffer of the pool, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferId(pub u32);

/// What a client was given, and where it is: `given` = `taken_back` + `reclaimed` + [`ReceivePool::held`], in frames and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldCounts {
    /// What it was given.
    pub given: Items,
    /// What it gave back.
    pub taken_back: Items,
    /// What was taken from it when it had gone.
    pub reclaimed: Items,
    /// What it has, by what came and went: for a live view. Books are closed with [`ReceivePool::held`].
    pub held_now: Items,
    /// Lies about what it has.
    pub faults: PerReason<ReturnFault, u64, { ReturnFault::COUNT }>,
}

#[derive(Clone, Debug)]
struct Holder {
    share: Share,
    /// As much of its guarantee as is kept for it: all of it, but for a client that came when others held it.
    granted_frames: u32,
    /// A bit for each buffer.
    holds: Box<[u64]>,
    held_frames: u32,
    /// Lies since it came; those of one that had its number before are not its own.
    faults: PerReason<ReturnFault, u64, { ReturnFault::COUNT }>,
}

impl Holder {
    fn has(&self, buffer: u32) -> bool {
        self.holds[buffer as usize / 64] & 1 << (buffer % 64) != 0
    }

    fn flip(&mut self, buffer: u32) {
        self.holds[buffer as usize / 64] ^= 1 << (buffer % 64);
    }

    fn buffers(&self) -> impl Iterator<Item = u32> {
        let words = (0..).zip(&self.holds);
        words.flat_map(|(at, word)| {
            let bits = (0..64).filter(move |bit| word >> bit & 1 != 0);
            bits.map(move |bit| at * 64 + bit)
        })
    }

    const fn unused_grant(&self) -> u32 {
        self.granted_frames.saturating_sub(self.held_frames)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Buffer {
    references: u16,
    bytes: u32,
}

/// The pool of receive buffers.
#[derive(Clone, Debug)]
pub struct ReceivePool {
    /// Those that clients share, and those of the card.
    buffers: Vec<Buffer>,
    free: Vec<u32>,
    /// Buffers that clients share.
    shared: u32,
    /// Buffers that the card has.
    lent: u32,
    holders: Vec<Option<Holder>>,
    counts: Vec<HoldCounts>,
    /// Sum of the guarantees.
    promised: u32,
    /// Sum of what is kept for clients and not in their hands: never more than is left.
    reserved: u32,
    /// Clients that have not all of their guarantee yet.
    pending: ClientSet,
    /// References of all clients.
    charged: u32,
}

impl ReceivePool {
    /// Makes a pool of so many buffers for clients, 1 to [`BUFFERS_MAX`], and so many more for a card that receives into them, up to as many. No client has any.
    ///
    /// # Errors
    /// Either number is outside its range.
    pub fn new(buffers: u32, card_buffers: u32) -> Result<Self, OutOfRange> {
        in_range("buffers", buffers.into(), 1, BUFFERS_MAX.into())?;
        in_range("card_buffers", card_buffers.into(), 0, BUFFERS_MAX.into())?;
        let all = buffers + card_buffers;
        Ok(Self {
            buffers: vec![Buffer::default(); all as usize],
            free: (0..all).rev().collect(),
            shared: buffers,
            lent: 0,
            holders: vec![None; CLIENTS_MAX],
            counts: vec![HoldCounts::default(); CLIENTS_MAX],
            promised: 0,
            reserved: 0,
            pending: ClientSet::EMPTY,
            charged: 0,
        })
    }

    /// Buffers that no client is charged for.
    const fn left(&self) -> u32 {
        self.shared - self.charged
    }

    /// Keeps what is left for clients that have not all of their guarantee yet.
    fn settle(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let pending = self.pending;
        for client in pending.iter() {
            let left = self.left();
            let Some(holder) = self.holders[client.index()].as_mut() else {
                continue;
            };
            // What it holds already is its own, and costs nothing more.
            let guaranteed = holder.share.guaranteed_frames;
            holder.granted_frames = holder
                .granted_frames
                .max(holder.held_frames.min(guaranteed));
            let more = (guaranteed - holder.granted_frames).min(left - self.reserved);
            holder.granted_frames += more;
            self.reserved += more;
            if holder.granted_frames == guaranteed {
                self.pending.remove(client);
            }
        }
    }

    /// Lets a client share the pool. What others hold of its guarantee by then it has as they give back.
    ///
    /// # Errors
    /// It is there already, its share is outside its range, or more would be guaranteed than there is.
    pub fn add_client(&mut self, client: ClientId, share: Share) -> Result<(), ShareError> {
        share.check()?;
        if self.holders[client.index()].is_some() {
            return Err(ShareError::Known { client });
        }
        self.promise(client, 0, share.guaranteed_frames)?;
        self.pending.insert(client);
        self.holders[client.index()] = Some(Holder {
            share,
            granted_frames: 0,
            holds: vec![0; self.buffers.len().div_ceil(64)].into(),
            held_frames: 0,
            faults: PerReason::default(),
        });
        self.settle();
        Ok(())
    }

    /// Changes how a client shares the pool. It keeps what it holds, also where that is more than its queue now is; what others hold of a larger guarantee it has as
    /// they give back.
    ///
    /// # Errors
    /// It is not there, its share is outside its range, or more would be guaranteed than there is; then nothing has changed.
    pub fn set_share(&mut self, client: ClientId, share: Share) -> Result<(), ShareError> {
        share.check()?;
        let holder = self.holders[client.index()].as_ref();
        let before = holder.ok_or(ShareError::Unknown { client })?.share;
        let guaranteed = share.guaranteed_frames;
        self.promise(client, before.guaranteed_frames, guaranteed)?;
        if let Some(holder) = &mut self.holders[client.index()] {
            self.reserved -= holder.unused_grant();
            holder.share = share;
            holder.granted_frames = holder.granted_frames.min(guaranteed);
            self.reserved += holder.unused_grant();
        }
        self.pending.insert(client);
        self.settle();
        Ok(())
    }

    /// Promises a client another guarantee, if all of them are no more than the pool.
    fn promise(&mut self, client: ClientId, before: u32, asked: u32) -> Result<(), ShareError> {
        let left = self.shared - (self.promised - before);
        if asked > left {
            return Err(ShareError::Promised {
                client,
                asked,
                left,
            });
        }
        self.promised = self.promised - before + asked;
        Ok(())
    }

    /// Takes everything from a client that has gone: so many frames and bytes. Nothing of one that is not there.
    pub fn remove_client(&mut self, client: ClientId) -> Items {
        let Some(holder) = self.holders[client.index()].take() else {
            return Items::default();
        };
        self.promised -= holder.share.guaranteed_frames;
        self.reserved -= holder.unused_grant();
        self.charged -= holder.held_frames;
        let mut reclaimed = Items::default();
        for buffer in holder.buffers() {
            reclaimed.add(self.unreference(buffer));
        }
        let counts = &mut self.counts[client.index()];
        counts.reclaimed.add_all(reclaimed);
        counts.held_now.sub_all(reclaimed);
        self.pending.remove(client);
        self.settle();
        reclaimed
    }

    /// Whether a client can be given one more buffer.
    ///
    /// # Errors
    /// The reason against it. The caller that drops the frame counts it.
    #[inline]
    pub fn admit(&self, client: ClientId) -> Result<(), DeliveryDrop> {
        let holder = self.holders[client.index()].as_ref();
        let holder = holder.ok_or(DeliveryDrop::ClientGone)?;
        if holder.held_frames >= holder.share.queue_frames {
            return Err(DeliveryDrop::QueueFull);
        }
        if holder.unused_grant() > 0 || self.left() > self.reserved {
            Ok(())
        } else {
            Err(DeliveryDrop::PoolEmpty)
        }
    }

    /// Gives a client a buffer for a frame of so many bytes: the one that the card received it in, where it is named here, and a free one otherwise.
    ///
    /// # Errors
    /// As [`Self::admit`]. The card's buffer is its own then.
    #[inline]
    pub fn give(
        &mut self,
        client: ClientId,
        bytes: u32,
        card: &mut Option<Lent>,
    ) -> Result<BufferId, DeliveryDrop> {
        self.admit(client)?;
        let filled = card.take().map(|lent| self.accept(lent));
        let buffer = filled.or_else(|| self.free.pop());
        let buffer = buffer.ok_or(DeliveryDrop::PoolEmpty)?;
        self.buffers[buffer as usize] = Buffer {
            references: 0,
            bytes,
        };
        self.charge(client, buffer);
        Ok(BufferId(buffer))
    }

    /// Gives each of these clients a reference to one buffer for a frame of so many bytes, as far as each can have one, and says to `each` which or why not. The buffer is
    /// the one of [`Self::give`].
    pub fn give_all(
        &mut self,
        clients: &ClientSet,
        bytes: u32,
        card: &mut Option<Lent>,
        mut each: impl FnMut(ClientId, Result<BufferId, DeliveryDrop>),
    ) {
        let mut shared = None;
        for client in clients.iter() {
            let given = match shared {
                None => self.give(client, bytes, card),
                Some(buffer) => self.admit(client).map(|()| {
                    self.charge(client, buffer);
                    BufferId(buffer)
                }),
            };
            shared = shared.or(given.ok().map(|buffer| buffer.0));
            each(client, given);
        }
    }

    #[inline]
    fn charge(&mut self, client: ClientId, buffer: u32) {
        let Some(holder) = self.holders[client.index()].as_mut() else {
            return;
        };
        debug_assert!(!holder.has(buffer), "{client} holds buffer {buffer}");
        let of = &mut self.buffers[buffer as usize];
        of.references += 1;
        self.counts[client.index()].given.add(of.bytes);
        self.counts[client.index()].held_now.add(of.bytes);
        self.reserved -= u32::from(holder.unused_grant() > 0);
        self.charged += 1;
        holder.flip(buffer);
        holder.held_frames += 1;
    }

    /// Takes back a buffer that a client names.
    ///
    /// # Errors
    /// The client does not hold it, which is counted here and changes nothing else.
    #[inline]
    pub fn take_back(&mut self, client: ClientId, buffer: BufferId) -> Result<(), ReturnFault> {
        let buffers = self.buffers.len();
        let holder = self.holders[client.index()].as_mut();
        let checked = match holder {
            _ if buffer.0 as usize >= buffers => Err(ReturnFault::BufferUnknown),
            Some(holder) if holder.has(buffer.0) => Ok(holder),
            _ => Err(ReturnFault::NotHeld),
        };
        let holder = match checked {
            Ok(holder) => holder,
            Err(fault) => {
                self.note_fault(client, fault);
                return Err(fault);
            }
        };
        holder.flip(buffer.0);
        holder.held_frames -= 1;
        self.reserved += u32::from(holder.unused_grant() > 0);
        self.charged -= 1;
        let bytes = self.unreference(buffer.0);
        let counts = &mut self.counts[client.index()];
        counts.taken_back.add(bytes);
        counts.held_now.sub(bytes);
        self.settle();
        Ok(())
    }

    fn note_fault(&mut self, client: ClientId, fault: ReturnFault) {
        self.counts[client.index()].faults[fault] += 1;
        if let Some(holder) = &mut self.holders[client.index()] {
            holder.faults[fault] += 1;
        }
    }

    /// Lies of this kind since the client came; 0 of one that is not there.
    #[must_use]
    pub fn faults_since(&self, client: ClientId, kind: ReturnFault) -> u64 {
        let holder = self.holders[client.index()].as_ref();
        holder.map_or(0, |holder| holder.faults[kind])
    }

    /// Takes a reference away; a buffer without one is free. Gives its bytes.
    #[inline]
    fn unreference(&mut self, buffer: u32) -> u32 {
        let of = &mut self.buffers[buffer as usize];
        of.references -= 1;
        if of.references == 0 {
            self.free.push(buffer);
        }
        of.bytes
    }

    /// Buffers that neither a client nor the card has.
    #[must_use]
    pub const fn free_frames(&self) -> u32 {
        self.free.len() as u32
    }

    /// Buffers that a client holds; 0 of one that is not there.
    #[must_use]
    pub fn held_frames(&self, client: ClientId) -> u32 {
        let holder = self.holders[client.index()].as_ref();
        holder.map_or(0, |holder| holder.held_frames)
    }

    /// What a client has: counted anew, by its bits and the bytes of those buffers.
    #[must_use]
    pub fn held(&self, client: ClientId) -> Items {
        let mut held = Items::default();
        for buffer in self.holders[client.index()]
            .iter()
            .flat_map(Holder::buffers)
        {
            held.add(self.buffers[buffer as usize].bytes);
        }
        held
    }

    /// Whether a client has this buffer.
    pub(crate) fn holds(&self, client: ClientId, buffer: BufferId) -> bool {
        let is_one = (buffer.0 as usize) < self.buffers.len();
        let holder = self.holders[client.index()].as_ref().filter(|_| is_one);
        holder.is_some_and(|holder| holder.has(buffer.0))
    }

    /// Loses a buffer of a client, as a mistake in this file would.
    pub(crate) fn lose(&mut self, client: ClientId, buffer: BufferId) {
        if let Some(holder) = &mut self.holders[client.index()] {
            holder.flip(buffer.0);
        }
    }

    /// What a client was given so far, all clients of this number together.
    #[must_use]
    pub fn counts(&self, client: ClientId) -> &HoldCounts {
        &self.counts[client.index()]
    }
}
