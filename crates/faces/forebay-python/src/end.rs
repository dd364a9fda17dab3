//! An end point that Python holds: one thread at a time works with it, the interpreter's lock is released meanwhile, signals are looked at between
//! short waits, and a thread of its own works while Python does something else.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_run_net::{NetError, NetRecord};
use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::arguments;
use crate::batch::Batch;
use crate::failure;
use crate::gathered::{Gathered, Messages};
use crate::keeper::Keeper;
use crate::turnstile::{Turn, Turnstile};

/// How long an end in order may take when nothing else is said.
const END_LIMIT: Duration = Duration::from_secs(10);
/// One wait: a signal, another thread and an order to end cost this much.
const SLICE: Duration = Duration::from_millis(20);
/// Messages between two looks at the peers while many are sent.
const TURN_EVERY: usize = 256;
/// A batch takes no further message from the peers when it has so many bytes.
const BATCH_BYTES: usize = 1 << 20;

/// What end points have in common.
pub(crate) trait End: Send + 'static {
    /// What it is called in errors.
    const NAME: &'static str;
    fn poll(&mut self, most: Duration, to: &mut Gathered) -> Result<bool, NetError>;
    /// Works without reading.
    fn stay(&mut self) -> Result<(), NetError> {
        Ok(())
    }
    fn taken(&mut self, _messages: u64, _bytes: u64) {}
    /// Whether every peer has said all, and waits for its messages to be confirmed, if for anything.
    fn has_heard_all(&self) -> bool {
        false
    }
    fn begin_end(&mut self);
    fn connections(&self) -> usize;
    /// Closes the books; peers that are still connected are left.
    fn finish(self, to: &mut Gathered) -> Result<NetRecord, NetError>;
}

/// An end point that sends.
pub(crate) trait Sends: End {
    /// How many copies went; none when it has to wait.
    fn try_one(&mut self, tag: u64, status: u8, payload: &[u8]) -> Result<Option<u32>, NetError>;
    /// Why nothing goes on after so long, if that is long enough.
    fn stuck(&self, waited: Duration) -> Option<NetError>;
}

/// Messages to send.
pub(crate) trait Outgoing: Sync {
    fn len(&self) -> usize;
    fn message(&self, at: usize) -> (u64, &[u8]);
}

#[derive(Debug)]
pub(crate) struct State<E> {
    /// None when it is closed.
    end: Option<E>,
    gathered: Gathered,
    /// What was given to Python and is not acknowledged, bytes of each message; none where giving acknowledges.
    given: Option<VecDeque<u64>>,
    is_ending: bool,
    summary: Option<String>,
    /// How often somebody came.
    pub(crate) visits: u64,
}

impl<E: End> State<E> {
    /// What the keeper does; whether there may be more at once.
    pub(crate) fn keep(&mut self) -> bool {
        let Some(end) = &mut self.end else {
            return false;
        };
        // What goes wrong shows itself again to the next caller.
        if self.gathered.is_full() {
            let _shown_later = end.stay();
            false
        } else {
            end.poll(Duration::ZERO, &mut self.gathered)
                .unwrap_or(false)
        }
    }
}

#[derive(Debug)]
pub(crate) struct Held<E: End> {
    state: Arc<Turnstile<State<E>>>,
    keeper: Keeper,
}

impl<E: End> Held<E> {
    pub(crate) fn new(end: E) -> PyResult<Self> {
        Self::receiving(end, false)
    }

    /// One whose user says `by_hand` what is acknowledged, or not.
    pub(crate) fn receiving(end: E, by_hand: bool) -> PyResult<Self> {
        let state = Arc::new(Turnstile::new(State {
            end: Some(end),
            gathered: Gathered::default(),
            given: by_hand.then(VecDeque::new),
            is_ending: false,
            summary: None,
            visits: 0,
        }));
        let keeper = Keeper::start(Arc::clone(&state))?;
        Ok(Self { state, keeper })
    }

    fn enter(&self) -> Turn<'_, State<E>> {
        let mut state = self.state.enter();
        state.visits += 1;
        state
    }

    /// Does something short with it.
    pub(crate) fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut E) -> Result<T, NetError> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| {
            let mut state = self.enter();
            let end = state.end.as_mut().ok_or_else(|| failure::closed(E::NAME))?;
            work(end).map_err(failure::of_net)
        });
        self.keeper.nudge();
        done
    }

    /// Works until `done` has an answer; none when the time is over.
    fn wait<T: Send>(
        &self,
        py: Python<'_>,
        limit: Option<Duration>,
        mut done: impl FnMut(&mut E, &mut Gathered, Duration) -> Result<Option<T>, NetError> + Send,
    ) -> PyResult<Option<T>> {
        let begun = Instant::now();
        loop {
            let left = limit.map_or(SLICE, |limit| limit.saturating_sub(begun.elapsed()));
            let answer = py.detach(|| {
                let mut state = self.enter();
                let State { end, gathered, .. } = &mut *state;
                let end = end.as_mut().ok_or_else(|| failure::closed(E::NAME))?;
                done(end, gathered, left.min(SLICE)).map_err(failure::of_net)
            })?;
            if answer.is_some() {
                return Ok(answer);
            }
            py.check_signals()?;
            if limit.is_some_and(|limit| begun.elapsed() >= limit) {
                return Ok(None);
            }
        }
    }

    /// Works until something holds.
    pub(crate) fn until(
        &self,
        py: Python<'_>,
        limit: Option<Duration>,
        holds: impl Fn(&E) -> bool + Send + Sync,
        why_not: impl FnOnce(&E) -> String + Send,
    ) -> PyResult<()> {
        let there = self.wait(py, limit, |end, gathered, most| {
            if holds(end) {
                return Ok(Some(()));
            }
            if gathered.is_full() {
                end.stay()?;
                std::thread::sleep(most.min(Duration::from_millis(1)));
            } else {
                end.poll(most, gathered)?;
            }
            Ok(holds(end).then_some(()))
        })?;
        match there {
            Some(()) => Ok(()),
            None => {
                let text = self.with(py, |end| Ok(why_not(end)))?;
                Err(PyTimeoutError::new_err(text))
            }
        }
    }

    /// Takes a batch, as `receive` of either end that receives is asked for one.
    pub(crate) fn receive(
        &self,
        py: Python<'_>,
        max_messages: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Batch> {
        let most = match max_messages {
            Some(most) => arguments::whole("max_messages", most, 1, i64::MAX as u64)? as usize,
            None => usize::MAX,
        };
        let messages = self.take(py, most, arguments::timeout(timeout)?, |_| false)?;
        Batch::new(py, messages)
    }

    /// Takes the next batch; none when `is_over` says that none will come.
    pub(crate) fn next(
        &self,
        py: Python<'_>,
        is_over: impl Fn(&E) -> bool + Send + Sync,
    ) -> PyResult<Option<Batch>> {
        let messages = self.take(py, usize::MAX, None, is_over)?;
        let is_end = messages.tags.is_empty();
        (!is_end).then(|| Batch::new(py, messages)).transpose()
    }

    /// Takes messages: as many as there are, up to a number, waiting for the first one. `is_over` says that none will come.
    fn take(
        &self,
        py: Python<'_>,
        most: usize,
        limit: Option<Duration>,
        is_over: impl Fn(&E) -> bool + Send + Sync,
    ) -> PyResult<Messages> {
        let left = py.detach(|| {
            let mut state = self.enter();
            state.end.is_none().then(|| state.gathered.take(most))
        });
        match left {
            // Of those that came with the end.
            Some(left) if !left.tags.is_empty() => return Ok(left),
            Some(_) => return Err(failure::closed(E::NAME)),
            None => {}
        }
        let taken = self.wait(py, limit, |end, gathered, slice| {
            if gathered.len() == 0 {
                end.poll(slice, gathered)?;
            }
            let begun = Instant::now();
            while gathered.len() > 0
                && gathered.len() < most
                && gathered.bytes() < BATCH_BYTES
                && !gathered.is_full()
                && begun.elapsed() < SLICE
                && end.poll(Duration::ZERO, gathered)?
            {}
            if gathered.len() == 0 {
                return Ok(is_over(end).then(Messages::default));
            }
            Ok(Some(gathered.take(most)))
        });
        let messages = taken.map(Option::unwrap_or_default)?;
        self.give(py, &messages);
        Ok(messages)
    }

    /// Messages go to Python: that acknowledges them, unless Python does it by hand.
    fn give(&self, py: Python<'_>, messages: &Messages) {
        if messages.tags.is_empty() {
            return;
        }
        py.detach(|| {
            let mut state = self.enter();
            let State { end, given, .. } = &mut *state;
            match (given, end) {
                (Some(given), _) => given.extend(messages.lengths()),
                (None, Some(end)) => {
                    end.taken(messages.tags.len() as u64, messages.data.len() as u64);
                }
                // Another thread has closed it meanwhile, and the books say that this process has them.
                (None, None) => {}
            }
        });
        self.keeper.nudge();
    }

    /// The oldest messages that Python was given, or all of them, have taken effect.
    pub(crate) fn acknowledge(
        &self,
        py: Python<'_>,
        messages: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let most = match messages {
            Some(most) => arguments::whole("messages", most, 0, i64::MAX as u64)? as usize,
            None => usize::MAX,
        };
        py.detach(|| {
            let mut state = self.enter();
            let State { end, given, .. } = &mut *state;
            let end = end.as_mut().ok_or_else(|| failure::closed(E::NAME))?;
            if let Some(given) = given {
                let count = given.len().min(most);
                let bytes = given.drain(..count).sum();
                end.taken(count as u64, bytes);
            }
            Ok::<(), PyErr>(())
        })?;
        self.keeper.nudge();
        Ok(())
    }

    /// What is there already, without waiting or working.
    pub(crate) fn waiting(&self, py: Python<'_>) -> usize {
        py.detach(|| self.enter().gathered.len())
    }

    pub(crate) fn is_closed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.enter().end.is_none())
    }

    pub(crate) fn summary<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let text = py.detach(|| self.enter().summary.clone());
        let json = text.map(|text| py.import("json")?.call_method1("loads", (text,)));
        json.transpose()
    }

    /// Ends in order within `timeout`, and closes the books: also when a signal ends the wait.
    pub(crate) fn close<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let limit = arguments::timeout(timeout)?.unwrap_or(END_LIMIT);
        py.detach(|| {
            let mut state = self.enter();
            let State { end, is_ending, .. } = &mut *state;
            if let Some(end) = end.as_mut().filter(|_| !*is_ending) {
                end.begin_end();
            }
            *is_ending = true;
        });
        let over = if self.is_closed(py) {
            Ok(None)
        } else {
            self.wait(py, Some(limit), |end, gathered, most| {
                if end.connections() > 0 {
                    end.poll(most, gathered)?;
                }
                // What Python was not handed is confirmed to nobody, and its senders would wait for that in vain.
                let in_vain = gathered.len() > 0 && end.has_heard_all();
                Ok((end.connections() == 0 || in_vain).then_some(()))
            })
        };
        py.detach(|| {
            self.keeper.stop();
            let mut state = self.enter();
            let State {
                end,
                gathered,
                summary,
                ..
            } = &mut *state;
            let Some(end) = end.take() else {
                return Ok(());
            };
            let closed = end.finish(gathered).map_err(failure::of_net)?;
            let text = serde_json::to_string(&closed);
            *summary = text.ok();
            Ok::<(), PyErr>(())
        })?;
        over?;
        self.summary(py)
    }
}

impl<E: Sends> Held<E> {
    /// Sends all of them; how many copies went.
    pub(crate) fn send(
        &self,
        py: Python<'_>,
        messages: &impl Outgoing,
        status: u8,
    ) -> PyResult<u64> {
        let (mut at, mut copies) = (0, 0_u64);
        let mut waits_since: Option<Instant> = None;
        loop {
            let patience = py.detach(|| {
                let mut state = self.enter();
                let State { end, gathered, .. } = &mut *state;
                let end = end.as_mut().ok_or_else(|| failure::closed(E::NAME))?;
                let begun = Instant::now();
                while at < messages.len() {
                    let (tag, payload) = messages.message(at);
                    let Some(sent) = end.try_one(tag, status, payload)? else {
                        let since = *waits_since.get_or_insert_with(Instant::now);
                        end.poll(SLICE, gathered)?;
                        return Ok(end.stuck(since.elapsed()));
                    };
                    waits_since = None;
                    copies += u64::from(sent);
                    at += 1;
                    if at.is_multiple_of(TURN_EVERY) {
                        end.poll(Duration::ZERO, gathered)?;
                        if begun.elapsed() >= SLICE {
                            break;
                        }
                    }
                }
                Ok(None)
            });
            let patience: Option<NetError> = patience.map_err(|error: Stop| error.0)?;
            if at == messages.len() {
                self.keeper.nudge();
                return Ok(copies);
            }
            py.check_signals()?;
            if let Some(stuck) = patience {
                return Err(failure::of_net(stuck));
            }
        }
    }
}

/// An error on its way to Python.
struct Stop(PyErr);

impl From<PyErr> for Stop {
    fn from(error: PyErr) -> Self {
        Self(error)
    }
}

impl From<NetError> for Stop {
    fn from(error: NetError) -> Self {
        Self(failure::of_net(error))
    }
}
