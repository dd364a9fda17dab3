//! Which side connects and which listens, and what they agree on.

use forebay_wire::net::{Hello, Refusal, Role, Slow, Welcome};

use super::SessionError;

/// What this side can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Payload of the largest message that a buffer takes, in bytes.
    pub buffer_bytes: u32,
    /// Most buffers of a connection.
    pub buffer_count: u32,
}

/// When a peer counts as gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a peer may take to say what it is, in ns. Default 5 s.
    pub greeting_ns: u64,
    /// A side that has nothing to say says that after so long, in ns. Default 1 s.
    pub alive_ns: u64,
    /// A peer that says nothing for so long is gone, in ns. Default 10 s: ten times the former, so that one late answer is no death.
    pub silence_ns: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            greeting_ns: 5_000_000_000,
            alive_ns: 1_000_000_000,
            silence_ns: 10_000_000_000,
        }
    }
}

/// The side that connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialer {
    /// What it wants.
    pub role: Role,
    /// How a subscriber wants to be treated when it is too slow.
    pub slow: Slow,
    /// The same in each connection of an end point.
    pub identity: u64,
}

/// The side that is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The role of the peers that it serves.
    pub serves: Role,
    /// Whether it sends messages to a sender, too.
    pub answers: bool,
    /// Stands in no other connection of it.
    pub epoch: u64,
    /// Why nobody is taken in at present, if so.
    pub closed: Option<Refusal>,
}

/// What both sides know of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// What the side that connects wants.
    pub role: Role,
    /// What becomes of messages for which the receiver is too slow.
    pub slow: Slow,
    /// Number of the connection.
    pub epoch: u64,
    /// Which end point the peer is; 0 for the side that connects, whose peer does not say.
    pub identity: u64,
    /// Payload of the largest message that a buffer takes, in bytes.
    pub buffer_bytes: u32,
    /// Most buffers.
    pub buffer_count: u32,
    /// Whether this side sends.
    pub sends: bool,
    /// Whether this side receives.
    pub receives: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    Dialer(Dialer),
    Listener(Listener),
}

impl Dialer {
    pub(super) fn hello(&self, limits: &Limits) -> Hello {
        Hello {
            role: self.role,
            slow: self.slow,
            buffer_bytes: limits.buffer_bytes,
            buffer_count: limits.buffer_count,
            identity: self.identity,
        }
    }

    pub(super) fn judge(&self, welcome: &Welcome, limits: &Limits) -> Result<Agreed, SessionError> {
        let beyond = |field, found, most| SessionError::Beyond { field, found, most };
        if welcome.buffer_bytes > limits.buffer_bytes {
            return Err(beyond(
                "buffer_bytes",
                welcome.buffer_bytes,
                limits.buffer_bytes,
            ));
        }
        if welcome.buffer_count > limits.buffer_count {
            return Err(beyond(
                "buffer_count",
                welcome.buffer_count,
                limits.buffer_count,
            ));
        }
        let sender = self.role == Role::Sender;
        Ok(Agreed {
            role: self.role,
            slow: if sender { Slow::Block } else { self.slow },
            epoch: welcome.epoch,
            identity: 0,
            buffer_bytes: welcome.buffer_bytes,
            buffer_count: welcome.buffer_count,
            sends: sender,
            receives: !sender || welcome.answers,
        })
    }
}

impl Listener {
    pub(super) fn judge(&self, hello: &Hello, limits: &Limits) -> Result<Agreed, Refusal> {
        if let Some(reason) = self.closed {
            return Err(reason);
        }
        if hello.role != self.serves {
            return Err(Refusal::Role);
        }
        let subscriber = hello.role == Role::Subscriber;
        Ok(Agreed {
            role: hello.role,
            slow: if subscriber { hello.slow } else { Slow::Block },
            epoch: self.epoch,
            identity: hello.identity,
            buffer_bytes: hello.buffer_bytes.min(limits.buffer_bytes),
            buffer_count: hello.buffer_count.min(limits.buffer_count),
            sends: subscriber || self.answers,
            receives: !subscriber,
        })
    }
}

impl Agreed {
    /// What is told to the side that connected.
    pub(super) fn welcome(&self) -> Welcome {
        Welcome {
            epoch: self.epoch,
            buffer_bytes: self.buffer_bytes,
            buffer_count: self.buffer_count,
            answers: self.role == Role::Sender && self.sends,
        }
    }
}
