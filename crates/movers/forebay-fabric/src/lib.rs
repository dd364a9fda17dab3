//! Connections that carry pages over libfabric: TCP, RDMA (`verbs`).
//!
//! The library is loaded while the program runs ([`Libfabric::load`]): neither building this crate nor any other backend needs it. A
//! [`Listener`] takes connections in, an [`Endpoint`] is one: each send is one page, which comes as one page and in order. Pages are registered memory, and
//! those to receive into are posted before a connection is made. A receiver that does not read holds its sender back: when all of the sender's
//! pages are under way, [`Endpoint::send`] takes nothing.
//!
//! Any provider with connections (`FI_EP_MSG`) can be used. Over `tcp` and `verbs` one can sleep until something comes; over one that has nothing to sleep
//! on, an end point [must be polled](Endpoint::must_be_polled).
//!
//! Over `verbs` nothing lies between the two ends: what the peer has no free page for waits at its sender. An end point that has finished and is dropped
//! waits one second for the peer to read; if it does not, the peer finds the connection lost where the rest is missing.
//!
//! The provider `tcp` believes what comes over an established connection; libfabric is for networks whose hosts are trusted.
//!
//! ```
//! use forebay_fabric::{Config, Libfabric, Received};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let libfabric = match Libfabric::load() {
//!     Ok(libfabric) => libfabric,
//!     Err(error) => {
//!         eprintln!("skipped: {error}");
//!         return Ok(());
//!     }
//! };
//! let config = Config::default();
//! let mut listener = libfabric.listen("tcp", "127.0.0.1:0", &config)?;
//! let mut near = libfabric.connect("tcp", &listener.local_address()?, &config)?;
//! let mut far = loop {
//!     near.receive()?;
//!     if let Some(endpoint) = listener.accept()? {
//!         break endpoint;
//!     }
//! };
//! while near.send(&[b"hel", b"lo"])? == 0 {
//!     far.receive()?;
//! }
//! while far.receive()? != Received::Some {}
//! assert_eq!(far.bytes(), b"hello");
//! far.used(5);
//! # Ok(())
//! # }
//! ```
#![deny(unsafe_code)]

mod config;
mod endpoint;
mod error;
mod listener;
mod provider;
#[allow(unsafe_code)]
mod sys;
mod totals;

pub use config::Config;
pub use endpoint::{Endpoint, Received, Returned, SharedDomain};
pub use error::{Blame, FabricError, Fault};
pub use listener::Listener;
pub use provider::{Libfabric, Provider, why_refused};
pub use sys::{Region, SharedMemory, registered_bytes};
pub use totals::{ListenerTotals, Totals};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_move_between_threads_and_domains_are_shared() {
        fn moves<T: Send>() {}
        fn is_shared<T: Send + Sync>() {}
        moves::<Endpoint>();
        moves::<Listener>();
        is_shared::<Region>();
        is_shared::<SharedMemory>();
        is_shared::<SharedDomain>();
        is_shared::<Libfabric>();
    }
}
