//! What the whole host counts below the sockets: in its network cards, drivers, queues and protocols.
//!
//! Two [`Reading`]s, at the start and at the end of a run, give its [`Changes`]. They are *host-wide, not attributable to one run*: whatever else
//! went on on the host is in them, too, so they enter no balance. They say where to look when something was lost before a socket. Each counter of a loss has
//! a [`Meaning`].
//!
//! The same numbers are told by `/sys/class/net/*/statistics`, `ethtool -S` and `tc -s qdisc`; they are asked of the kernel in this process's network
//! namespace, whichever one `/sys` was mounted in.

#![forbid(unsafe_code)]

mod changes;
pub mod doctor;
mod meaning;
mod protocols;
mod reading;
mod softnet;

pub use changes::{Changes, SCOPE};
pub use meaning::{Meaning, meaning_of, meanings};
pub use reading::{Reading, Scope};
