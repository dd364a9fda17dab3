//! Where connections come in: so many in a round, and none for a moment when the system has no more to give.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;

use forebay_sys::epoll::{Interest, Poller, Trigger};

use forebay_run::error::RunError;

/// Most connections taken in one round: a sender that is connected has its turn before the next ones come in.
const ACCEPTS_PER_ROUND_MAX: usize = 16;
/// How long nobody is taken in after the system refused, as without free descriptors. A sender that comes waits in its backlog.
const BACKOFF_NS: u64 = 100_000_000;

/// The listening socket, and what came through it.
pub(crate) struct Door {
    listener: TcpListener,
    token: u64,
    /// Not polled before this time.
    shut_until_ns: Option<u64>,
    pub(crate) accepted: u64,
    /// How often the system refused to take a connection in.
    pub(crate) errors: u64,
    /// Rounds that took as many as they may.
    pub(crate) full_rounds: u64,
}

impl Door {
    pub(crate) fn open(listen: SocketAddr, poller: &Poller, token: u64) -> Result<Self, RunError> {
        let place = || PathBuf::from(listen.to_string());
        let listener =
            TcpListener::bind(listen).map_err(RunError::file("listening on", place()))?;
        listener
            .set_nonblocking(true)
            .map_err(RunError::file("listening on", place()))?;
        poller.add(&listener, token, Interest::Readable, Trigger::Level)?;
        Ok(Self {
            listener,
            token,
            shut_until_ns: None,
            accepted: 0,
            errors: 0,
            full_rounds: 0,
        })
    }

    pub(crate) fn address(&self) -> Result<SocketAddr, RunError> {
        let address = self.listener.local_addr();
        address.map_err(RunError::file("asking for", "the listening address"))
    }

    /// Those that came since the last round.
    pub(crate) fn accept(&mut self, poller: &Poller, now_ns: u64) -> Vec<(TcpStream, SocketAddr)> {
        let mut came = Vec::new();
        for _ in 0..ACCEPTS_PER_ROUND_MAX {
            match self.listener.accept() {
                Ok(one) => came.push(one),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The caller's fault, and over.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) => {}
                Err(error) => {
                    tracing::warn!(%error, "no connection can be taken in");
                    self.shut(poller, now_ns);
                    break;
                }
            }
        }
        self.accepted += came.len() as u64;
        self.full_rounds += u64::from(came.len() == ACCEPTS_PER_ROUND_MAX);
        came
    }

    /// A listening socket that is ready and cannot be served would wake the mover again at once.
    fn shut(&mut self, poller: &Poller, now_ns: u64) {
        self.errors += 1;
        if poller.remove(&self.listener).is_ok() {
            self.shut_until_ns = Some(now_ns + BACKOFF_NS);
        }
    }

    /// Opens again when the time is over.
    pub(crate) fn tend(&mut self, poller: &Poller, now_ns: u64) {
        if self.shut_until_ns.is_none_or(|until_ns| now_ns < until_ns) {
            return;
        }
        let added = poller.add(
            &self.listener,
            self.token,
            Interest::Readable,
            Trigger::Level,
        );
        self.shut_until_ns = added.is_err().then(|| now_ns + BACKOFF_NS);
    }
}
