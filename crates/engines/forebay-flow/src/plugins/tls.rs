//! TLS: what the client says first, over several segments and records if need be. A connection whose first bytes are something else is none.

use super::column::{Column, Kind};
use super::fields::Writer;
use super::hello::{self, Carrier, Hello, NoHello};
use super::pieces::Pool;
use super::reader::Reader;
use super::stream::{Begin, Next};
use super::{Packet, Plugin, Seen, Verdict};

pub(super) const COLUMNS: &[Column] = &[
    Column::own("tls_version", 20, Kind::Unsigned(2)),
    Column::cesnet("tls_sni", 808, Kind::Text),
    Column::own("tls_alpn", 21, Kind::Text),
    Column::own("tls_ja3", 22, Kind::Octets),
    Column::own("tls_ja4", 23, Kind::Text),
];

const HANDSHAKE: u8 = 22;
/// Of the version of a record: 3 in all of them.
const MAJOR: u8 = 3;

#[derive(Clone, Debug)]
struct State {
    begin: Begin,
    is_found: bool,
    hello: Hello,
}

/// 392 bytes a flow, and up to 1,024 buffers of 4 KiB.
#[derive(Debug)]
pub(super) struct Tls {
    states: Vec<State>,
    pool: Pool,
    /// Of a message over several records.
    message: Vec<u8>,
}

const _: () = assert!(size_of::<State>() <= 392);

impl Tls {
    pub(super) fn new(places: usize) -> Self {
        let empty = State {
            begin: Begin::UNKNOWN,
            is_found: false,
            hello: Hello::EMPTY,
        };
        Self {
            states: vec![empty; places],
            pool: Pool::new(places),
            message: Vec::new(),
        }
    }
}

fn is_begin(bytes: &[u8]) -> bool {
    match *bytes {
        [HANDSHAKE, MAJOR, _, _, _, kind, ..] => kind == 1,
        [HANDSHAKE, MAJOR, ..] | [HANDSHAKE] => true,
        _ => false,
    }
}

/// The message in the records of a stream.
fn read(stream: &[u8], message: &mut Vec<u8>, to: &mut Hello) -> Result<(), NoHello> {
    let mut left = Reader(stream);
    message.clear();
    while let Some([HANDSHAKE, MAJOR, _, l0, l1]) = left.chunk() {
        let bytes = usize::from(u16::from_be_bytes([l0, l1]));
        let part = &left.0[..bytes.min(left.0.len())];
        let is_cut = part.len() < bytes;
        message.extend_from_slice(part);
        match hello::read(message, Carrier::Tcp, to) {
            Err(NoHello::Incomplete) if !is_cut => left.0 = &left.0[bytes..],
            done => return done,
        }
    }
    match left.0 {
        // Less than a header, or the begin of one.
        [] | [HANDSHAKE] | [HANDSHAKE, MAJOR, ..] if left.0.len() < 5 => Err(NoHello::Incomplete),
        _ => Err(NoHello::Other),
    }
}

impl Plugin for Tls {
    fn wants_bytes(&self, packet: &Packet<'_>) -> usize {
        super::stream_bytes(packet)
    }

    fn handle(&mut self, place: usize, seen: &Seen<'_>) -> Verdict {
        if !seen.is_tcp() {
            return Verdict::NotMine;
        }
        let state = &mut self.states[place];
        if seen.is_first {
            (state.begin, state.is_found) = (Begin::UNKNOWN, false);
        }
        let bytes = match state.begin.next(&mut self.pool, seen, is_begin) {
            Next::Nothing => return Verdict::More,
            Next::Other => return Verdict::NotMine,
            Next::NoRoom => return Verdict::NoRoom,
            Next::Bytes(bytes) => bytes,
        };
        if bytes.is_empty() {
            return Verdict::More;
        }
        match read(bytes, &mut self.message, &mut state.hello) {
            Ok(()) => {
                state.is_found = true;
                state.begin.forget(&mut self.pool);
                Verdict::Satisfied
            }
            Err(NoHello::Incomplete) if state.begin.keep(&mut self.pool, seen) => Verdict::More,
            Err(NoHello::Incomplete) => Verdict::NoRoom,
            Err(NoHello::Other) => Verdict::NotMine,
        }
    }

    fn write(&self, place: usize, to: &mut Writer<'_>) {
        let state = &self.states[place];
        if state.is_found {
            state.hello.write(to);
        }
    }

    fn forget(&mut self, place: usize) {
        self.states[place].begin.forget(&mut self.pool);
    }
}
