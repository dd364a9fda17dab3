//! What is wrong with a table below user space.

use forebay_xdp::XdpError;

use super::{Below, Kind, Shared};

impl Shared {
    /// Looks whether the program is where it was put. Nothing is lent any more if it is not.
    pub(super) fn look_whether_there(&mut self) {
        if let Kind::Xdp(table) = &self.kind {
            let is_there = table.is_attached();
            self.hear_whether_there(is_there);
        }
    }

    /// A call that was refused says nothing of where the program is.
    pub(super) fn hear_whether_there(&mut self, is_there: Result<bool, XdpError>) {
        match is_there {
            Ok(is_there) => self.is_taken_off |= !is_there,
            Err(error) => _ = self.unseen.get_or_insert(error),
        }
    }
}

impl Below {
    /// All that is wrong with it, each in a sentence.
    pub(crate) fn trouble(&self) -> Vec<String> {
        let shared = self.shared();
        let refused = [&shared.failed, &shared.unseen].into_iter().flatten();
        let refused = refused.map(|error| format!("the table below user space: {error}"));
        let others = "--offload software reads Ethernet alone: what comes on another link is not counted in front of the flow table";
        let others = shared.has_others.then(|| others.to_owned());
        let taken_off = shared.is_taken_off.then(|| {
            format!(
                "{} no longer has the XDP program of this probe: somebody took it off, or the interface is gone; its packets come up again, nothing more is lent, and what was counted of a flow comes back when it ends; begin anew to have the program there",
                shared.interface
            )
        });
        let more = [others, taken_off].into_iter().flatten();
        refused.chain(more).collect()
    }
}
