//! What comes while there is no room is dropped; what waits goes out.

use super::{Situation, Verdict};

pub(super) fn judge(_situation: &Situation) -> Verdict {
    Verdict::DropNewest
}
