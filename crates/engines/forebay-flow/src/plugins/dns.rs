//! DNS (RFC 1035), over UDP or TCP to port 53, and on the local link (RFC 6762, port 5353): the first question of a flow, and the first record of its answer.

mod message;

use super::column::{Column, Kind};
use super::fields::Writer;
use super::text::Text;
use super::{Packet, Plugin, Seen, UDP, Verdict};
use message::{Message, Name};

pub(super) const COLUMNS: &[Column] = &[
    Column::cesnet("dns_id", 10, Kind::Unsigned(2)),
    Column::cesnet("dns_name", 2, Kind::Text),
    Column::cesnet("dns_type", 3, Kind::Unsigned(2)),
    Column::cesnet("dns_class", 4, Kind::Unsigned(2)),
    Column::cesnet("dns_rcode", 1, Kind::Unsigned(1)),
    Column::cesnet("dns_answers", 14, Kind::Unsigned(2)),
    Column::cesnet("dns_answer_type", 11, Kind::Unsigned(2)),
    Column::cesnet("dns_ttl_s", 5, Kind::Unsigned(4)),
    Column::own("dns_answer", 100, Kind::Text),
];

pub(super) const MDNS_COLUMNS: &[Column] = &[
    Column::own("mdns_name", 110, Kind::Text),
    Column::own("mdns_type", 111, Kind::Unsigned(2)),
    Column::own("mdns_answers", 112, Kind::Unsigned(2)),
    Column::own("mdns_answer_name", 113, Kind::Text),
    Column::own("mdns_answer_type", 114, Kind::Unsigned(2)),
    Column::own("mdns_answer", 115, Kind::Text),
];

const PORT: u16 = 53;
const MULTICAST_PORT: u16 = 5353;
/// Bytes of a message that are read; what is behind them is not looked for.
const BYTES: usize = 1500;
/// Questions that are read over to find the answer behind them; all known software sends one.
const QUESTIONS_MAX: u16 = 16;
/// Packets that are looked at for an answer.
const PACKETS_MAX: u8 = 16;

/// What the first answer is.
#[derive(Clone, Copy, Debug)]
struct Answer {
    kind: u16,
    ttl_s: u32,
}

#[derive(Clone, Debug)]
struct State {
    id: u16,
    /// Type and class of the question.
    question: Option<(u16, u16)>,
    /// How it was answered, with how many records.
    response: Option<(u8, u16)>,
    answer: Option<Answer>,
    packets: u8,
    name: Name,
    answer_name: Name,
    answer_text: Text<127>,
}

/// 672 bytes a flow.
#[derive(Debug)]
pub(super) struct Dns {
    states: Vec<State>,
    is_multicast: bool,
}

const _: () = assert!(size_of::<State>() <= 672);

impl State {
    const EMPTY: Self = Self {
        id: 0,
        question: None,
        response: None,
        answer: None,
        packets: 0,
        name: Name::EMPTY,
        answer_name: Name::EMPTY,
        answer_text: Text::EMPTY,
    };

    /// Of texts the lengths alone.
    fn clear(&mut self) {
        (self.question, self.response, self.answer) = (None, None, None);
        (self.id, self.packets) = (0, 0);
        self.name.clear();
        self.answer_name.clear();
        self.answer_text.clear();
    }

    /// Takes a message that belongs here.
    fn take(&mut self, message: &Message<'_>, is_multicast: bool) {
        let is_other = self.question.is_some() && self.id != message.id && !is_multicast;
        if is_other {
            return;
        }
        let mut at = message::HEADER_BYTES;
        for n in 0..message.questions.min(QUESTIONS_MAX) {
            let Some((kind, class)) = message.question(&mut at, &mut self.name, n == 0) else {
                return;
            };
            if n == 0 {
                (self.id, self.question) = (message.id, Some((kind, class)));
            }
        }
        if !message.is_response {
            return;
        }
        self.id = message.id;
        self.response = Some((message.rcode, message.answers));
        if message.answers > 0 && message.questions <= QUESTIONS_MAX {
            self.answer(message, at);
        }
    }

    fn answer(&mut self, message: &Message<'_>, at: usize) {
        if let Some(record) = message.record(at, &mut self.answer_name) {
            let (kind, ttl_s) = (record.kind, record.ttl_s);
            self.answer = Some(Answer { kind, ttl_s });
            message.data(&record, &mut self.answer_text);
        }
    }
}

impl Dns {
    fn new(places: usize, is_multicast: bool) -> Self {
        Self {
            states: vec![State::EMPTY; places],
            is_multicast,
        }
    }

    pub(super) fn unicast(places: usize) -> Self {
        Self::new(places, false)
    }

    pub(super) fn multicast(places: usize) -> Self {
        Self::new(places, true)
    }

    fn is_mine(&self, packet: &Packet<'_>) -> bool {
        let (key, udp) = (&packet.key, packet.key.protocol == UDP);
        let port = if self.is_multicast {
            MULTICAST_PORT
        } else {
            PORT
        };
        (udp || key.protocol == super::TCP && !self.is_multicast)
            && (key.source_port == port || key.destination_port == port)
    }
}

impl Plugin for Dns {
    fn wants_bytes(&self, packet: &Packet<'_>) -> usize {
        if self.is_mine(packet) { BYTES } else { 0 }
    }

    fn handle(&mut self, place: usize, seen: &Seen<'_>) -> Verdict {
        if seen.is_first {
            if !self.is_mine(seen.packet) {
                return Verdict::NotMine;
            }
            self.states[place].clear();
        }
        let state = &mut self.states[place];
        let mut bytes = seen.payload();
        if seen.is_tcp() && !bytes.is_empty() {
            // The length of the message is in front of it (RFC 7766, section 8).
            bytes = bytes.get(2..).unwrap_or_default();
        }
        match Message::of(bytes) {
            Some(message) => state.take(&message, self.is_multicast),
            None if seen.is_tcp() => {}
            None if seen.is_first => return Verdict::NotMine,
            None => {}
        }
        state.packets += 1;
        if state.response.is_some() || state.packets >= PACKETS_MAX {
            Verdict::Satisfied
        } else {
            Verdict::More
        }
    }

    fn write(&self, place: usize, to: &mut Writer<'_>) {
        let state = &self.states[place];
        if state.question.is_none() && state.response.is_none() {
            return;
        }
        let kind = state.question.map(|(kind, _)| kind);
        let answers = state.response.map(|(_, answers)| answers);
        let answer_type = state.answer.map(|answer| answer.kind);
        if self.is_multicast {
            to.text(state.name.bytes());
            to.u16(kind);
            to.u16(answers);
            to.text(state.answer_name.bytes());
            to.u16(answer_type);
        } else {
            to.u16(state.id);
            to.text(state.name.bytes());
            to.u16(kind);
            to.u16(state.question.map(|(_, class)| class));
            to.u8(state.response.map(|(rcode, _)| rcode));
            to.u16(answers);
            to.u16(answer_type);
            to.u32(state.answer.map(|answer| answer.ttl_s));
        }
        to.text(state.answer_text.bytes());
    }
}
