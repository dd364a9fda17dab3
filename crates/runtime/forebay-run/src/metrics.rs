//! Prometheus' door: `GET /metrics` answered from the ledgers of a process by one thread.
//!
//! It reads the mapped ledgers as any other process may, so the data path does not notice it. Whatever a client sends,
//! or does not send, costs at most [`EXCHANGE_LIMIT`], [`REQUEST_BYTES_MAX`] and one of [`CONNECTIONS_MAX`] places, and holds nobody
//! else up. What is on the page says a [`Shown`].

mod door;
mod exchange;
mod page;
mod shown;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::RunError;
use door::Door;
pub use shown::Shown;

/// Longest time for one request and its answer.
pub const EXCHANGE_LIMIT: Duration = Duration::from_secs(2);
/// Longest head of a request that is read.
pub const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Most connections at a time. For one more, the oldest that has not yet asked for anything is closed.
pub const CONNECTIONS_MAX: usize = 128;

/// A thread that serves the metrics of a run until it is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens on `address` (port 0: any free one) and answers with what is `shown` by then.
    ///
    /// # Errors
    /// The address is in use or not ours.
    pub fn start(address: SocketAddr, shown: impl Into<Shown>) -> Result<Self, RunError> {
        let shown = shown.into();
        let failed = |source| RunError::File {
            what: "serving metrics on",
            path: address.to_string().into(),
            source,
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let mut door = Door::open(listener)?;
        let thread = std::thread::Builder::new()
            .name("metrics".into())
            .spawn(move || door.serve(&shown, &seen))
            .map_err(failed)?;
        Ok(Self {
            address,
            stop,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Wakes the thread out of its wait; when that fails, it ends with the process.
        let woken = TcpStream::connect_timeout(&self.address, EXCHANGE_LIMIT).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}
