//! `partial`: what came is written and flagged when waiting is over. The default.

use super::{Situation, Verdict, expired, time_left};
use crate::config::Config;

/// A dead source costs one time-out, then its share of each event and nothing else.
pub(super) fn judge(config: &Config, situation: &Situation) -> Verdict {
    if expired(config, situation) {
        return Verdict::Build;
    }
    Verdict::Wait {
        ns: time_left(config, situation),
    }
}
