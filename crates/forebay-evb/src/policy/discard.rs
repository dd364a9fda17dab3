//! `discard`: only complete events are written; what came of the others is dropped and counted.

use super::{Situation, Verdict, expired};
use crate::config::Config;

/// Waits as `partial` does, then gives the event up.
pub(super) fn judge(config: &Config, situation: &Situation) -> Verdict {
    if expired(config, situation) {
        return Verdict::Discard;
    }
    Verdict::Wait {
        ns: config.timeout_ns - situation.age_ns,
    }
}
