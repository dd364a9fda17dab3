//! NTP (RFC 5905, section 7.3): the answer of a server if there is one in the flow, else the first message.

use super::column::{Column, Kind};
use super::fields::Writer;
use super::reader::Reader;
use super::{Packet, Plugin, Seen, Verdict, is_udp_of};

pub(super) const COLUMNS: &[Column] = &[
    Column::cesnet("ntp_leap", 18, Kind::Unsigned(1)),
    Column::cesnet("ntp_version", 19, Kind::Unsigned(1)),
    Column::cesnet("ntp_mode", 20, Kind::Unsigned(1)),
    Column::cesnet("ntp_stratum", 21, Kind::Unsigned(1)),
    Column::cesnet("ntp_poll", 22, Kind::Unsigned(1)),
    Column::own("ntp_root_delay_us", 80, Kind::Unsigned(4)),
    Column::own("ntp_root_dispersion_us", 81, Kind::Unsigned(4)),
    Column::own("ntp_reference_id", 82, Kind::Octets),
];

const PORT: u16 = 123;
/// Bytes of a message without extensions.
const MESSAGE_BYTES: usize = 48;
const SERVER: u8 = 4;
/// Packets that are looked at for an answer.
const PACKETS_MAX: u8 = 8;

#[derive(Clone, Copy, Debug, Default)]
struct State {
    flags: u8,
    stratum: u8,
    poll: u8,
    packets: u8,
    delay: u32,
    dispersion: u32,
    reference: [u8; 4],
}

/// 16 bytes a flow.
#[derive(Debug)]
pub(super) struct Ntp(Vec<State>);

const _: () = assert!(size_of::<State>() == 16);

impl State {
    fn of(message: &[u8]) -> Option<Self> {
        let mut reader = Reader(message.get(..MESSAGE_BYTES)?);
        let [flags, stratum, poll, _precision] = reader.chunk()?;
        let state = Self {
            flags,
            stratum,
            poll,
            packets: 0,
            delay: reader.u32()?,
            dispersion: reader.u32()?,
            reference: reader.chunk()?,
        };
        let is_known = (1..=4).contains(&state.version()) && (1..=5).contains(&state.mode());
        is_known.then_some(state)
    }

    const fn version(&self) -> u8 {
        self.flags >> 3 & 7
    }

    const fn mode(&self) -> u8 {
        self.flags & 7
    }
}

/// A time in units of 2⁻¹⁶ s, in µs.
const fn us(time: u32) -> u32 {
    let us = (time as u64 * 1_000_000) >> 16;
    if us > u32::MAX as u64 {
        u32::MAX
    } else {
        us as u32
    }
}

impl Ntp {
    pub(super) fn new(places: usize) -> Self {
        Self(vec![State::default(); places])
    }
}

impl Plugin for Ntp {
    fn wants_bytes(&self, packet: &Packet<'_>) -> usize {
        if is_udp_of(&packet.key, PORT) {
            MESSAGE_BYTES
        } else {
            0
        }
    }

    fn handle(&mut self, place: usize, seen: &Seen<'_>) -> Verdict {
        if seen.is_first && !is_udp_of(&seen.packet.key, PORT) {
            return Verdict::NotMine;
        }
        let state = &mut self.0[place];
        let packets = if seen.is_first { 0 } else { state.packets };
        match State::of(seen.payload()) {
            None if seen.is_first => return Verdict::NotMine,
            Some(message) if seen.is_first || message.mode() == SERVER => *state = message,
            _ => {}
        }
        state.packets = packets + 1;
        if state.mode() == SERVER || state.packets >= PACKETS_MAX {
            Verdict::Satisfied
        } else {
            Verdict::More
        }
    }

    fn write(&self, place: usize, to: &mut Writer<'_>) {
        let state = &self.0[place];
        to.u8(state.flags >> 6);
        to.u8(state.version());
        to.u8(state.mode());
        to.u8(state.stratum);
        to.u8(state.poll);
        to.u32(us(state.delay));
        to.u32(us(state.dispersion));
        to.octets(&state.reference);
    }
}
