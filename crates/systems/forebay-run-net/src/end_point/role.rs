//! What differs between end points.

use forebay_msg::session::Agreed;
use forebay_msg::{Entry, OutOfRange, Refusal, Role as Wants, Slow};

use crate::buffers::{Buffers, Outbound};

/// What differs between end points.
pub(crate) trait Role {
    /// Its name.
    const NAME: &'static str;
    /// What the side that connects wants: a side that listens serves it, a side that connects asks for it.
    const WANTS: Wants;
    /// A connection is made; its buffers, if it sends, are there.
    fn opened(&mut self, id: u64, agreed: &Agreed, buffers: Buffers) -> Result<(), OutOfRange>;
    /// The sending end of a connection.
    fn outbound(&mut self, id: u64) -> Option<&mut Outbound>;
    /// The receiver of a connection wants no more.
    fn left(&mut self, _id: u64) {}
    /// Whether it has, and there is nobody else to send to.
    fn has_left(&self) -> bool {
        false
    }
    /// The receiver of a connection is too slow: nothing more is pushed to it. False where that is not told to receivers.
    fn lets_go(&mut self, _id: u64) -> bool {
        false
    }
    /// A connection is gone: its sending end.
    fn gone(&mut self, id: u64) -> Option<Outbound>;
    /// Subscriptions begin or end.
    fn subscribe(&mut self, _id: u64, _begin: bool, _entries: Vec<Entry>) -> Option<Refusal> {
        Some(Refusal::Role)
    }
    /// What this side asks for of the peers that it connects to.
    fn entries(&self) -> &[Entry] {
        &[]
    }
    /// Whether it sends to a sender, too.
    fn answers(&self) -> bool {
        false
    }
    /// How it wants to be treated when it is too slow.
    fn slow(&self) -> Slow {
        Slow::Block
    }
    /// Closes buffers whose time has come.
    fn handle_time(&mut self, _now_ns: u64) {}
    /// When that is.
    fn poll_timeout(&self) -> Option<u64> {
        None
    }
}
