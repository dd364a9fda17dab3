//! What stops generated load before it begins.

use std::io;
use std::net::SocketAddr;

use forebay_load::ConfigError;
use forebay_run::error::RunError;
use thiserror::Error;

use crate::address::{Address, Station};
use crate::raw::FRAME_BYTES_MIN;

/// Errors of generated load, and of the echo.
#[derive(Debug, Error)]
pub enum LoadError {
    /// Such load cannot be made.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Nobody can listen there.
    #[error("listening on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// An echo that listens nowhere.
    #[error("the echo has no address and no interface")]
    Nowhere,
    /// A target's address is of another kind.
    #[error("target {target}, {address}: over {transport} a target is {right}")]
    Address {
        /// The target.
        target: String,
        /// Its address.
        address: Address,
        /// What packets go over.
        transport: &'static str,
        /// What would be right.
        right: &'static str,
    },
    /// Answers of a station could not be known.
    #[error(
        "target {target}: {station} is {is}: answers are known by their sender, which is to be another station"
    )]
    Station {
        /// The target.
        target: String,
        /// Its address.
        station: Station,
        /// What has this address already.
        is: String,
    },
    /// A loopback interface.
    #[error(
        "{interface} is loopback, where each frame comes back to its own sender: name an interface of Ethernet, such as one end of a veth pair"
    )]
    Loopback {
        /// Its name.
        interface: String,
    },
    /// Frames of Ethernet do not go there.
    #[error("{interface} is of kind {kind} (ARPHRD_*), and no Ethernet (1)")]
    NotEthernet {
        /// Its name.
        interface: String,
        /// What it is.
        kind: u16,
    },
    /// An interface that is down before anything is sent.
    #[error("{interface} is down: `ip link set {interface} up`")]
    Down {
        /// Its name.
        interface: String,
    },
    /// Frames are longer than the interface takes.
    #[error(
        "frames of {bytes} bytes: {interface} takes {most} at most, with its MTU of {mtu_bytes} bytes: ask for shorter ones, or `ip link set {interface} mtu {needed}`"
    )]
    LongFrame {
        /// The longest that was asked for, with its header.
        bytes: usize,
        /// Its name.
        interface: String,
        /// The longest that it takes, with its header.
        most: usize,
        /// Its MTU.
        mtu_bytes: usize,
        /// The MTU that would do.
        needed: usize,
    },
    /// Frames are shorter than Ethernet has them.
    #[error(
        "frames of {bytes} bytes: one of Ethernet has {FRAME_BYTES_MIN} at least, with its header and without its check sum"
    )]
    ShortFrame {
        /// The shortest that was asked for.
        bytes: usize,
    },
    /// Frames cannot be sent or taken.
    #[error(transparent)]
    Packet(#[from] forebay_link::packet::PacketError),
    /// Books, the system.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] forebay_sys::SysError),
}
