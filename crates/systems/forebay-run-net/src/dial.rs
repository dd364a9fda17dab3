//! Connecting, and connecting again.

use std::net::IpAddr;
use std::thread::JoinHandle;

use forebay_link::bytes::{Address, ByteLink, ByteLinkError, Round, Terms, connect_next};

use crate::connection::Parted;
use crate::lasting::{Lasting, tries_to_be_sure};
use crate::settings::Backoff;

/// So often it is looked whether a name has been looked up, in ns.
const LOOK_UP_NS: u64 = 1_000_000;

type Found = Result<Round, ByteLinkError>;

/// One peer that this side connects to.
#[derive(Debug)]
pub(super) struct Dial {
    /// Its number, which is not used again: others go, and it moves up.
    pub(super) id: usize,
    pub(super) address: Address,
    backoff: Backoff,
    /// Addresses of the host's name that are still to be tried before the next wait.
    round: Round,
    /// The name is being looked up, elsewhere: while a name server is away, those that are connected are served.
    looking: Option<JoinHandle<Found>>,
    look_up: fn(&str, u16) -> Found,
    /// Attempts in a row that came to nothing for a reason that lasts.
    mistakes: usize,
    /// The next wait.
    wait_ns: u64,
    /// When the next attempt is due; none while there is a connection.
    due_ns: Option<u64>,
    pub(super) attempts: u64,
    /// There is a connection, or one is being made.
    pub(super) is_connected: bool,
    /// The last connection ended in order.
    pub(super) has_ended: bool,
    /// The peer is gone for good: it is not tried again.
    retired: bool,
    /// Why there is no connection, as far as it is known.
    pub(super) trouble: Option<String>,
    /// It is refused for good, or something else is there than what is looked for.
    pub(super) refusal: Option<Lasting>,
    random: u64,
}

impl Dial {
    pub(super) fn new(id: usize, address: Address, backoff: Backoff, now_ns: u64) -> Self {
        Self {
            id,
            address,
            backoff,
            round: Round::default(),
            looking: None,
            look_up: Round::look_up,
            mistakes: 0,
            wait_ns: backoff.first_ns,
            due_ns: Some(now_ns),
            attempts: 0,
            is_connected: false,
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
        match self.addresses() {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                self.attempts += 1;
                self.mistakes = 0;
                self.lost(now_ns, error.to_string());
                return Ok(None);
            }
            None => {
                self.due_ns = Some(now_ns + LOOK_UP_NS);
                return Ok(None);
            }
        }
        self.attempts += 1;
        match connect_next(&self.address, terms(), &mut self.round) {
            Ok(link) => {
                self.due_ns = None;
                Ok(Some(link))
            }
            Err(error) if error.is_final() => Err(error),
            Err(error) => {
                self.mistakes = 0;
                self.lost(now_ns, error.to_string());
                Ok(None)
            }
        }
    }

    /// Whether there is an address to try; none while a name is being looked up.
    fn addresses(&mut self) -> Option<Result<(), ByteLinkError>> {
        let Address::Tcp { host, port } = &self.address else {
            return Some(Ok(()));
        };
        if !self.round.is_over() || host.parse::<IpAddr>().is_ok() {
            return Some(Ok(()));
        }
        let Some(looking) = self.looking.take() else {
            let (host, port, look_up) = (host.clone(), *port, self.look_up);
            let thread = std::thread::Builder::new().name("look-up".into());
            // Without a thread it is tried again.
            self.looking = thread.spawn(move || look_up(&host, port)).ok();
            return None;
        };
        if !looking.is_finished() {
            self.looking = Some(looking);
            return None;
        }
        // One that panicked has found nothing, and the next one may.
        Some(looking.join().ok()?.map(|round| self.round = round))
    }

    /// An attempt came to nothing: for a reason that would be the same again, of which `tries` in a row are no accident, or for another one. Whether it
    /// is now known to be for good.
    pub(super) fn judge(&mut self, parted: &Parted) -> bool {
        let Some(tries) = tries_to_be_sure(parted) else {
            self.mistakes = 0;
            return false;
        };
        self.mistakes += 1;
        // Another of the host's addresses may be the right one.
        if self.mistakes < tries.max(self.round.addresses()) || self.refusal.is_some() {
            return false;
        }
        self.refusal = Some(Lasting::of(parted, &self.address, self.mistakes));
        true
    }

    /// The connection is gone, or was not made.
    pub(super) fn lost(&mut self, now_ns: u64, why: String) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.trouble = Some(why);
        if !self.round.is_over() {
            self.due_ns = (!self.retired).then_some(now_ns);
            return;
        }
        let jitter_ns = self.random % (self.wait_ns / 2 + 1);
        self.due_ns = (!self.retired).then(|| now_ns + self.wait_ns + jitter_ns);
        self.wait_ns = (self.wait_ns * 2).min(self.backoff.most_ns);
    }

    /// It cannot be connected to from here, as long as it is what it is.
    pub(super) fn give_up(&mut self, why: String) {
        tracing::warn!("{}: not tried again: {why}", self.address);
        self.due_ns = None;
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
        self.round = Round::default();
        self.mistakes = 0;
        self.has_ended = false;
        self.trouble = None;
        self.refusal = None;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::sync::{Condvar, Mutex};

    use forebay_msg::Refusal;
    use forebay_msg::session::SessionError;

    use super::*;

    #[test]
    fn waits_grow_to_their_limit_and_begin_anew() {
        let address = "tcp://127.0.0.1:1".parse().unwrap();
        let backoff = Backoff {
            first_ns: 100,
            most_ns: 1_000,
        };
        let mut dial = Dial::new(0, address, backoff, 7);
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

    #[test]
    fn a_name_that_takes_long_to_be_looked_up_holds_nobody_up() {
        static IS_THERE: Mutex<bool> = Mutex::new(false);
        static CAME: Condvar = Condvar::new();
        let address = "tcp://daq:1".parse().unwrap();
        let mut dial = Dial::new(0, address, Backoff::default(), 7);
        dial.look_up = |_, _| {
            let guard = IS_THERE.lock().unwrap();
            drop(CAME.wait_while(guard, |is_there| !*is_there).unwrap());
            Ok(Round::of([([127, 0, 0, 1], 1).into()]))
        };
        for now_ns in [7, 7 + LOOK_UP_NS, 7 + 2 * LOOK_UP_NS] {
            assert!(dial.attempt(now_ns, Terms::default).unwrap().is_none());
            assert_eq!(dial.due_ns(), Some(now_ns + LOOK_UP_NS));
            assert_eq!(dial.attempts, 0);
        }
        *IS_THERE.lock().unwrap() = true;
        CAME.notify_all();
        let mut now_ns = 8 + 2 * LOOK_UP_NS;
        while dial.attempts == 0 {
            now_ns += LOOK_UP_NS;
            // Nobody listens there, which shows now or later.
            let _ = dial.attempt(now_ns, Terms::default).unwrap();
            std::thread::yield_now();
        }
        assert!(dial.round.is_over());
    }

    #[test]
    fn the_other_addresses_of_a_name_are_tried_before_a_wait() {
        let address = "tcp://daq:1".parse().unwrap();
        let mut dial = Dial::new(0, address, Backoff::default(), 7);
        let at = |last: u8| ([127, 0, 0, last], 1).into();
        dial.round = Round::of([at(1), at(2)]);
        dial.lost(1_000, "refused".into());
        assert_eq!(dial.due_ns(), Some(1_000));
        dial.round = Round::of([]);
        dial.lost(1_000, "refused".into());
        assert!(dial.due_ns().unwrap() > 1_000 + dial.backoff.first_ns - 1);
    }

    #[test]
    fn what_lasts_is_believed_after_some_times_in_a_row() {
        let address = "tcp://127.0.0.1:1".parse().unwrap();
        let mut dial = Dial::new(0, address, Backoff::default(), 7);
        let garbage = || Parted::Session {
            peer: "a".into(),
            error: SessionError::Frame(forebay_wire::net::NetError::Magic { found: *b"SS" }),
        };
        let refuses = |reason| Parted::Session {
            peer: "a".into(),
            error: SessionError::Refused { reason: Ok(reason) },
        };
        let accident = Parted::Wordless { peer: "a".into() };
        for parted in [&garbage(), &garbage(), &accident, &refuses(Refusal::Busy)] {
            assert!(!dial.judge(parted));
        }
        assert!(!dial.judge(&garbage()) && !dial.judge(&garbage()));
        assert!(dial.refusal.is_none());
        assert!(dial.judge(&garbage()));
        assert!(matches!(
            dial.refusal,
            Some(Lasting::NoEndPoint { times: 3, .. })
        ));
        dial.made();
        assert!(dial.refusal.is_none() && dial.judge(&refuses(Refusal::Role)));
    }
}
