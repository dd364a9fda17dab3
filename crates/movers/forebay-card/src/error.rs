//! Why a driver does not go on.

use std::path::PathBuf;

use forebay_link::packet::PacketError;
use forebay_link::pcap::CaptureError;
use forebay_ring::RingError;
use forebay_sys::SysError;
use forebay_xdp::XdpError;

/// Why a driver cannot be opened, or does not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The kernel refuses something.
    #[error(transparent)]
    System(#[from] SysError),
    /// The interface is none that a packet socket reads or sends on.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// A port past the kernel's stack is refused.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// Memory that threads or clients share cannot be made.
    #[error(transparent)]
    Memory(#[from] RingError),
    /// The thread that sends has ended by itself.
    #[error(
        "the thread that sends (driver_threads = 2) has ended by a fault of its own: report what it said, and start again, with driver_threads = 1 until that is found"
    )]
    SendThread,
    /// An interface has several queues, of which one alone would be read.
    #[error("{interface} has {has} queues and 1 is read: `ethtool -L {interface} combined 1`")]
    Queues {
        /// The interface.
        interface: String,
        /// Its queues.
        has: u32,
    },
    /// Frames that clients are to read where they come are longer than a buffer of a port.
    #[error(
        "{interface}: frames of up to {frame_bytes_max} bytes come, and a buffer that clients read (receive = \"shared\") has room for {longest_bytes}: take that out, or `ip link set {interface} mtu 1500`"
    )]
    SharedLength {
        /// The interface.
        interface: String,
        /// The longest frame, in bytes.
        frame_bytes_max: usize,
        /// The longest that a buffer has room for, in bytes.
        longest_bytes: usize,
    },
    /// A file cannot be opened or made.
    #[error("{path}: {source}")]
    File {
        /// Its path.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: std::io::Error,
    },
    /// A capture is broken.
    #[error("{path}: {source}")]
    Capture {
        /// Its path.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: CaptureError,
    },
    /// A capture has packets that are no Ethernet frames.
    #[error("{path}: packet {packet} has link type {link_type}; Ethernet (1) is expected")]
    LinkType {
        /// Path of the capture.
        path: PathBuf,
        /// Its number, the first is 1.
        packet: u64,
        /// The number of its link type.
        link_type: i32,
    },
}
