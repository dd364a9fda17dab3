//! Shared-memory rings between two processes.
//!
//! A [`RingSetMemory`] holds one or many single-producer single-consumer rings of variable-length records. Its maker keeps it for the
//! whole run and hands each side its descriptors; a side that is killed is started again on the same memory and goes on where its own book
//! says.
//!
//! Four promises:
//! * **Separate.** Data, the producer's index and the consumer's index are three memory files. Each side can write only what is its own; the
//!   rest it maps read-only. Sizes are sealed, and no capacity is ever read from shared memory.
//! * **Distrustful.** Each value that the peer writes is checked before use, and what was wrong has a name ([`PeerFault`]). A ring that met
//!   such a value stays in the error state.
//! * **Restartable.** `commit` makes a record private, the caller commits its book with [`Producer::position`], `publish` shows it. So after a
//!   `kill -9` the book is never behind what the peer saw, and [`Producer::resume`] and [`Consumer::resume`] lose nothing and repeat nothing.
//! * **Quiet.** A sleeper asks to be signalled; the side that publishes looks at the question once per batch. A peer that dies between publish and
//!   signal cannot ring, so **every wait has a time-out**.
//!
//! Where bytes should stay where they are, a [`FramePoolMemory`] carries descriptors instead of records; a [`BlockRingMemory`] is a ring of blocks of one length,
//! as the DMA buffer of a card is.
//!
//! ```
//! use forebay_ring::{Consumers, Meta, Producers, RingSetMemory, RingSetSpec};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let spec = RingSetSpec::new("example", vec![64 * 1024; 2], 1500);
//! let memory = RingSetMemory::create(&spec)?;
//! let mut producers = Producers::map(&spec, memory.producer_fds()?)?; // in the producer's process
//! let mut consumers = Consumers::map(&spec, memory.consumer_fds()?)?; // in the consumer's
//!
//! let ring = &mut producers.rings[1];
//! let mut loan = ring.reserve(1500)?;
//! loan[..5].copy_from_slice(b"hello");
//! let position = loan.commit(5, Meta { items: 1, ..Meta::default() });
//! // … commit a book that holds `position`, then:
//! ring.publish();
//! producers.notify();
//!
//! let ring = &mut consumers.rings[1];
//! let record = ring.next()?.ok_or("nothing there")?;
//! let view = ring.view(record.position, record.len as usize).ok_or("released")?;
//! assert_eq!(view.to_vec(), b"hello");
//! // … make the effect durable, commit a book that holds `record.end`, then:
//! ring.release(record.end);
//! consumers.notify_space();
//! assert_eq!(record.end, position);
//! # Ok(())
//! # }
//! ```

mod atomics;
mod error;
#[cfg(not(loom))]
#[allow(unreachable_pub, reason = "public to the model checker only")]
mod index;
#[cfg(not(loom))]
#[allow(unreachable_pub, reason = "public to the model checker only")]
mod wake;

/// The index protocol, open to the model checker.
#[cfg(loom)]
pub mod index;
/// The wake-up protocol, open to the model checker.
#[cfg(loom)]
pub mod wake;

#[cfg(not(loom))]
mod bell;
#[cfg(not(loom))]
mod blocks;
#[cfg(not(loom))]
mod consumer;
#[cfg(not(loom))]
mod frames;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
mod producer;
#[cfg(not(loom))]
mod record;
#[cfg(not(loom))]
mod region;
#[cfg(not(loom))]
mod set;
#[cfg(not(loom))]
mod spec;
#[cfg(not(loom))]
mod view;

pub use error::{Full, PeerFault, RingError, SpecFault};

#[cfg(not(loom))]
pub use self::{
    bell::{Notifier, Waiter},
    blocks::{
        BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, BlockConsumer, BlockProducer, BlockRingMemory,
        BlockRingSpec,
    },
    consumer::{Consumer, Consumers},
    frames::{
        BareReceiver, BareSender, Descriptor, FRAME_BYTES_MAX, FRAME_BYTES_STEP, FRAMES_MAX,
        ForgedEnd, Frame, FramePoolMemory, FramePoolSpec, FrameReceiver, FrameSender, Unsent,
    },
    producer::{Loan, Producer, Producers},
    record::{Carried, HEADER_BYTES, Meta, RECORD_ALIGN, Record, record_bytes},
    region::{PeerRegion, REGION_BYTES_MAX, Region},
    set::{RingSetMemory, SIDE_FDS},
    spec::{CAPACITY_BYTES_MAX, CAPACITY_BYTES_MIN, RINGS_MAX, RingSetSpec},
    view::{VIEWS_MAX, View, prefetch, write_views, write_views_at},
};
