//! Why it is of no use to try again.

use forebay_link::bytes::{Address, ByteLinkError};
use forebay_msg::session::SessionError;

use crate::connection::Parted;
use crate::end_point::{is_final, told};
use crate::error::NetError;

/// Times in a row that something else than an end point has to be found before it is believed to stay.
const TRIES: usize = 3;
const OTHER_PROGRAM: &str = "what listens there is no end point of `forebay net` over this backend: see which program has the port";
const OTHER_VERSION: &str = "use the same version of Forebay on both sides";

/// What would be found again at each attempt.
#[derive(Clone, Debug)]
pub(super) enum Lasting {
    /// It refuses what is asked for.
    Refused { peer: String, why: String },
    /// It says what no end point says.
    NoEndPoint {
        peer: String,
        what: String,
        times: usize,
        remedy: &'static str,
    },
    /// Encryption or certificates do not fit together.
    NotTogether { what: String, times: usize },
}

/// How many times in a row an attempt has to come to this until it is certain that it would again. None for what time may mend, as that nobody listens.
pub(super) fn tries_to_be_sure(parted: &Parted) -> Option<usize> {
    match parted {
        Parted::Session { error, .. } => match error {
            SessionError::Refused { reason } => is_final(*reason).then_some(1),
            SessionError::Frame(_)
            | SessionError::OutOfPlace { .. }
            | SessionError::Beyond { .. } => Some(TRIES),
            _ => None,
        },
        Parted::Link(ByteLinkError::Tls { .. }) => Some(TRIES),
        _ => None,
    }
}

impl Lasting {
    /// What an attempt has come to so many times.
    pub(super) fn of(parted: &Parted, address: &Address, times: usize) -> Self {
        let peer = address.to_string();
        match parted {
            Parted::Session {
                error: SessionError::Refused { reason },
                ..
            } => Self::Refused {
                peer,
                why: told(*reason),
            },
            Parted::Session { error, .. } => Self::NoEndPoint {
                peer,
                what: error.to_string(),
                times,
                remedy: if error.reason() == "version" {
                    OTHER_VERSION
                } else {
                    OTHER_PROGRAM
                },
            },
            other => Self::NotTogether {
                what: other.to_string(),
                times,
            },
        }
    }
}

impl From<Lasting> for NetError {
    fn from(lasting: Lasting) -> Self {
        match lasting {
            Lasting::Refused { peer, why } => Self::Refused { peer, why },
            Lasting::NoEndPoint {
                peer,
                what,
                times,
                remedy,
            } => Self::NoEndPoint {
                peer,
                what,
                times,
                remedy,
            },
            Lasting::NotTogether { what, times } => Self::NotTogether { what, times },
        }
    }
}
