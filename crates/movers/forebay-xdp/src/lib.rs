//! Connections that are counted below user space: the connection table of CESNET's FETA, in the kernel instead of in an FPGA.
//!
//! [`Offload::attach`] puts a program of ours on an interface (XDP). Frames of flows that it knows are counted in its table and dropped; all others go on as if it were
//! not there. User space hands flows down and takes them out again ([`Connections`]), each with exactly what was counted. [`Software`] is the same in this process, for
//! tests and for hosts where the kernel may not be used.
//!
//! The program is compiled by clang when this crate is built, and is part of the binary: the host that runs it needs no clang, no `libbpf` and no `libelf`. Without
//! clang at the build the crate is there all the same, and [`Offload::attach`] says what to install.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod abi;
mod btf;
mod connections;
mod elf;
mod error;
mod offload;
mod programs;
mod software;
#[allow(unsafe_code)]
mod sys;

pub use abi::Key;
pub use connections::{
    Changed, Config, Connections, Counts, Entry, Export, Inserted, Metadata, Reason, Seed, State,
    Tally, Term,
};
pub use error::XdpError;
pub use offload::Offload;
pub use programs::{Programs, Runner, Verdict};
pub use software::Software;
pub use sys::Mode;
