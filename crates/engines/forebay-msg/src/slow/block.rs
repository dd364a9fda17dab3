//! Holds the sender up, for a bounded time; then the connection is given up.

use super::{Situation, Verdict};

pub(super) fn judge(situation: &Situation) -> Verdict {
    if situation.stuck_ns < situation.block_ns {
        Verdict::Wait
    } else {
        Verdict::Disconnect
    }
}
