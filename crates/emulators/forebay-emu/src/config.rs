//! What a set of soft readouts is to do: plain fields with their units in the names.

use forebay_wire::hadtu::ByteOrder;
use forebay_wire::hadtu::MTU_BYTES;
use forebay_wire::subevent::{SUB_EVENT_HEADER_BYTES, TriggerBits};
use thiserror::Error;

use crate::fault::FaultRule;

/// Classic nettrans cuts a message into datagrams of exactly this many bytes (63 · 1024).
pub(crate) const CUT_BYTES: u32 = MTU_BYTES as u32;
/// The largest sub-event that can be asked for: 16 MiB.
pub const MAX_SUBEVENT_BYTES: u32 = 16 << 20;
/// Least and largest sub-event in bytes, its header included.
pub const SUBEVENT_BYTES: (u32, u32) = (SUB_EVENT_HEADER_BYTES as u32, MAX_SUBEVENT_BYTES);
/// Least and largest trigger rate in Hz.
pub const RATE_HZ: (f64, f64) = (1e-3, 1e8);
/// Least water mark in bytes.
pub const WATER_MARK_BYTES_MIN: u32 = 64;
/// The largest number of sources.
pub const MAX_SOURCES: usize = 4096;

/// A number of sources that make sub-events of the same size.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// How many sources; 1 or more.
    pub count: usize,
    /// Mean size of a sub-event in bytes, its 16-byte header included.
    pub mean_bytes: u32,
    /// Standard deviation of the size in bytes; 0 (the default) for a fixed size.
    pub sigma_bytes: f64,
    /// Smallest size, a multiple of 4; default 24 (header and the two status words).
    pub min_bytes: u32,
    /// Largest size, a multiple of 4; default [`MAX_SUBEVENT_BYTES`].
    pub max_bytes: u32,
}

impl Group {
    /// A group with the default clamp.
    #[must_use]
    pub fn new(count: usize, mean_bytes: u32, sigma_bytes: f64) -> Self {
        Self {
            count,
            mean_bytes,
            sigma_bytes,
            min_bytes: 24,
            max_bytes: MAX_SUBEVENT_BYTES,
        }
    }
}

impl std::str::FromStr for Group {
    type Err = ConfigError;

    /// Reads `COUNT:BYTES[:SIGMA]`, as `60:116` or `20:338:34`.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong = || ConfigError::GroupSyntax {
            text: text.to_owned(),
        };
        let mut parts = text.split(':');
        let mut part = || parts.next().map(str::trim);
        let count = part().and_then(|p| p.parse().ok()).ok_or_else(wrong)?;
        let mean = part().and_then(|p| p.parse().ok()).ok_or_else(wrong)?;
        let sigma = part().map_or(Ok(0.0), |p| p.parse().map_err(|_| wrong()))?;
        match part() {
            None => Ok(Self::new(count, mean, sigma)),
            Some(_) => Err(wrong()),
        }
    }
}

/// The distance between triggers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spacing {
    /// All the same.
    #[default]
    Fixed,
    /// Exponentially distributed, as from a random process.
    Poisson,
}

/// Beam that comes in spills; each period begins with one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spill {
    /// From one spill's start to the next.
    pub period_ns: u64,
    /// How long the spill lasts; at most the period.
    pub length_ns: u64,
}

/// The triggers, common to all sources.
#[derive(Debug, Clone, PartialEq)]
pub struct Trigger {
    /// Mean rate in Hz, in the range of [`RATE_HZ`]; with spills the rate inside a spill.
    pub rate_hz: f64,
    /// Fixed spacing or Poisson.
    pub spacing: Spacing,
    /// Spill structure; none (the default) for a continuous beam.
    pub spill: Option<Spill>,
    /// Width of the trigger number; default 24 bits. With 16, bits 31..24 of the trigger word hold
    /// something that differs between sources, as nobody may look at them.
    pub bits: TriggerBits,
    /// Number of the first trigger; default 0.
    pub first: u32,
    /// Trigger type 0–15, in bits 7..4 of the sub-event's decoding; default 1.
    pub kind: u8,
}

impl Trigger {
    /// Triggers at a fixed spacing, 24 bits, from 0, of type 1.
    #[must_use]
    pub fn at_rate(rate_hz: f64) -> Self {
        Self {
            rate_hz,
            spacing: Spacing::Fixed,
            spill: None,
            bits: TriggerBits::TwentyFour,
            first: 0,
            kind: 1,
        }
    }
}

/// How sub-events are put in messages and these in datagrams.
#[derive(Debug, Clone, PartialEq)]
pub struct Transport {
    /// Sub-events are collected until the queue (its 8-byte header included) would exceed this;
    /// none: each sub-event is a message of its own. Default 32 KiB.
    pub water_mark_bytes: Option<u32>,
    /// A bound on the queue whatever the water mark; a larger sub-event travels alone. At most
    /// 64,472 so that a message of several sub-events is one datagram. Default 60,000.
    pub max_queue_bytes: u32,
    /// A queue is sent at the latest this long after its first sub-event; none: it waits for the
    /// water mark. Default 1 s.
    pub flush_ns: Option<u64>,
    /// Byte order of the headers; default big-endian, as readout hardware sends.
    pub byte_order: ByteOrder,
    /// Whether a message may be exactly k · 64,512 bytes, whose end a receiver cannot see. When not
    /// (the default) such a sub-event is made 8 bytes smaller.
    pub exact_cuts: bool,
    /// Id of source 0, below 2³¹ with all others; source n has this plus n. Default 0x8000.
    pub first_id: u32,
    /// How many consecutive sources share one UDP port; default 1.
    pub sources_per_port: usize,
}

impl Default for Transport {
    fn default() -> Self {
        Self {
            water_mark_bytes: Some(32 << 10),
            max_queue_bytes: 60_000,
            flush_ns: Some(1_000_000_000),
            byte_order: ByteOrder::Big,
            exact_cuts: false,
            first_id: 0x8000,
            sources_per_port: 1,
        }
    }
}

/// Huge sub-events, in each source at its own phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Huge {
    /// One in so many sub-events of a source is huge (counted by the trigger number); 1 or more.
    pub every_events: u32,
    /// Its size, header included; a multiple of 4.
    pub bytes: u32,
}

/// When triggers end; with neither they never do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    /// After so many.
    pub events: Option<u64>,
    /// After so much time from the start.
    pub duration_ns: Option<u64>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Everything random follows from it.
    pub seed: u64,
    /// The sources, numbered from 0 in this order; at most [`MAX_SOURCES`].
    pub groups: Vec<Group>,
    /// The triggers.
    pub trigger: Trigger,
    /// Messages and datagrams.
    pub transport: Transport,
    /// Huge sub-events; none by default.
    pub huge: Option<Huge>,
    /// The end of the run.
    pub limit: Limit,
    /// What goes wrong, where and when; empty by default.
    pub faults: Vec<FaultRule>,
    /// A trigger made later than this after its due time counts as *behind*. Default 10 ms: above
    /// what a sleeping thread is woken late by, below what a reader would call a stall.
    pub behind_after_ns: u64,
}

impl Config {
    /// Sources `groups` triggered at a fixed `rate_hz`, everything else at its default.
    #[must_use]
    pub fn new(seed: u64, groups: Vec<Group>, rate_hz: f64) -> Self {
        Self {
            seed,
            groups,
            trigger: Trigger::at_rate(rate_hz),
            transport: Transport::default(),
            huge: None,
            limit: Limit::default(),
            faults: Vec::new(),
            behind_after_ns: 10_000_000,
        }
    }

    /// The HADES "Test-2": 60 sources of 116 B, 20 of 338 B and 10 of 1170 B, 25.4 kB an event.
    #[must_use]
    pub fn test2(rate_hz: f64) -> Self {
        let groups = [(60, 116), (20, 338), (10, 1170)];
        let groups = groups.map(|(count, bytes)| Group::new(count, bytes, 0.0));
        Self::new(2, groups.to_vec(), rate_hz)
    }

    /// The number of sources.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.groups.iter().map(|g| g.count).sum()
    }

    /// Checks every range.
    ///
    /// # Errors
    /// The first value that is out of its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        in_range("number of sources", self.sources(), 1, MAX_SOURCES)?;
        self.groups.iter().try_for_each(check_group)?;
        self.check_trigger()?;
        self.check_transport()?;
        if let Some(huge) = self.huge {
            in_range("huge.every_events", huge.every_events, 1, u32::MAX)?;
            check_size("huge.bytes", huge.bytes)?;
        }
        for rule in &self.faults {
            rule.check(self.sources())?;
        }
        Ok(())
    }

    fn check_trigger(&self) -> Result<(), ConfigError> {
        let trigger = &self.trigger;
        in_range("trigger.rate_hz", trigger.rate_hz, RATE_HZ.0, RATE_HZ.1)?;
        in_range("trigger.kind", trigger.kind, 0, 15)?;
        in_range("trigger.first", trigger.first, 0, trigger.bits.mask())?;
        if let Some(spill) = trigger.spill {
            in_range(
                "trigger.spill.length_ns",
                spill.length_ns,
                1,
                spill.period_ns,
            )?;
        }
        Ok(())
    }

    fn check_transport(&self) -> Result<(), ConfigError> {
        let transport = &self.transport;
        in_range(
            "max_queue_bytes",
            transport.max_queue_bytes,
            64,
            CUT_BYTES - 40,
        )?;
        if let Some(mark) = transport.water_mark_bytes {
            in_range("water_mark_bytes", mark, WATER_MARK_BYTES_MIN, u32::MAX)?;
        }
        let last_id = u64::from(transport.first_id) + self.sources() as u64 - 1;
        in_range("last sub-event id", last_id, 0, 0x7fff_ffff)?;
        in_range(
            "sources_per_port",
            transport.sources_per_port,
            1,
            MAX_SOURCES,
        )
    }
}

fn check_group(group: &Group) -> Result<(), ConfigError> {
    check_size("group.min_bytes", group.min_bytes)?;
    check_size("group.max_bytes", group.max_bytes)?;
    in_range(
        "group.mean_bytes",
        group.mean_bytes,
        group.min_bytes,
        group.max_bytes,
    )?;
    in_range(
        "group.sigma_bytes",
        group.sigma_bytes,
        0.0,
        f64::from(MAX_SUBEVENT_BYTES),
    )
}

fn check_size(name: &'static str, bytes: u32) -> Result<(), ConfigError> {
    in_range(name, bytes, SUBEVENT_BYTES.0, SUBEVENT_BYTES.1)?;
    if bytes.is_multiple_of(4) {
        return Ok(());
    }
    Err(ConfigError::NotWords { name, bytes })
}

/// Refuses a value outside `low..=high`, and a NaN.
pub(crate) fn in_range<T>(name: &'static str, value: T, low: T, high: T) -> Result<(), ConfigError>
where
    T: PartialOrd + ToString,
{
    if value >= low && value <= high {
        return Ok(());
    }
    Err(ConfigError::Range {
        name,
        value: value.to_string(),
        low: low.to_string(),
        high: high.to_string(),
    })
}

/// A configuration that cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A value outside its range.
    #[error("{name} is {value}; it must be from {low} to {high}")]
    Range {
        /// The value.
        name: &'static str,
        /// What it is.
        value: String,
        /// Least allowed.
        low: String,
        /// Most allowed.
        high: String,
    },
    /// A size that is no multiple of 4.
    #[error("{name} is {bytes} bytes; it must be a multiple of 4")]
    NotWords {
        /// The size.
        name: &'static str,
        /// What it is.
        bytes: u32,
    },
    /// A group that is not `COUNT:BYTES[:SIGMA]`.
    #[error("group \"{text}\" is not COUNT:BYTES[:SIGMA], as 60:116 or 20:338:34")]
    GroupSyntax {
        /// What was given.
        text: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_and_refused() {
        assert_eq!("60:116".parse(), Ok(Group::new(60, 116, 0.0)));
        assert_eq!("20:338:33.5".parse(), Ok(Group::new(20, 338, 33.5)));
        for wrong in ["", "60", "60:", "a:1", "1:2:x", "1:2:3:4", "-1:100"] {
            assert!(wrong.parse::<Group>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn test2_is_the_published_load() {
        let config = Config::test2(4000.0);
        assert_eq!(config.check(), Ok(()));
        assert_eq!(config.sources(), 90);
        let per_event: u32 = config
            .groups
            .iter()
            .map(|g| g.count as u32 * g.mean_bytes)
            .sum();
        assert_eq!(per_event, 25_420);
    }

    #[test]
    fn values_out_of_range_are_named() {
        type Spoil = fn(&mut Config);
        let cases: [(&str, Spoil); 9] = [
            ("number of sources", |c| c.groups.clear()),
            ("group.mean_bytes", |c| c.groups[0].mean_bytes = 8),
            ("group.sigma_bytes", |c| c.groups[0].sigma_bytes = f64::NAN),
            ("group.min_bytes", |c| c.groups[0].min_bytes = 18),
            ("trigger.rate_hz", |c| c.trigger.rate_hz = 0.0),
            ("trigger.kind", |c| c.trigger.kind = 16),
            ("max_queue_bytes", |c| c.transport.max_queue_bytes = 64_480),
            ("last sub-event id", |c| c.transport.first_id = 0x7fff_ffff),
            ("huge.every_events", |c| {
                c.huge = Some(Huge {
                    every_events: 0,
                    bytes: 100,
                })
            }),
        ];
        for (name, spoil) in cases {
            let mut config = Config::test2(1.0);
            spoil(&mut config);
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }
}
