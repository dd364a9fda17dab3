//! Keeps an offer on a bus.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use forebay_link::bytes::{Address, Security};
use forebay_run::error::RunError;

use super::lines::{Answer, BusError, Client, Request};
use super::{BEAT, Bus, NAP, Offer, OfferError, directory};

/// Keeps an offer on a bus while it lives; then the offer vanishes at once.
#[derive(Debug)]
pub struct Announcer {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    file: Option<PathBuf>,
}

impl Announcer {
    /// Begins to announce. A registry that is not there is looked for again and again.
    ///
    /// # Errors
    /// The offer is none.
    pub fn start(bus: &Bus, offer: Offer, security: &Security) -> Result<Self, AnnounceError> {
        offer.check()?;
        let end = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&end);
        let mut file = None;
        let mut carrier = match bus {
            Bus::Directory(path) => {
                let path = directory::path(path, &offer);
                file = Some(path.clone());
                Carrier::File(
                    path,
                    format!(
                        "{}\n",
                        serde_json::to_string(&offer).map_err(RunError::not_sayable("offer"))?
                    ),
                )
            }
            Bus::Registry(place) => Carrier::Registry(Announcing {
                place: place.clone(),
                security: security.clone(),
                client: None,
                request: Request::Announce(offer),
            }),
        };
        // The first time here, so that its caller sees that it works.
        carrier.renew(&mut Trouble::default());
        let work = move || {
            let mut trouble = Trouble::default();
            let mut last = Instant::now();
            while !asked.load(Ordering::Relaxed) {
                std::thread::sleep(NAP);
                if last.elapsed() >= BEAT {
                    last = Instant::now();
                    carrier.renew(&mut trouble);
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("announcer".into())
            .spawn(work);
        Ok(Self {
            end,
            thread: Some(thread.map_err(RunError::file("starting", "the announcer's thread"))?),
            file,
        })
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked announces nothing any more.
            let _ = thread.join();
        }
        if let Some(file) = &self.file {
            // Else it vanishes with its lease.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Why nothing is announced.
#[derive(Debug, thiserror::Error)]
pub enum AnnounceError {
    /// The offer is none.
    #[error("the offer: {0}")]
    Offer(#[from] OfferError),
    /// The system.
    #[error(transparent)]
    Run(#[from] RunError),
}

enum Carrier {
    File(PathBuf, String),
    Registry(Announcing),
}

impl Carrier {
    fn renew(&mut self, trouble: &mut Trouble) {
        match self {
            Self::File(path, line) => {
                let done = directory::renew(path, line).map_err(BusError::from);
                trouble.tell(done, &path.display().to_string());
            }
            Self::Registry(announcing) => {
                trouble.tell(announcing.renew(), &announcing.place.to_string());
            }
        }
    }
}

/// An offer at a registry.
struct Announcing {
    place: Address,
    security: Security,
    client: Option<Client>,
    request: Request,
}

impl Announcing {
    fn renew(&mut self) -> Result<(), BusError> {
        let mut there = match self.client.take() {
            Some(there) => there,
            None => Client::connect(&self.place, &self.security)?,
        };
        match there.ask(&self.request)? {
            Answer::Refused(why) => Err(BusError::Refused(why)),
            _ => {
                self.client = Some(there);
                Ok(())
            }
        }
    }
}

/// What to do about a bus that does not work; nothing when the error says it.
fn remedy(error: &BusError, place: &str) -> String {
    let is_registry = place.starts_with("tcp://");
    let words = match error.kind() {
        None => return String::new(),
        Some(ErrorKind::ConnectionRefused) => {
            return format!("; no registry listens there: `forebay net bus {place}` starts one");
        }
        Some(ErrorKind::InvalidData | ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)
            if is_registry =>
        {
            "what listens there is no registry, or one that speaks TLS when this side does not, or the other way round: give --bus the address of \
             a `forebay net bus`, and both the same --tls-… or --plain"
        }
        Some(ErrorKind::NotFound) if !is_registry => {
            "no publisher has made that directory yet, or it is another one"
        }
        _ if is_registry => "see whether the host is right and can be reached",
        _ => "see whether the directory is right and can be read and written",
    };
    format!("; {words}")
}

/// Tells when a bus goes away and when it comes back, once each.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    there: bool,
}

impl Trouble {
    pub(super) fn tell(&mut self, done: Result<(), BusError>, place: &str) {
        match done {
            Ok(()) if self.there => {
                self.there = false;
                tracing::warn!("the bus {place} is there again");
            }
            Err(error) if !self.there => {
                self.there = true;
                let remedy = remedy(&error, place);
                tracing::warn!(
                    "the bus {place} does not work: {error}{remedy}; it is tried again every second"
                );
            }
            _ => {}
        }
    }
}
