//! `forebay.net.Receiver`.

use std::time::Duration;

use forebay_run_net as net;
use forebay_run_net::{NetError, NetRecord};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyTuple};

use crate::arguments;
use crate::batch::Batch;
use crate::end::{End, Held};
use crate::failure;
use crate::gathered::Gathered;

impl End for net::Receiver {
    const NAME: &'static str = "receiver";

    fn poll(&mut self, most: Duration, to: &mut Gathered) -> Result<bool, NetError> {
        self.poll(most, |delivered| to.push(&delivered))
    }

    fn stay(&mut self) -> Result<(), NetError> {
        self.stay()
    }

    fn taken(&mut self, messages: u64, bytes: u64) {
        self.acknowledge().taken(messages, bytes);
    }

    fn has_heard_all(&self) -> bool {
        self.has_heard_all()
    }

    fn begin_end(&mut self) {
        self.begin_end();
    }

    fn connections(&self) -> usize {
        self.senders()
    }

    fn finish(self, to: &mut Gathered) -> Result<NetRecord, NetError> {
        self.finish(Duration::ZERO, |delivered| to.push(&delivered))
    }
}

/// Receives messages from any number of senders, which connect to it.
///
/// Listens on `address`: tcp://HOST:PORT, shm://NAME or fabric+PROVIDER://PLACE.
#[pyclass(frozen, module = "forebay.net")]
#[derive(Debug)]
pub(crate) struct Receiver {
    held: Held<net::Receiver>,
}

#[pymethods]
impl Receiver {
    #[new]
    #[pyo3(signature = (address, **settings))]
    fn new(py: Python<'_>, address: &str, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let address = arguments::address(address)?;
        let by_hand = arguments::by_hand(settings)?;
        let settings = arguments::settings(settings)?;
        let made = py.detach(|| net::Receiver::listen(&address, &settings));
        Ok(Self {
            held: Held::receiving(made.map_err(failure::of_net)?, by_hand)?,
        })
    }

    /// Where it really listens: a port of 0 is replaced by the one that was found.
    #[getter]
    fn address(&self, py: Python<'_>) -> PyResult<String> {
        self.held
            .with(py, |end| end.address().map(|address| address.to_string()))
    }

    /// Messages as a `Batch`, as many as there are, up to `max_messages`; those that are more wait for the next call.
    ///
    /// Waits up to `timeout` seconds for the first one, and without an end when it is None; then the batch is empty. After `close` it gives what came
    /// with the end, without waiting.
    #[pyo3(signature = (max_messages=None, timeout=None))]
    fn receive<'py>(
        &self,
        py: Python<'py>,
        max_messages: Option<&Bound<'py, PyAny>>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Batch> {
        self.held.receive(py, max_messages, timeout)
    }

    /// Says that the oldest `messages` that `receive` has given have taken effect, or all of them: only then their senders are told, with the setting
    /// `acknowledge_by_hand`. Without it `receive` says so itself, and this does nothing.
    #[pyo3(signature = (messages=None))]
    fn acknowledge(&self, py: Python<'_>, messages: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.held.acknowledge(py, messages)
    }

    /// Messages that came and wait for `receive` in this process.
    #[getter]
    fn waiting(&self, py: Python<'_>) -> usize {
        self.held.waiting(py)
    }

    /// Whether somebody was there, and nobody is any more.
    #[getter]
    fn has_ended(&self, py: Python<'_>) -> PyResult<bool> {
        self.held.with(py, |end| Ok(end.has_ended()))
    }

    /// Batches until somebody was there, and nobody is any more.
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        self.held.next(py, net::Receiver::has_ended)
    }

    /// Senders that are connected now.
    #[getter]
    fn senders(&self, py: Python<'_>) -> PyResult<usize> {
        self.held.with(py, |end| Ok(end.senders()))
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
