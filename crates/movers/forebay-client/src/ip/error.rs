//! What can be wrong with a socket.

use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

use crate::ClientError;

/// Why a call with a stack fails.
#[derive(Debug, Error)]
pub enum IpError {
    /// The multiplexer's file has no address for the place.
    #[error("this place has no IP address: give it `address` in the multiplexer's file")]
    NoAddress,
    /// A number of bits that no address has.
    #[error("a prefix of {found} bits; an address of version {version} has 0 to {most}")]
    Prefix {
        /// Version of IP.
        version: u8,
        /// The bits that were said.
        found: u8,
        /// Most bits.
        most: u8,
    },
    /// A gateway that no host can be.
    #[error("{gateway} is no gateway: it is not the address of one host")]
    Gateway {
        /// Its address.
        gateway: IpAddr,
    },
    /// The port has a socket.
    #[error("port {port} has a socket of this client already: close that, or take another port")]
    PortTaken {
        /// The port.
        port: u16,
    },
    /// As many sockets as a client may have are open.
    #[error("{most} sockets are open, as many as a client may have: close one")]
    TooMany {
        /// How many that are.
        most: usize,
    },
    /// A number of no socket that is open and of that kind.
    #[error("{number} is no {kind} that is open")]
    NoSocket {
        /// The number.
        number: u32,
        /// What it should be.
        kind: &'static str,
    },
    /// A limit that no queue has.
    #[error("a queue of {found}; 1 to {most} can be asked for")]
    Queue {
        /// The limit that was said.
        found: usize,
        /// Most that a queue has.
        most: usize,
    },
    /// There is no way to the address.
    #[error("there is no way to {to}: it is in no network of this client, and there is no gateway")]
    NoWay {
        /// The address.
        to: IpAddr,
    },
    /// No datagram goes to port 0.
    #[error("port 0 of {to} is none that takes anything")]
    NoPort {
        /// The address.
        to: IpAddr,
    },
    /// It is longer than the link takes, and there are no fragments.
    #[error("a datagram of {found} bytes; 0 to {most} can be sent to {to}")]
    Length {
        /// Its bytes.
        found: usize,
        /// Most that can be sent there.
        most: usize,
        /// Its receiver.
        to: IpAddr,
    },
    /// As many datagrams wait to be sent as the socket keeps.
    #[error(
        "{most} datagrams wait to be sent, as many as this socket keeps: wait until some are sent"
    )]
    Full {
        /// How many that are.
        most: usize,
    },
    /// Bytes that no connection keeps.
    #[error("a buffer of {found} bytes; {least} to {most} can be asked for")]
    Buffer {
        /// The bytes that were said.
        found: usize,
        /// Least that a connection keeps.
        least: usize,
        /// Most that it keeps.
        most: usize,
    },
    /// A time-out that no connection has.
    #[error("a time-out of {found_ms} ms; 100 to 3600000 can be asked for")]
    Timeout {
        /// The time that was said, ms.
        found_ms: u128,
    },
    /// The peer has nothing that listens there.
    #[error("{peer} refuses the connection: nothing listens there")]
    Refused {
        /// Where it was to go.
        peer: SocketAddr,
    },
    /// The peer has ended the connection before its time.
    #[error("{peer} has reset the connection")]
    Reset {
        /// The peer.
        peer: SocketAddr,
    },
    /// The peer has said nothing for too long.
    #[error("{peer} has said nothing for {waited_ms} ms: the connection is given up")]
    TimedOut {
        /// The peer.
        peer: SocketAddr,
        /// How long that was, ms.
        waited_ms: u128,
    },
    /// The program has said that it sends no more, or the connection is at its end.
    #[error("nothing more can be sent to {peer}: this end of the connection is shut down")]
    ShutDown {
        /// The peer.
        peer: SocketAddr,
    },
    /// The connection is not made.
    #[error("the connection to {peer} is not made yet")]
    Connecting {
        /// The peer.
        peer: SocketAddr,
    },
    /// It is no client any longer.
    #[error(transparent)]
    Client(#[from] ClientError),
}
