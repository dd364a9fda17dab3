//! HTTP/1: the first request of a connection and its response (RFC 9112). The head of the request may come in several segments; of the response the first one is read.

mod head;

use super::column::{Column, Kind};
use super::fields::Writer;
use super::pieces::Pool;
use super::stream::{Begin, Next};
use super::text::Text;
use super::{Packet, Plugin, Seen, Verdict};
pub(super) use head::Head;

pub(super) const COLUMNS: &[Column] = &[
    Column::iana("http_method", 459, Kind::Text),
    Column::iana("http_host", 460, Kind::Text),
    Column::iana("http_uri", 461, Kind::Text),
    Column::iana("http_user_agent", 468, Kind::Text),
    Column::iana("http_status", 457, Kind::Unsigned(2)),
    Column::iana("http_content_type", 469, Kind::Text),
];

const METHODS: [&[u8]; 16] = [
    b"GET",
    b"POST",
    b"HEAD",
    b"PUT",
    b"DELETE",
    b"OPTIONS",
    b"PATCH",
    b"CONNECT",
    b"TRACE",
    b"PROPFIND",
    b"PROPPATCH",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"LOCK",
    b"UNLOCK",
];
const RESPONSE: &[u8] = b"HTTP/1.";

#[derive(Clone, Debug)]
struct State {
    begin: Begin,
    has_request: bool,
    status: Option<u16>,
    method: Text<15>,
    host: Text<127>,
    uri: Text<191>,
    user_agent: Text<191>,
    content_type: Text<63>,
}

/// 616 bytes a flow, and up to 1,024 buffers of 4 KiB.
#[derive(Debug)]
pub(super) struct Http {
    states: Vec<State>,
    pool: Pool,
}

const _: () = assert!(size_of::<State>() <= 616);

impl State {
    const EMPTY: Self = Self {
        begin: Begin::UNKNOWN,
        has_request: false,
        status: None,
        method: Text::EMPTY,
        host: Text::EMPTY,
        uri: Text::EMPTY,
        user_agent: Text::EMPTY,
        content_type: Text::EMPTY,
    };

    /// Of texts the lengths alone.
    fn clear(&mut self) {
        (self.begin, self.has_request, self.status) = (Begin::UNKNOWN, false, None);
        self.method.clear();
        self.host.clear();
        self.uri.clear();
        self.user_agent.clear();
        self.content_type.clear();
    }

    /// Takes what there is of a request; whether its head is complete.
    fn request(&mut self, bytes: &[u8]) -> Option<bool> {
        let mut head = Head::of(bytes)?;
        let mut words = head.first_line().split(|byte| *byte == b' ');
        self.method.set(words.next()?);
        self.uri.set(words.next()?);
        self.has_request = true;
        for (name, value) in head.by_ref() {
            if name.eq_ignore_ascii_case(b"host") {
                self.host.set(value);
            } else if name.eq_ignore_ascii_case(b"user-agent") {
                self.user_agent.set(value);
            }
        }
        Some(head.is_complete())
    }

    fn response(&mut self, bytes: &[u8]) {
        let Some(mut head) = Head::of(bytes).filter(|_| bytes.starts_with(RESPONSE)) else {
            return;
        };
        self.status = head.status();
        for (name, value) in head.by_ref() {
            if name.eq_ignore_ascii_case(b"content-type") {
                self.content_type.set(value);
            }
        }
    }
}

impl Http {
    pub(super) fn new(places: usize) -> Self {
        Self {
            states: vec![State::EMPTY; places],
            pool: Pool::new(places),
        }
    }
}

/// Whether a stream begins with a method, or with the begin of one where there is no more of it.
fn is_request(bytes: &[u8]) -> bool {
    // No method is longer than nine letters.
    let begin = bytes.get(..10).unwrap_or(bytes);
    match begin.iter().position(|byte| *byte == b' ') {
        Some(space) => METHODS.contains(&&begin[..space]),
        None => METHODS.iter().any(|method| method.starts_with(begin)),
    }
}

impl Plugin for Http {
    fn wants_bytes(&self, packet: &Packet<'_>) -> usize {
        super::stream_bytes(packet)
    }

    fn handle(&mut self, place: usize, seen: &Seen<'_>) -> Verdict {
        if !seen.is_tcp() {
            return Verdict::NotMine;
        }
        let state = &mut self.states[place];
        if seen.is_first {
            state.clear();
        }
        let is_response = seen.payload().starts_with(RESPONSE);
        let is_other_way = state.begin.way().is_none_or(|way| way != seen.way);
        if is_response && is_other_way {
            state.response(seen.payload());
            state.begin.forget(&mut self.pool);
            return Verdict::Satisfied;
        }
        // The request is complete: what the client sends is not looked at.
        if state.has_request && !is_other_way && state.begin.is_alone() {
            return Verdict::More;
        }
        if state.has_request && is_other_way && !seen.payload().is_empty() {
            state.begin.forget(&mut self.pool);
            return Verdict::Satisfied;
        }
        let bytes = match state.begin.next(&mut self.pool, seen, is_request) {
            Next::Nothing | Next::Bytes([]) => return Verdict::More,
            Next::Other | Next::NoRoom if state.has_request => {
                state.begin.forget(&mut self.pool);
                return Verdict::Satisfied;
            }
            Next::Other => return Verdict::NotMine,
            Next::NoRoom => return Verdict::NoRoom,
            Next::Bytes(bytes) => bytes,
        };
        match state.request(bytes) {
            Some(true) => state.begin.forget(&mut self.pool),
            _ if state.begin.keep(&mut self.pool, seen) => {}
            _ => return Verdict::NoRoom,
        }
        Verdict::More
    }

    fn write(&self, place: usize, to: &mut Writer<'_>) {
        let state = &self.states[place];
        if state.has_request || state.status.is_some() {
            to.text(state.method.bytes());
            to.text(state.host.bytes());
            to.text(state.uri.bytes());
            to.text(state.user_agent.bytes());
            to.u16(state.status);
            to.text(state.content_type.bytes());
        }
    }

    fn forget(&mut self, place: usize) {
        self.states[place].begin.forget(&mut self.pool);
    }
}
