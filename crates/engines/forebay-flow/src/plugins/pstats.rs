//! Lengths, times, directions and TCP flags of the first 30 packets of a flow.

use super::column::{Column, Kind};
use super::fields::Writer;
use super::{Plugin, Seen, Verdict, Way};

pub(super) const COLUMNS: &[Column] = &[
    Column::cesnet("pstats_payload_bytes", 1013, Kind::Unsigneds(2)),
    Column::own("pstats_offsets_us", 40, Kind::Unsigneds(4)),
    Column::cesnet("pstats_tcp_flags", 1015, Kind::Unsigneds(1)),
    Column::cesnet("pstats_directions", 1016, Kind::Signeds),
];

/// Packets that are kept.
const PACKETS: usize = 30;

#[derive(Clone, Debug)]
struct State {
    begin_ns: u64,
    offsets_us: [u32; PACKETS],
    /// A bit for each packet to the initiator.
    reverse: u32,
    lengths: [u16; PACKETS],
    tcp_flags: [u8; PACKETS],
    packets: u8,
}

/// 224 bytes a flow.
#[derive(Debug)]
pub(super) struct Pstats(Vec<State>);

const _: () = assert!(size_of::<State>() <= 232);

impl Pstats {
    pub(super) fn new(places: usize) -> Self {
        let empty = State {
            begin_ns: 0,
            offsets_us: [0; PACKETS],
            reverse: 0,
            lengths: [0; PACKETS],
            tcp_flags: [0; PACKETS],
            packets: 0,
        };
        Self(vec![empty; places])
    }
}

/// Time since a begin, in µs; 0 of what was before it, and the most there is of what is later.
pub(super) fn since_us(begin_ns: u64, time_ns: u64) -> u32 {
    let us = time_ns.saturating_sub(begin_ns) / 1000;
    us.try_into().unwrap_or(u32::MAX)
}

impl Plugin for Pstats {
    fn handle(&mut self, place: usize, seen: &Seen<'_>) -> Verdict {
        let (state, packet) = (&mut self.0[place], seen.packet);
        if seen.is_first {
            (state.begin_ns, state.packets, state.reverse) = (packet.time_ns, 0, 0);
        }
        let n = usize::from(state.packets).min(PACKETS - 1);
        state.offsets_us[n] = since_us(state.begin_ns, packet.time_ns);
        state.lengths[n] = packet.payload_bytes.try_into().unwrap_or(u16::MAX);
        state.tcp_flags[n] = packet.tcp_flags;
        state.reverse |= u32::from(seen.way == Way::Reverse) << n;
        state.packets += 1;
        if usize::from(state.packets) < PACKETS {
            Verdict::More
        } else {
            Verdict::Satisfied
        }
    }

    fn write(&self, place: usize, to: &mut Writer<'_>) {
        let state = &self.0[place];
        let packets = usize::from(state.packets).min(PACKETS);
        to.list(state.lengths[..packets].iter().map(|n| n.to_be_bytes()));
        to.list(state.offsets_us[..packets].iter().map(|n| n.to_be_bytes()));
        to.list(state.tcp_flags[..packets].iter().map(|n| [*n]));
        let way = |n: usize| {
            if state.reverse >> n & 1 == 0 {
                1_i8
            } else {
                -1
            }
        };
        to.list((0..packets).map(|n| way(n).to_be_bytes()));
    }
}
