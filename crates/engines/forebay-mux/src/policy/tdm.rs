//! Clients in windows of a schedule that comes again, as that of `forebay tdm`: a packet is sent only if it is over before its window is, at the link's rate.

use thiserror::Error;

use super::{Policy, PolicyConfig, Queues, SECOND_NS, Turn};
use crate::client::ClientId;
use forebay_settings::{OutOfRange, in_range};

/// Longest cycle, and so the longest window, in ns.
const CYCLE_NS_MAX: u64 = 60 * SECOND_NS;
/// Most windows of a schedule.
const SLOTS_MAX: usize = 4096;

/// A client's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The client.
    pub client: ClientId,
    /// Begin, from that of the cycle, in ns.
    pub offset_ns: u64,
    /// Length, in ns.
    pub window_ns: u64,
}

/// Windows that do not overlap, over and over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    slots: Vec<Slot>,
    cycle_ns: u64,
    begin_ns: u64,
    link_rate_bps: u64,
    overhead_bytes: u32,
}

/// Windows that make no schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ScheduleError {
    /// A setting is outside its range.
    #[error(transparent)]
    Config(#[from] OutOfRange),
    /// There are none, or too many.
    #[error("{slots} windows; a schedule has 1 to 4096")]
    Slots {
        /// How many there are.
        slots: usize,
    },
    /// A window begins before the one before it is over.
    #[error(
        "the window of {client} at {offset_ns} ns begins before the one before it is over, at {before_ns} ns"
    )]
    Overlap {
        /// The client of the later one.
        client: ClientId,
        /// Its begin, ns.
        offset_ns: u64,
        /// End of the one before, ns.
        before_ns: u64,
    },
    /// The last window ends behind the cycle.
    #[error("the last window ends at {end_ns} ns, behind the cycle of {cycle_ns} ns")]
    Cycle {
        /// End of the last one, ns.
        end_ns: u64,
        /// Length of the cycle, ns.
        cycle_ns: u64,
    },
}

impl Schedule {
    /// Windows of at least a nanosecond in the order of their begins, within a cycle that begins at `begin_ns`, 0 to 2^63, and comes again after `cycle_ns`,
    /// 1 µs to 60 s, on a link of so many bits per second, 8,000 to 10^12, on which each packet takes so many bytes beside its own, 0 to 256: 24 with Ethernet
    /// (preamble, check sum and gap).
    ///
    /// # Errors
    /// A number is outside its range, windows overlap or end behind the cycle, or there are none.
    pub fn new(
        slots: Vec<Slot>,
        cycle_ns: u64,
        begin_ns: u64,
        link_rate_bps: u64,
        overhead_bytes: u32,
    ) -> Result<Self, ScheduleError> {
        if !(1..=SLOTS_MAX).contains(&slots.len()) {
            let slots = slots.len();
            return Err(ScheduleError::Slots { slots });
        }
        in_range("cycle_ns", cycle_ns, 1000, CYCLE_NS_MAX)?;
        in_range("begin_ns", begin_ns, 0, 1 << 63)?;
        in_range("link_rate_bps", link_rate_bps, 8000, 1_000_000_000_000)?;
        in_range("overhead_bytes", overhead_bytes.into(), 0, 256)?;
        let mut end_ns = 0_u64;
        for slot in &slots {
            in_range("window_ns", slot.window_ns, 1, CYCLE_NS_MAX)?;
            if slot.offset_ns < end_ns {
                return Err(ScheduleError::Overlap {
                    client: slot.client,
                    offset_ns: slot.offset_ns,
                    before_ns: end_ns,
                });
            }
            end_ns = slot.offset_ns.saturating_add(slot.window_ns);
        }
        if end_ns > cycle_ns {
            return Err(ScheduleError::Cycle { end_ns, cycle_ns });
        }
        Ok(Self {
            slots,
            cycle_ns,
            begin_ns,
            link_rate_bps,
            overhead_bytes,
        })
    }

    /// How long the link takes for a packet, ns, rounded up.
    fn takes_ns(&self, bytes: u32) -> u64 {
        let bits = (u64::from(bytes) + u64::from(self.overhead_bytes)) * 8;
        (u128::from(bits) * u128::from(SECOND_NS)).div_ceil(self.link_rate_bps.into()) as u64
    }

    /// Begin of the cycle at a time, and which windows are not over by then: their number.
    fn at(&self, time_ns: u64) -> (u64, usize) {
        let since_ns = time_ns.saturating_sub(self.begin_ns);
        let phase_ns = since_ns % self.cycle_ns;
        let over = |slot: &Slot| slot.offset_ns + slot.window_ns <= phase_ns;
        let cycle_ns = self.begin_ns + (since_ns - phase_ns);
        (cycle_ns, self.slots.partition_point(over))
    }

    /// The windows from one on, over one cycle that begins at `cycle_ns`: begin, end and client.
    fn from(&self, cycle_ns: u64, first: usize) -> impl Iterator<Item = (u64, u64, ClientId)> {
        let (rest, again) = (&self.slots[first..], &self.slots[..]);
        let rest = rest.iter().map(move |slot| (cycle_ns, slot));
        let again = again
            .iter()
            .map(move |slot| (cycle_ns.saturating_add(self.cycle_ns), slot));
        rest.chain(again).map(|(cycle_ns, slot)| {
            let begin_ns = cycle_ns.saturating_add(slot.offset_ns);
            let end_ns = begin_ns.saturating_add(slot.window_ns);
            (begin_ns, end_ns, slot.client)
        })
    }
}

/// The schedule, and until when the link is busy with what was given to it.
#[derive(Debug)]
pub(super) struct Tdm {
    schedule: Schedule,
    busy_until_ns: u64,
    /// The window that was looked at last: begin of its cycle, and its number.
    last: (u64, usize),
}

impl Tdm {
    pub(super) fn new(schedule: &Schedule) -> Self {
        Self {
            schedule: schedule.clone(),
            busy_until_ns: 0,
            last: (0, usize::MAX),
        }
    }

    /// As [`Schedule::at`], which mostly is what it was before.
    fn at(&mut self, time_ns: u64) -> (u64, usize) {
        let (cycle_ns, number) = self.last;
        let is_in = |slot: &Slot| {
            let begin_ns = cycle_ns.saturating_add(slot.offset_ns);
            (begin_ns..begin_ns.saturating_add(slot.window_ns)).contains(&time_ns)
        };
        if !self.schedule.slots.get(number).is_some_and(is_in) {
            self.last = self.schedule.at(time_ns);
        }
        self.last
    }
}

impl Policy for Tdm {
    #[inline]
    fn next(&mut self, queues: &Queues<'_>, now_ns: u64) -> Turn {
        if queues.ready().is_empty() {
            return Turn::Idle;
        }
        let free_ns = self.busy_until_ns.max(now_ns);
        let (cycle_ns, first) = self.at(free_ns);
        for (begin_ns, end_ns, client) in self.schedule.from(cycle_ns, first) {
            if !queues.ready().contains(client) {
                continue;
            }
            let takes_ns = self.schedule.takes_ns(queues.head(client).bytes);
            if begin_ns.max(free_ns).saturating_add(takes_ns) > end_ns {
                continue;
            }
            if begin_ns <= now_ns {
                return Turn::Send(client);
            }
            return Turn::AskAt(begin_ns);
        }
        // Of no client that has something to send is a window in the schedule that its packet fits into: another packet may come.
        Turn::Idle
    }

    #[inline]
    fn sent(&mut self, _client: ClientId, bytes: u32, now_ns: u64) {
        let takes_ns = self.schedule.takes_ns(bytes);
        self.busy_until_ns = self.busy_until_ns.max(now_ns).saturating_add(takes_ns);
    }

    fn adjust(&mut self, config: &PolicyConfig, _now_ns: u64) -> bool {
        let PolicyConfig::Tdm(schedule) = config else {
            return false;
        };
        self.schedule = schedule.clone();
        self.last = (0, usize::MAX);
        true
    }
}
