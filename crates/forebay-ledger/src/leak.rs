//! The fault switch: makes items vanish uncounted, so that a test can see that the audit finds them.

use std::str::FromStr;

/// Swallows the first *n* items that pass at one hop. Off by default; for tests only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leak {
    remaining: u64,
    hop: String,
}

/// A leak's description that is not `hop:N`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeakError {
    /// It has another form.
    #[error("leak {text:?}: expected HOP:N with a number of items, as queue:7")]
    Form {
        /// What was given.
        text: String,
    },
    /// This program has no such hop.
    #[error("leak {text:?}: this program has no hop {hop:?}; its hops are {hops}")]
    Hop {
        /// What was given.
        text: String,
        /// The hop in it.
        hop: String,
        /// Those that there are.
        hops: String,
    },
}

impl Leak {
    /// The switch in its normal position.
    #[must_use]
    pub fn off() -> Self {
        Self::default()
    }

    /// Reads `hop:N`, where the program has the hops `hops`, each named as the account or link that must show the leak.
    ///
    /// # Errors
    /// It has another form, or there is no such hop; the error lists those that there are.
    pub fn parse(text: &str, hops: &[&str]) -> Result<Self, LeakError> {
        let leak: Self = text.parse()?;
        if hops.contains(&leak.hop.as_str()) {
            return Ok(leak);
        }
        Err(LeakError::Hop {
            text: text.to_owned(),
            hop: leak.hop,
            hops: hops.join(", "),
        })
    }

    /// True when the item that passes at `hop` must vanish uncounted. One predictable branch when off.
    #[inline]
    pub fn take(&mut self, hop: &str) -> bool {
        if self.remaining == 0 {
            return false;
        }
        self.take_armed(hop)
    }

    /// How many of the `items` that pass at `hop` must vanish uncounted.
    #[inline]
    pub fn take_of(&mut self, hop: &str, items: u64) -> u64 {
        let mut taken = 0;
        while taken < items && self.take(hop) {
            taken += 1;
        }
        taken
    }

    /// Whether anything is left to swallow.
    #[must_use]
    pub const fn is_armed(&self) -> bool {
        self.remaining > 0
    }

    #[cold]
    fn take_armed(&mut self, hop: &str) -> bool {
        let here = self.hop == hop;
        self.remaining -= u64::from(here);
        here
    }
}

impl FromStr for Leak {
    type Err = LeakError;

    fn from_str(text: &str) -> Result<Self, LeakError> {
        let error = || LeakError::Form {
            text: text.to_owned(),
        };
        let (hop, n) = text.rsplit_once(':').ok_or_else(error)?;
        let remaining = n.trim().parse().map_err(|_| error())?;
        let hop = hop.trim().to_owned();
        if hop.is_empty() {
            return Err(error());
        }
        Ok(Self { remaining, hop })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn swallows_n_items_at_its_hop_only() {
        let mut leak: Leak = "sink:file:2".parse().unwrap();
        assert!(leak.is_armed());
        assert!(!leak.take("queue"));
        assert!(leak.take("sink:file"));
        assert!(leak.take("sink:file"));
        assert!(!leak.take("sink:file"));
        assert!(!leak.is_armed());
    }

    #[test]
    fn swallows_so_many_of_a_batch_and_no_more_than_are_left() {
        let mut leak: Leak = "ring:5".parse().unwrap();
        assert_eq!(leak.take_of("queue", 9), 0);
        assert_eq!(leak.take_of("ring", 3), 3);
        assert_eq!(leak.take_of("ring", 9), 2);
        assert_eq!(leak.take_of("ring", 9), 0);
    }

    #[test]
    fn off_swallows_nothing() {
        assert!(!Leak::off().take(""));
        assert_eq!(
            "queue:0".parse::<Leak>().map(|mut l| l.take("queue")),
            Ok(false)
        );
    }

    #[test]
    fn a_hop_that_is_not_there_is_refused_with_those_that_are() {
        let hops = ["socket", "queue"];
        assert!(Leak::parse("queue:7", &hops).unwrap().take("queue"));
        let said = Leak::parse("soket:7", &hops).unwrap_err().to_string();
        assert_eq!(
            said,
            "leak \"soket:7\": this program has no hop \"soket\"; its hops are socket, queue"
        );
    }

    #[test]
    fn refuses_nonsense() {
        for text in ["", "queue", "queue:", ":3", "queue:-1", "queue:x"] {
            assert!(text.parse::<Leak>().is_err(), "{text:?}");
        }
    }
}
