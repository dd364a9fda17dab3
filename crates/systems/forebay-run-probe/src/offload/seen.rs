//! What is known of a table below user space at one moment, by each of those that count.

use forebay_flow::Volume;
use forebay_xdp::{Counts, Reason, Tally, Term};

/// What is known of it at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// By the table itself.
    pub(crate) counts: Counts,
    /// Frames that came, by the table in the kernel itself, and by those that handed them to one in software.
    pub(crate) frames: u64,
    /// Frames that it let go on, as the kernel counts them for each socket; none where they are not counted.
    pub(crate) came_up: Option<u64>,
    /// By those that took flows out of it.
    pub(crate) taken: Volume,
    /// Of the flows that are in it, counted anew; none before the end.
    pub(crate) held: Option<Tally>,
    /// Flows that were taken in.
    pub(crate) lent: u64,
    /// How often it had no room for a flow.
    pub(crate) refused: u64,
    /// Flows that another thread had lent.
    pub(crate) elsewhere: u64,
    /// What it had to say of flows, by the reason, in the order of [`Reason::ALL`], by those that read it.
    pub(crate) exports: [u64; Reason::ALL.len()],
    /// It is no longer where frames would come to it.
    pub(crate) is_taken_off: bool,
}

impl Seen {
    /// Frames that the table let go on, or counted. Those that went to sockets are counted there.
    pub(crate) fn told(&self) -> u64 {
        let is_told = |term: &Term| match term {
            Term::Seen => false,
            Term::Counted | Term::Metadata => true,
            _ => self.came_up.is_none(),
        };
        let ends = Term::ALL.into_iter().filter(is_told);
        let told: u64 = ends.map(|term| self.counts.of(term).frames).sum();
        told + self.came_up.unwrap_or_default()
    }

    /// Frames that it let go on, and that their sockets had not counted yet when those were last asked: at the end there are none.
    pub(crate) fn on_the_way(&self) -> u64 {
        let Some(came_up) = self.came_up.filter(|_| self.held.is_none()) else {
            return 0;
        };
        let goes_on = |term: &Term| !matches!(term, Term::Seen | Term::Counted | Term::Metadata);
        let ends = Term::ALL.into_iter().filter(goes_on);
        let gone: u64 = ends.map(|term| self.counts.of(term).frames).sum();
        gone.saturating_sub(came_up)
    }

    /// What it has of flows that are in it: at the end by all of them, before by what it has counted and what was taken out.
    pub(crate) fn held(&self) -> Volume {
        if let Some(held) = self.held {
            return volume(held);
        }
        let (counted, removed) = (self.counts.of(Term::Counted), self.counts.removed);
        Volume {
            packets: counted.frames.saturating_sub(removed.frames),
            octets: counted.octets.saturating_sub(removed.octets),
        }
    }
}

pub(crate) const fn volume(tally: Tally) -> Volume {
    Volume {
        packets: tally.frames,
        octets: tally.octets,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::tests::counted_twice;

    /// The table's own count of what it let go on is not taken for that of the sockets.
    #[test]
    fn what_went_to_sockets_is_what_they_counted() {
        let (tables, _) = counted_twice();
        let seen = tables[0].look();
        assert_eq!((seen.frames, seen.told()), (4, 4));
        for came_up in [1, 2, 3] {
            let at_sockets = Seen {
                came_up: Some(came_up),
                ..seen
            };
            // Beside two that were counted.
            assert_eq!(at_sockets.told(), 2 + came_up);
            // What the sockets have not counted yet is between both, and at the end nothing is.
            assert_eq!(at_sockets.on_the_way(), 2_u64.saturating_sub(came_up));
            let at_end = Seen {
                held: Some(Tally::default()),
                ..at_sockets
            };
            assert_eq!(at_end.on_the_way(), 0);
        }
        assert_eq!(seen.on_the_way(), 0);
    }
}
