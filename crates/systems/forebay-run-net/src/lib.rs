//! Messaging between processes and hosts: point to point ([`Sender`], [`Receiver`]) and publish/subscribe by tag ([`Publisher`],
//! [`Subscriber`]), over whatever backend the [`Address`] names.
//!
//! Each end point is one thread's: it does all of its work while it is called, spins for a moment when it waits, and sleeps then. A caller with a loop of
//! its own calls `poll` with no time to wait.
//!
//! ```
//! use std::time::Duration;
//! use forebay_run_net::{Publisher, Settings, Subscriber};
//!
//! let settings = Settings::default();
//! let mut publisher = Publisher::listen(&"tcp://127.0.0.1:0".parse()?, &settings)?;
//! let mut subscriber = Subscriber::connect(&[publisher.address()?], &settings)?;
//! subscriber.subscribe(&[forebay_msg::Entry::one(42)]);
//! let moment = Duration::from_millis(1);
//! while publisher.subscriptions() == 0 {
//!     subscriber.poll(moment, |_| {})?;
//!     publisher.poll(moment)?;
//! }
//! publisher.publish(42, 0, b"hello")?;
//! publisher.flush()?;
//! let mut got = Vec::new();
//! while got.is_empty() {
//!     subscriber.poll(moment, |delivered| got = delivered.message.payload.to_vec())?;
//! }
//! assert_eq!(got, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod acknowledgement;
mod books;
mod buffers;
pub mod bus;
mod connection;
mod counts;
mod dial;
mod end_point;
mod entrance;
mod error;
pub mod hops;
mod hub;
mod lasting;
mod leaving;
mod lends;
mod publisher;
mod receiver;
pub mod section;
mod sender;
mod settings;
mod subscriber;
mod summary;
mod tags;
mod viewed;

pub use acknowledgement::Acknowledgement;
pub use books::Untaken;
pub use end_point::{Doze, PeerId};
pub use error::NetError;
pub use forebay_link::bytes::{
    Address, AddressError, Apart, CertificateError, CertificateFiles, Certificates, PARTS_MAX,
    Security, View, registered_bytes,
};
pub use forebay_msg::{Config, Entry, Slow};
pub use lends::{Memory, MemoryId};
pub use publisher::Publisher;
pub use receiver::Receiver;
pub use sender::{Sender, Sent};
pub use settings::{Backoff, Settings};
pub use subscriber::Subscriber;
pub use summary::{ConnectionSummary, NetRecord, NetSummary, absorb};
pub use tags::TagSummary;
pub use viewed::{Delivered, Payload, Viewed};
