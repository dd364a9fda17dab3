//! The stages of the event builder: emulated sources, receiver, builder.

use std::time::Duration;

use forebay_ledger::{Leak, Words};
use forebay_run::error::RunError;
use forebay_run::stage::{self, StageControl, place};
use forebay_run_hades::Booked;
use forebay_sys::control::Control;
use forebay_sys::mapping::{Access, Mapping};
use serde::{Deserialize, Serialize};

use crate::books::Books;
use crate::builder::BuilderParts;
use crate::error::EvbError;
use crate::plan::Plan;
use crate::receiver::ReceiverParts;
use crate::sink::SinkParts;

/// Longest time that a stage may get on with nothing after the order to stop, beside its sinks, in ns.
pub(crate) const END_LIMIT_NS: u64 = 60_000_000_000;

/// Which part of the chain a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Emulated sources.
    Generator,
    /// Sockets to rings.
    Receiver,
    /// Rings to sinks.
    Builder,
}

impl Role {
    /// Longest time that the stage may get on with nothing after the order to stop, in ns: the builder has in addition what its sinks may take.
    pub(crate) fn end_limit_ns(self, plan: &Plan) -> u64 {
        let sinks = match self {
            Self::Generator | Self::Receiver => Duration::ZERO,
            Self::Builder => plan.sinks_end_limit(),
        };
        let sinks_ns = u64::try_from(sinks.as_nanos()).unwrap_or(u64::MAX);
        END_LIMIT_NS.saturating_add(sinks_ns)
    }

    /// The role's name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Generator => "generator",
            Self::Receiver => "receiver",
            Self::Builder => "builder",
        }
    }
}

/// First message to one of them.
pub type Hello = stage::Hello<Role, Plan>;

/// Runs the stage that the supervisor at the other end of this process's standard input asks for.
///
/// # Errors
/// The process was not started by a supervisor, or whatever stops the stage.
pub fn run_child() -> Result<(), RunError> {
    stage::run_child(run_stage)
}

/// Runs the stage that the supervisor at the other end of `control` asks for.
///
/// # Errors
/// Whatever stops the stage.
pub fn run_stage(control: Control) -> Result<(), RunError> {
    let (control, hello, mut parts) = StageControl::greet::<Role, Plan>(control)?;
    let plan = &hello.plan;
    forebay_sys::process::name_thread(&format!("fb-{}", hello.role.name()));
    let leak: Leak = match &plan.leak {
        Some(text) if hello.restarts == 0 => text.parse()?,
        _ => Leak::off(),
    };
    let ledger = parts.take_one("ledger")?;
    let words = Words::new(Mapping::of_fd(ledger, Access::ReadWrite)?);
    match hello.role {
        Role::Generator => {
            let generator = plan
                .generator
                .as_ref()
                .ok_or(EvbError::NotInPlan { what: "generator" })?;
            control.ready()?;
            let stop = || !matches!(control.poll(), Ok(None));
            let mut booked = generator_books(plan, &words)?;
            forebay_run_hades::run(generator, Some(&mut booked), leak, stop).map(drop)
        }
        Role::Receiver => {
            place(plan.receiver.cpu, plan.receiver.real_time)?;
            let rings = parts.take();
            let arena = parts.take_one("arena")?;
            let sockets = parts.take();
            if let Some(elinks) = &plan.elinks {
                return crate::receiver::chunks(plan, elinks, &words, rings, &control, leak);
            }
            let Some(replay) = &plan.replay else {
                let parts = ReceiverParts {
                    words,
                    rings,
                    arena,
                    sockets,
                };
                return crate::receiver::run(plan, parts, &control, leak);
            };
            crate::receiver::replay(plan, replay, words, rings, &control, leak)
        }
        Role::Builder => {
            // For tests: a start that takes long.
            plan.stall_of("builder").wait();
            place(plan.builder.cpu, plan.builder.real_time)?;
            let rings = parts.take();
            let sinks = plan
                .sinks
                .iter()
                .map(|_| SinkParts {
                    producer: parts.take(),
                    consumer: parts.take(),
                })
                .collect();
            crate::builder::run(
                plan,
                BuilderParts {
                    words,
                    rings,
                    sinks,
                },
                &control,
                leak,
            )
        }
    }
}

/// The books of a generator that is a stage.
fn generator_books(plan: &Plan, words: &Words) -> Result<Booked, RunError> {
    let books = Books::declare(plan)?;
    let missing = EvbError::NotInPlan { what: "generator" };
    let generator = books.generator.ok_or(missing)?;
    Booked::of_run(&books.schema, generator, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Backpressure;
    use crate::presets;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_sink_that_may_block_for_long_is_waited_for_as_long() {
        let local = std::net::Ipv4Addr::LOCALHOST.into();
        let mut plan = presets::plan("test", std::path::Path::new("."), local, 0, 1);
        let mut sink = presets::file_sink(".".into(), "te");
        sink.backpressure = Backpressure::Block {
            limit_ms: 3_600_000,
        };
        plan.sinks = vec![sink];
        // The builder waits for the sink, and then the sink ends.
        assert_eq!(Role::Builder.end_limit_ns(&plan), (60 + 7_200) * S);
        for role in [Role::Generator, Role::Receiver] {
            assert_eq!(role.end_limit_ns(&plan), 60 * S);
        }
    }
}
