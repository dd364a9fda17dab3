//! Stages are started, and waited for.

use std::time::Duration;

use forebay_sys::clock;

use super::patience::END_LIMIT_NS;
use super::{Stage, Supervisor};
use crate::error::RunError;
use crate::stage::{Hello, Role};
use crate::worker::{Ended, Worker};

impl Stage {
    /// Its end, if it has come.
    pub(super) fn poll_end(&mut self) -> Result<Option<Ended>, RunError> {
        let ended = self.worker.as_mut().map(Worker::poll_end);
        Ok(ended.transpose()?.flatten())
    }
}

impl Supervisor {
    pub(super) fn start(&mut self, role: Role) -> Result<(), RunError> {
        let restarts = self.stages.get(&role).map_or(0, |stage| stage.restarts);
        let parts = self.parts(role)?;
        let fds = parts.iter().map(Vec::len).collect();
        let hello = Hello {
            role,
            plan: self.plan.clone(),
            restarts,
            fds,
            supervisor: std::process::id(),
        };
        let begin_items = self.items_of(role);
        let worker = Worker::start(&hello, &parts, self.own_processes)?;
        self.outcome.pids.insert(role.name(), worker.pid());
        let fresh = Stage {
            worker: None,
            started_ns: 0,
            ready_ns: None,
            begin_items: 0,
            quick_deaths: 0,
            restarts: 0,
            cpu_ns: 0,
            runs_away: false,
        };
        let stage = self.stages.entry(role).or_insert(fresh);
        stage.started_ns = clock::monotonic_ns();
        stage.ready_ns = None;
        stage.begin_items = begin_items;
        stage.worker = Some(worker);
        Ok(())
    }

    /// Waits until a stage is at work for the first time; false when somebody asked to end before. A stage that was killed is
    /// started again, as later. One that gave up by itself is not: what hinders it will not go away.
    pub(super) fn wait_ready(&mut self, role: Role) -> Result<bool, RunError> {
        let limit_ns = clock::monotonic_ns() + END_LIMIT_NS;
        loop {
            std::thread::sleep(Duration::from_millis(1));
            self.hear(role);
            let Some(stage) = self.stages.get_mut(&role) else {
                return Ok(true);
            };
            if stage.ready_ns.is_some() {
                return Ok(self.signals.count() == 0);
            }
            let ended = stage.poll_end()?;
            if let Some(ended) = ended {
                if self.signals.count() > 0 {
                    // The signal reached the stage before it could decline it.
                    stage.worker = None;
                    stage.cpu_ns += ended.cpu_ns;
                    return Ok(false);
                }
                if ended.killed {
                    self.bury(role, &ended)?;
                }
                // `bury` has started it again, or given it up.
                let stage = &self.stages[&role];
                if stage.worker.is_none() || !ended.killed {
                    return Err(RunError::StageDied {
                        stage: role.name().into(),
                        times: stage.quick_deaths.max(1),
                        how: ended.how,
                    });
                }
            }
            if clock::monotonic_ns() > limit_ns {
                return Err(RunError::NotReady {
                    stage: role.name(),
                    limit_s: END_LIMIT_NS / 1_000_000_000,
                });
            }
        }
    }
}
