//! The fence: all unsafe code of this crate, behind functions that cannot be misused from outside of it.
//!
//! Three rules hold it together. A page is touched by the code that has its [`Page`], and while it is posted the provider's context has it. Memory that the
//! provider knows is freed after the end point and the registration are closed, or never. What the library gives is checked before it is an index.

mod abi;
mod channel;
mod contexts;
mod events;
mod info;
#[cfg(test)]
mod layout;
mod library;
mod memory;
mod objects;
mod shared;
mod signals;

pub(crate) use abi::{FI_EP_DGRAM, FI_EP_MSG, FI_EP_RDM, FI_ETRUNC as TRUNCATED, FI_MR_LOCAL};
pub(crate) use channel::{Channel, Completion, Opened, Room, has_wait_fd};
pub(crate) use contexts::Posted;
pub(crate) use events::Event;
pub(crate) use info::{Entry, Info, Query};
pub(crate) use library::Library;
pub(crate) use memory::Page;
pub use memory::{Region, registered_bytes};
pub(crate) use objects::{Domain, Fabric, PassiveEndpoint};
pub use shared::SharedMemory;
