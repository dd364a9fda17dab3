//! Prometheus' door: `GET /metrics` answered from the ledgers of a process by one thread, one request at a time.
//!
//! It reads the mapped ledgers as any other process may, so the data path does not notice it. Whatever a client sends,
//! or does not send, costs at most [`EXCHANGE_LIMIT`] and [`REQUEST_BYTES_MAX`]. What is on the page says a [`Shown`].

mod shown;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_ledger::prometheus;

use crate::error::RunError;
pub use shown::Shown;

/// Longest time for one request and its answer.
pub const EXCHANGE_LIMIT: Duration = Duration::from_secs(2);
/// Longest head of a request that is read.
pub const REQUEST_BYTES_MAX: usize = 8 << 10;
/// What is read and thrown away of a request that was refused, so that the client sees the answer.
const REFUSED_BYTES_MAX: usize = 64 << 10;
/// Rest after the listener failed, for example by want of descriptors.
const FAILURE_REST: Duration = Duration::from_millis(100);

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
        let thread = std::thread::Builder::new()
            .name("metrics".into())
            .spawn(move || serve(&listener, &shown, &seen))
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

fn serve(listener: &TcpListener, shown: &Shown, stop: &AtomicBool) {
    loop {
        let accepted = listener.accept();
        if stop.load(Ordering::Acquire) {
            return;
        }
        let exchanged = accepted.map(|(stream, _)| exchange(stream, shown));
        if let Err(error) = exchanged {
            tracing::warn!(%error, "cannot take a request for metrics");
            std::thread::sleep(FAILURE_REST);
        }
    }
}

/// One request and its answer. A client that goes away harms nobody.
fn exchange(mut stream: TcpStream, shown: &Shown) {
    let deadline = Instant::now() + EXCHANGE_LIMIT;
    let request = read_head(&mut stream, deadline);
    let answer = answer(request, shown);
    let sent = write_within(&mut stream, &answer, deadline);
    if sent.is_ok() && stream.shutdown(Shutdown::Write).is_ok() {
        drain(&mut stream, deadline);
    }
}

/// Why the head of a request was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    TooLong,
    TooSlow,
    Gone,
}

/// Reads up to the empty line.
fn read_head(stream: &mut TcpStream, deadline: Instant) -> Result<Vec<u8>, Cut> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !is_whole(&head) {
        if head.len() >= REQUEST_BYTES_MAX {
            return Err(Cut::TooLong);
        }
        match read_within(stream, &mut piece, deadline) {
            Ok(0) => return Err(Cut::Gone),
            Ok(count) => head.extend_from_slice(&piece[..count]),
            Err(error) if is_timeout(&error) => return Err(Cut::TooSlow),
            Err(_) => return Err(Cut::Gone),
        }
    }
    Ok(head)
}

fn is_whole(head: &[u8]) -> bool {
    head.windows(4).any(|end| end == b"\r\n\r\n") || head.windows(2).any(|end| end == b"\n\n")
}

/// The whole answer to a request, head and body.
fn answer(request: Result<Vec<u8>, Cut>, shown: &Shown) -> Vec<u8> {
    let head = match request {
        Ok(head) => head,
        Err(Cut::TooLong) => return refusal("431 Request Header Fields Too Large", "too long"),
        Err(Cut::TooSlow) => return refusal("408 Request Timeout", "too slow"),
        Err(Cut::Gone) => return refusal("400 Bad Request", "cut off"),
    };
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let words: Vec<&str> = std::str::from_utf8(first)
        .unwrap_or_default()
        .split_ascii_whitespace()
        .collect();
    match words[..] {
        [method @ ("GET" | "HEAD"), target, version] if version.starts_with("HTTP/1.") => {
            match target.split('?').next() {
                Some("/metrics") => page(shown, method == "HEAD"),
                _ => refusal("404 Not Found", "there is only /metrics"),
            }
        }
        [_, target, version] if version.starts_with("HTTP/1.") && target.starts_with('/') => {
            refusal("405 Method Not Allowed", "there is only GET /metrics")
        }
        _ => refusal("400 Bad Request", "this is not HTTP/1.1"),
    }
}

fn page(shown: &Shown, head_only: bool) -> Vec<u8> {
    let (sheets, families) = match shown.now() {
        Ok(now) => now,
        Err(error) => return refusal("503 Service Unavailable", &error.to_string()),
    };
    match prometheus::expose_all(sheets, families) {
        Ok(body) => message("200 OK", prometheus::CONTENT_TYPE, &body, head_only),
        Err(error) => refusal("500 Internal Server Error", &error.to_string()),
    }
}

fn refusal(status: &str, why: &str) -> Vec<u8> {
    message(
        status,
        "text/plain; charset=utf-8",
        &format!("{why}\n"),
        false,
    )
}

fn message(status: &str, content_type: &str, body: &str, head_only: bool) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let body = if head_only { "" } else { body };
    [head.as_bytes(), body.as_bytes()].concat()
}

fn read_within(stream: &mut TcpStream, into: &mut [u8], deadline: Instant) -> io::Result<usize> {
    loop {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn write_within(stream: &mut TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Takes what the client still sends: closing on it would throw away the answer on its way.
fn drain(stream: &mut TcpStream, deadline: Instant) {
    let mut piece = [0; 4096];
    let mut taken = 0;
    while taken < REFUSED_BYTES_MAX {
        match read_within(stream, &mut piece, deadline) {
            Ok(count @ 1..) => taken += count,
            _ => return,
        }
    }
}

/// Time that is left, never 0.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    )
}
