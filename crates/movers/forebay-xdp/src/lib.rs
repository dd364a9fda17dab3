//! Connections that are counted below user space: the connection table of CESNET's FETA, in the kernel instead of in an FPGA.
//!
//! [`Offload::attach`] puts a program of ours on an interface (XDP). Frames of flows that it knows are counted in its table and dropped; all others go on as if it were
//! not there. The same program for packet sockets ([`Programs::load_filter`]) keeps frames that it counts from these sockets alone: for hosts in line, which must lose none.
//! User space hands flows down and takes them out again ([`Connections`]), each with exactly what was counted. [`Software`] is the same in this process, for
//! tests and for hosts where the kernel may not be used.
//!
//! The program is compiled by clang when this crate is built, and is part of the binary: the host that runs it needs no clang, no `libbpf` and no `libelf`. Without
//! clang at the build the crate is there all the same, and [`Offload::attach`] says what to install.
//!
//! ```
//! use forebay_xdp::{Config, Connections, Key, Seed, Software, State, Verdict};
//!
//! let mut table = Software::new(&Config::default())?;
//! let frame = [
//!     2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, // Ethernet, IPv4
//!     0x45, 0, 0, 30, 0, 7, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, // 10.0.0.1 to 10.0.0.2
//!     0xc3, 0x50, 0xc3, 0x51, 0, 10, 0, 0, b'h', b'i',
//! ];
//! assert_eq!(table.handle_frame(&frame, 1_000).0, Verdict::Pass);
//! let (key, _) = Key::of(([10, 0, 0, 1].into(), 50_000), ([10, 0, 0, 2].into(), 50_001), 0, 17);
//! let seed = Seed { heard_ns: 1_000, active_due_ns: 300_000_000_000 };
//! table.insert(&key, State::Stat, &seed)?;
//! assert_eq!(table.handle_frame(&frame, 2_000).0, Verdict::Drop);
//! let entry = table.remove(&key)?.expect("it was put in");
//! assert_eq!((entry.frames, entry.octets), ([1, 0], [30, 0]));
//! # Ok::<(), forebay_xdp::XdpError>(())
//! ```
//!
//! # Frames past the stack
//!
//! A [`Port`] is a socket for the frames of one queue of an interface, in and out (AF_XDP), and a [`Redirect`] the program that steers them to it. Where each frame
//! and each buffer is, is in the books of three parties: the program, the kernel's socket, and this end.
//!
//! ```no_run
//! use forebay_xdp::{Port, PortConfig, Redirect};
//!
//! let redirect = Redirect::attach("eth1")?;
//! let mut port = Port::open("eth1", 0, &PortConfig::default())?;
//! redirect.steer(&port)?;
//! port.look();
//! port.receive(64, |frame| println!("{} bytes", frame.len()));
//! # Ok::<(), forebay_xdp::XdpError>(())
//! ```
//!
//! # What a frame costs
//!
//! `cargo bench -p forebay-xdp` on a virtual machine of two cores (AMD EPYC, Linux 6.18, other work beside it), frames of 64 bytes. The same frame again and again
//! (`BPF_PROG_TEST_RUN`, median of nine times a million): 32 ns if it carries no IP packet, 63 ns of no flow in the table, 149 ns counted and dropped (156 with IPv6), as
//! much if it is watched. On a virtual cable, native, as the kernel measures programs (`BPF_ENABLE_STATS`, which itself takes a part), one session of a million each:
//! 115 ns of no flow; counted 243 ns with one flow, 316 with 1,000 and 427 with 10,000 in an order as if at random; 270 ns if it is told of. What a larger table costs is
//! memory that is not in the cache, not arithmetic: it is worth lending the heavy flows alone. At a packet socket (given again and again, load 3, 2026-11-27): 48 ns if it
//! carries no IP packet, 80 ns of no flow, 127 ns counted (132 with IPv6), beside 32, 63, 148 and 156 for the interface's in the same run.
//!
//! `cargo bench -p forebay-xdp --bench socket`, on the same machine and much busier, frames of 64 and 1,472 bytes over a virtual cable in copy mode, medians of nine
//! sessions of 200,000: a frame that goes out costs 1.8 and 1.7 µs by a [`Port`], and 2.4 and 2.6 µs by a packet socket. One that comes in costs 4.3 µs by a port and 3.3
//! and 3.7 µs by a packet socket, its sending included: a virtual cable makes room in each frame before a program may see it, and then it is copied into the port. What a
//! card gains whose driver takes programs, and does without the copy, was not measured: there was none.
//!
//! # What is not there
//!
//! Frames cut by [`State::Trim`] are shorter than their IP header says, which the decoder of flows takes for malformed until it is told of it (a packet socket tells how
//! long they were). A network card that takes VLAN tags off hides them from a program on an interface; at packet sockets they are seen all the same.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod abi;
mod attached;
mod btf;
mod connections;
mod elf;
mod error;
mod offload;
mod programs;
mod redirect;
mod repeat;
mod socket;
mod software;
#[allow(unsafe_code)]
mod sys;
mod table;

pub use abi::Key;
pub use attached::take_off_program;
pub use connections::{
    Changed, Config, Connections, Counts, Entry, Export, Inserted, Metadata, Reason, Seed, State,
    Tally, Term,
};
pub use error::XdpError;
pub use offload::Offload;
pub use programs::{Programs, Runner, Verdict};
pub use redirect::{QUEUES_MAX, Redirect, Steered};
pub use repeat::{
    OneVerdict, REPEATED_BYTES_MAX, REPEATED_RATE_MIN_HZ, Repeat, Repeated, Repeater,
};
pub use socket::{
    Arrived, Buffers, Copying, NotSent, Port, PortConfig, PortCounts, SharedBuffers, Statistics,
};
pub use software::Software;
pub use sys::Mode;
