//! Times in which this host did not read its socket, and what that cost.

use std::collections::VecDeque;

use super::{Receiver, Row};

/// Stalls that are remembered for windows that are not closed: later ones push the first out.
const STALLS_MAX: usize = 64;

/// From `from_ns` to `until_ns` the socket was not read empty, and the kernel dropped datagrams there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// When the socket was empty the last time before.
    pub from_ns: u64,
    /// When it was read again, or empty again.
    pub until_ns: u64,
    /// The kernel's count of drops is of packets: no more than it are charged. Where it merges packets, all that a window of that time misses are.
    pub is_exact: bool,
}

#[derive(Debug, Default)]
pub(super) struct Stalls(VecDeque<Stall>);

impl Stalls {
    /// One that goes on is one with what is known of it.
    pub(super) fn add(&mut self, stall: Stall) {
        match self.0.back_mut() {
            Some(last) if stall.from_ns <= last.until_ns => {
                last.until_ns = last.until_ns.max(stall.until_ns);
            }
            _ => self.0.push_back(stall),
        }
        if self.0.len() > STALLS_MAX {
            self.0.pop_front();
        }
    }

    /// What a window that was sent in such a time misses is charged to it, against the kernel's count `drops`.
    pub(super) fn charge(&self, row: &mut Row, drops: &mut u64) {
        let meets = |stall: &&Stall| {
            row.first_sent_ns <= stall.until_ns && row.last_sent_ns >= stall.from_ns
        };
        if row.last_sent_ns == 0 {
            return;
        }
        if let Some(stall) = self.0.iter().find(meets) {
            let most = if stall.is_exact { *drops } else { u64::MAX };
            let charged = row.lost.charge(most, |lost| &mut lost.receiver_stalled);
            *drops = drops.saturating_sub(charged);
        }
    }
}

impl Receiver {
    /// This host did not read its socket for some time, and the kernel dropped datagrams there meanwhile, which [`Self::handle_socket_drops`] was told.
    pub fn handle_stall(&mut self, stall: Stall) {
        self.stalls.add(stall);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Lost;
    use super::*;

    fn row(first_sent_ns: u64, last_sent_ns: u64) -> Row {
        Row {
            first_sent_ns,
            last_sent_ns,
            lost: Lost {
                sender_error: 1,
                whole_window: 5,
                inside: 2,
                ..Lost::default()
            },
            ..Row::default()
        }
    }

    #[test]
    fn what_was_sent_in_a_stall_is_charged_to_it_and_nothing_else() {
        let mut stalls = Stalls::default();
        for (from_ns, until_ns) in [(1_000, 2_000), (1_500, 3_000), (9_000, 9_100)] {
            stalls.add(Stall {
                from_ns,
                until_ns,
                is_exact: false,
            });
        }
        let mut drops = 4;
        for (first, last, charged) in [(0, 999, 0), (3_001, 8_999, 0), (2_500, 3_500, 7), (0, 0, 0)]
        {
            let mut row = row(first, last);
            stalls.charge(&mut row, &mut drops);
            assert_eq!(row.lost.receiver_stalled, charged, "{first} to {last}");
            assert_eq!((row.lost.total(), row.lost.sender_error), (8, 1));
        }
        assert_eq!(
            drops, 0,
            "no other window is charged with what this one was"
        );
    }

    #[test]
    fn an_exact_count_of_the_kernels_is_not_exceeded() {
        let mut stalls = Stalls::default();
        stalls.add(Stall {
            from_ns: 1,
            until_ns: 9,
            is_exact: true,
        });
        let (mut row, mut drops) = (row(5, 5), 3);
        stalls.charge(&mut row, &mut drops);
        assert_eq!(
            (row.lost.receiver_stalled, row.lost.total(), drops),
            (3, 8, 0)
        );
    }
}
