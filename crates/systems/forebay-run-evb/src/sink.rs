//! The sinks of a plan, started by the builder: each is a thread of [`forebay_sink`].

use std::os::fd::OwnedFd;

use forebay_ledger::{Leak, Words};
use forebay_run::error::RunError;
use forebay_run::stage::Report;
use forebay_sink::{Sink, SinkBooks, SinkHandle, To, Told, check_names};

use crate::books::Books;
use crate::error::EvbError;
use crate::plan::{Plan, SinkKind};

/// Both ends of a sink's queue.
#[derive(Debug)]
pub struct SinkParts {
    /// The builder's end.
    pub producer: Vec<OwnedFd>,
    /// The sink's end.
    pub consumer: Vec<OwnedFd>,
}

/// Starts the sink `index` of `plan` where its books say that it stopped. `consumer` is its end of the queue.
///
/// # Errors
/// Its queue cannot be mapped, its file cannot be opened, or a mover would not take its name.
pub fn start(
    plan: &Plan,
    index: usize,
    books: &Books,
    words: &Words,
    consumer: Vec<OwnedFd>,
    leak: Leak,
) -> Result<SinkHandle, RunError> {
    let name = &plan.sinks[index].name;
    let to = match &plan.sinks[index].kind {
        SinkKind::File(file) => To::Files(file.clone()),
        SinkKind::Tcp(tcp) => {
            check_names(&plan.run_id, name).map_err(EvbError::from)?;
            To::Mover {
                tcp: tcp.clone(),
                run_id: plan.run_id.clone(),
            }
        }
        SinkKind::Null => {
            return Err(EvbError::SinkWithoutWriter { sink: name.clone() }.into());
        }
    };
    let own = books.sinks[index].clone();
    let sink = Sink {
        to,
        queue: plan.sink_ring(index),
        books: SinkBooks::attach(&books.schema, words, own)?,
        leak,
        stall: plan.stall_of(name),
        name: name.clone(),
    };
    Ok(SinkHandle::start(sink, consumer).map_err(EvbError::from)?)
}

/// What a sink has to say, for the supervisor.
pub(crate) fn report(told: Told) -> Report {
    match told {
        Told::Warning(text) => Report::Warning(text),
        Told::Tainted(taint) => Report::Tainted(taint),
    }
}
