//! What clients lie about on the transmit side, and what becomes of them.

use crate::client::ClientId;
use crate::descriptor::{DescriptorFault, TransmitFault};
use crate::source::Source;
use crate::transmit::{Packet, TransmitDrop};

use super::{Mux, Refused};

impl Mux {
    /// Refuses what a client said, and counts it.
    pub(super) fn refuse(&mut self, client: ClientId, fault: DescriptorFault) -> Refused {
        self.transmit.refuse(client, fault.kind());
        self.disconnect_liar(client, fault)
    }

    /// Parts with a client that has lied once too often.
    fn disconnect_liar(&mut self, client: ClientId, fault: DescriptorFault) -> Refused {
        if self.lied_too_often(client, fault.kind()) {
            self.remove_client(client);
            return Refused::Disconnected(fault);
        }
        Refused::Fault(fault)
    }

    fn lied_too_often(&self, client: ClientId, kind: TransmitFault) -> bool {
        let check = self.checks[client.index()].as_ref();
        check.is_some_and(|check| self.is_too_often(check.faults()[kind]))
    }

    /// Drops a packet that [`Self::poll`] gave, and that now names this sender: its client, whose packets stay where they are, changed it after it was offered. Its
    /// buffer goes back to the client as [`Refused`] says, which is a lie that is counted.
    pub fn finish_foreign(&mut self, client: ClientId, packet: Packet, source: Source) -> Refused {
        let check = self.checks[client.index()].as_mut();
        let checked = check.map(|check| check.check_source(source));
        let Some(Err(fault)) = checked else {
            self.finish(client, packet, false);
            return Refused::Dropped(TransmitDrop::Card);
        };
        self.transmit.finish_lied(client, packet, fault.kind());
        self.give_back(client, packet.buffer);
        self.disconnect_liar(client, fault)
    }
}
