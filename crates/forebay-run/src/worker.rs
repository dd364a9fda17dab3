//! A stage seen from the supervisor: a process of its own, or a thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_sys::control::{Control, ControlError};
use forebay_sys::process;

use crate::error::RunError;
use crate::stage::{Hello, Order, Report, Role, STALL, run_stage};

/// How a stage ended, and what it used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    /// It ended in order.
    pub(crate) in_order: bool,
    /// In words.
    pub(crate) how: String,
    /// CPU time, in ns.
    pub(crate) cpu_ns: u64,
}

enum Body {
    Process {
        pid: u32,
    },
    Thread {
        handle: Option<JoinHandle<(Result<(), RunError>, u64)>>,
    },
}

/// One running stage.
pub(crate) struct Worker {
    body: Body,
    control: Control,
}

impl Worker {
    /// Starts a stage and hands it its plan and parts.
    pub(crate) fn start(
        hello: &Hello,
        parts: &[Vec<OwnedFd>],
        own_process: bool,
    ) -> Result<Self, RunError> {
        let bytes =
            serde_json::to_vec(hello).map_err(|error| RunError::Stage(error.to_string()))?;
        let (near, far) = Control::pair(STALL)?;
        let body = if own_process {
            spawn_process(hello.role, far)?
        } else {
            spawn_thread(hello.role, far)?
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
    pub(crate) fn pid(&self) -> u32 {
        match &self.body {
            Body::Process { pid } => *pid,
            Body::Thread { .. } => std::process::id(),
        }
    }

    /// Gives an order; one that is dying does not hear it.
    pub(crate) fn order(&self, order: Order) -> Result<(), RunError> {
        let body =
            serde_json::to_vec(&order).map_err(|error| RunError::Stage(error.to_string()))?;
        match self.control.send(&body, &[]) {
            Ok(()) | Err(ControlError::PeerGone) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What it reports, if anything is there.
    pub(crate) fn poll_report(&self) -> Option<Report> {
        if !self.control.poll(Duration::ZERO).unwrap_or(false) {
            return None;
        }
        let message = self.control.receive().ok()??;
        serde_json::from_slice(&message.body).ok()
    }

    /// Its end, if it has come.
    pub(crate) fn poll_end(&mut self) -> Result<Option<Ended>, RunError> {
        match &mut self.body {
            Body::Process { pid } => Ok(process::reap(*pid)?.map(|reaped| Ended {
                in_order: reaped.status.success(),
                how: reaped.status.to_string(),
                cpu_ns: reaped.cpu.user_ns + reaped.cpu.system_ns,
            })),
            Body::Thread { handle } => {
                let Some(done) = handle.take_if(|handle| handle.is_finished()) else {
                    return Ok(None);
                };
                let (result, cpu_ns) = done
                    .join()
                    .unwrap_or_else(|_| (Err(RunError::Stage("the thread panicked".into())), 0));
                let how = result
                    .as_ref()
                    .err()
                    .map_or_else(|| "done".to_owned(), ToString::to_string);
                Ok(Some(Ended {
                    in_order: result.is_ok(),
                    how,
                    cpu_ns,
                }))
            }
        }
    }

    /// Ends it the hard way and waits for its end; gives its CPU time in ns. A thread cannot be ended.
    pub(crate) fn kill(&self) -> u64 {
        let Body::Process { pid } = &self.body else {
            return 0;
        };
        // It may have ended by itself in this moment.
        let _ = process::kill(*pid);
        process::wait(*pid).map_or(0, |reaped| reaped.cpu.user_ns + reaped.cpu.system_ns)
    }
}

fn spawn_process(role: Role, far: Control) -> Result<Body, RunError> {
    let program = std::env::current_exe().map_err(RunError::file("finding", "this program"))?;
    let child = Command::new(&program)
        .args(["stage", role.name()])
        .stdin(Stdio::from(far.into_fd()))
        .stdout(Stdio::null())
        .spawn()
        .map_err(RunError::file("starting", program))?;
    Ok(Body::Process { pid: child.id() })
}

fn spawn_thread(role: Role, far: Control) -> Result<Body, RunError> {
    let work = move || {
        let result = run_stage(far);
        (result, forebay_sys::clock::thread_cpu_ns())
    };
    let name = role.name().to_owned();
    let handle = std::thread::Builder::new()
        .name(name.clone())
        .spawn(work)
        .map_err(RunError::file("starting thread", name))?;
    Ok(Body::Thread {
        handle: Some(handle),
    })
}
