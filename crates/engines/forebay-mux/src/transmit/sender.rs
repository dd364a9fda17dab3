//! How a client sends, and why it cannot.

use forebay_settings::OutOfRange;
use thiserror::Error;

use crate::client::ClientId;

/// How a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Its class, by its place in the list.
    pub class: usize,
    /// Most packets that wait, 1 to 65,536.
    pub queue_packets: u32,
    /// Longest that a packet may wait, in ns, 1 µs to 60 s; without it there is no bound.
    pub sojourn_max_ns: Option<u64>,
}

/// What cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SenderError {
    /// A setting is outside its range.
    #[error(transparent)]
    Config(#[from] OutOfRange),
    /// It is there already.
    #[error("{client} is there already")]
    Known {
        /// The client.
        client: ClientId,
    },
    /// It is not there.
    #[error("{client} is not there")]
    Unknown {
        /// The client.
        client: ClientId,
    },
    /// Packets of one that had this number before are still in the card.
    #[error("{packets} packets of the former {client} are still in the card")]
    Busy {
        /// The number.
        client: ClientId,
        /// How many.
        packets: u64,
    },
}
