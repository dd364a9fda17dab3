//! The life of a stage: it gets its plan and descriptors from the supervisor, says that it is ready, and is told to stop.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use forebay_ledger::Taint;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use forebay_sys::control::{Control, ControlError, Message};

use crate::error::RunError;

/// How long a message on the control channel may stall.
pub const STALL: Duration = Duration::from_secs(10);
/// How often a stage looks whether its supervisor lives (beside the end of the channel, which it notices at once).
const ORPHAN_LOOK: Duration = Duration::from_millis(500);
/// Longest time that a stage may outlive its supervisor.
const ORPHAN_LIMIT: Duration = Duration::from_secs(8);

/// First message to a stage, which has a role `R` in the run of a plan `P`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello<R, P> {
    /// What it is.
    pub role: R,
    /// The run.
    pub plan: P,
    /// How often this role was started before.
    pub restarts: u32,
    /// How many descriptors belong to each part, in the role's order.
    pub fds: Vec<usize>,
    /// The supervisor's process id.
    pub supervisor: u32,
}

/// Later messages to a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Finish what is there and end.
    Stop,
    /// The supervisor is gone: bring what is under way to the disk, and end soon. Nobody sends it.
    Abandoned,
}

/// Messages from a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Report {
    /// It is at work.
    Ready,
    /// Something an operator should know.
    Warning(String),
    /// It taints the run.
    Tainted(Taint),
}

/// Lets `stage` run with the supervisor at the other end of this process's standard input.
///
/// # Errors
/// The process was not started by a supervisor, or whatever stops the stage.
pub fn run_child(stage: fn(Control) -> Result<(), RunError>) -> Result<(), RunError> {
    forebay_sys::signals::leave_signals_to_supervisor();
    outlive_nobody(std::os::unix::process::parent_id())?;
    stage(Control::from_stdin(STALL)?)
}

/// Time for the last line of the log.
const LAST_WORD: Duration = Duration::from_millis(200);

/// A stage whose supervisor died ends by itself; one that cannot (a write that hangs) is ended here.
fn outlive_nobody(supervisor: u32) -> Result<(), RunError> {
    let watch = move || {
        let orphaned = || std::os::unix::process::parent_id() != supervisor;
        while !orphaned() {
            std::thread::sleep(ORPHAN_LOOK);
        }
        std::thread::sleep(ORPHAN_LIMIT);
        tracing::error!(
            supervisor,
            "this stage did not end within {ORPHAN_LIMIT:?} of its supervisor's death and is ended"
        );
        // What was said last is on its way, by a thread of its own.
        std::thread::sleep(LAST_WORD);
        std::process::exit(1);
    };
    let spawned = std::thread::Builder::new()
        .name("orphan-watch".into())
        .spawn(watch);
    spawned
        .map(drop)
        .map_err(RunError::file("starting thread", "orphan-watch"))
}

/// Puts the calling thread where the plan wants it.
pub fn place(cpu: Option<usize>, real_time: Option<u8>) -> Result<(), RunError> {
    if let Some(cpu) = cpu {
        forebay_sys::sched::pin_to_cpu(cpu)?;
    }
    if let Some(priority) = real_time {
        forebay_sys::sched::real_time(priority)?;
        forebay_sys::sched::lock_memory()?;
    }
    Ok(())
}

/// A stage's end of the control channel.
#[derive(Debug)]
pub struct StageControl {
    control: Control,
}

/// Descriptors by part.
#[derive(Debug)]
pub struct Parts(std::collections::VecDeque<Vec<OwnedFd>>);

impl Parts {
    fn of(message: Message, counts: &[usize]) -> Self {
        let mut fds = message.fds.into_iter();
        Self(
            counts
                .iter()
                .map(|count| fds.by_ref().take(*count).collect())
                .collect(),
        )
    }

    /// The next part's descriptors.
    pub fn take(&mut self) -> Vec<OwnedFd> {
        self.0.pop_front().unwrap_or_default()
    }

    /// The next part, which is one descriptor.
    ///
    /// # Errors
    /// It is missing.
    pub fn take_one(&mut self, what: &'static str) -> Result<OwnedFd, RunError> {
        let mut part = self.take();
        part.pop().ok_or(RunError::PartMissing { what })
    }
}

/// After the first message, or without one.
impl From<Control> for StageControl {
    fn from(control: Control) -> Self {
        Self { control }
    }
}

impl StageControl {
    /// Waits for the first message on `control`.
    ///
    /// # Errors
    /// The supervisor is gone or sends something else.
    pub fn greet<R: DeserializeOwned, P: DeserializeOwned>(
        control: Control,
    ) -> Result<(Self, Hello<R, P>, Parts), RunError> {
        let message = control.receive()?.ok_or(ControlError::PeerGone)?;
        let bytes = message.body.len();
        let hello: Hello<R, P> = serde_json::from_slice(&message.body)
            .map_err(RunError::not_understood("plan", bytes))?;
        let parts = Parts::of(message, &hello.fds);
        Ok((Self { control }, hello, parts))
    }

    /// The channel, for a poller.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// An order, if there is one. The supervisor's death is one too.
    ///
    /// # Errors
    /// The channel carries garbage.
    pub fn poll(&self) -> Result<Option<Order>, RunError> {
        if !self.control.poll(Duration::ZERO)? {
            return Ok(None);
        }
        match self.control.receive() {
            Ok(None) | Err(ControlError::PeerGone) => Ok(Some(Order::Abandoned)),
            Ok(Some(message)) => {
                let bytes = message.body.len();
                let order = serde_json::from_slice(&message.body)
                    .map_err(RunError::not_understood("order", bytes))?;
                Ok(Some(order))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Says that the stage is at work.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn ready(&self) -> Result<(), RunError> {
        self.send(&Report::Ready)
    }

    /// Tells the supervisor, if there still is one: whether it hears changes nothing in what the stage has to bring to the
    /// disk, and its death comes as an order.
    pub fn tell(&self, report: &Report) {
        if let Err(error) = self.send(report) {
            tracing::warn!(%error, ?report, "the supervisor does not hear");
        }
    }

    fn send(&self, report: &Report) -> Result<(), RunError> {
        let body = serde_json::to_vec(report).map_err(RunError::not_sayable("report"))?;
        Ok(self.control.send(&body, &[])?)
    }
}
