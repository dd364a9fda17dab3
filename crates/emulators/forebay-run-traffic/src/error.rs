//! What stops emulated traffic.

use std::io;
use std::path::PathBuf;

use forebay_link::packet::PacketError;
use forebay_run::error::RunError;
use forebay_run::whole_file::BeginError;
use forebay_traffic::ProfileError;
use thiserror::Error;

/// Errors of emulated traffic.
#[derive(Debug, Error)]
pub enum TrafficError {
    /// The profile is not there.
    #[error("opening the profile {}: {source}", path.display())]
    Unopened {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// No profile has this name, and no file.
    #[error(
        "there is no profile {name:?}, and no such file; a file ends in .csv, and names are {names}"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// Names that there are.
        names: String,
    },
    /// A number of packets is said of a file.
    #[error("--packets is for profiles that have a name: {} has its own packets", path.display())]
    PacketsOfFile {
        /// The file.
        path: PathBuf,
    },
    /// The profile is none.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A packet is later than a capture can say.
    #[error(
        "row {row} of the profile has packets behind 2106, where times of a capture end; give an earlier --start, or the row an earlier END_TIME"
    )]
    Late {
        /// The row, from 0.
        row: u64,
    },
    /// An output cannot be begun.
    #[error(transparent)]
    Output(#[from] BeginError),
    /// An output cannot be written.
    #[error("writing {}: {source}; what was written is in {}.part", path.display(), path.display())]
    Unwritten {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Frames cannot be sent on the interface.
    #[error(transparent)]
    Interface(#[from] PacketError),
    /// Loopback cannot be sent on through a ring.
    #[error(
        "--send-by ring: {interface} is loopback, which reads a packet after its place in the ring was given back, and would change it; use --send-by sendmmsg"
    )]
    RingOfLoopback {
        /// Its name.
        interface: String,
    },
    /// The interface was removed.
    #[error("the interface {interface} is there no more")]
    Gone {
        /// Its name.
        interface: String,
    },
    /// Frames that are asked for have no room for the headers of all packets.
    #[error(
        "--snap {snap_bytes}: on an interface packets are whole, and have {least} bytes at least; give it as much"
    )]
    Headers {
        /// What was asked for.
        snap_bytes: u32,
        /// The longest headers.
        least: u32,
    },
    /// Books, the system.
    #[error(transparent)]
    Run(#[from] RunError),
}
