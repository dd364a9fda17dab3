//! What a remote mover takes, held against a plan before anything starts: a sink that learns it on the way can only lose events.

use forebay_wire::mover::{BLOCK_BYTES_MAX, RUN_ID_BYTES_MAX, SINK_BYTES_MAX};
use thiserror::Error;

/// Most bytes of the stamp that the command line puts behind a run's name, with the sign between them: milliseconds since
/// 1970 (13 digits) and a process id (at most 7).
const STAMP_BYTES_MAX: usize = 22;
/// Longest name of a run that goes to a mover: what the stamp leaves.
pub const RUN_NAME_BYTES_MAX: usize = RUN_ID_BYTES_MAX - STAMP_BYTES_MAX;

/// What of a plan a mover would not take.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MoverLimit {
    /// The run's name does not fit into its protocol.
    #[error("sink {sink}: a mover takes runs whose name has at most {RUN_ID_BYTES_MAX} bytes, and {run_id:?} has {}; give the run a name of at most {RUN_NAME_BYTES_MAX} characters ([run] name)", run_id.len())]
    RunName {
        /// The name, with its stamp.
        run_id: String,
        /// The sink that would bring it there.
        sink: String,
    },
    /// The sink's name does not fit into its protocol.
    #[error("sink {sink}: a mover takes sinks whose name has at most {SINK_BYTES_MAX} bytes, and this one has {}; give it a shorter name ([[sinks]] name)", sink.len())]
    SinkName {
        /// The name.
        sink: String,
    },
    /// An event can be longer than a block may be.
    #[error(
        "sink {sink}: a mover takes events of at most {BLOCK_BYTES_MAX} bytes, and event_bytes_max is {event_bytes_max}; set event_bytes_max = {BLOCK_BYTES_MAX} ([builder]), or write files here"
    )]
    Event {
        /// The sink that would send it.
        sink: String,
        /// The plan's longest event.
        event_bytes_max: usize,
    },
}

/// Whether movers take what `sink` sends them.
///
/// # Errors
/// The first thing that one would not take.
pub fn check_mover(run_id: &str, sink: &str, event_bytes_max: usize) -> Result<(), MoverLimit> {
    check_names(run_id, sink)?;
    if event_bytes_max > BLOCK_BYTES_MAX as usize {
        return Err(MoverLimit::Event {
            sink: sink.into(),
            event_bytes_max,
        });
    }
    Ok(())
}

/// Whether a mover takes a stream of these names.
///
/// # Errors
/// The first of them that one would not take.
pub fn check_names(run_id: &str, sink: &str) -> Result<(), MoverLimit> {
    if sink.len() > SINK_BYTES_MAX {
        return Err(MoverLimit::SinkName { sink: sink.into() });
    }
    if run_id.len() > RUN_ID_BYTES_MAX {
        return Err(MoverLimit::RunName {
            run_id: run_id.into(),
            sink: sink.into(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_mover_takes_is_taken_up_to_the_last_byte() {
        let (run, sink) = ("r".repeat(RUN_ID_BYTES_MAX), "s".repeat(SINK_BYTES_MAX));
        let longest = BLOCK_BYTES_MAX as usize;
        check_mover(&run, &sink, longest).unwrap();
        let refused = |run: &str, sink: &str, bytes| {
            let error = check_mover(run, sink, bytes).unwrap_err();
            error.to_string()
        };
        let said = refused(&format!("{run}r"), &sink, longest);
        assert!(said.contains("has 65") && said.contains("42"), "{said}");
        let said = refused(&run, &format!("{sink}s"), longest);
        assert!(said.contains("this one has 33"), "{said}");
        let said = refused(&run, &sink, longest + 1);
        assert!(said.contains("67108865"), "{said}");
    }
}
