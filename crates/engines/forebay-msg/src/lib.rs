//! The engine of messaging: it is told the time and given frames, and gives frames; it moves no byte over any link.
//!
//! A connection has a sending end ([`Outbound`]) and a receiving end ([`Inbound`]). Small messages are gathered in buffers, which go out
//! when they are full to a mark or have waited long enough; credits bound how many buffers are on their way; what a slow receiver is given
//! up is a policy ([`Slow`]) and counted. Both ends count what passes, buffer by buffer, so that what is lost between them is known
//! exactly when the connection ends ([`Totals`]).
//!
//! ```
//! use forebay_msg::{Config, Inbound, Outbound, Pushed};
//!
//! let config = Config { buffer_bytes: 1024, buffer_count: 4, ..Config::default() };
//! let mut sending = Outbound::new(&config, 7)?;
//! let mut receiving = Inbound::new(7, 1024);
//! assert_eq!(sending.push(0, 42, 0, b"hello"), Pushed::Taken);
//! sending.flush();
//! while let Some(frame) = sending.poll_transmit() {
//!     let mut read = receiving.handle_frame(frame)?;
//!     assert_eq!(read.next().unwrap().payload, b"hello");
//!     drop(read);
//!     sending.handle_transmitted();
//! }
//! sending.handle_credit(&receiving.credit())?;
//! assert_eq!(sending.totals().messages, receiving.totals().messages);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod config;
mod inbound;
mod outbound;
mod publisher;
mod routes;
pub mod session;
mod slow;

pub use config::Config;
pub use forebay_settings::OutOfRange;
pub use forebay_wire::net::{Credit, Entry, Refusal, Role, Slow, Totals};
pub use inbound::{Apart, Inbound, InboundError, Losses, Reading};
pub use outbound::{
    CreditError, Dropped, FarewellError, Lent, Memory, OnLink, Outbound, Pushed, Transmit,
};
pub use publisher::{PATTERNS_MAX, PeerId, Published, Publisher, TAGS_MAX};
