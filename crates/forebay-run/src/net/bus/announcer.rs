//! Keeps an offer on a bus.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use super::lines::{Answer, Client, Request};
use super::{BEAT, Bus, NAP, Offer, OfferError, directory};
use crate::error::RunError;

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
    pub fn start(bus: &Bus, offer: Offer) -> Result<Self, AnnounceError> {
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
            Bus::Registry(host, port) => {
                Carrier::Registry(host.clone(), *port, None, Request::Announce(offer))
            }
        };
        // The first time here, so that who starts it sees that it works.
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
    Registry(String, u16, Option<Client>, Request),
}

impl Carrier {
    fn renew(&mut self, trouble: &mut Trouble) {
        let (done, place) = match self {
            Self::File(path, line) => (directory::renew(path, line), path.display().to_string()),
            Self::Registry(host, port, client, request) => {
                let place = format!("tcp://{host}:{port}");
                (announce(host, *port, client, request), place)
            }
        };
        trouble.tell(done, &place);
    }
}

fn announce(
    host: &str,
    port: u16,
    client: &mut Option<Client>,
    request: &Request,
) -> io::Result<()> {
    let mut there = match client.take() {
        Some(there) => there,
        None => Client::connect(host, port)?,
    };
    match there.ask(request)? {
        Answer::Refused(why) => Err(io::Error::other(why)),
        _ => {
            *client = Some(there);
            Ok(())
        }
    }
}

/// What to do about a bus that does not work.
fn remedy(error: &io::Error, place: &str) -> String {
    let is_registry = place.starts_with("tcp://");
    match error.kind() {
        ErrorKind::ConnectionRefused => {
            format!("no registry listens there: `forebay net bus {place}` starts one")
        }
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
            if is_registry =>
        {
            "what listens there is no registry: give --bus the address of a `forebay net bus`"
                .into()
        }
        ErrorKind::NotFound if !is_registry => {
            "no publisher has made that directory yet, or it is another one".into()
        }
        _ if is_registry => "see whether the host is right and can be reached".into(),
        _ => "see whether the directory is right and can be read and written".into(),
    }
}

/// Tells when a bus goes away and when it comes back, once each.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    there: bool,
}

impl Trouble {
    pub(super) fn tell(&mut self, done: io::Result<()>, place: &str) {
        match done {
            Ok(()) if self.there => {
                self.there = false;
                tracing::warn!("the bus {place} is there again");
            }
            Err(error) if !self.there => {
                self.there = true;
                let remedy = remedy(&error, place);
                tracing::warn!(
                    "the bus {place} does not work: {error}; {remedy}; it is tried again every second"
                );
            }
            _ => {}
        }
    }
}
