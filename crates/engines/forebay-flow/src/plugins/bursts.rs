//! Bursts: three or more packets of one way that follow each other within a second, the first eight of each way.
//!
//! It wants all packets of a flow until it has eight bursts of each way, so a flow with it is hardly ever satisfied.

use super::column::{Column, Kind};
use super::fields::Writer;
use super::pstats::since_us;
use super::{Plugin, Seen, Verdict, Way};

pub(super) const COLUMNS: &[Column] = &[
    Column::own("bursts_packets", 50, Kind::Unsigneds(4)),
    Column::own("bursts_octets", 51, Kind::Unsigneds(4)),
    Column::own("bursts_start_us", 52, Kind::Unsigneds(4)),
    Column::own("bursts_end_us", 53, Kind::Unsigneds(4)),
    Column::own("bursts_packets_rev", 54, Kind::Unsigneds(4)),
    Column::own("bursts_octets_rev", 55, Kind::Unsigneds(4)),
    Column::own("bursts_start_us_rev", 56, Kind::Unsigneds(4)),
    Column::own("bursts_end_us_rev", 57, Kind::Unsigneds(4)),
];

/// Bursts of a way that are kept.
const BURSTS: usize = 8;
/// Packets of a burst at least.
const PACKETS_MIN: u32 = 3;
/// Longest time between two packets of a burst, in µs.
const GAP_MAX_US: u32 = 1_000_000;

/// Packets that follow each other. Times are from the begin of the flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Burst {
    packets: u32,
    octets: u32,
    start_us: u32,
    end_us: u32,
}

impl Burst {
    const fn is_burst(&self) -> bool {
        self.packets >= PACKETS_MIN
    }
}

/// The bursts of a way, the last of which may become longer.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    bursts: [Burst; BURSTS],
    /// Those that are over.
    count: u8,
}

impl Side {
    fn add(&mut self, octets: u32, time_us: u32) {
        let mut n = usize::from(self.count);
        let Some(last) = self.bursts.get_mut(n) else {
            return;
        };
        if last.packets > 0 && time_us.saturating_sub(last.end_us) > GAP_MAX_US {
            if last.is_burst() {
                n += 1;
                self.count += 1;
            }
            match self.bursts.get_mut(n) {
                Some(next) => *next = Burst::default(),
                None => return,
            }
        }
        let burst = &mut self.bursts[n];
        if burst.packets == 0 {
            burst.start_us = time_us;
        }
        burst.packets = burst.packets.saturating_add(1);
        burst.octets = burst.octets.saturating_add(octets);
        burst.end_us = burst.end_us.max(time_us);
    }

    const fn is_full(&self) -> bool {
        self.count as usize == BURSTS
    }

    fn bursts(&self) -> impl Iterator<Item = &Burst> {
        let known = usize::from(self.count) + 1;
        let known = self.bursts.iter().take(known);
        known.filter(|burst| burst.is_burst())
    }

    fn write(&self, to: &mut Writer<'_>) {
        to.list(self.bursts().map(|burst| burst.packets.to_be_bytes()));
        to.list(self.bursts().map(|burst| burst.octets.to_be_bytes()));
        to.list(self.bursts().map(|burst| burst.start_us.to_be_bytes()));
        to.list(self.bursts().map(|burst| burst.end_us.to_be_bytes()));
    }
}

#[derive(Clone, Debug, Default)]
struct State {
    begin_ns: u64,
    sides: [Side; 2],
}

/// 272 bytes a flow.
#[derive(Debug)]
pub(super) struct Bursts(Vec<State>);

const _: () = assert!(size_of::<State>() <= 272);

impl Bursts {
    pub(super) fn new(places: usize) -> Self {
        Self(vec![State::default(); places])
    }
}

impl Plugin for Bursts {
    fn handle(&mut self, place: usize, seen: &Seen<'_>) -> Verdict {
        let (state, packet) = (&mut self.0[place], seen.packet);
        if seen.is_first {
            state.begin_ns = packet.time_ns;
            for side in &mut state.sides {
                side.count = 0;
                side.bursts[0] = Burst::default();
            }
        }
        let time_us = since_us(state.begin_ns, packet.time_ns);
        state.sides[usize::from(seen.way == Way::Reverse)].add(packet.octets, time_us);
        if state.sides.iter().all(Side::is_full) {
            Verdict::Satisfied
        } else {
            Verdict::More
        }
    }

    fn write(&self, place: usize, to: &mut Writer<'_>) {
        let sides = &self.0[place].sides;
        if sides.iter().any(|side| side.bursts().next().is_some()) {
            sides.iter().for_each(|side| side.write(to));
        }
    }
}
