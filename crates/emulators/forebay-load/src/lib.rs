//! Load for targets that send back what comes, and what became of each packet.
//!
//! The engine says which packets are due and writes them, is told what the kernel took and what came back, and matches the two. It reads no clock and opens no
//! socket.
//!
//! - **Open loop**: when a packet is due follows from the start and the rate, never from the packet before. A sender that is late catches up, and is told how late it was.
//! - **Closed loop**: so many packets of a target are on their way at a time.
//! - An answer is matched by target and number, in a window of a fixed size. What is not answered in time is lost; its answer, if it comes yet, is late.
//! - Each packet that was due is counted once, and so is each that came: [`account`].
//!
//! ```
//! use forebay_load::{Came, Config, Load, Pace, Rate, Sizes};
//!
//! let mut load = Load::new(
//!     Config {
//!         paces: vec![Pace::Open(Rate::Packets(1_000))],
//!         sizes: Sizes::List(vec![64]),
//!         front_bytes: 0,
//!         time_out_ns: 1_000_000_000,
//!         duration_ns: Some(10_000_000),
//!         run: 7,
//!     },
//!     0,
//! )?;
//! let due = load.poll_due(0, 2_000_000).to_vec();
//! assert_eq!(due.len(), 3); // at 0, 1 and 2 ms
//! let mut packet = [0; 64];
//! load.emit(0, &due[0], &mut packet);
//! load.handle_sent(0, 3, 2_000_000);
//! let came = load.handle_packet(0, &packet, 2_050_000, None);
//! assert_eq!(came, Came::Answer { rtt_ns: 50_000, kernel_rtt_ns: None });
//! assert_eq!(load.counts(0).in_flight.packets, 2);
//! # Ok::<(), forebay_load::ConfigError>(())
//! ```
#![forbid(unsafe_code)]

pub mod account;
mod config;
mod engine;
mod moments;
mod schedule;
mod target;
mod window;

pub use account::{Amount, AnswerDrop, Counts, FlightDrop, SendDrop};
pub use config::{
    Config, ConfigError, PACKET_BYTES_MAX, Pace, Rate, Sizes, TARGETS_MAX, WINDOW_MAX, WINDOWS_MAX,
    target_name,
};
pub use engine::{BATCH_PACKETS, CATCH_UP_NS, Came, Due, HOPS, Load};
pub use moments::Moments;
