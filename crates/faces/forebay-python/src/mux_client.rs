//! `forebay.MuxClient`.

use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay_client::protocol::Welcome;
use forebay_client::{Client, Woken};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBytes, PyDict, PyTuple};

use crate::arguments;
use crate::buffers::payload;
use crate::failure;
use crate::turnstile::Turnstile;

/// One wait: a signal and another thread cost this much.
const SLICE: Duration = Duration::from_millis(20);

/// A client of the multiplexer: frames of a network card that `forebay mux run` owns, without privileges.
///
/// `socket` is that of the multiplexer, `name` the place that its file has for this user, and `timeout` how many seconds the answer is waited for. A refusal is
/// ConnectionRefusedError with its reason, a multiplexer that is gone ConnectionResetError: make another client then. Several threads may use it, one
/// at a time, and what waits releases the interpreter's lock.
#[pyclass(frozen, module = "forebay")]
#[derive(Debug)]
pub(crate) struct MuxClient {
    /// None when it is closed.
    client: Turnstile<Option<Client>>,
    welcome: Welcome,
    frame_bytes_max: usize,
}

impl MuxClient {
    /// Works with the client, without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Client) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let mut client = self.client.enter();
            let client = client.as_mut();
            work(client.ok_or_else(|| failure::closed("client of the multiplexer"))?)
        })
    }
}

#[pymethods]
impl MuxClient {
    #[new]
    #[pyo3(signature = (socket, name, *, timeout=None))]
    fn new(
        py: Python<'_>,
        socket: PathBuf,
        name: &str,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let patience = arguments::timeout(timeout)?.unwrap_or(Duration::from_secs(5));
        let connected = py.detach(|| Client::connect(&socket, name, patience));
        let client = connected.map_err(failure::of_client)?;
        Ok(Self {
            welcome: client.welcome().clone(),
            frame_bytes_max: client.frame_bytes_max(),
            client: Turnstile::new(Some(client)),
        })
    }

    /// A copy of the next frame, whose buffer goes back; None if none has come.
    fn receive<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut frame = Vec::new();
        let came = self.with(py, |client| {
            let came = client.receive_into(&mut frame);
            came.map_err(failure::of_client)
        })?;
        Ok(came.then(|| PyBytes::new(py, &frame)))
    }

    /// Copies an Ethernet frame, without its check sum, into a buffer, and hands it over with the next `flush` or `wait`. Raises BlockingIOError while all buffers
    /// are on their way: `wait` says 'room' when some are back.
    fn send(&self, py: Python<'_>, frame: &Bound<'_, PyAny>) -> PyResult<()> {
        let (payload, _) = payload(frame)?;
        let bytes = payload.as_slice()?;
        self.with(py, |client| client.send(bytes).map_err(failure::of_send))
    }

    /// Shows the multiplexer what was sent, and which buffers went back, and rings once if it sleeps: once for many frames.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |client| {
            client.flush();
            Ok(())
        })
    }

    /// Flushes, and waits up to `timeout` seconds, without an end when it is None: 'frame' if one is there, 'room' if buffers are back after BlockingIOError,
    /// 'due' when the time is over.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<&'static str> {
        let limit = arguments::timeout(timeout)?;
        let begun = Instant::now();
        loop {
            let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
            let slice = left.map_or(SLICE, |left| left.min(SLICE));
            let woken = self.with(py, |client| {
                let woken = client.wait(Instant::now() + slice);
                woken.map_err(failure::of_client)
            })?;
            if let Some(word) = word(woken) {
                return Ok(word);
            }
            py.check_signals()?;
            if left == Some(Duration::ZERO) {
                return Ok("due");
            }
        }
    }

    /// Flushes, and asks to be woken by the descriptor, for `select` and the like: None, or what is there already, 'frame' or 'room'. Call `wait(0)` when the
    /// descriptor is readable.
    fn arm(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        let found = self.with(py, |client| client.arm().map_err(failure::of_client))?;
        Ok(found.and_then(word))
    }

    /// The descriptor that is readable when the multiplexer has rung: see `arm`. It is not to be read.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.with(py, |client| Ok(client.as_fd().as_raw_fd()))
    }

    /// What it has counted itself, the second party of its account: received, received_bytes, sent, sent_bytes, refused_full.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self.with(py, |client| Ok(client.counts()))?;
        let said = PyDict::new(py);
        for (name, count) in [
            ("received", counts.received),
            ("received_bytes", counts.received_bytes),
            ("sent", counts.sent),
            ("sent_bytes", counts.sent_bytes),
            ("refused_full", counts.refused_full),
        ] {
            said.set_item(name, count)?;
        }
        Ok(said)
    }

    /// Flushes, and gives the place up. What was sent goes out as far as the card takes it at once.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            if let Some(mut client) = self.client.enter().take() {
                client.flush();
            }
        });
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.client.enter().is_none())
    }

    /// The Ethernet address, which frames must name as their sender, as '02:00:00:00:00:01'.
    #[getter]
    fn mac(&self) -> String {
        let pairs: Vec<_> = self
            .welcome
            .mac
            .iter()
            .map(|of| format!("{of:02x}"))
            .collect();
        pairs.join(":")
    }

    /// Its VLAN, None if it has none of its own.
    #[getter]
    fn vlan(&self) -> Option<u16> {
        self.welcome.vlan
    }

    /// MTU of the link in bytes, without the header of a frame.
    #[getter]
    fn mtu(&self) -> u32 {
        self.welcome.mtu_bytes
    }

    /// Most bytes of a frame that can be sent.
    #[getter]
    fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max
    }

    /// Its IP addresses, for which the multiplexer answers.
    #[getter]
    fn addresses(&self) -> Vec<String> {
        let all = self.welcome.addresses.iter();
        all.map(ToString::to_string).collect()
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self) -> String {
        format!("MuxClient({})", self.mac())
    }
}

const fn word(woken: Woken) -> Option<&'static str> {
    match woken {
        Woken::Frame => Some("frame"),
        Woken::Room => Some("room"),
        Woken::Due | Woken::Early => None,
    }
}
