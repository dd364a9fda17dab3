//! Packets of one target whose answers are waited for: a ring by their numbers, of a fixed size.

use crate::account::{Amount, FlightCounts, FlightDrop};

/// What is known of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    InFlight,
    Answered,
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    sequence: u64,
    sent_ns: u64,
    /// By the kernel's clock: when it left, or, if it was answered before that was known, when the answer came.
    stamp_ns: Option<u64>,
    bytes: u32,
    state: State,
}

const FREE: Place = Place {
    sequence: 0,
    sent_ns: 0,
    stamp_ns: None,
    bytes: 0,
    state: State::Free,
};

/// What an answer is the answer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matched {
    /// A packet that was waited for.
    InFlight { sent_ns: u64, stamp_ns: Option<u64> },
    /// One that was answered before.
    Answered,
    /// One that was given up, or is forgotten.
    Lost,
}

#[derive(Clone, Debug)]
pub(crate) struct Window {
    places: Box<[Place]>,
    /// No packet below it is waited for.
    oldest: u64,
    /// Behind the last one that was sent.
    next: u64,
    in_flight: usize,
    counts: FlightCounts,
}

impl Window {
    /// Of so many packets, a power of two.
    pub(crate) fn new(packets: usize) -> Self {
        Self {
            places: vec![FREE; packets].into(),
            oldest: 0,
            next: 0,
            in_flight: 0,
            counts: FlightCounts::default(),
        }
    }

    #[inline]
    const fn at(&self, sequence: u64) -> usize {
        sequence as usize & (self.places.len() - 1)
    }

    /// A packet left; the one whose place it takes is given up.
    #[inline]
    pub(crate) fn insert(&mut self, sequence: u64, bytes: usize, sent_ns: u64) {
        self.give_up(self.at(sequence), FlightDrop::WindowFull);
        let at = self.at(sequence);
        self.places[at] = Place {
            sequence,
            sent_ns,
            stamp_ns: None,
            bytes: bytes as u32,
            state: State::InFlight,
        };
        self.next = sequence + 1;
        self.in_flight += 1;
        self.counts.sent.add(bytes);
    }

    /// The packet that left last is not waited for any more, and nothing counts it: a fault, for tests of the books.
    pub(crate) fn vanish(&mut self, sequence: u64) {
        let at = self.at(sequence);
        self.places[at].state = State::Free;
        self.in_flight -= 1;
    }

    /// The kernel says when a packet left: the time that its answer took, if that has come before the stamp.
    pub(crate) fn stamp(&mut self, sequence: u64, stamp_ns: u64) -> Option<u64> {
        let at = self.at(sequence);
        let place = &mut self.places[at];
        if place.sequence != sequence {
            return None;
        }
        match place.state {
            State::Answered => place.stamp_ns.take()?.checked_sub(stamp_ns),
            State::Free | State::InFlight | State::Lost => {
                place.stamp_ns = Some(stamp_ns);
                None
            }
        }
    }

    /// An answer came, of which the kernel may have a stamp.
    #[inline]
    pub(crate) fn take(&mut self, sequence: u64, came_ns: Option<u64>) -> Matched {
        let at = self.at(sequence);
        let place = &mut self.places[at];
        if place.sequence != sequence {
            return Matched::Lost;
        }
        let left_ns = match place.state {
            State::Free => return Matched::Lost,
            State::Answered => return Matched::Answered,
            State::Lost => {
                (place.state, place.stamp_ns) = (State::Answered, None);
                return Matched::Lost;
            }
            State::InFlight => place.stamp_ns.take(),
        };
        place.state = State::Answered;
        if left_ns.is_none() {
            place.stamp_ns = came_ns;
        }
        self.in_flight -= 1;
        self.counts.answered.add(place.bytes as usize);
        Matched::InFlight {
            sent_ns: place.sent_ns,
            stamp_ns: left_ns,
        }
    }

    fn give_up(&mut self, at: usize, why: FlightDrop) {
        let place = &mut self.places[at];
        if place.state == State::InFlight {
            place.state = State::Lost;
            self.in_flight -= 1;
            self.counts.lost[why].add(place.bytes as usize);
        }
    }

    /// The first packet that is waited for.
    fn first(&mut self) -> Option<Place> {
        while self.oldest < self.next {
            let place = self.places[self.at(self.oldest)];
            if place.sequence == self.oldest && place.state == State::InFlight {
                return Some(place);
            }
            self.oldest += 1;
        }
        None
    }

    /// Gives up packets that were sent at `until_ns` or before.
    pub(crate) fn expire(&mut self, until_ns: u64, why: FlightDrop) {
        while let Some(first) = self.first().filter(|first| first.sent_ns <= until_ns) {
            self.give_up(self.at(first.sequence), why);
        }
    }

    /// When the first packet that is waited for left.
    pub(crate) fn first_ns(&mut self) -> Option<u64> {
        self.first().map(|first| first.sent_ns)
    }

    #[inline]
    pub(crate) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(crate) const fn counts(&self) -> &FlightCounts {
        &self.counts
    }

    /// What is waited for, counted anew from the places.
    pub(crate) fn held(&self) -> Amount {
        let mut held = Amount::default();
        let waiting = self.places.iter();
        for place in waiting.filter(|place| place.state == State::InFlight) {
            held.add(place.bytes as usize);
        }
        held
    }
}
