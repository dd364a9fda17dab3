//! Declaring the connection between two hops.

use crate::directory::{DropAmount, LinkDropEntry, LinkEntry};
use crate::schema::{AccountId, Counter, Tally};
use crate::unit::Unit;

/// A link: what left the near side either entered the far side, or is a named loss of the link, or
/// is in flight. What is left over is its residual.
///
/// Without a near side the sender is foreign and keeps no books: the residual is *unknown*.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    entry: LinkEntry,
}

impl LinkSpec {
    /// A link at `place` (as `socket`) that carries what belongs to `owner` (as `source17`).
    #[must_use]
    pub fn new(place: &str, owner: &str) -> Self {
        Self {
            entry: LinkEntry {
                place: place.to_owned(),
                owner: owner.to_owned(),
                from: Vec::new(),
                to: Vec::new(),
                drops: Vec::new(),
                in_flight: None,
                inferred_lost: None,
                bound_items: 0,
                unbooked_items: 0,
            },
        }
    }

    /// Adds an account whose `outgoing` enters the link. Several add up.
    #[must_use]
    pub fn from(mut self, account: AccountId) -> Self {
        self.entry.from.push(account.0);
        self
    }

    /// Adds an account whose `incoming` comes out of the link. Several add up.
    #[must_use]
    pub fn to(mut self, account: AccountId) -> Self {
        self.entry.to.push(account.0);
        self
    }

    /// Adds a loss counted in items and bytes.
    #[must_use]
    pub fn drops(mut self, reason: &str, lost: Tally) -> Self {
        let amount = DropAmount::Exact(lost.items.reference());
        self.entry.drops.push(LinkDropEntry {
            reason: reason.to_owned(),
            amount,
        });
        self
    }

    /// Adds a loss that the kernel counts in items only, each of `bytes_min` to `bytes_max` bytes.
    #[must_use]
    pub fn kernel_drops(
        mut self,
        reason: &str,
        items: Counter,
        bytes_min: u64,
        bytes_max: u64,
    ) -> Self {
        let amount = DropAmount::Interval {
            items: items.reference(),
            items_max: 1,
            bytes_min,
            bytes_max,
        };
        self.entry.drops.push(LinkDropEntry {
            reason: reason.to_owned(),
            amount,
        });
        self
    }

    /// As [`kernel_drops`](Self::kernel_drops), where the kernel may have merged items before it dropped them (UDP GRO): each
    /// drop that it counts was one to `items_max` items, together of `bytes_min` to `bytes_max` bytes. The count is then a lower
    /// bound, and the link's residual the distance to the interval.
    #[must_use]
    pub fn merged_kernel_drops(
        mut self,
        reason: &str,
        drops: Counter,
        items_max: u64,
        bytes_min: u64,
        bytes_max: u64,
    ) -> Self {
        let amount = DropAmount::Interval {
            items: drops.reference(),
            items_max: items_max.max(1),
            bytes_min,
            bytes_max,
        };
        self.entry.drops.push(LinkDropEntry {
            reason: reason.to_owned(),
            amount,
        });
        self
    }

    /// Names what tells how much is inside the link: `published − taken`.
    ///
    /// These words must be counted by the link itself (a ring's two ends), not be the accounts'
    /// own terms: otherwise the link's residual would be 0 by construction.
    #[must_use]
    pub fn in_flight(mut self, published: Tally, taken: Tally) -> Self {
        self.entry.in_flight = Some((published.items.reference(), taken.items.reference()));
        self
    }

    /// Names a word with items of `unit` inferred to be lost (gaps in trigger numbers). It stands beside the
    /// balance, labelled `inferred`, and never enters it.
    #[must_use]
    pub fn inferred_lost(mut self, items: Counter, unit: Unit) -> Self {
        self.entry.inferred_lost = Some((items.reference(), unit));
        self
    }

    /// States how many items can be in flight uncounted, in buffers that nobody can read (a socket
    /// buffer), or between two commits. The live alarm is silent up to it. Default 0.
    #[must_use]
    pub fn bound_items(mut self, items: u64) -> Self {
        self.entry.bound_items = items;
        self
    }

    /// States how many items the near side may have sent and not booked yet, when it is killed: so many more may have come than its books say. Default 0:
    /// it books what it sends before it sends it.
    #[must_use]
    pub fn unbooked_items(mut self, items: u64) -> Self {
        self.entry.unbooked_items = items;
        self
    }

    pub(crate) fn into_entry(self) -> LinkEntry {
        self.entry
    }
}
