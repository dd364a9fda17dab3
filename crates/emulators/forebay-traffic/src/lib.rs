//! Packets of network flows, made from a profile of them: seeded, in order of time, with a truth per flow.
//!
//! A [`Profile`] is read from text, a biflow a row, in the form of FlowTest's generator. [`Traffic`] hands out the packets of all its
//! flows, each written as an Ethernet frame into the caller's buffer. It reads no clock and opens no socket or file.
//!
//! - The same profile and [`Config`] make the same bytes. A flow's packets follow from the seed and the number of its row alone.
//! - Sizes add up to the row's octets exactly, unless no packets have that sum: then the flow is counted as adjusted
//!   ([`Totals::adjusted_flows`]), and its truth says what was sent.
//! - Its [`FlowTruth`] is counted from the packets, as they are written, and not copied from the row.
//! - Memory grows with the flows that are alive at one time ([`Totals::alive_max`]), and not with the profile.
//!
//! It is no model of congestion: the times of a flow's packets are uniform over its duration, or come in [`Trains`] that are, and its sizes uniform
//! about their mean. Payloads are random bytes and no protocol; TCP has no options and no retransmissions. There are no fragments.
//!
//! ```
//! use forebay_traffic::{Config, Profile, Traffic};
//!
//! let text = "START_TIME,END_TIME,L3_PROTO,L4_PROTO,SRC_PORT,DST_PORT,PACKETS,BYTES,PACKETS_REV,BYTES_REV\n\
//!             0,21390,4,6,9596,443,12,1060,19,6153\n";
//! let mut traffic = Traffic::new(Profile::new(text.as_bytes())?, &Config::default());
//! let mut frame = [0; 128]; // longer frames are cut to this
//! let mut octets = 0;
//! while let Some(packet) = traffic.poll_packet(&mut frame)? {
//!     octets += u64::from(packet.ip_bytes); // frame[..packet.captured_bytes] is it
//!     if let Some(truth) = traffic.ended() {
//!         assert_eq!((truth.forward.octets, truth.reverse.octets), (1060, 6153));
//!     }
//! }
//! assert_eq!(octets, 1060 + 6153);
//! # Ok::<(), forebay_traffic::ProfileError>(())
//! ```
#![forbid(unsafe_code)]

mod config;
mod error;
mod flow;
mod frame;
mod instants;
mod named;
mod profile;
mod sizes;
mod traffic;
mod trains;
mod truth;

pub use config::{Config, IP_BYTES_MAX, Sizes, Timing, Trains};
pub use error::ProfileError;
pub use frame::FRAME_BYTES_MAX;
pub use named::{NAMED, NamedProfile, NamedRows, PACKETS, WINDOW_PACKETS, named};
pub use profile::{Profile, Row};
pub use traffic::{Packet, Traffic};
pub use truth::{Direction, FlowKey, FlowTruth, SideTruth, Totals};

/// When a profile's clock begins in a capture, in s since 1970: the first of January 2026.
pub const START_S: u32 = 1_767_225_600;
