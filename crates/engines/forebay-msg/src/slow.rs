//! What becomes of a message for which there is no buffer: one file per policy.

mod block;
mod disconnect;
mod drop_newest;
mod drop_oldest;

use forebay_wire::net::Slow;

/// What is known when no buffer is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Situation {
    /// Full buffers that have not begun to go out.
    pub(crate) waiting: usize,
    /// How long there has been no room, in ns.
    pub(crate) stuck_ns: u64,
    /// How long the sender may be held up, in ns.
    pub(crate) block_ns: u64,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Come again later.
    Wait,
    /// The message at hand is dropped.
    DropNewest,
    /// The oldest full buffer that has not begun to go out is dropped.
    DropOldest,
    /// The connection is given up.
    Disconnect,
}

pub(crate) fn judge(slow: Slow, situation: &Situation) -> Verdict {
    match slow {
        Slow::Block => block::judge(situation),
        Slow::DropNewest => drop_newest::judge(situation),
        Slow::DropOldest => drop_oldest::judge(situation),
        Slow::Disconnect => disconnect::judge(situation),
    }
}
