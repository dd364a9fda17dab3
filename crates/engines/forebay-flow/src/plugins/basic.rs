//! What the first packet of each way has in its headers: time to live, window and options of TCP, and how long the SYN was.

use forebay_wire::packet::tcp::{ACK, SYN, Segment, TcpOption};

use super::column::{Column, Kind};
use super::fields::Writer;
use super::{Plugin, Seen, Verdict, Way};

pub(super) const COLUMNS: &[Column] = &[
    Column::iana("ip_ttl", 192, Kind::Unsigned(1)),
    Column::reverse("ip_ttl_rev", 192, Kind::Unsigned(1)),
    Column::iana("tcp_window", 186, Kind::Unsigned(2)),
    Column::reverse("tcp_window_rev", 186, Kind::Unsigned(2)),
    Column::iana("tcp_options", 209, Kind::Unsigned(8)),
    Column::reverse("tcp_options_rev", 209, Kind::Unsigned(8)),
    Column::iana("tcp_window_scale", 238, Kind::Unsigned(2)),
    Column::reverse("tcp_window_scale_rev", 238, Kind::Unsigned(2)),
    Column::cesnet("tcp_mss_bytes", 900, Kind::Unsigned(4)),
    Column::cesnet("tcp_mss_bytes_rev", 901, Kind::Unsigned(4)),
    Column::cesnet("tcp_syn_octets", 902, Kind::Unsigned(2)),
];

/// A flow with packets from one side alone is waited for so long, in packets.
const PACKETS_MAX: u8 = 30;

/// What a way has.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    ttl: Option<u8>,
    window: Option<u16>,
    mss: Option<u16>,
    scale: Option<u8>,
    /// A bit for each kind, of those below 64.
    options: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    sides: [Side; 2],
    syn_octets: Option<u16>,
    packets: u8,
}

/// 64 bytes a flow.
#[derive(Debug)]
pub(super) struct Basic(Vec<State>);

const _: () = assert!(size_of::<State>() <= 64);

impl Basic {
    pub(super) fn new(places: usize) -> Self {
        Self(vec![State::default(); places])
    }
}

impl Side {
    fn read(&mut self, seen: &Seen<'_>) {
        self.ttl = Some(seen.packet.hop_limit);
        let segment = Segment::new_checked(seen.packet.header);
        let Some(segment) = segment.ok().filter(|_| seen.is_tcp()) else {
            return;
        };
        self.window = Some(segment.window());
        for option in segment.options() {
            let kind = match option {
                TcpOption::MaximumSegmentSize(bytes) => {
                    self.mss = Some(bytes);
                    2
                }
                TcpOption::WindowScale(bits) => {
                    self.scale = Some(bits);
                    3
                }
                TcpOption::SelectivePermitted => 4,
                TcpOption::Timestamps { .. } => 8,
                TcpOption::Other(kind, _) => kind,
            };
            self.options |= 1_u64.checked_shl(kind.into()).unwrap_or_default();
        }
    }
}

impl Plugin for Basic {
    fn handle(&mut self, place: usize, seen: &Seen<'_>) -> Verdict {
        let state = &mut self.0[place];
        if seen.is_first {
            *state = State::default();
            if seen.packet.tcp_flags & (SYN | ACK) == SYN {
                state.syn_octets = u16::try_from(seen.packet.octets).ok();
            }
        }
        state.packets = state.packets.saturating_add(1);
        let side = &mut state.sides[usize::from(seen.way == Way::Reverse)];
        if side.ttl.is_none() && seen.packet.is_first_part() {
            side.read(seen);
        }
        let has_both = state.sides.iter().all(|side| side.ttl.is_some());
        if has_both || state.packets >= PACKETS_MAX {
            Verdict::Satisfied
        } else {
            Verdict::More
        }
    }

    fn write(&self, place: usize, to: &mut Writer<'_>) {
        let State {
            sides, syn_octets, ..
        } = &self.0[place];
        sides.iter().for_each(|side| to.u8(side.ttl));
        sides.iter().for_each(|side| to.u16(side.window));
        for side in sides {
            to.u64(side.window.map(|_| side.options));
        }
        sides
            .iter()
            .for_each(|side| to.u16(side.scale.map(u16::from)));
        sides
            .iter()
            .for_each(|side| to.u32(side.mss.map(u32::from)));
        to.u16(*syn_octets);
    }
}
