//! Time-division UDP: the engine of `forebay-tdm` with sockets, clocks, files and books.
//!
//! A sender is one thread: it waits for its window, spins for the last part of the wait, and sends bursts that the kernel cuts into datagrams. The receiver is one thread,
//! too: it takes merged datagrams with the kernel's stamps, asks the engine what they are, and writes the payload. Nothing is compiled in, and a
//! sender is told everything by the receiver.

#![forbid(unsafe_code)]

pub mod error;
pub mod hops;
mod lateness;
mod local_clock;
mod outbound;
pub mod receive;
pub mod send;

pub use error::{TdmError, read_key};
pub use forebay_tdm::plan::{
    Plan, PlanError, PlanInput, Reason as PlanReason, WIRE_OVERHEAD_BYTES,
};
pub use forebay_wire::tdm::Mode;
pub use local_clock::EmulatedClock;

/// Where a receiver listens unless it is told otherwise; the port of the original.
pub const PORT: u16 = 8081;

/// Stamps are switched on by a job of the kernel's that runs a little later; it is waited for, at most so long.
const STAMPS_WAIT: std::time::Duration = std::time::Duration::from_millis(200);

/// Whether somebody disciplines the wall clock here (`chronyd`, or `ptp4l` with `phc2sys`).
#[must_use]
pub fn wall_clock_is_disciplined() -> bool {
    forebay_sys::clock::discipline().is_ok_and(|found| found.synchronised)
}

/// Waits until the kernel stamps what it receives, or warns that it does not: then the clocks are known less well.
fn await_stamps(tell: &mut impl FnMut(&str)) {
    match forebay_sys::stamped::await_receive_stamps(STAMPS_WAIT) {
        Ok(true) => {}
        Ok(false) => tell("the kernel does not stamp what it receives; clocks are known less well"),
        // Without a loopback it cannot be tried: the first exchanges may be worse than the others.
        Err(error) => tracing::debug!(%error, "receive stamps were not tried"),
    }
}
