//! A fault as a word on the command line: `SOURCE:FAULT[=VALUE][,from=N][,to=N][,every=N][,chance=P]`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::fault::{Fault, FaultRule, Pick};

/// Units of time that a delay may have, in ns; a longer name stands before its own end.
const UNITS: [(&str, u64); 4] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// Faults that need no value.
const PLAIN: [(&str, Fault); 12] = [
    ("silent", Fault::Silent),
    ("wrong-tag", Fault::WrongTag),
    ("data-error", Fault::DataError),
    ("header-only", Fault::HeaderOnly),
    ("bad-size", Fault::BadSize),
    ("drop", Fault::DropMessage),
    ("duplicate", Fault::DuplicateMessage),
    ("corrupt-trailer", Fault::CorruptTrailer),
    ("corrupt-byte", Fault::CorruptByte),
    ("reorder", Fault::ReorderMessage),
    ("restart", Fault::Restart { from_zero: false }),
    ("restart-from-zero", Fault::Restart { from_zero: true }),
];

/// Why a text is no fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FaultTextError {
    /// No source in front.
    #[error("{text:?} names no source; write it as 3:drop,every=100")]
    Source {
        /// The text.
        text: String,
    },
    /// A fault that there is not, or a value that it does not take.
    #[error(
        "{fault:?} is no fault; there are late=TIME, ahead=TRIGGERS, {}",
        PLAIN.map(|(name, _)| name).join(", ")
    )]
    Fault {
        /// What stands there.
        fault: String,
    },
    /// When it strikes.
    #[error("{when:?} does not say when; write from=N, to=N, every=N or chance=0.01")]
    When {
        /// What stands there.
        when: String,
    },
}

impl FromStr for FaultRule {
    type Err = FaultTextError;

    fn from_str(text: &str) -> Result<Self, FaultTextError> {
        let (source, rest) = text
            .split_once(':')
            .and_then(|(source, rest)| Some((source.trim().parse().ok()?, rest)))
            .ok_or_else(|| FaultTextError::Source { text: text.into() })?;
        let mut parts = rest.split(',').map(str::trim);
        let mut rule = Self::new(source, fault(parts.next().unwrap_or_default())?);
        for when in parts {
            let wrong = || FaultTextError::When { when: when.into() };
            let (key, value) = when.split_once('=').ok_or_else(wrong)?;
            let number = || value.parse::<u64>().map_err(|_| wrong());
            match key {
                "from" => rule.events.start = number()?,
                "to" => rule.events.end = number()?,
                "every" => rule.pick = Pick::Every(number()?),
                "chance" => rule.pick = Pick::Chance(value.parse().map_err(|_| wrong())?),
                _ => return Err(wrong()),
            }
        }
        Ok(rule)
    }
}

fn fault(text: &str) -> Result<Fault, FaultTextError> {
    let value = match text.split_once('=') {
        Some(("late", time)) => nanoseconds(time).map(|ns| Fault::Late { ns }),
        Some(("ahead", triggers)) => triggers
            .parse()
            .ok()
            .map(|triggers| Fault::Ahead { triggers }),
        Some(_) => None,
        None => PLAIN
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, fault)| *fault),
    };
    value.ok_or_else(|| FaultTextError::Fault { fault: text.into() })
}

fn nanoseconds(text: &str) -> Option<u64> {
    let (number, unit) = UNITS
        .iter()
        .find_map(|(name, ns)| Some((text.strip_suffix(name)?, *ns)))?;
    number.trim().parse::<u64>().ok()?.checked_mul(unit)
}

impl fmt::Display for FaultRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.source)?;
        match self.fault {
            Fault::Late { ns } => write!(f, "late={ns}ns")?,
            Fault::Ahead { triggers } => write!(f, "ahead={triggers}")?,
            plain => {
                let name = PLAIN.iter().find(|(_, fault)| *fault == plain);
                f.write_str(name.map_or("", |(name, _)| name))?;
            }
        }
        if self.events.start > 0 {
            write!(f, ",from={}", self.events.start)?;
        }
        if self.events.end < u64::MAX {
            write!(f, ",to={}", self.events.end)?;
        }
        match self.pick {
            Pick::Always => Ok(()),
            Pick::Every(n) => write!(f, ",every={n}"),
            Pick::Chance(p) => write!(f, ",chance={p}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_comes_back_from_its_text() {
        let mut faults: Vec<Fault> = PLAIN.iter().map(|(_, fault)| *fault).collect();
        faults.extend([Fault::Late { ns: 1_500_000 }, Fault::Ahead { triggers: -3 }]);
        for fault in faults {
            for pick in [Pick::Always, Pick::Every(7), Pick::Chance(0.25)] {
                let rule = FaultRule::new(4, fault).during(10..2_000).pick(pick);
                assert_eq!(rule.to_string().parse(), Ok(rule));
            }
        }
        let plain = FaultRule::new(0, Fault::Silent);
        assert_eq!(plain.to_string(), "0:silent");
        assert_eq!("0:silent".parse(), Ok(plain));
        assert_eq!(
            "2:late=250ms,from=5".parse(),
            Ok(FaultRule::new(2, Fault::Late { ns: 250_000_000 }).during(5..u64::MAX))
        );
    }

    #[test]
    fn what_is_no_fault_is_named() {
        for (text, named) in [
            ("drop", "names no source"),
            ("x:drop", "names no source"),
            ("1:explode", "\"explode\" is no fault"),
            ("1:late", "is no fault"),
            ("1:late=soon", "is no fault"),
            ("1:silent=3", "is no fault"),
            ("1:drop,sometimes", "\"sometimes\" does not say when"),
            ("1:drop,every=x", "does not say when"),
        ] {
            let error = text.parse::<FaultRule>().unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
