//! A stage seen from the supervisor: a process of its own, or a thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_sys::control::{Control, ControlError};
use forebay_sys::process;
use serde::Serialize;

use crate::error::RunError;
use crate::stage::{Hello, Order, Report, STALL};

/// How a stage ended, and what it used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// It ended in order.
    pub in_order: bool,
    /// A signal ended it, not its own decision.
    pub killed: bool,
    /// In words.
    pub how: String,
    /// CPU time, in ns.
    pub cpu_ns: u64,
}

enum Body {
    Process {
        pid: u32,
    },
    Thread {
        stage: &'static str,
        handle: Option<JoinHandle<(Result<(), RunError>, u64)>>,
    },
}

/// What is started.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The name of the stage, which its process is given.
    pub stage: &'static str,
    /// Runs it, in a thread.
    pub run: fn(Control) -> Result<(), RunError>,
}

/// One running stage.
pub struct Worker {
    body: Body,
    control: Control,
}

impl Worker {
    /// Starts a stage and hands it its plan and parts.
    pub fn start<R: Serialize, P: Serialize>(
        entry: Entry,
        hello: &Hello<R, P>,
        parts: &[Vec<OwnedFd>],
        own_process: bool,
    ) -> Result<Self, RunError> {
        let bytes = serde_json::to_vec(hello).map_err(RunError::not_sayable("plan"))?;
        let (near, far) = Control::pair(STALL)?;
        let body = if own_process {
            spawn_process(entry.stage, far)?
        } else {
            spawn_thread(entry, far)?
        };
        let worker = Self {
            body,
            control: near,
        };
        let fds: Vec<BorrowedFd<'_>> = parts.iter().flatten().map(AsFd::as_fd).collect();
        match worker.control.send(&bytes, &fds) {
            // One that died before it could listen: its end is found like any other.
            Ok(()) | Err(ControlError::PeerGone) => Ok(worker),
            Err(error) => {
                worker.kill();
                Err(error.into())
            }
        }
    }

    /// Its process id (the supervisor's own for a thread).
    pub fn pid(&self) -> u32 {
        match &self.body {
            Body::Process { pid } => *pid,
            Body::Thread { .. } => std::process::id(),
        }
    }

    /// Gives an order; one that is dying does not hear it.
    pub fn order(&self, order: Order) -> Result<(), RunError> {
        let body = serde_json::to_vec(&order).map_err(RunError::not_sayable("order"))?;
        match self.control.send(&body, &[]) {
            Ok(()) | Err(ControlError::PeerGone) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What it reports, if anything is there.
    pub fn poll_report(&self) -> Option<Report> {
        if !self.control.poll(Duration::ZERO).unwrap_or(false) {
            return None;
        }
        let message = self.control.receive().ok()??;
        serde_json::from_slice(&message.body).ok()
    }

    /// Its end, if it has come.
    pub fn poll_end(&mut self) -> Result<Option<Ended>, RunError> {
        match &mut self.body {
            Body::Process { pid } => Ok(process::reap(*pid)?.map(|reaped| Ended {
                in_order: reaped.status.success(),
                killed: reaped.status.signal().is_some(),
                how: reaped.status.to_string(),
                cpu_ns: reaped.cpu.user_ns + reaped.cpu.system_ns,
            })),
            Body::Thread { handle, stage } => {
                let stage = *stage;
                let Some(done) = handle.take_if(|handle| handle.is_finished()) else {
                    return Ok(None);
                };
                let (result, cpu_ns) = done
                    .join()
                    .unwrap_or((Err(RunError::Panicked { stage }), 0));
                let how = result
                    .as_ref()
                    .err()
                    .map_or_else(|| "done".to_owned(), ToString::to_string);
                Ok(Some(Ended {
                    in_order: result.is_ok(),
                    killed: false,
                    how,
                    cpu_ns,
                }))
            }
        }
    }

    /// Ends it the hard way and waits for its end; gives its CPU time in ns. A thread cannot be ended: none.
    pub fn kill(&self) -> Option<u64> {
        let Body::Process { pid } = &self.body else {
            return None;
        };
        // It may have ended by itself in this moment.
        let _ = process::kill(*pid);
        Some(process::wait(*pid).map_or(0, |reaped| reaped.cpu.user_ns + reaped.cpu.system_ns))
    }
}

fn spawn_process(stage: &'static str, far: Control) -> Result<Body, RunError> {
    let program = own_program()?;
    let child = Command::new(&program)
        .arg0("forebay")
        .args(["stage", stage])
        .stdin(Stdio::from(far.into_fd()))
        .stdout(Stdio::null())
        .spawn()
        .map_err(RunError::file("starting", program))?;
    Ok(Body::Process { pid: child.id() })
}

/// The file that this process runs, also when another has taken its name since (an upgrade): a stage of another version must
/// not take over the memory of this one.
fn own_program() -> Result<PathBuf, RunError> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() {
        return Ok(running);
    }
    std::env::current_exe().map_err(RunError::file("finding", "this program"))
}

fn spawn_thread(entry: Entry, far: Control) -> Result<Body, RunError> {
    let work = move || {
        let result = (entry.run)(far);
        (result, forebay_sys::clock::thread_cpu_ns())
    };
    let name = entry.stage.to_owned();
    let handle = std::thread::Builder::new()
        .name(name.clone())
        .spawn(work)
        .map_err(RunError::file("starting thread", name))?;
    Ok(Body::Thread {
        stage: entry.stage,
        handle: Some(handle),
    })
}
