//! Connecting, and connecting again.

use forebay_link::bytes::{Address, ByteLink, ByteLinkError, Terms, connect};

use super::settings::Backoff;

/// One peer that this side connects to.
#[derive(Debug)]
pub(super) struct Dial {
    pub(super) address: Address,
    backoff: Backoff,
    /// The next wait.
    wait_ns: u64,
    /// When the next attempt is due; none while there is a connection.
    due_ns: Option<u64>,
    pub(super) attempts: u64,
    /// The last connection ended in order.
    pub(super) has_ended: bool,
    /// The peer is gone for good: it is not tried again.
    retired: bool,
    /// Why there is no connection, as far as it is known.
    pub(super) trouble: Option<String>,
    /// What was asked for was refused for good.
    pub(super) refusal: Option<String>,
    random: u64,
}

impl Dial {
    pub(super) fn new(address: Address, backoff: Backoff, now_ns: u64) -> Self {
        Self {
            address,
            backoff,
            wait_ns: backoff.first_ns,
            due_ns: Some(now_ns),
            attempts: 0,
            has_ended: false,
            retired: false,
            trouble: None,
            refusal: None,
            // Any odd number: end points that lost the same peer shall not come back at the same moment.
            random: now_ns ^ (u64::from(std::process::id()) << 32) | 1,
        }
    }

    pub(super) fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// Connects if it is time; a link is being made then.
    ///
    /// # Errors
    /// The backend cannot be used at all: what is wrong with it now will be wrong for ever.
    pub(super) fn attempt(
        &mut self,
        now_ns: u64,
        terms: impl FnOnce() -> Terms,
    ) -> Result<Option<Box<dyn ByteLink>>, ByteLinkError> {
        if self.due_ns.is_none_or(|due_ns| now_ns < due_ns) {
            return Ok(None);
        }
        self.attempts += 1;
        match connect(&self.address, terms()) {
            Ok(link) => {
                self.due_ns = None;
                Ok(Some(link))
            }
            Err(error) if error.is_final() => Err(error),
            Err(error) => {
                self.lost(now_ns, error.to_string());
                Ok(None)
            }
        }
    }

    /// The connection is gone, or was not made.
    pub(super) fn lost(&mut self, now_ns: u64, why: String) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let jitter_ns = self.random % (self.wait_ns / 2 + 1);
        self.due_ns = (!self.retired).then(|| now_ns + self.wait_ns + jitter_ns);
        self.wait_ns = (self.wait_ns * 2).min(self.backoff.most_ns);
        self.trouble = Some(why);
    }

    /// The peer has vanished from the bus: a connection that is there lives on, and no other one is made.
    pub(super) fn retire(&mut self) {
        self.retired = true;
        self.due_ns = None;
    }

    /// Whether it is not to be tried again.
    pub(super) fn is_retired(&self) -> bool {
        self.retired
    }

    /// The peer is on the bus again.
    pub(super) fn revive(&mut self, now_ns: u64) {
        if self.retired {
            self.retired = false;
            self.due_ns = Some(now_ns);
        }
    }

    /// The peer has welcomed.
    pub(super) fn made(&mut self) {
        self.wait_ns = self.backoff.first_ns;
        self.has_ended = false;
        self.trouble = None;
        self.refusal = None;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    #[test]
    fn waits_grow_to_their_limit_and_begin_anew() {
        let address = "tcp://127.0.0.1:1".parse().unwrap();
        let backoff = Backoff {
            first_ns: 100,
            most_ns: 1_000,
        };
        let mut dial = Dial::new(address, backoff, 7);
        let mut waits = Vec::new();
        for _ in 0..6 {
            dial.lost(0, "gone".into());
            waits.push(dial.due_ns().unwrap());
        }
        for (wait, least) in waits.iter().zip([100, 200, 400, 800, 1_000, 1_000]) {
            assert!((least..=least * 3 / 2).contains(wait), "{waits:?}");
        }
        dial.made();
        dial.lost(0, "gone".into());
        assert!(dial.due_ns().unwrap() <= 150);
    }
}
