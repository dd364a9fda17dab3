//! Linux system interfaces, the one place for sockets, mappings and clocks.
//!
//! Everything here is a safe face over one kernel facility; nothing decides anything. The crates
//! above forbid `unsafe`, so each `unsafe` block of the data path stands here, with the invariant it
//! relies on. Errors of the cold path are [`SysError`]: they name the call, its target and a remedy.
//!
//! ```
//! use forebay_sys::udp_batch::{Ancillary, BatchTag, RecvBatch};
//! use forebay_sys::socket::{UdpOptions, bind_udp};
//! use std::os::fd::AsFd;
//!
//! let bound = bind_udp("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
//! let mut batch = RecvBatch::private(8, Ancillary::default()).unwrap();
//! // Nothing was sent: the non-blocking receive finds nothing.
//! assert_eq!(batch.receive_scratch(bound.fd.as_fd(), 8, BatchTag::default()).unwrap(), 0);
//! ```

pub mod addresses;
pub mod arena;
pub mod cgroup;
pub mod clock;
pub mod confine;
pub mod control;
pub mod cpu_latency;
pub mod direct;
pub mod driver_stats;
pub mod epoll;
mod error;
pub mod eventfd;
pub mod gso;
pub mod host;
pub mod input;
pub mod mapping;
pub mod namespace;
pub mod netlink;
pub mod packet;
pub mod process;
pub mod sched;
pub mod seqpacket;
pub mod signals;
pub mod snmp;
mod sockaddr;
pub mod socket;
pub mod stamped;
pub mod stdio;
pub mod tap;
pub mod txtime;
pub mod udp_batch;
pub mod wait;
pub mod watched;

pub use error::SysError;
