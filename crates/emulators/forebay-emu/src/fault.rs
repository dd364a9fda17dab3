//! What can go wrong in a source, and when.
//!
//! Whether a rule strikes is a function of the seed, the rule and the trigger (or the message's
//! number in its source), so a run with the same seed fails in the same way.

use std::ops::Range;

use crate::config::{ConfigError, in_range};
use crate::rng::hash;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The source makes nothing for the trigger. Over a range of events: a silent source.
    Silent,
    /// The sub-event carries another tag than the other sources'.
    WrongTag,
    /// Bit 31 of the sub-event's id, the data error bit, is set.
    DataError,
    /// The sub-event is its 16-byte header only.
    HeaderOnly,
    /// The size field of the sub-event is nonsense (0, 12, huge, beyond the message).
    BadSize,
    /// The message is made and not sent; the source's account says so.
    DropMessage,
    /// The message is sent twice; its sub-events count as made twice.
    DuplicateMessage,
    /// The trailer differs from the message's start in one bit.
    CorruptTrailer,
    /// One byte anywhere in the message is changed.
    CorruptByte,
    /// The message is sent after the one that follows it.
    ReorderMessage,
    /// The source makes the sub-event so much later.
    Late {
        /// By how much.
        ns: u64,
    },
    /// The source's trigger numbers are ahead of the others' (behind when negative).
    Ahead {
        /// By how many.
        triggers: i32,
    },
    /// At the first event of the rule's range the source restarts (whatever the pick): what its
    /// queue holds is lost.
    Restart {
        /// Whether its numbers begin again at 0 (for the rule's range) or go on with the others'.
        from_zero: bool,
    },
}

/// Which triggers (or messages) of a rule's range are struck.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pick {
    /// All.
    Always,
    /// The first of each so many; 1 or more.
    Every(u64),
    /// Each with this probability.
    Chance(f64),
}

/// One source, one fault, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultRule {
    /// The source, from 0.
    pub source: usize,
    /// What goes wrong.
    pub fault: Fault,
    /// Trigger indices (counted from 0 from the start of the run) at which it may; a message
    /// belongs to the trigger of its last sub-event.
    pub events: Range<u64>,
    /// Which of them.
    pub pick: Pick,
}

impl FaultRule {
    /// The fault in every event.
    #[must_use]
    pub fn new(source: usize, fault: Fault) -> Self {
        Self {
            source,
            fault,
            events: 0..u64::MAX,
            pick: Pick::Always,
        }
    }

    /// Only for triggers of this range.
    #[must_use]
    pub fn during(self, events: Range<u64>) -> Self {
        Self { events, ..self }
    }

    /// Only for these of the range.
    #[must_use]
    pub fn pick(self, pick: Pick) -> Self {
        Self { pick, ..self }
    }

    pub(crate) fn check(&self, sources: usize) -> Result<(), ConfigError> {
        in_range("fault.source", self.source, 0, sources - 1)?;
        match self.pick {
            Pick::Always => Ok(()),
            Pick::Every(n) => in_range("fault.every", n, 1, u64::MAX),
            Pick::Chance(p) => in_range("fault.chance", p, 0.0, 1.0),
        }
    }

    /// Whether it strikes the trigger `index`.
    fn strikes(&self, key: u64, index: u64) -> bool {
        self.strikes_message(key, index, index.wrapping_sub(self.events.start))
    }

    /// Whether it strikes the `serial`-th of the messages, its last sub-event being of `index`.
    fn strikes_message(&self, key: u64, index: u64, serial: u64) -> bool {
        self.events.contains(&index)
            && match self.pick {
                Pick::Always => true,
                Pick::Every(n) => serial.is_multiple_of(n),
                Pick::Chance(p) => ((hash(key, serial) >> 11) as f64) < p * (1_u64 << 53) as f64,
            }
    }
}

/// What is wrong with one sub-event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SubEventFault {
    pub(crate) silent: bool,
    pub(crate) data_error: bool,
    pub(crate) header_only: bool,
    pub(crate) tag_flip: u8,
    pub(crate) bad_size: Option<u32>,
    pub(crate) restart: bool,
    /// The trigger value (not yet cut to its width) the source believes in.
    pub(crate) value: u64,
}

/// What is wrong with one message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MessageFault {
    pub(crate) drop: bool,
    pub(crate) duplicate: bool,
    pub(crate) reorder: bool,
    /// A byte counted from the end, and what is flipped in it.
    pub(crate) flip: Option<(usize, u8)>,
}

/// The rules of one source.
#[derive(Debug, Clone)]
pub(crate) struct SourceFaults {
    rules: Vec<(u64, FaultRule)>,
}

impl SourceFaults {
    /// The rules for `source`, if there are any.
    pub(crate) fn new(rules: &[FaultRule], source: usize, seed: u64) -> Option<Box<Self>> {
        let keyed = rules.iter().enumerate();
        let own: Vec<_> = keyed
            .filter(|(_, rule)| rule.source == source)
            .map(|(i, rule)| (hash(!seed, i as u64), rule.clone()))
            .collect();
        (!own.is_empty()).then(|| Box::new(Self { rules: own }))
    }

    /// How much later than the others the source makes the trigger; none: it is never late.
    pub(crate) fn late_ns(&self, index: u64) -> u64 {
        let late = |(key, rule): &(u64, FaultRule)| match rule.fault {
            Fault::Late { ns } if rule.strikes(*key, index) => ns,
            _ => 0,
        };
        self.rules.iter().map(late).sum()
    }

    pub(crate) fn is_ever_late(&self) -> bool {
        let late = |(_, rule): &(u64, FaultRule)| matches!(rule.fault, Fault::Late { .. });
        self.rules.iter().any(late)
    }

    /// What becomes of the sub-event for trigger `index`, the `first` + `index`-th for all others.
    pub(crate) fn subevent(&self, index: u64, first: u64) -> SubEventFault {
        let mut fault = SubEventFault {
            value: first.wrapping_add(index),
            ..SubEventFault::default()
        };
        for (key, rule) in &self.rules {
            match rule.fault {
                Fault::Restart { from_zero } if index >= rule.events.start => {
                    fault.restart |= index == rule.events.start;
                    if from_zero && rule.events.contains(&index) {
                        fault.value = index - rule.events.start;
                    }
                }
                _ if rule.strikes(*key, index) => fault.add(rule.fault, hash(*key, !index)),
                _ => {}
            }
        }
        fault
    }

    /// What becomes of the source's message number `serial`, of `bytes`.
    pub(crate) fn message(&self, last_index: u64, serial: u64, bytes: usize) -> MessageFault {
        let mut fault = MessageFault::default();
        for (key, rule) in &self.rules {
            if rule.strikes_message(*key, last_index, serial) {
                fault.add(rule.fault, hash(*key, !serial), bytes);
            }
        }
        fault
    }
}

impl SubEventFault {
    fn add(&mut self, fault: Fault, random: u64) {
        match fault {
            Fault::Silent => self.silent = true,
            Fault::WrongTag => self.tag_flip = (random as u8).max(1),
            Fault::DataError => self.data_error = true,
            Fault::HeaderOnly => self.header_only = true,
            Fault::BadSize => {
                let sizes = [0, 12, 1 << 24, 0x7fff_fff0, u32::MAX];
                self.bad_size = Some(sizes[random as usize % sizes.len()]);
            }
            Fault::Ahead { triggers } => {
                self.value = self.value.wrapping_add_signed(i64::from(triggers));
            }
            // The source's, and of whole messages.
            Fault::Late { .. } | Fault::Restart { .. } => {}
            Fault::DropMessage
            | Fault::DuplicateMessage
            | Fault::ReorderMessage
            | Fault::CorruptTrailer
            | Fault::CorruptByte => {}
        }
    }
}

impl MessageFault {
    fn add(&mut self, fault: Fault, random: u64, bytes: usize) {
        let flip = 1 << (random & 7);
        match fault {
            Fault::DropMessage => self.drop = true,
            Fault::DuplicateMessage => self.duplicate = true,
            Fault::ReorderMessage => self.reorder = true,
            Fault::CorruptTrailer => self.flip = Some(((random >> 8) as usize % 24, flip)),
            Fault::CorruptByte => self.flip = Some(((random >> 8) as usize % bytes, flip)),
            // The source's, and of single sub-events.
            Fault::Late { .. } | Fault::Restart { .. } => {}
            Fault::Silent
            | Fault::WrongTag
            | Fault::DataError
            | Fault::HeaderOnly
            | Fault::BadSize
            | Fault::Ahead { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn struck(rule: &FaultRule, n: u64) -> Vec<u64> {
        (0..n).filter(|&i| rule.strikes(5, i)).collect()
    }

    #[test]
    fn windows_and_picks() {
        let rule = FaultRule::new(0, Fault::Silent).during(10..20);
        assert_eq!(struck(&rule, 100), (10..20).collect::<Vec<_>>());
        assert_eq!(
            struck(&rule.clone().pick(Pick::Every(4)), 100),
            [10, 14, 18]
        );
        assert!(struck(&rule.clone().pick(Pick::Chance(0.0)), 100).is_empty());
        assert_eq!(struck(&rule.pick(Pick::Chance(1.0)), 100).len(), 10);
    }

    /// 100,000 draws at 0.01: 1000 expected, five standard deviations are 158.
    #[test]
    fn chance_is_kept() {
        let rule = FaultRule::new(0, Fault::Silent).pick(Pick::Chance(0.01));
        let n = struck(&rule, 100_000).len() as i64;
        assert!((n - 1000).abs() < 158, "{n}");
    }

    #[test]
    fn values_after_restart_and_ahead() {
        let rules = [
            FaultRule::new(1, Fault::Restart { from_zero: true }).during(50..100),
            FaultRule::new(1, Fault::Ahead { triggers: -3 }).during(200..300),
        ];
        let faults = SourceFaults::new(&rules, 1, 9).unwrap();
        let value = |i| faults.subevent(i, 1000).value;
        assert_eq!([value(49), value(50), value(99)], [1049, 0, 49]);
        assert_eq!([value(100), value(200), value(300)], [1100, 1197, 1300]);
        assert!(faults.subevent(50, 0).restart && !faults.subevent(51, 0).restart);
        assert!(SourceFaults::new(&rules, 0, 9).is_none());
    }

    #[test]
    fn lateness_adds_up() {
        let rules = [
            FaultRule::new(0, Fault::Late { ns: 5 }),
            FaultRule::new(0, Fault::Late { ns: 7 }).during(3..4),
        ];
        let faults = SourceFaults::new(&rules, 0, 1).unwrap();
        assert_eq!([faults.late_ns(2), faults.late_ns(3)], [5, 12]);
        assert!(faults.is_ever_late());
    }
}
