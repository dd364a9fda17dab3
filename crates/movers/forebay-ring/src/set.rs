//! The memory of a ring set: made and kept by a supervisor, mapped by the two sides.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::EventfdFlags;

use crate::bell::{Notifier, Waiter};
use crate::error::RingError;
use crate::index::Slot;
use crate::memory::{self, Access, Mapping, Shared};
use crate::spec::{RingSetSpec, WAIT_OFFSET, slot_offset};
use crate::wake::WaitFlag;

const DATA: &str = "ring data";
const PRODUCER_INDEX: &str = "producer index";
const CONSUMER_INDEX: &str = "consumer index";
pub(crate) const EVENT: &str = "eventfd";

/// Descriptors that each side gets: data, producer index, consumer index, *data ready*, *space free*.
pub const SIDE_FDS: usize = 5;

/// The memory of a ring set. Its owner (the supervisor) keeps it for the whole run, so that a side that dies can be started again with the
/// same rings.
///
/// What a side may only read it gets as a read-only descriptor. Between processes of different users the kernel enforces that; a process of the
/// *same* user with a `/proc` can open its descriptor anew for writing, so against a hostile peer of the same user `/proc` must be out of its reach
/// (Landlock, or a mount namespace). The eventfds are shared both ways: a hostile peer can ring or silence them, which costs wake-ups, not data.
#[derive(Debug)]
pub struct RingSetMemory {
    data: OwnedFd,
    producer_index: OwnedFd,
    consumer_index: OwnedFd,
    data_ready: OwnedFd,
    space_free: OwnedFd,
}

impl RingSetMemory {
    /// Makes the memory: three sealed files of fixed size and two eventfds. Pages are allocated when first touched.
    pub fn create(spec: &RingSetSpec) -> Result<Self, RingError> {
        spec.validate()?;
        let file = |what, part: &str, bytes| {
            memory::create(what, &format!("forebay:{}:{part}", spec.name), bytes)
        };
        Ok(RingSetMemory {
            data: file(DATA, "data", spec.data_bytes())?,
            producer_index: file(PRODUCER_INDEX, "producer", spec.index_bytes())?,
            consumer_index: file(CONSUMER_INDEX, "consumer", spec.index_bytes())?,
            data_ready: eventfd()?,
            space_free: eventfd()?,
        })
    }

    /// The file of the data, for a caller that takes its pages from the system before they are touched.
    ///
    /// # Errors
    /// Descriptors run out.
    pub fn data_fd(&self) -> Result<OwnedFd, RingError> {
        memory::duplicate(DATA, &self.data)
    }

    /// For the producer process, in the order that [`crate::Producers::map`] takes: data and its own index to write, the consumer's index to
    /// read.
    pub fn producer_fds(&self) -> Result<Vec<OwnedFd>, RingError> {
        Ok(vec![
            memory::duplicate(DATA, &self.data)?,
            memory::duplicate(PRODUCER_INDEX, &self.producer_index)?,
            memory::read_only(CONSUMER_INDEX, &self.consumer_index)?,
            memory::duplicate(EVENT, &self.data_ready)?,
            memory::duplicate(EVENT, &self.space_free)?,
        ])
    }

    /// For the consumer process, in the order that [`crate::Consumers::map`] takes: its own index to write, data and the producer's index to
    /// read.
    pub fn consumer_fds(&self) -> Result<Vec<OwnedFd>, RingError> {
        Ok(vec![
            memory::read_only(DATA, &self.data)?,
            memory::read_only(PRODUCER_INDEX, &self.producer_index)?,
            memory::duplicate(CONSUMER_INDEX, &self.consumer_index)?,
            memory::duplicate(EVENT, &self.data_ready)?,
            memory::duplicate(EVENT, &self.space_free)?,
        ])
    }
}

pub(crate) fn eventfd() -> Result<OwnedFd, RingError> {
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|errno| {
        RingError::System {
            call: "eventfd",
            what: EVENT,
            errno,
        }
    })
}

/// The end of the rings that a process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Producer,
    Consumer,
}

/// One ring as a side has mapped it.
#[derive(Debug)]
pub(crate) struct RingParts {
    pub(crate) ring: usize,
    pub(crate) capacity: u64,
    pub(crate) data: Mapping,
    pub(crate) own: Shared<Slot>,
    pub(crate) peer: Shared<Slot>,
    /// Declared last: the memory goes first, then the right to it.
    _claim: Arc<OwnedFd>,
}

/// A whole set as a side has mapped it.
#[derive(Debug)]
pub(crate) struct SetParts {
    pub(crate) rings: Vec<RingParts>,
    pub(crate) notifier: Notifier,
    pub(crate) waiter: Waiter,
}

/// The descriptors of one side, each by its place.
pub(crate) fn of_side(fds: Vec<OwnedFd>) -> Result<[OwnedFd; SIDE_FDS], RingError> {
    fds.try_into()
        .map_err(|fds: Vec<_>| RingError::Descriptors {
            expected: SIDE_FDS,
            found: fds.len(),
        })
}

/// Checks and maps everything that one side was handed.
pub(crate) fn map_side(
    spec: &RingSetSpec,
    fds: Vec<OwnedFd>,
    side: Side,
) -> Result<SetParts, RingError> {
    spec.validate()?;
    let [data, producer_index, consumer_index, data_ready, space_free] = of_side(fds)?;
    memory::verify(DATA, data.as_fd(), spec.data_bytes())?;
    let (own_access, peer_access) = (Access::ReadWrite, Access::Read);
    let (producer_access, consumer_access) = match side {
        Side::Producer => (own_access, peer_access),
        Side::Consumer => (peer_access, own_access),
    };
    let producer = map_index(PRODUCER_INDEX, &producer_index, spec, producer_access)?;
    let consumer = map_index(CONSUMER_INDEX, &consumer_index, spec, consumer_access)?;
    let claim = Arc::new(match side {
        Side::Producer => memory::claim(PRODUCER_INDEX, &producer_index)?,
        Side::Consumer => memory::claim(CONSUMER_INDEX, &consumer_index)?,
    });
    let (own, peer, rings_on, sleeps_on) = match side {
        Side::Producer => (producer, consumer, data_ready, space_free),
        Side::Consumer => (consumer, producer, space_free, data_ready),
    };
    Ok(SetParts {
        rings: map_rings(spec, &data, &own, &peer, side, &claim)?,
        notifier: Notifier::new(flag(&peer)?, rings_on),
        waiter: Waiter::new(flag(&own)?, sleeps_on),
    })
}

fn map_index(
    what: &'static str,
    fd: &OwnedFd,
    spec: &RingSetSpec,
    access: Access,
) -> Result<Arc<Mapping>, RingError> {
    memory::verify(what, fd.as_fd(), spec.index_bytes())?;
    Mapping::whole(what, fd, spec.index_bytes(), access).map(Arc::new)
}

fn map_rings(
    spec: &RingSetSpec,
    data: &OwnedFd,
    own: &Arc<Mapping>,
    peer: &Arc<Mapping>,
    side: Side,
    claim: &Arc<OwnedFd>,
) -> Result<Vec<RingParts>, RingError> {
    let access = if side == Side::Producer {
        Access::ReadWrite
    } else {
        Access::Read
    };
    let mut offset = 0;
    let mut rings = Vec::with_capacity(spec.capacities_bytes.len());
    for (ring, &capacity) in spec.capacities_bytes.iter().enumerate() {
        let data = Mapping::doubled(data, offset, capacity, access, spec.populate)?;
        offset += capacity;
        rings.push(RingParts {
            ring,
            capacity,
            data,
            own: slot(own, ring)?,
            peer: slot(peer, ring)?,
            _claim: Arc::clone(claim),
        });
    }
    Ok(rings)
}

fn slot(index: &Arc<Mapping>, ring: usize) -> Result<Shared<Slot>, RingError> {
    let offset = slot_offset(ring);
    Shared::at(index, offset as usize).ok_or(outside(index, offset))
}

pub(crate) fn flag(index: &Arc<Mapping>) -> Result<Shared<WaitFlag>, RingError> {
    Shared::at(index, WAIT_OFFSET as usize).ok_or(outside(index, WAIT_OFFSET))
}

pub(crate) fn outside(index: &Mapping, expected: u64) -> RingError {
    RingError::Size {
        what: "index",
        expected,
        found: index.len() as u64,
    }
}
