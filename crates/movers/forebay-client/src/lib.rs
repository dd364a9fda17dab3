//! The client of the multiplexer: a process without privileges that receives and sends frames of a network card, which a daemon owns, through shared memory.
//!
//! [`Client::connect`] asks for a place by a name. The daemon looks at the user of the process, and hands over two pools of frames, or refuses with the
//! reason. Received frames lie in memory that the client can read and not write, unless it has the daemon's own user; those to be sent in memory of its own. Bells are rung once for a batch
//! ([`Client::flush`]).
//!
//! ```no_run
//! use std::path::Path;
//! use std::time::{Duration, Instant};
//!
//! use forebay_client::{Client, ClientError, SendError};
//!
//! /// Sends each frame back to its sender, but those that come while all buffers are on their way: they are lost, as a busy link
//! /// loses them, and counted by the client as `refused_full`.
//! fn echo(client: &mut Client) -> Result<(), SendError> {
//!     let mut frame = Vec::new();
//!     while client.receive_into(&mut frame)? {
//!         let (to, from) = frame[..12].split_at_mut(6);
//!         to.swap_with_slice(from);
//!         match client.send(&frame) {
//!             Ok(()) | Err(SendError::Full { .. }) => {}
//!             Err(other) => return Err(other),
//!         }
//!     }
//!     Ok(client.flush())
//! }
//!
//! # fn main() -> Result<(), SendError> {
//! let mut client = Client::connect(Path::new("/run/forebay/mux"), "echo", Duration::from_secs(5))?;
//! loop {
//!     echo(&mut client)?;
//!     client.wait(Instant::now() + Duration::from_secs(1))?; // `ClientError::Gone` when the daemon is dead
//! }
//! # }
//! ```
//!
//! With the feature `ip` there is `forebay_client::ip` as well: `IpClient` with sockets of UDP, connections of TCP and their books, the `Stack` below it, and the client as a device of
//! [smoltcp](https://docs.rs/smoltcp) (`IpDevice`).
//!
//! What it has counted ([`Client::counts`]) is the second party of its account at the daemon: the frames that it was given are those that it received, and
//! the packets that it handed over are those that it sent.

#![forbid(unsafe_code)]

mod client;
mod error;
#[cfg(feature = "ip")]
pub mod ip;
pub mod protocol;

pub use client::{Client, Counts, Handed, Held, Received, Reserved, Woken};
pub use error::{ClientError, SendError};
