//! Many datagrams per system call, with headers that a restarted process can adopt.

pub(crate) mod ancillary;
mod bare;
mod layout;
mod recv;
mod send;
mod slots;

pub use bare::BareRecv;
pub use layout::{SLOT_CAPACITY_BYTES, SLOT_STRIDE_BYTES, arena_bytes};
pub use recv::{Adopted, Ancillary, Arrived, BatchMode, BatchTag, Datagram, RecvBatch, Totals};
pub(crate) use send::emit_segment;
pub use send::{Outgoing, SendBatch, SendStop, Sent};
