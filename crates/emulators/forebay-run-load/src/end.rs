//! One end of a way to a target, whatever it goes over.

use std::os::fd::BorrowedFd;

use forebay_ledger::HistogramWriter;
use forebay_load::{Came, Load};

/// Sends and receives the packets of one target.
pub(crate) trait End {
    fn fd(&self) -> BorrowedFd<'_>;

    /// Sends what is due; whether there was room for all.
    fn send(&mut self, load: &mut Load, at: usize) -> bool;

    /// Takes what came.
    fn receive(&mut self, load: &mut Load, at: usize, seen: &mut Seen);

    fn trouble(&self) -> &Trouble;

    /// Nothing goes or comes any more.
    fn is_lost(&self) -> bool;

    /// Packets that the kernel dropped as this end did not take them in time.
    fn dropped(&self) -> u64;

    /// What was counted at the ring from which it takes frames; none: it has no such.
    fn ring(&mut self) -> Option<RingCounts> {
        None
    }

    /// Has the kernel give it no more, and takes what came before, where that can be.
    fn shut(&mut self, load: &mut Load, at: usize, seen: &mut Seen) {
        let _ = (load, at, seen);
    }

    /// Why it was lost, if that is no fault of its target alone.
    fn fault(&self) -> Option<&str> {
        None
    }
}

/// Frames of a ring that the kernel fills: what came is what was taken, lost for want of room, and lies there, when none is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RingCounts {
    /// Frames that the filter let in, by the kernel's count.
    pub(crate) came: u64,
    /// Those that found the ring full, by the kernel's count.
    pub(crate) dropped: u64,
    /// Those that were taken, counted when they are.
    pub(crate) taken: u64,
    /// Those that wait, by the heads of the ring.
    pub(crate) held: u64,
}

/// What went wrong with a target: the first time by name, and how often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble {
    pub(crate) first: Option<String>,
    pub(crate) times: u64,
}

impl Trouble {
    pub(crate) fn note(&mut self, what: impl std::fmt::Display) {
        self.times += 1;
        self.first.get_or_insert_with(|| what.to_string());
    }
}

/// The histograms of round-trip times, target by target.
pub(crate) struct Seen {
    pub(crate) rtt_ns: Vec<HistogramWriter>,
    pub(crate) kernel_rtt_ns: Vec<HistogramWriter>,
}

impl Seen {
    pub(crate) fn take(&mut self, at: usize, came: Came) {
        if let Came::Answer {
            rtt_ns,
            kernel_rtt_ns,
        } = came
        {
            self.rtt_ns[at].record(rtt_ns);
            if let Some(ns) = kernel_rtt_ns {
                self.kernel_rtt_ns[at].record(ns);
            }
        }
    }
}
