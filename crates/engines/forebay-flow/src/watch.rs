//! A watch over the flows of a table, by their places: what is kept of a flow beside its counts lies at the same place.

use crate::decode::Packet;
use crate::record::FlowRecord;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the initiator of its flow.
    Forward,
    /// To the initiator.
    Reverse,
}

impl Way {
    #[inline]
    pub(crate) const fn of(is_reverse: bool) -> Self {
        if is_reverse {
            Self::Reverse
        } else {
            Self::Forward
        }
    }
}

/// Is told of flows. A place is below [`crate::Table::places`], and belongs to one flow from its begin to its end.
pub trait Watch {
    /// A flow begins with a packet from its initiator.
    fn begun(&mut self, place: u32, packet: &Packet<'_>);
    /// Another packet came.
    fn packet(&mut self, place: u32, way: Way, packet: &Packet<'_>);
    /// Whether further packets of the flow are to be told of: it is not counted by a table below as long as they are.
    fn wants(&self, place: u32) -> bool {
        let _ = place;
        false
    }
    /// Whether what is wanted of them is more than their headers, lengths and times: it is not lent to be cut as long as it is.
    fn wants_payload(&self, place: u32) -> bool {
        self.wants(place)
    }
    /// The flow has ended, and its place is free.
    fn ended(&mut self, place: u32, record: &FlowRecord);
}

/// Takes records, and nothing else.
pub(crate) struct OnEnd<'a, F>(pub(crate) &'a mut F);

impl<F: FnMut(&FlowRecord)> Watch for OnEnd<'_, F> {
    #[inline]
    fn begun(&mut self, _place: u32, _packet: &Packet<'_>) {}

    #[inline]
    fn packet(&mut self, _place: u32, _way: Way, _packet: &Packet<'_>) {}

    #[inline]
    fn ended(&mut self, _place: u32, record: &FlowRecord) {
        (self.0)(record);
    }
}
