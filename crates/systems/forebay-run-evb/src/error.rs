//! What can stop a run of the event builder, beside what can stop any run.

use std::path::PathBuf;

use forebay_run::error::RunError;
use forebay_run_net::{CertificateError, NetError};
use forebay_sink::SinkError;
use thiserror::Error;

use crate::plan::{MoverLimit, QueueTooSmall};

/// Errors of the event builder.
#[derive(Debug, Error)]
pub enum EvbError {
    /// The builder's settings are out of range.
    #[error("configuration of the builder: {0}")]
    Builder(#[from] forebay_evb::OutOfRange),
    /// A remote mover would not take what a sink sends.
    #[error(transparent)]
    Mover(#[from] MoverLimit),
    /// A sink cannot start.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// A sink's queue can never take the largest event.
    #[error(transparent)]
    QueueTooSmall(#[from] QueueTooSmall),
    /// Misuse: a stage or a sink was started that the plan does not have.
    #[error("the plan has no {what}")]
    NotInPlan {
        /// What was asked for.
        what: &'static str,
    },
    /// Misuse: a sink that writes nothing was given a queue and a thread.
    #[error("sink {sink} has no writer: a null sink is a part of the builder")]
    SinkWithoutWriter {
        /// Its name.
        sink: String,
    },
    /// A capture cannot be replayed.
    #[error("capture {}: {source}", file.display())]
    Capture {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        source: forebay_link::pcap::CaptureError,
    },
    /// A capture holds nothing for the builder, or too much.
    #[error("{}: {found} sources of HADTU messages in {datagrams} UDP datagrams ({packets} packets); 1 to {most} can be replayed", file.display())]
    Sources {
        /// The file.
        file: PathBuf,
        /// Sources found.
        found: usize,
        /// Largest number that can be built of.
        most: usize,
        /// UDP datagrams in the capture.
        datagrams: u64,
        /// Packets in the capture.
        packets: u64,
    },
    /// More sources are asked for than a capture has.
    #[error(
        "{asked} sources are asked for, and {} holds {found}; leave the number out, or name the first port too: these ports are then sources, silent or not",
        file.display()
    )]
    SourcesMissing {
        /// The file.
        file: PathBuf,
        /// How many are asked for.
        asked: usize,
        /// How many there are.
        found: usize,
    },
    /// The certificates with which E-links are subscribed to.
    #[error("E-links: {0}")]
    Certificates(#[from] Box<CertificateError>),
    /// The subscriber of E-links cannot go on.
    #[error("E-links: {0}")]
    Elinks(#[from] Box<NetError>),
}

impl From<EvbError> for RunError {
    fn from(error: EvbError) -> Self {
        Self::Failure(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn an_error_keeps_its_text_and_its_cause_at_the_border() {
        let none = EvbError::NotInPlan { what: "E-link" };
        let text = none.to_string();
        let at_border = RunError::from(none);
        assert_eq!(text, "the plan has no E-link");
        assert_eq!(at_border.to_string(), text);
        assert!(at_border.source().is_none());
        let lost = EvbError::from(Box::new(NetError::Stopped));
        let at_border = RunError::from(lost);
        assert_eq!(at_border.to_string(), "E-links: interrupted while waiting");
        let cause = at_border.source().map(ToString::to_string);
        assert_eq!(cause.as_deref(), Some("interrupted while waiting"));
    }
}
