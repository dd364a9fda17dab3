//! What stops a multiplexer.

use std::path::PathBuf;

use forebay_mux::classify::RuleError;
use forebay_mux::policy::ScheduleError;
use forebay_mux::responder::AddressError;
use forebay_mux::{ClientError, OutOfRange};
use forebay_run::error::RunError;
use forebay_sys::SysError;
use thiserror::Error;

use crate::driver::DriverError;

/// Errors of the multiplexer.
#[derive(Debug, Error)]
pub enum MuxError {
    /// The card cannot be opened, or gives no more frames.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A confined process may not read what the card has counted.
    #[error(
        "the counts of the driver xdp cannot be read without rights: {0}; that needs Linux 5.19, or kernel.unprivileged_bpf_disabled = 0; set confine = false, or take another driver"
    )]
    ConfinedCounts(#[source] DriverError),
    /// A setting is outside its range.
    #[error(transparent)]
    Setting(#[from] OutOfRange),
    /// What is for which client cannot stand.
    #[error("{source}{}", names(clients))]
    Rules {
        /// What is wrong, with clients by their numbers.
        source: Box<RuleError>,
        /// These clients: places in the file, and names.
        clients: Vec<(usize, String)>,
    },
    /// A client asks for more than there is.
    #[error("{name}: {source}")]
    Client {
        /// Its name.
        name: String,
        /// What it cannot have.
        source: ClientError,
    },
    /// Windows of clients are no schedule.
    #[error("class {number}: {source}{}", names(clients))]
    Schedule {
        /// The class.
        number: usize,
        /// The clients that are named: places in the file, and names.
        clients: Vec<(usize, String)>,
        /// What is wrong.
        source: ScheduleError,
    },
    /// A client of a schedule without a window.
    #[error(
        "{name}: it has no window (slot_offset_us) in the schedule of its class, and would never send"
    )]
    NoWindow {
        /// Its name.
        name: String,
    },
    /// A window that the longest packet does not fit into.
    #[error(
        "{name}: the longest packet does not fit into its window; slot_us is {needed_us} at least at this link's rate"
    )]
    ShortWindow {
        /// Its name.
        name: String,
        /// The least length, in us.
        needed_us: u64,
    },
    /// Two clients have one address.
    #[error("{name}: {source}")]
    Address {
        /// Name of the second one.
        name: String,
        /// The address.
        source: AddressError,
    },
    /// The card's MTU leaves no room for a frame, or more than frames of the pools have.
    #[error(
        "the card has an MTU of {found} bytes; 68 to 65,532 can be: `ip link set IF mtu 1500`, or name another interface"
    )]
    Mtu {
        /// What it is.
        found: u32,
    },
    /// A client is to read frames where the driver has received them, and the driver has none there.
    #[error(
        "driver {driver} cannot receive where clients read (receive = \"shared\"); take that out, or name the driver xdp or tap"
    )]
    NotShared {
        /// The driver.
        driver: &'static str,
    },
    /// The card went away while it was shared.
    #[error("{name} is gone; start again when it is back")]
    CardGone {
        /// What it was called.
        name: String,
    },
    /// Another process listens at the socket.
    #[error("{}: another process listens there; end it, or name another socket", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// What lies where the socket is to be is none, and stays.
    #[error("{}: something that is no socket lies there; name another path", path.display())]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// The kernel refuses.
    #[error(transparent)]
    System(#[from] SysError),
    /// Books, files, the system.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Which clients the numbers of an error are of.
fn names(clients: &[(usize, String)]) -> String {
    let named = clients.iter().enumerate();
    let named = named.filter(|(at, one)| !clients[..*at].contains(one));
    let named = named.map(|(_, (number, name))| format!("; client {number} is {name}"));
    named.collect()
}
