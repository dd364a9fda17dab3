//! `forebay.net.Publisher`.

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

impl End for net::Publisher {
    const NAME: &'static str = "publisher";

    fn poll(&mut self, most: Duration, _to: &mut Gathered) -> Result<bool, NetError> {
        self.poll(most)
    }

    fn begin_end(&mut self) {
        self.begin_end();
    }

    fn connections(&self) -> usize {
        self.subscribers()
    }

    fn finish(self, _to: &mut Gathered) -> Result<NetRecord, NetError> {
        self.finish(Duration::ZERO)
    }
}

impl Sends for net::Publisher {
    fn try_one(&mut self, tag: u64, status: u8, payload: &[u8]) -> Result<Option<u32>, NetError> {
        self.try_publish(tag, status, payload)
    }

    /// A subscriber that takes nothing is given up by the publisher itself.
    fn stuck(&self, _waited: Duration) -> Option<NetError> {
        None
    }
}

/// Sends each message to the subscribers of its tag, which connect to it.
///
/// Listens on `address`: tcp://HOST:PORT, shm://NAME or fabric+PROVIDER://PLACE. The settings are those of `Settings`; times are in seconds.
/// Raises ValueError for an argument out of range and OSError for an address that cannot be had.
#[pyclass(frozen, module = "forebay.net")]
#[derive(Debug)]
pub(crate) struct Publisher {
    held: Held<net::Publisher>,
    buffer_bytes: u32,
}

#[pymethods]
impl Publisher {
    #[new]
    #[pyo3(signature = (address, **settings))]
    fn new(py: Python<'_>, address: &str, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let address = arguments::address(address)?;
        let settings = arguments::settings(settings)?;
        let made = py.detach(|| net::Publisher::listen(&address, &settings));
        Ok(Self {
            held: Held::new(made.map_err(failure::of_net)?)?,
            buffer_bytes: settings.messages.buffer_bytes,
        })
    }

    /// Where it really listens: a port of 0 is replaced by the one that was found.
    #[getter]
    fn address(&self, py: Python<'_>) -> PyResult<String> {
        self.held
            .with(py, |end| end.address().map(|address| address.to_string()))
    }

    /// Sends a message to all subscribers of its tag: how many there were.
    ///
    /// `data` is any buffer of bytes or numbers; nothing may write to it until this returns. Waits for a subscriber with the policy 'block' that has no room, for `block_time` at most.
    /// Raises ValueError when it is longer than a buffer, and TypeError for objects,
    /// pointers and text.
    #[pyo3(signature = (tag, data, status=None))]
    fn publish(
        &self,
        py: Python<'_>,
        tag: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        status: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let tag = arguments::tag(tag)?;
        let status = status.map_or(Ok(0), arguments::status)?;
        let (payload, _) = payload(data)?;
        self.held.send(py, &One(tag, payload.as_slice()?), status)
    }

    /// Sends many messages: how many copies went to subscribers, all in all.
    ///
    /// `tags` is a tag for all, or an array or iterable with one for each. `data` is a buffer with the payloads one after the other, with `sizes`, their
    /// lengths in bytes, or `offsets`, where each begins and where the last one ends; or an array of two dimensions or more: each row is a message.
    /// Everything is checked before the first one goes. Ctrl-C ends it in the middle; the books say how many went.
    #[pyo3(signature = (tags, data, *, sizes=None, offsets=None, status=None))]
    fn publish_many(
        &self,
        py: Python<'_>,
        tags: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        sizes: Option<&Bound<'_, PyAny>>,
        offsets: Option<&Bound<'_, PyAny>>,
        status: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let status = status.map_or(Ok(0), arguments::status)?;
        let (payload, rows) = payload(data)?;
        let longest = self.buffer_bytes;
        let many = Many::new(tags, payload.as_slice()?, rows, sizes, offsets, longest)?;
        self.held.send(py, &many, status)
    }

    /// Lets everything go out now that is in buffers, whether they are full or not.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.held.with(py, net::Publisher::flush)
    }

    /// Subscribers that are connected now.
    #[getter]
    fn subscribers(&self, py: Python<'_>) -> PyResult<usize> {
        self.held.with(py, |end| Ok(end.subscribers()))
    }

    /// Subscriptions of all of them.
    #[getter]
    fn subscriptions(&self, py: Python<'_>) -> PyResult<usize> {
        self.held.with(py, |end| Ok(end.subscriptions()))
    }

    /// Waits until `count` subscribers have subscribed to something. Raises TimeoutError after `timeout` seconds.
    #[pyo3(signature = (count=1, *, timeout=None))]
    fn wait_for_subscribers(
        &self,
        py: Python<'_>,
        count: usize,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let limit = arguments::timeout(timeout)?;
        let holds = move |end: &net::Publisher| end.ready_subscribers() >= count;
        self.held.until(py, limit, holds, move |end| {
            format!(
                "{} of {count} subscribers are there",
                end.ready_subscribers()
            )
        })
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
        self.held.with(py, |end| Ok(end.connections_made()))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.held.close(py, None).map(drop)
    }
}
