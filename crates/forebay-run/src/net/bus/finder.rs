//! Looks at all offers of a bus.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::announcer::Trouble;
use forebay_link::bytes::Security;

use super::lines::{Answer, BusError, Client, Request};
use super::{BEAT, Bus, NAP, Offer, directory};
use crate::error::RunError;

#[derive(Debug, Default)]
struct Shared {
    end: AtomicBool,
    /// Counts changes.
    version: AtomicU64,
    offers: Mutex<Vec<Offer>>,
}

/// Looks at all offers, once a second.
#[derive(Debug)]
pub struct Finder {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    seen: u64,
}

impl Finder {
    /// Begins to look. While the bus is away, what was found last holds.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(bus: &Bus, security: &Security) -> Result<Self, RunError> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let mut looker = Looker {
            bus: bus.clone(),
            security: security.clone(),
            client: None,
            told: BTreeSet::new(),
        };
        let work = move || {
            let mut trouble = Trouble::default();
            let mut last: Option<Instant> = None;
            while !theirs.end.load(Ordering::Relaxed) {
                if last.is_none_or(|last| last.elapsed() >= BEAT) {
                    last = Some(Instant::now());
                    let found = looker.look();
                    trouble.tell(
                        found.map(|offers| theirs.take(offers)),
                        &looker.bus.to_string(),
                    );
                }
                std::thread::sleep(NAP);
            }
        };
        let thread = std::thread::Builder::new()
            .name("finder".into())
            .spawn(work);
        Ok(Self {
            shared,
            thread: Some(thread.map_err(RunError::file("starting", "the finder's thread"))?),
            seen: 0,
        })
    }

    /// What was found is asked for anew.
    pub fn again(&mut self) {
        self.seen = 0;
    }

    /// All offers, when they have changed since they were last asked for.
    pub fn changed(&mut self) -> Option<Vec<Offer>> {
        let version = self.shared.version.load(Ordering::Acquire);
        if version == self.seen {
            return None;
        }
        self.seen = version;
        let offers = self.shared.offers.lock();
        Some(offers.unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Shared {
    fn take(&self, found: Vec<Offer>) {
        let mut offers = self.offers.lock().unwrap_or_else(PoisonError::into_inner);
        let first = self.version.load(Ordering::Relaxed) == 0;
        if first || *offers != found {
            *offers = found;
            self.version.fetch_add(1, Ordering::Release);
        }
    }
}

impl Drop for Finder {
    fn drop(&mut self) {
        self.shared.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked finds nothing any more.
            let _ = thread.join();
        }
    }
}

struct Looker {
    bus: Bus,
    security: Security,
    client: Option<Client>,
    /// Files that were said to be wrong: once is enough.
    told: BTreeSet<PathBuf>,
}

impl Looker {
    fn look(&mut self) -> Result<Vec<Offer>, BusError> {
        match &self.bus {
            Bus::Directory(path) => {
                let mut wrong = BTreeSet::new();
                let offers = directory::read(path, &mut |file, error| {
                    if !self.told.contains(file) {
                        tracing::warn!("{}: {error}", file.display());
                    }
                    wrong.insert(file.to_owned());
                })?;
                // No more of them are kept than there are.
                self.told = wrong;
                Ok(offers)
            }
            Bus::Registry(place) => {
                let mut client = match self.client.take() {
                    Some(client) => client,
                    None => Client::connect(place, &self.security)?,
                };
                match client.ask(&Request::Find)? {
                    Answer::Offers(mut offers) => {
                        self.client = Some(client);
                        offers.retain(|offer| offer.check().is_ok());
                        Ok(offers)
                    }
                    Answer::Refused(why) => Err(BusError::Refused(why)),
                    Answer::Kept => Err(BusError::Refused("no answer to what was asked".into())),
                }
            }
        }
    }
}
