//! What a mover says at the end, held against the sink's own books.

use forebay_ledger::{Taint, TaintKind};
use forebay_wire::mover::Totals;

use super::TcpSink;
use crate::writer::Told;

impl TcpSink {
    pub(super) fn compare(&mut self, ours: &Totals) {
        let peer = self.plan.peer;
        let Some(theirs) = self.farewell else {
            let text = format!("the mover at {peer} did not confirm the end");
            return self.to_builder.report(Told::Warning(text));
        };
        if (theirs.events, theirs.bytes) != (ours.events, ours.bytes) {
            let text = format!(
                "{} events ({} bytes) were delivered to {peer}, which took {} ({} bytes)",
                ours.events, ours.bytes, theirs.events, theirs.bytes
            );
            let taint = Taint::new(TaintKind::MoverMismatch, text);
            self.to_builder.report(Told::Tainted(taint));
        }
        if theirs.events_lost > 0 {
            let text = format!(
                "the mover at {peer} could not write {} events",
                theirs.events_lost
            );
            let taint = Taint::new(TaintKind::WriteError, text);
            self.to_builder.report(Told::Tainted(taint));
        }
    }
}
