//! The queue of one client, and what was counted of it.

use std::collections::VecDeque;

use forebay_ledger::{DropReason, PerReason};

#[cfg(doc)]
use super::Transmit;
use super::{Packet, Sender, TransmitDrop, TransmitLoss};
use crate::account::Items;

/// What a client asked to send, and what became of it: `asked` = `sent` + `dropped` + [`Transmit::held`], in packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendCounts {
    /// What it handed over; of what it lied about the packet without its bytes.
    pub asked: Items,
    /// What the card took.
    pub sent: Items,
    /// What was not sent.
    pub dropped: PerReason<TransmitLoss, Items, { TransmitLoss::COUNT }>,
    /// What waits or is on its way into the card, by what came and went: for a live view. Books are closed with [`Transmit::held`].
    pub held_now: Items,
    /// Longest that a packet waited until the card took it, ns, by the time of the last question for a packet.
    pub sojourn_max_ns: u64,
}

impl SendCounts {
    pub(super) fn drop(&mut self, why: TransmitDrop, bytes: u32) {
        self.dropped[TransmitLoss::Second(why)].add(bytes);
    }
}

/// Packets of a client that wait, and those on their way into the card.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// How its client sends, if that is there.
    pub(super) sender: Option<Sender>,
    /// What waits.
    pub(super) packets: VecDeque<Packet>,
    /// What was given to the card, which has not said yet whether it took it.
    pub(super) in_card: Items,
    pub(super) counts: SendCounts,
}

impl Queue {
    /// The client's class, and how long its packets may wait, ns; nothing where that has no bound.
    pub(super) fn bound(&self) -> Option<(usize, u64)> {
        let sender = self.sender?;
        Some((sender.class, sender.sojourn_max_ns?))
    }

    /// What waits, counted anew, and what is on its way into the card.
    pub(super) fn held(&self) -> Items {
        let mut held = self.in_card;
        let packets = self.packets.iter();
        packets.for_each(|packet| held.add(packet.bytes));
        held
    }
}
