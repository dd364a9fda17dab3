//! Why a connection has to end.

use forebay_wire::net::{Kind, NetError, Refusal};
use thiserror::Error;

use crate::inbound::InboundError;
use crate::outbound::{CreditError, FarewellError};

/// Why a connection has to end before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SessionError {
    /// The bytes are no frame.
    #[error(transparent)]
    Frame(#[from] NetError),
    /// A buffer that is none of this connection, or is not what it says.
    #[error(transparent)]
    Inbound(#[from] InboundError),
    /// Credit that cannot be.
    #[error(transparent)]
    Credit(#[from] CreditError),
    /// Totals of a receiver that cannot be.
    #[error(transparent)]
    Farewell(#[from] FarewellError),
    /// A frame that has no place here, or not now.
    #[error("a {kind} frame where none belongs")]
    OutOfPlace {
        /// Kind of the frame.
        kind: Kind,
    },
    /// The peer agreed to more than was offered.
    #[error("the peer's {field} is {found}; {most} was offered")]
    Beyond {
        /// Name of the field.
        field: &'static str,
        /// What it says.
        found: u32,
        /// What was offered.
        most: u32,
    },
    /// The peer refuses.
    #[error("the peer refuses: {}", refusal(*reason))]
    Refused {
        /// Why; a number that is not known here stands for itself.
        reason: Result<Refusal, u32>,
    },
    /// The peer was refused.
    #[error("refused: {}", reason.name())]
    Turned {
        /// Why.
        reason: Refusal,
    },
    /// The sender ended the connection because of this receiver.
    #[error(
        "this side was too slow and is let go; {messages} messages for it were dropped there. Take them faster, give it more buffers (--buffer-count), or choose what is dropped (--slow)"
    )]
    LetGo {
        /// How many it dropped in all.
        messages: u64,
    },
    /// The peer did not say in time what it is.
    #[error("no greeting came")]
    NoGreeting,
    /// The peer asks and does not read the answers.
    #[error("{frames} answers wait for a peer that does not read them")]
    Unread {
        /// How many.
        frames: usize,
    },
    /// The peer said nothing for too long.
    #[error("the peer was silent for {} ms", silent_ns / 1_000_000)]
    Silent {
        /// For how long, in ns.
        silent_ns: u64,
    },
}

fn refusal(reason: Result<Refusal, u32>) -> String {
    match reason {
        Ok(Refusal::Busy) => "it takes no more connections".into(),
        Ok(Refusal::Role) => {
            "it serves nothing of the kind; a subscriber needs a publisher, a sender a receiver"
                .into()
        }
        Ok(Refusal::Ending) => "it ends".into(),
        Ok(Refusal::TooMany) => "more subscriptions than it keeps".into(),
        Err(code) => format!("reason {code}, which is not known here"),
    }
}

impl SessionError {
    /// Its name in counters.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Frame(error) | Self::Inbound(InboundError::Frame(error)) => error.reason(),
            Self::Inbound(InboundError::NotData) | Self::OutOfPlace { .. } => "out_of_place",
            Self::Inbound(InboundError::Epoch { .. }) => "wrong_epoch",
            Self::Inbound(InboundError::Buffer(error)) => error.reason(),
            Self::Inbound(InboundError::Holds { .. }) => "wrong_count",
            Self::Credit(_) => "bad_credit",
            Self::Beyond { .. }
            | Self::Farewell(_)
            | Self::Inbound(InboundError::Totals { .. }) => "bad_field",
            Self::Refused { .. } => "refused",
            Self::Turned { .. } => "turned_away",
            Self::LetGo { .. } => "too_slow",
            Self::Unread { .. } => "answers_unread",
            Self::NoGreeting => "no_greeting",
            Self::Silent { .. } => "silent",
        }
    }
}
