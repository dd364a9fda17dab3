//! How long the handshake of TCP took at the place of the capture: from SYN to its answer (the way to the server and back), and from there to the acknowledgement
//! (the way to the client and back). A handshake with a repeated SYN, or a repeated answer, is not measured: which of them was answered is not known.

use forebay_wire::packet::tcp::{ACK, RST, SYN, Segment};

use super::column::{Column, Kind};
use super::fields::Writer;
use super::{Plugin, Seen, Verdict, Way};

pub(super) const COLUMNS: &[Column] = &[
    Column::own("tcp_rtt_ns", 10, Kind::Unsigned(8)),
    Column::own("tcp_rtt_server_ns", 11, Kind::Unsigned(8)),
    Column::own("tcp_rtt_client_ns", 12, Kind::Unsigned(8)),
];

#[derive(Clone, Copy, Debug, Default)]
struct State {
    syn_ns: u64,
    answer_ns: u64,
    acknowledged_ns: u64,
    /// What is to be acknowledged next.
    next: u32,
    has_answer: bool,
    is_complete: bool,
}

/// 32 bytes a flow.
#[derive(Debug)]
pub(super) struct Rtt(Vec<State>);

const _: () = assert!(size_of::<State>() <= 32);

impl Rtt {
    pub(super) fn new(places: usize) -> Self {
        Self(vec![State::default(); places])
    }
}

impl State {
    fn handle(&mut self, way: Way, time_ns: u64, segment: &Segment<'_>) -> Verdict {
        let acknowledges = segment.acknowledgement() == self.next;
        match (way, segment.flags() & (SYN | ACK | RST), self.has_answer) {
            (Way::Reverse, flags, false) if flags == SYN | ACK && acknowledges => {
                (self.answer_ns, self.has_answer) = (time_ns, true);
                self.next = segment.sequence().wrapping_add(1);
                Verdict::More
            }
            (Way::Forward, ACK, true) if acknowledges => {
                (self.acknowledged_ns, self.is_complete) = (time_ns, true);
                Verdict::Satisfied
            }
            _ => Verdict::NotMine,
        }
    }
}

impl Plugin for Rtt {
    fn handle(&mut self, place: usize, seen: &Seen<'_>) -> Verdict {
        let segment = Segment::new_checked(seen.packet.header).ok();
        let Some(segment) = segment.filter(|_| seen.is_tcp()) else {
            return Verdict::NotMine;
        };
        let state = &mut self.0[place];
        if !seen.is_first {
            return state.handle(seen.way, seen.packet.time_ns, &segment);
        }
        if segment.flags() & (SYN | ACK) != SYN {
            return Verdict::NotMine;
        }
        *state = State {
            syn_ns: seen.packet.time_ns,
            // Data in a SYN may be acknowledged or not; that of TCP Fast Open is not measured.
            next: segment.sequence().wrapping_add(1),
            ..State::default()
        };
        Verdict::More
    }

    fn write(&self, place: usize, to: &mut Writer<'_>) {
        let state = &self.0[place];
        if state.is_complete {
            to.u64(state.acknowledged_ns.saturating_sub(state.syn_ns));
            to.u64(state.answer_ns.saturating_sub(state.syn_ns));
            to.u64(state.acknowledged_ns.saturating_sub(state.answer_ns));
        }
    }
}
