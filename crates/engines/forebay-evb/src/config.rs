//! What the engine can be told, with units in the names.

use forebay_settings::{OutOfRange, in_range};
use forebay_wire::subevent::TriggerBits;

use crate::policy::Completion;

/// Settings of the builder engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Number of sources, 1 to 1,024. One event takes one sub-event of each.
    pub sources: usize,
    /// Width of the trigger number. Default 24 bits.
    pub trigger_bits: TriggerBits,
    /// How far one trigger number is from the next, 1 to 4,096; default 1. More where triggers are dealt out to a farm of builders.
    pub trigger_step: u32,
    /// Whether sub-events of one event must carry the same trigger tag. Default on: a wrong tag shows
    /// that a readout counts wrongly although the number matches.
    pub check_tag: bool,
    /// What makes an event finished. Default [`Completion::Partial`].
    pub completion: Completion,
    /// How long an event waits for a missing source after its first sub-event came, in ns.
    /// 1 ms to 1 h; default 1 s: longer than the water mark of a slow source takes to fill.
    pub timeout_ns: u64,
    /// How many later events may pile up in one source before the oldest one stops waiting.
    /// A source that has not been silent for longer than it usually is between two messages is waited for nevertheless, up to the
    /// time-out. 1 to 1,000,000; default 20,000. Not used by [`Completion::Wait`].
    pub timeout_events: u32,
    /// How far one source may be ahead of the others before it is astray, in events: its sub-events are dropped
    /// after [`Config::timeout_ns`] unless most sources are. Default 16,384, at most a quarter of the range.
    pub window_events: u32,
    /// Largest event built, in bytes, header included; default 256 MiB. A larger one is dropped by name.
    pub event_bytes_max: usize,
}

/// Largest number of sources of one builder.
pub const SOURCES_MAX: usize = 1024;

impl Config {
    /// The defaults for `sources` sources.
    #[must_use]
    pub fn new(sources: usize) -> Self {
        Self {
            sources,
            trigger_bits: TriggerBits::default(),
            trigger_step: 1,
            check_tag: true,
            completion: Completion::default(),
            timeout_ns: 1_000_000_000,
            timeout_events: 20_000,
            window_events: 16_384,
            event_bytes_max: 256 << 20,
        }
    }

    /// Checks each value against its range.
    ///
    /// # Errors
    /// Names the first field out of range, with its value and the range.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        let window_max = u64::from(self.trigger_bits.mask() >> 2) + 1;
        in_range("sources", self.sources as u64, 1, SOURCES_MAX as u64)?;
        in_range("trigger_step", u64::from(self.trigger_step), 1, 4096)?;
        in_range("timeout_ns", self.timeout_ns, 1_000_000, 3_600_000_000_000)?;
        in_range(
            "timeout_events",
            u64::from(self.timeout_events),
            1,
            1_000_000,
        )?;
        in_range(
            "window_events",
            u64::from(self.window_events),
            1,
            window_max,
        )?;
        in_range(
            "event_bytes_max",
            self.event_bytes_max as u64,
            1 << 10,
            1 << 31,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_limits_are_named() {
        assert_eq!(Config::new(90).validate(), Ok(()));
        let error = Config::new(1025).validate().unwrap_err();
        assert_eq!(
            error.to_string(),
            "sources is 1025; it must be from 1 to 1024"
        );
        let mut narrow = Config::new(1);
        narrow.trigger_bits = TriggerBits::Sixteen;
        narrow.window_events = 16_385;
        assert_eq!(narrow.validate().unwrap_err().name, "window_events");
    }
}
