//! `forebay.net.Sender`.

use std::time::Duration;

use forebay_run_net as net;
use forebay_run_net::{NetError, NetRecord};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use crate::arguments;
use crate::buffers::{Many, One, payload};
use crate::end::{End, Held, Sends};
use crate::failure;
use crate::gathered::Gathered;

/// A sender, the peer that it sends to, and how long it waits for that.
#[derive(Debug)]
pub(crate) struct Sending {
    end: net::Sender,
    peer: String,
    patience: Duration,
}

impl End for Sending {
    const NAME: &'static str = "sender";

    fn poll(&mut self, most: Duration, _to: &mut Gathered) -> Result<bool, NetError> {
        self.end.poll(most, |_| {})
    }

    fn begin_end(&mut self) {
        self.end.begin_end();
    }

    fn connections(&self) -> usize {
        usize::from(self.end.is_connected())
    }

    fn finish(self, _to: &mut Gathered) -> Result<NetRecord, NetError> {
        self.end.finish(Duration::ZERO)
    }
}

impl Sends for Sending {
    fn try_one(&mut self, tag: u64, status: u8, payload: &[u8]) -> Result<Option<u32>, NetError> {
        let sent = self.end.try_send(tag, status, payload)?;
        Ok((sent != net::Sent::NotNow).then_some(1))
    }

    fn stuck(&self, waited: Duration) -> Option<NetError> {
        (waited >= self.patience).then(|| NetError::Stuck {
            peer: self.peer.clone(),
            waited_ms: waited.as_millis() as u64,
            why: self.end.trouble(),
        })
    }
}

/// Sends messages to one receiver, to which it connects, again and again if it must.
///
/// Raises TimeoutError when there is no receiver, or none that takes anything, for `block_time`; ConnectionError when it wants no more.
#[pyclass(frozen, module = "forebay.net")]
#[derive(Debug)]
pub(crate) struct Sender {
    held: Held<Sending>,
}

#[pymethods]
impl Sender {
    #[new]
    #[pyo3(signature = (address, **settings))]
    fn new(py: Python<'_>, address: &str, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let peer = arguments::address(address)?;
        let settings = arguments::settings(settings)?;
        let made = py.detach(|| net::Sender::connect(&peer, &settings));
        Ok(Self {
            held: Held::new(Sending {
                end: made.map_err(failure::of_net)?,
                peer: peer.to_string(),
                patience: Duration::from_nanos(settings.messages.block_ns),
            })?,
        })
    }

    /// Sends a message, and waits for a receiver and for room.
    ///
    /// `data` is any buffer of bytes or numbers; nothing may write to it until this returns. Raises ValueError when it is longer than a buffer, and TypeError for objects,
    /// pointers and text.
    #[pyo3(signature = (tag, data, status=None))]
    fn send(
        &self,
        py: Python<'_>,
        tag: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        status: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let tag = arguments::tag(tag)?;
        let status = status.map_or(Ok(0), arguments::status)?;
        let (payload, _) = payload(data)?;
        self.held
            .send(py, &One(tag, payload.as_slice()?), status)
            .map(drop)
    }

    /// Sends many messages.
    ///
    /// `tags` is a tag for all, or an array or iterable with one for each. `data` is a buffer with the payloads one after the other, with `sizes`, their
    /// lengths in bytes, or `offsets`, where each begins and where the last one ends; or an array of two dimensions or more: each row is a message.
    /// Everything is checked before the first one goes. Ctrl-C ends it in the middle; the books say how many went.
    #[pyo3(signature = (tags, data, *, sizes=None, offsets=None, status=None))]
    fn send_many(
        &self,
        py: Python<'_>,
        tags: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        sizes: Option<&Bound<'_, PyAny>>,
        offsets: Option<&Bound<'_, PyAny>>,
        status: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let status = status.map_or(Ok(0), arguments::status)?;
        let (payload, rows) = payload(data)?;
        let longest = self
            .held
            .with(py, |sending| Ok(sending.end.buffer_bytes()))?;
        let many = Many::new(tags, payload.as_slice()?, rows, sizes, offsets, longest)?;
        self.held.send(py, &many, status).map(drop)
    }

    /// Lets everything go out now that is in buffers, whether they are full or not.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.held.with(py, |sending| sending.end.flush())
    }

    /// Whether there is a receiver now.
    #[getter]
    fn connected(&self, py: Python<'_>) -> PyResult<bool> {
        self.held.with(py, |sending| Ok(sending.end.is_connected()))
    }

    /// Ends in order and closes the books: their summary, see `summary`. Waits up to `timeout` seconds for the peers. May be called again.
    #[pyo3(signature = (*, timeout=None))]
    fn close<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.held.close(py, timeout)
    }

    /// What `close` has returned: a dict with the keys of `forebay net … --format json`; None before.
    #[getter]
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.held.summary(py)
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        self.held.is_closed(py)
    }

    /// How often a connection was made.
    #[getter]
    fn connections_made(&self, py: Python<'_>) -> PyResult<u64> {
        self.held
            .with(py, |sending| Ok(sending.end.connections_made()))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.held.close(py, None).map(drop)
    }
}
