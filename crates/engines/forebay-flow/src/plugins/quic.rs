//! QUIC: what the client says first. It is protected by keys that follow from the packet itself (RFC 9001, section 5.2; RFC 9369).
//!
//! A client's first packets carry the pieces of one message in any order, in frames of one or several packets. What the server sends is not looked at.

pub(super) mod initial;

use super::column::{Column, Kind};
use super::fields::Writer;
use super::hello::{self, Carrier, Hello, NoHello};
use super::pieces::{NO_BUFFER, Pool};
use super::{Packet, Plugin, Seen, UDP, Verdict, Way};
use initial::{ConnectionId, Opened, Opener};

pub(super) const COLUMNS: &[Column] = &[
    Column::cesnet("quic_version", 892, Kind::Unsigned(4)),
    Column::own("quic_tls_version", 30, Kind::Unsigned(2)),
    Column::cesnet("quic_sni", 890, Kind::Text),
    Column::own("quic_alpn", 31, Kind::Text),
    Column::own("quic_ja3", 32, Kind::Octets),
    Column::own("quic_ja4", 33, Kind::Text),
];

/// Packets of a datagram that are looked at: a client puts an Initial, one with early data and one of its handshake together.
const PACKETS_MAX: u8 = 4;
/// Datagrams of a client that are looked at for its first message.
const DATAGRAMS_MAX: u8 = 10;

#[derive(Clone, Debug)]
struct State {
    version: u32,
    buffer: u16,
    datagrams: u8,
    is_found: bool,
    /// The identifier that the client's first packet was sent to.
    first: ConnectionId,
    hello: Hello,
}

/// 408 bytes a flow, and up to 1,024 buffers of 4 KiB.
#[derive(Debug)]
pub(super) struct Quic {
    states: Vec<State>,
    pool: Pool,
    opener: Opener,
}

const _: () = assert!(size_of::<State>() <= 408);

impl Quic {
    pub(super) fn new(places: usize) -> Self {
        let empty = State {
            version: 0,
            buffer: NO_BUFFER,
            datagrams: 0,
            is_found: false,
            first: ConnectionId::EMPTY,
            hello: Hello::EMPTY,
        };
        Self {
            states: vec![empty; places],
            pool: Pool::new(places),
            opener: Opener::default(),
        }
    }

    /// Puts together what a datagram has of the message.
    fn datagram(&mut self, place: usize, datagram: &[u8]) -> Verdict {
        let Self {
            states,
            pool,
            opener,
        } = self;
        let state = &mut states[place];
        let mut left = datagram;
        let mut verdict = Verdict::More;
        for _ in 0..PACKETS_MAX {
            if verdict != Verdict::More || left.is_empty() {
                break;
            }
            let opened = opener.open(left, &mut state.first);
            match opened {
                Opened::Initial {
                    version,
                    frames,
                    bytes,
                } => {
                    state.version = version;
                    left = &left[bytes..];
                    verdict = take(frames, pool, state);
                }
                Opened::Other { bytes } => left = &left[bytes..],
                Opened::Unreadable => break,
            }
        }
        if verdict == Verdict::More && state.datagrams >= DATAGRAMS_MAX {
            return Verdict::NotMine;
        }
        verdict
    }
}

/// Takes the pieces in the frames of a packet.
fn take(frames: &[u8], pool: &mut Pool, state: &mut State) -> Verdict {
    for (offset, piece) in initial::pieces(frames) {
        if pool.put(&mut state.buffer, offset, piece).is_none() {
            return Verdict::NoRoom;
        }
    }
    let begin = pool.put(&mut state.buffer, 0, &[]).unwrap_or_default();
    match hello::read(begin, Carrier::Quic, &mut state.hello) {
        Ok(()) => {
            state.is_found = true;
            pool.give_back(&mut state.buffer);
            Verdict::Satisfied
        }
        Err(NoHello::Incomplete) => Verdict::More,
        Err(NoHello::Other) => Verdict::NotMine,
    }
}

impl Plugin for Quic {
    fn wants_bytes(&self, packet: &Packet<'_>) -> usize {
        let is_long = packet.payload.first().is_some_and(|byte| byte & 0x80 != 0);
        if is_long && packet.key.protocol == UDP {
            crate::batch::PAYLOAD_BYTES_MAX
        } else {
            0
        }
    }

    fn handle(&mut self, place: usize, seen: &Seen<'_>) -> Verdict {
        let payload = seen.payload();
        if seen.is_first {
            if seen.packet.key.protocol != UDP || !initial::is_long(payload) {
                return Verdict::NotMine;
            }
            let state = &mut self.states[place];
            (state.datagrams, state.is_found, state.buffer) = (0, false, NO_BUFFER);
            state.first = ConnectionId::EMPTY;
        }
        if seen.way == Way::Reverse {
            return Verdict::More;
        }
        self.states[place].datagrams += 1;
        self.datagram(place, payload)
    }

    fn write(&self, place: usize, to: &mut Writer<'_>) {
        let state = &self.states[place];
        if state.is_found {
            to.u32(state.version);
            state.hello.write(to);
        }
    }

    fn forget(&mut self, place: usize) {
        self.pool.give_back(&mut self.states[place].buffer);
    }
}
