//! The connection ends at the first message for which there is no room.

use super::{Situation, Verdict};

pub(super) fn judge(_situation: &Situation) -> Verdict {
    Verdict::Disconnect
}
