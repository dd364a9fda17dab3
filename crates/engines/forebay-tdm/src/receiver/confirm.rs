//! What came is confirmed to its sender when it is where it belongs.

use std::collections::VecDeque;

use forebay_wire::tdm::{End, Message, Reported};

use super::{Phase, Receiver};

/// Which ends are confirmed, and which wait for the caller.
#[derive(Debug, Default)]
pub(super) struct Confirm {
    by_caller: bool,
    waiting: VecDeque<u16>,
    /// By sender: the start whose end is confirmed, and what came of it and is not written.
    done: Vec<Option<(u8, Unwritten)>>,
}

/// What came of a sender's stream and is not where it belongs: it found no room, or could not be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwritten {
    /// Packets.
    pub packets: u64,
    /// Bytes of their payload.
    pub bytes: u64,
}

impl Receiver {
    /// A sender is told what came of its stream only when the caller has said that it is written ([`Self::confirm`]).
    #[must_use]
    pub const fn confirmed_by_caller(mut self) -> Self {
        self.confirm.by_caller = true;
        self
    }

    /// The next sender whose stream has ended, and that waits for being told what came of it.
    pub fn poll_ended(&mut self) -> Option<u16> {
        self.confirm.waiting.pop_front()
    }

    /// What came of this sender's present start is where it belongs, but for `unwritten`, which counts as lost: it is told so.
    pub fn confirm(&mut self, sender: u16, unwritten: Unwritten) {
        let at = usize::from(sender);
        let Some(peer) = self.peers.get(at) else {
            return;
        };
        if self.confirm.done.len() <= at {
            self.confirm.done.resize(at + 1, None);
        }
        if let Some(done) = self.confirm.done.get_mut(at) {
            *done = Some((peer.start, unwritten));
        }
        if let Some(mut totals) = peer.ended_totals() {
            let packets = unwritten.packets.min(totals.packets);
            totals.packets -= packets;
            totals.errors += packets;
            totals.payload_bytes = totals.payload_bytes.saturating_sub(unwritten.bytes);
            self.push(sender, Message::Ended(totals));
        }
    }

    /// A sender tells its totals.
    pub(super) fn take_end(&mut self, now_ns: u64, sender: u16, end: &End) {
        let Some(peer) = self.peers.get_mut(usize::from(sender)) else {
            return;
        };
        if peer.ended_totals().is_some() {
            // It was told before, and the answer was lost, or it is not to be told yet.
            self.ended_again(sender);
            return;
        }
        peer.ended(now_ns, end, self.phase == Phase::Stopping);
        self.turn.left(sender);
        self.close_rows(now_ns);
    }

    /// This sender's stream has ended and all of its windows are closed.
    pub(super) fn stream_ended(&mut self, sender: u16) {
        if self.confirm.by_caller {
            self.confirm.waiting.push_back(sender);
        } else {
            self.confirm(sender, Unwritten::default());
        }
    }

    /// It asks again for its totals: it hears them, or that somebody is here.
    pub(super) fn ended_again(&mut self, sender: u16) {
        let at = usize::from(sender);
        let Some(peer) = self.peers.get(at) else {
            return;
        };
        if let Some(Some((start, unwritten))) = self.confirm.done.get(at)
            && *start == peer.start
        {
            return self.confirm(sender, *unwritten);
        }
        let closed = peer
            .totals()
            .last_window
            .map_or(0, |last| last.saturating_add(1));
        let reported = Reported {
            next: closed,
            highest: closed.saturating_sub(1),
        };
        self.push(sender, Message::Reported(reported));
    }
}
