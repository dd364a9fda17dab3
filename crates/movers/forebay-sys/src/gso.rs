//! Bursts of equal datagrams in one system call, and merged buffers at the receiver (`UDP_SEGMENT`, `UDP_GRO`).
//!
//! ```text
//! GsoSend:    head payload | head payload | … ──> one buffer ──> card or loopback cuts it into datagrams
//! GroReceive: datagrams of one sender and size ──> kernel merges up to 64 KiB ──> one buffer, cut here by its segment size
//! ```
//!
//! Per-datagram work of the kernel is done once per burst (`net/ipv4/udp_offload.c`). Where the kernel or the card
//! refuses to cut, [`GsoSend`] sends the same datagrams by `sendmmsg` and says so. A burst leaves as fast as the link goes: its
//! length is for the caller to bound.
//!
//! **With `UDP_GRO` on, the socket's drop counter is a lower bound**: one merged buffer that finds no room counts as one drop,
//! however many datagrams it holds. Where kernel drops have to close the books, leave it off, or close them by sequence numbers.

mod receive;
mod send;

pub use receive::{DATAGRAM_BYTES, Datagrams, GroReceive, MERGED_DATAGRAMS_MAX, Received};
pub use send::{GsoMode, GsoSend, SEGMENTS_MAX, Segment, burst_segments_max};
