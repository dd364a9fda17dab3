//! What the receiving side says of what came: buffers given back, messages confirmed, and at the end its totals.
//!
//! A buffer is given back when its messages were read. A message is *confirmed* when it is known what became of it: at once where its reader is through with it
//! then, and else when the user [says so](Session::confirm), after the effect. The totals at the end confirm all; they wait for the last effect.

use forebay_wire::net::{Credit, Frame};

use super::{Inbound, Session};

/// What was said of it, and what may be said.
#[derive(Debug, Default)]
pub(super) struct Confirming {
    /// Said last.
    told: Credit,
    /// Messages and bytes that the user has confirmed; none where reading confirms.
    by_hand: Option<[u64; 2]>,
    /// A message will never be confirmed, and so none behind it: the count ends there.
    is_withheld: bool,
    /// The sender's end is answered: nothing more is said of what was taken.
    is_answered: bool,
}

impl Confirming {
    /// What may be said.
    fn credit(&self, inbound: &Inbound) -> Credit {
        let read = inbound.credit();
        self.by_hand.map_or(read, |[messages, bytes]| Credit {
            messages,
            bytes,
            ..read
        })
    }
}

impl Session {
    /// From now on a message that was read counts as confirmed when that is [said](Self::confirm).
    pub fn confirm_by_hand(&mut self) {
        self.confirming.by_hand = Some([0; 2]);
    }

    /// So many more messages of so many bytes have taken effect, or are lost by a name that stands in this side's books; no more of them than were read.
    pub fn confirm(&mut self, messages: u64, bytes: u64) {
        if self.confirming.is_withheld {
            return;
        }
        let (Some(inbound), Some(confirmed)) = (&self.inbound, &mut self.confirming.by_hand) else {
            return;
        };
        let read = inbound.totals();
        *confirmed = [
            confirmed[0].saturating_add(messages).min(read.messages),
            confirmed[1].saturating_add(bytes).min(read.bytes),
        ];
        self.answer_end();
    }

    /// The message behind those that are confirmed will never be: it could not be written, say. So none behind it is either, whatever becomes of it, as what is
    /// confirmed is a count from the begin. Buffers go back as before. The sender's end is answered by the end of the connection, without totals, and with it
    /// the sender knows what is unconfirmed.
    pub fn withhold(&mut self) {
        let Some(inbound) = &self.inbound else {
            return;
        };
        let read = inbound.totals();
        let by_hand = &mut self.confirming.by_hand;
        by_hand.get_or_insert([read.messages, read.bytes]);
        self.confirming.is_withheld = true;
        self.answer_end();
    }

    /// Gives back what was read, and confirms; whether there was anything to say. Worth a frame when a quarter of the buffers is to be given back, or when its
    /// time has come although it is less (`all`). Nothing is given back to a peer that is to be let go.
    pub fn give_credit(&mut self, all: bool) -> bool {
        if self.check_inbound().is_err() || self.confirming.is_answered {
            return false;
        }
        let (Some(inbound), Some(agreed)) = (&self.inbound, &self.agreed) else {
            return false;
        };
        let credit = self.confirming.credit(inbound);
        let due = credit.buffers - self.confirming.told.buffers;
        let worth_it = due > 0 && due >= u64::from(agreed.buffer_count / 4);
        let worth_it = worth_it || (all && credit != self.confirming.told);
        if worth_it {
            self.confirming.told = credit;
            self.control.say_credit(credit);
        }
        worth_it
    }

    /// Says what was taken, once the sender has ended and all of it is confirmed; where it never will be, how much is, as the last word.
    pub(super) fn answer_end(&mut self) {
        if self.confirming.is_withheld && self.owes_answer() {
            self.give_credit(true);
            self.confirming.is_answered = true;
            return;
        }
        let Some(inbound) = self.inbound.as_ref().filter(|_| self.owes_answer()) else {
            return;
        };
        let (read, confirmed) = (inbound.credit(), self.confirming.credit(inbound));
        if confirmed != read {
            return;
        }
        // Nothing is broken: a buffer that is not what it says is the last frame that is taken, so no end comes behind it.
        let totals = inbound.totals();
        self.confirming.is_answered = true;
        self.control.say(&Frame::Farewell(totals));
    }

    /// Whether the sender has ended and was not answered yet.
    pub(super) fn owes_answer(&self) -> bool {
        self.inbound.is_some() && self.peer_end.is_some() && !self.confirming.is_answered
    }
}
