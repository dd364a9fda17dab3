//! What a user of a run's data must know, by kind: it taints the run.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::reasons;
use crate::run::{Condition, Reason};

reasons! {
    /// What a user of the data must know, by kind.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum TaintKind {
        /// A stage died and was not started again.
        StageLost = "stage_lost",
        /// A disk was full.
        DiskFull = "disk_full",
        /// Writing failed in another way.
        WriteError = "write_error",
        /// Something was too long to be written.
        TooLong = "too_long",
        /// A sink could not follow.
        SinkStalled = "sink_stalled",
        /// Somebody removed or cut what was written.
        OutputRemoved = "output_removed",
        /// A capture ends in the middle of a packet.
        CaptureBroken = "capture_broken",
        /// A connection was lost.
        PeerLost = "peer_lost",
        /// A mover and its sender contradict each other.
        MoverMismatch = "mover_mismatch",
        /// What was sent was not confirmed: it came, or not.
        Unconfirmed = "unconfirmed",
        /// An account does not close.
        Residual = "residual",
    }
}

impl TaintKind {
    /// The reason in the ledger of a run that is tainted by it.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::StageLost => Reason::StageLost,
            Self::DiskFull => Reason::DiskFull,
            Self::WriteError | Self::TooLong => Reason::WriteFailed,
            Self::SinkStalled | Self::MoverMismatch => Reason::SinkStalled,
            Self::OutputRemoved => Reason::OutputRemoved,
            Self::CaptureBroken => Reason::InputEnded,
            Self::PeerLost | Self::Unconfirmed => Reason::ConnectionLost,
            Self::Residual => Reason::Residual,
        }
    }
}

/// Something that a user of the data must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taint {
    /// What it is.
    pub kind: TaintKind,
    /// What happened, for people.
    pub text: String,
}

impl Taint {
    /// A taint of this kind.
    pub fn new(kind: TaintKind, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { kind, text }
    }

    /// Condition and reason of a run with these taints, which else ended so. That its books do not close is the first of them, wherever it stands.
    #[must_use]
    pub fn taint(taints: &[Self], condition: Condition, reason: Reason) -> (Condition, Reason) {
        let residual = taints.iter().find(|it| it.kind == TaintKind::Residual);
        match residual.or(taints.first()) {
            Some(taint) if condition == Condition::Ended => {
                (Condition::Tainted, taint.kind.reason())
            }
            _ => (condition, reason),
        }
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taint_is_told_and_written_with_its_name() {
        for kind in TaintKind::ALL {
            let taint = Taint::new(*kind, "x");
            assert_eq!(taint.to_string(), format!("{}: x", kind.name()));
            let json = serde_json::to_value(&taint).unwrap();
            assert_eq!(json["kind"], kind.name());
            assert_eq!(serde_json::from_value::<Taint>(json).unwrap(), taint);
        }
    }

    #[test]
    fn the_first_taint_says_why_but_for_books_that_do_not_close() {
        let end = (Condition::Ended, Reason::InputEnded);
        let taint = |kind| Taint::new(kind, "");
        let of = |taints: &[Taint]| Taint::taint(taints, end.0, end.1);
        assert_eq!(of(&[]), end);
        let mut taints = vec![taint(TaintKind::DiskFull), taint(TaintKind::PeerLost)];
        assert_eq!(of(&taints), (Condition::Tainted, Reason::DiskFull));
        taints.push(taint(TaintKind::Residual));
        assert_eq!(of(&taints), (Condition::Tainted, Reason::Residual));
        let interrupted = (Condition::Interrupted, Reason::WriteFailed);
        let found = Taint::taint(&taints, interrupted.0, interrupted.1);
        assert_eq!(found, interrupted);
    }
}
