//! The oldest full buffer makes room: the receiver gets what is new. What is on its way cannot be taken back: when nothing else is left,
//! what is new is dropped.

use super::{Situation, Verdict};

pub(super) fn judge(situation: &Situation) -> Verdict {
    if situation.waiting > 0 {
        Verdict::DropOldest
    } else {
        Verdict::DropNewest
    }
}
