//! Entropy of the first bytes of the payload, each way: near 8 bits a byte is what is encrypted or compressed.

use super::column::{Column, Kind};
use super::fields::Writer;
use super::{Packet, Plugin, Seen, Verdict, Way};

pub(super) const COLUMNS: &[Column] = &[
    Column::own("entropy_bits", 60, Kind::Float),
    Column::own("entropy_bits_rev", 61, Kind::Float),
    Column::own("entropy_bytes", 62, Kind::Unsigned(2)),
    Column::own("entropy_bytes_rev", 63, Kind::Unsigned(2)),
];

/// Bytes of a packet that count, at most.
const PACKET_BYTES: usize = 256;
/// Bytes of a way that count, at most.
const BYTES: u16 = 1024;
/// Packets of a flow that are looked at.
const PACKETS_MAX: u8 = 30;

/// How often each byte came one way.
#[derive(Clone, Debug)]
struct Side {
    counts: [u16; 256],
    bytes: u16,
}

#[derive(Clone, Debug)]
struct State {
    sides: [Side; 2],
    packets: u8,
}

/// 1,030 bytes a flow.
#[derive(Debug)]
pub(super) struct Entropy(Vec<State>);

const _: () = assert!(size_of::<State>() <= 1030);

impl Entropy {
    pub(super) fn new(places: usize) -> Self {
        let side = Side {
            counts: [0; 256],
            bytes: 0,
        };
        let empty = State {
            sides: [side.clone(), side],
            packets: 0,
        };
        Self(vec![empty; places])
    }
}

impl Side {
    fn add(&mut self, payload: &[u8]) {
        if self.bytes == 0 {
            self.counts = [0; 256];
        }
        let most = usize::from(BYTES - self.bytes).min(PACKET_BYTES);
        let bytes = payload.get(..most).unwrap_or(payload);
        for byte in bytes {
            self.counts[usize::from(*byte)] += 1;
        }
        self.bytes += bytes.len() as u16;
    }

    /// Bits of a byte (Shannon); none without bytes.
    fn bits(&self) -> Option<f64> {
        let all = f64::from(self.bytes);
        let counts = self.counts.iter().filter(|count| **count > 0);
        let bits = counts.map(|count| {
            let share = f64::from(*count) / all;
            -share * share.log2()
        });
        // A sum of nothing but 0 may have a sign.
        (self.bytes > 0).then(|| bits.sum::<f64>().abs())
    }
}

impl Plugin for Entropy {
    fn wants_bytes(&self, _packet: &Packet<'_>) -> usize {
        PACKET_BYTES
    }

    fn handle(&mut self, place: usize, seen: &Seen<'_>) -> Verdict {
        let state = &mut self.0[place];
        if seen.is_first {
            state.packets = 0;
            state.sides.iter_mut().for_each(|side| side.bytes = 0);
        }
        state.packets += 1;
        state.sides[usize::from(seen.way == Way::Reverse)].add(seen.packet.payload);
        let is_full = state.sides.iter().all(|side| side.bytes >= BYTES);
        if is_full || state.packets >= PACKETS_MAX {
            Verdict::Satisfied
        } else {
            Verdict::More
        }
    }

    fn write(&self, place: usize, to: &mut Writer<'_>) {
        let sides = &self.0[place].sides;
        if sides.iter().any(|side| side.bytes > 0) {
            sides.iter().for_each(|side| to.float(side.bits()));
            sides.iter().for_each(|side| to.u16(side.bytes));
        }
    }
}
