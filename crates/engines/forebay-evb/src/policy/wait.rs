//! `wait`: every event waits for every source that may still deliver, up to the time-out.

use super::{Situation, Verdict};
use crate::config::Config;

/// Holds the input back rather than build without a source; bounded by the time-out.
pub(super) fn judge(config: &Config, situation: &Situation) -> Verdict {
    if situation.absent == 0 || situation.age_ns >= config.timeout_ns {
        return Verdict::Build;
    }
    Verdict::Wait {
        ns: config.timeout_ns - situation.age_ns,
    }
}
