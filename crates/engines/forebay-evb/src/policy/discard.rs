//! `discard`: only complete events are written; what came of the others is dropped and counted.

use super::{Situation, Verdict, expired, time_left};
use crate::config::Config;

/// Waits as `partial` does, then gives the event up.
pub(super) fn judge(config: &Config, situation: &Situation) -> Verdict {
    if expired(config, situation) {
        return Verdict::Discard;
    }
    Verdict::Wait {
        ns: time_left(config, situation),
    }
}
