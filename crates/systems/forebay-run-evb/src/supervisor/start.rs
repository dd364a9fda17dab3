//! Stages are started, and waited for.

use std::time::Duration;

use forebay_run::error::RunError;
use forebay_run::worker::{Ended, Entry, Worker};
use forebay_sys::clock;

use super::{Stage, Supervisor};
use crate::stages::{Hello, Role, run_stage};

/// How long a stage that is starting is waited for when somebody asks to end.
const START_GRACE_NS: u64 = 300_000_000;
/// How long a stage may take until it is at work.
const READY_LIMIT_S: u64 = 60;
/// How much longer it may take for memory that it populates.
const POPULATE_S_A_GIB: u64 = 20;

impl Stage {
    /// Its end, if it has come.
    pub(super) fn poll_end(&mut self) -> Result<Option<Ended>, RunError> {
        let ended = self.worker.as_mut().map(Worker::poll_end);
        Ok(ended.transpose()?.flatten())
    }

    /// Ends its present life; a thread cannot be ended.
    pub(super) fn kill(&mut self) {
        if let Some(worker) = self.worker.take() {
            let cpu_ns = worker.kill();
            self.runs_away = cpu_ns.is_none();
            self.cpu_ns += cpu_ns.unwrap_or(0);
        }
    }
}

impl Supervisor {
    pub(super) fn start(&mut self, role: Role) -> Result<(), RunError> {
        let restarts = self.stages.get(&role).map_or(0, |stage| stage.restarts);
        let parts = self.parts(role)?;
        let fds = parts.iter().map(Vec::len).collect();
        let mut plan = self.plan.clone();
        // The pages are there, and data wait: a later life of a stage maps them as they are touched.
        plan.receiver.populate_queues &= restarts == 0;
        let hello = Hello {
            role,
            plan,
            restarts,
            fds,
            supervisor: std::process::id(),
        };
        let begin_items = self.items_of(role);
        let entry = Entry {
            stage: role.name(),
            run: run_stage,
        };
        let worker = Worker::start(entry, &hello, &parts, self.own_processes)?;
        self.outcome
            .pids
            .insert(role.name().to_owned(), worker.pid());
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

    /// Whether a stage that is not at work yet has had [`START_GRACE_NS`] since somebody asked to end; then it is ended. It has taken
    /// nothing in, so that nothing is lost with it.
    fn has_had_its_time(&mut self, role: Role, asked_ns: &mut Option<u64>) -> bool {
        let now_ns = clock::monotonic_ns();
        let since_ns = *asked_ns.get_or_insert(now_ns);
        let Some(stage) = self.stages.get_mut(&role) else {
            return false;
        };
        let over = stage.ready_ns.is_none() && now_ns - since_ns >= START_GRACE_NS;
        if over {
            stage.kill();
        }
        over
    }

    /// Waits until a stage is at work for the first time; false when somebody asked to end before. A stage that was killed is
    /// started again, as later. One that gave up by itself is not: what hinders it will not go away.
    pub(super) fn wait_ready(&mut self, role: Role) -> Result<bool, RunError> {
        let limit_s = READY_LIMIT_S + (self.plan.populated_bytes() >> 30) * POPULATE_S_A_GIB;
        let limit_ns = clock::monotonic_ns() + limit_s * 1_000_000_000;
        let mut asked_ns = None;
        loop {
            std::thread::sleep(Duration::from_millis(1));
            self.hear(role);
            if self.signals.count() > 0 && self.has_had_its_time(role, &mut asked_ns) {
                return Ok(false);
            }
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
                    let (stage, times) = (role.name(), stage.quick_deaths);
                    return Err(match ended.killed {
                        true => RunError::StageDied {
                            stage: stage.into(),
                            times: times.max(1),
                            how: ended.how,
                        },
                        // As a rule it has said why.
                        false => RunError::NotBegun {
                            stage,
                            how: ended.how,
                        },
                    });
                }
            }
            if clock::monotonic_ns() > limit_ns {
                return Err(RunError::NotReady {
                    stage: role.name(),
                    limit_s,
                });
            }
        }
    }
}
