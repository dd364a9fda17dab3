//! Frames of the card, to clients.

use std::collections::VecDeque;

use forebay_ledger::Leak;
use forebay_mux::buffers::{BufferId, Lent};
use forebay_mux::{ClientId, Mux, Outlet};

use super::rounds::{ids, take_back};
use super::{Given, Leaving, Place};
use crate::books::AnswerCounts;
use crate::driver::{Desk, SendSide, Sent};
use crate::lane::Lane;

/// After so many of them clients are shown what they have, and what they gave back is taken: a driver may visit more than it is asked for, and a client's queue
/// may be shorter than that.
const PORTION: usize = 64;
/// The account of the responder's answers.
pub(super) const ANSWERS: &str = "mux_answer";

/// Where frames of the card go.
pub(super) struct Arrivals<'a> {
    pub(super) mux: &'a mut Mux,
    pub(super) places: &'a mut [Place],
    pub(super) send: &'a mut dyn SendSide,
    pub(super) answers: &'a mut AnswerCounts,
    pub(super) given: &'a mut VecDeque<Given>,
    pub(super) numbers: &'a mut Vec<BufferId>,
    pub(super) leaving: &'a mut Vec<Leaving>,
    pub(super) signals: &'a mut u64,
    pub(super) visited: usize,
    pub(super) leak: &'a mut Leak,
}

/// Where the engine gives a frame to.
struct Outward<'a> {
    frame: &'a [u8],
    /// Its first byte in the buffer that it was received into.
    landed_at: Option<u32>,
    places: &'a mut [Place],
    send: &'a mut dyn SendSide,
    answers: &'a mut AnswerCounts,
    given: &'a mut VecDeque<Given>,
    leak: &'a mut Leak,
}

impl Outlet for Outward<'_> {
    #[inline]
    fn give(&mut self, client: ClientId, buffer: BufferId) {
        let place = self.places.get_mut(client.index());
        if let Some(lane) = place.and_then(|place| place.lane.as_mut()) {
            lane.give(buffer, self.frame, self.landed_at);
        }
    }

    fn answer(&mut self, frame: &[u8]) {
        let bytes = frame.len() as u32;
        self.answers.made.add(bytes);
        if self.leak.take(ANSWERS) {
            return;
        }
        match self.send.send(frame) {
            Sent::Taken => self.given.push_back(Given::Answer(bytes)),
            Sent::NoRoom | Sent::Refused(_) => self.answers.dropped.add(bytes),
        }
    }
}

impl Arrivals<'_> {
    /// A frame that is copied for each client.
    pub(super) fn visit(&mut self, frame: &[u8]) {
        let (mux, mut outward) = self.outward(frame, None);
        mux.handle_frame(frame, &mut outward);
        self.go_on();
    }

    fn outward<'b>(
        &'b mut self,
        frame: &'b [u8],
        landed_at: Option<u32>,
    ) -> (&'b mut Mux, Outward<'b>) {
        let outward = Outward {
            frame,
            landed_at,
            places: self.places,
            send: self.send,
            answers: self.answers,
            given: self.given,
            leak: self.leak,
        };
        (self.mux, outward)
    }

    fn go_on(&mut self) {
        self.visited += 1;
        if !self.visited.is_multiple_of(PORTION) {
            return;
        }
        for (client, place) in ids().zip(self.places.iter_mut()) {
            *self.signals += u64::from(place.lane.as_mut().is_some_and(Lane::flush));
            take_back(self.mux, client, place, self.numbers, self.leaving);
        }
    }
}

impl Desk for Arrivals<'_> {
    fn lend(&mut self) -> Option<Lent> {
        self.mux.lend()
    }

    fn land(&mut self, buffer: Lent, offset: u32, frame: &[u8]) -> Option<Lent> {
        let (mux, mut outward) = self.outward(frame, Some(offset));
        let back = mux.handle_frame_in(buffer, frame, &mut outward);
        self.go_on();
        back
    }
}
