//! Whose turn it is, when the receiver grants windows.

/// Beyond a window and its guard: what grant and report may take on their ways, in ns.
const WAY_NS: u64 = 2_000_000;

/// Whether turns are given at all.
#[derive(Debug, Default)]
pub(super) struct Grants {
    pub(super) held: bool,
    /// How often they were held back.
    pub(super) times: u64,
}

#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Sender, window, and when it is over whatever has come.
    now: Option<(u16, u32, u64)>,
    next: u16,
}

impl Turn {
    /// A window has been reported; true when it ends the turn.
    pub(super) fn reported(&mut self, sender: u16, window: u32) -> bool {
        let ends = self
            .now
            .is_some_and(|(turn, granted, _)| (turn, granted) == (sender, window));
        if ends {
            self.now = None;
        }
        ends
    }

    /// A sender has no use for a turn any more.
    pub(super) fn left(&mut self, sender: u16) {
        if self.now.is_some_and(|(turn, ..)| turn == sender) {
            self.now = None;
        }
    }

    /// When the turn is over; `None` when it is nobody's.
    pub(super) fn over_ns(&self) -> Option<u64> {
        self.now.map(|(_, _, over_ns)| over_ns)
    }

    /// Gives the turn to the next of `senders` that `may` send, if it is nobody's, with the number of that sender's window.
    pub(super) fn give(
        &mut self,
        now_ns: u64,
        takes_ns: u64,
        senders: u16,
        mut may: impl FnMut(u16) -> Option<u32>,
    ) -> Option<(u16, u32)> {
        if self.now.is_some_and(|(_, _, over_ns)| now_ns < over_ns) {
            return None;
        }
        self.now = None;
        for step in 0..senders {
            let sender = (self.next + step) % senders;
            if let Some(window) = may(sender) {
                self.next = (sender + 1) % senders;
                self.now = Some((sender, window, now_ns + takes_ns + WAY_NS));
                return Some((sender, window));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_goes_round_and_waits_for_the_report_or_its_time() {
        let mut turn = Turn::default();
        let mut windows = [0_u32; 3];
        let mut give = |turn: &mut Turn, now| {
            turn.give(now, 1_000, 3, |sender| {
                // Sender 1 has ended.
                (sender != 1).then(|| {
                    windows[usize::from(sender)] += 1;
                    windows[usize::from(sender)]
                })
            })
        };
        assert_eq!(give(&mut turn, 0), Some((0, 1)));
        assert_eq!(give(&mut turn, 500), None, "it is 0's turn");
        turn.reported(0, 7);
        assert_eq!(give(&mut turn, 600), None, "another window's report");
        turn.reported(0, 1);
        assert_eq!(give(&mut turn, 700), Some((2, 1)));
        let over = turn.over_ns().unwrap();
        assert_eq!(over, 700 + 1_000 + WAY_NS);
        assert_eq!(give(&mut turn, over), Some((0, 2)), "its time was over");
    }
}
