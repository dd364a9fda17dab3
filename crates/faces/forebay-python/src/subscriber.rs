//! `forebay.net.Subscriber`.

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

impl End for net::Subscriber {
    const NAME: &'static str = "subscriber";

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
        self.publishers()
    }

    fn finish(self, to: &mut Gathered) -> Result<NetRecord, NetError> {
        self.finish(Duration::ZERO, |delivered| to.push(&delivered))
    }
}

/// Gets the messages of tags from publishers, to which it connects, again and again if it must.
///
/// `addresses` is where the publishers listen, one or several. `tags` is a tag or an iterable of tags, `patterns` an iterable of pairs
/// (tag, mask): those tags that equal `tag` where `mask` has ones. Without both it gets all. `policy` says what becomes of messages for which it is too
/// slow: 'block' (the publisher waits, for a bounded time), 'drop-newest', 'drop-oldest' or 'disconnect'.
#[pyclass(frozen, module = "forebay.net")]
#[derive(Debug)]
pub(crate) struct Subscriber {
    held: Held<net::Subscriber>,
}

#[pymethods]
impl Subscriber {
    #[new]
    #[pyo3(signature = (addresses, tags=None, *, patterns=None, policy="block", **settings))]
    fn new(
        py: Python<'_>,
        addresses: &Bound<'_, PyAny>,
        tags: Option<&Bound<'_, PyAny>>,
        patterns: Option<&Bound<'_, PyAny>>,
        policy: &str,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let addresses = arguments::addresses(addresses)?;
        let entries = arguments::entries(tags, patterns)?;
        let by_hand = arguments::by_hand(settings)?;
        let mut settings = arguments::settings(settings)?;
        settings.messages.slow = arguments::policy(policy)?;
        let made = py.detach(|| {
            let mut made = net::Subscriber::connect(&addresses, &settings)?;
            made.subscribe(&entries);
            Ok(made)
        });
        Ok(Self {
            held: Held::receiving(made.map_err(failure::of_net)?, by_hand)?,
        })
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

    /// Whether all publishers were there and have ended in order.
    #[getter]
    fn has_ended(&self, py: Python<'_>) -> PyResult<bool> {
        self.held.with(py, |end| Ok(end.has_ended()))
    }

    /// Batches until all publishers were there and have ended in order.
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        self.held.next(py, net::Subscriber::has_ended)
    }

    /// Begins subscriptions, at all publishers, also at those that come later.
    #[pyo3(signature = (tags=None, *, patterns=None))]
    fn subscribe(
        &self,
        py: Python<'_>,
        tags: Option<&Bound<'_, PyAny>>,
        patterns: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let entries = arguments::entries(tags, patterns)?;
        self.held.with(py, move |end| {
            end.subscribe(&entries);
            Ok(())
        })
    }

    /// Ends subscriptions that were begun in the same words.
    #[pyo3(signature = (tags=None, *, patterns=None))]
    fn unsubscribe(
        &self,
        py: Python<'_>,
        tags: Option<&Bound<'_, PyAny>>,
        patterns: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let entries = arguments::entries(tags, patterns)?;
        self.held.with(py, move |end| {
            end.unsubscribe(&entries);
            Ok(())
        })
    }

    /// Publishers that are connected now.
    #[getter]
    fn publishers(&self, py: Python<'_>) -> PyResult<usize> {
        self.held.with(py, |end| Ok(end.publishers()))
    }

    /// Waits until `count` publishers are connected. Raises TimeoutError after `timeout` seconds, with what is known to be wrong.
    #[pyo3(signature = (count=1, *, timeout=None))]
    fn wait_for_publishers(
        &self,
        py: Python<'_>,
        count: usize,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let limit = arguments::timeout(timeout)?;
        let holds = move |end: &net::Subscriber| end.publishers() >= count;
        self.held.until(py, limit, holds, move |end| {
            format!(
                "{} of {count} publishers are there: {}",
                end.publishers(),
                end.trouble()
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
