//! One target: its schedule, the packets that wait for room, and those whose answer is waited for.

use std::collections::VecDeque;

use crate::account::{Amount, AnswerCounts, AnswerDrop, Counts, FlightDrop, SendCounts, SendDrop};
use crate::config::{Pace, Sizes};
use crate::engine::{BATCH_PACKETS, Came, Due};
use crate::moments::Moments;
use crate::schedule::Schedule;
use crate::window::{Matched, Window};

/// No packet is made that is due at the first instant or later, and none at all at the second.
type Ends = (Option<u64>, Option<u64>);

#[derive(Clone, Copy, Debug)]
enum Next {
    Open(Schedule),
    Closed(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Target {
    next: Next,
    /// Packets that were due and are neither sent nor refused.
    waiting: VecDeque<Due>,
    window: Window,
    sequence: u64,
    /// The greatest that was answered.
    newest: Option<u64>,
    /// When the last answer in time came.
    pub(crate) answered_ns: Option<u64>,
    send: SendCounts,
    answer: AnswerCounts,
    reordered: u64,
    pub(crate) late: Moments,
    pub(crate) rtt: Moments,
    pub(crate) kernel_rtt: Moments,
    /// No packet can be sent or come any more.
    is_lost: bool,
}

impl Target {
    pub(crate) fn new(pace: Pace, window: usize, now_ns: u64) -> Self {
        Self {
            next: match pace {
                Pace::Open(rate) => Next::Open(Schedule::new(rate, now_ns)),
                Pace::Closed(packets) => Next::Closed(packets as usize),
            },
            waiting: VecDeque::with_capacity(BATCH_PACKETS),
            window: Window::new(window),
            sequence: 0,
            newest: None,
            answered_ns: None,
            send: SendCounts::default(),
            answer: AnswerCounts::default(),
            reordered: 0,
            late: Moments::default(),
            rtt: Moments::default(),
            kernel_rtt: Moments::default(),
            is_lost: false,
        }
    }

    /// When the next packet is to be made; none: an answer or room has to come first, or there is none any more.
    fn due_ns(&self, now_ns: u64, (end_ns, over_ns): Ends) -> Option<u64> {
        let due_ns = match &self.next {
            _ if self.is_lost || self.waiting.len() >= BATCH_PACKETS => return None,
            Next::Open(schedule) => schedule.next_ns(),
            Next::Closed(most) => {
                let on_their_way = self.waiting.len() + self.window.in_flight();
                (on_their_way < *most).then_some(now_ns)?
            }
        };
        let is_made = end_ns.is_none_or(|end_ns| due_ns < end_ns)
            && over_ns.is_none_or(|over_ns| now_ns < over_ns);
        is_made.then_some(due_ns)
    }

    /// Makes what is due.
    pub(crate) fn make(
        &mut self,
        sizes: &Sizes,
        now_ns: u64,
        ends: Ends,
        mut is_leaking: impl FnMut() -> bool,
    ) {
        while let Some(due_ns) = self.due_ns(now_ns, ends).filter(|at_ns| *at_ns <= now_ns) {
            let bytes = sizes.of(self.sequence);
            if !is_leaking() {
                self.waiting.push_back(Due {
                    sequence: self.sequence,
                    bytes,
                    due_ns,
                });
            }
            self.sequence += 1;
            self.send.due.add(bytes);
            if let Next::Open(schedule) = &mut self.next {
                schedule.made(bytes);
            }
        }
    }

    pub(crate) fn waiting(&mut self) -> &[Due] {
        self.waiting.make_contiguous()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn sent(
        &mut self,
        packets: usize,
        now_ns: u64,
        mut is_leaking: impl FnMut() -> bool,
    ) {
        for due in self.waiting.drain(..packets.min(self.waiting.len())) {
            self.send.taken.add(due.bytes);
            self.late.take(now_ns.saturating_sub(due.due_ns));
            self.window.insert(due.sequence, due.bytes, now_ns);
            if is_leaking() {
                self.window.vanish(due.sequence);
            }
        }
    }

    pub(crate) fn refused(&mut self, why: SendDrop) {
        if let Some(due) = self.waiting.pop_front() {
            self.send.dropped[why].add(due.bytes);
        }
    }

    pub(crate) fn stamp(&mut self, sequence: u64, stamp_ns: u64) {
        if let Some(ns) = self.window.stamp(sequence, stamp_ns) {
            self.kernel_rtt.take(ns);
        }
    }

    /// A packet came that vanishes: it is counted, and what is said of it counts nowhere.
    pub(crate) const fn vanished(&mut self, bytes: usize) -> Came {
        self.answer.came.add(bytes);
        Came::Dropped(AnswerDrop::Foreign)
    }

    /// A packet came, or what is none by this reason.
    pub(crate) fn came(
        &mut self,
        bytes: usize,
        sequence: Result<u64, AnswerDrop>,
        (now_ns, stamp_ns): (u64, Option<u64>),
    ) -> Came {
        self.answer.came.add(bytes);
        let known = sequence.and_then(|sequence| {
            let was_sent = sequence < self.sequence;
            was_sent.then_some(sequence).ok_or(AnswerDrop::Foreign)
        });
        let answered = known.and_then(|sequence| match self.window.take(sequence, stamp_ns) {
            Matched::InFlight { sent_ns, stamp_ns } => Ok((sequence, sent_ns, stamp_ns)),
            Matched::Answered => Err(AnswerDrop::Duplicate),
            Matched::Lost => Err(AnswerDrop::Late),
        });
        match answered {
            Ok((sequence, sent_ns, sent_stamp_ns)) => {
                self.answered_ns = Some(now_ns);
                let stamps = sent_stamp_ns.zip(stamp_ns);
                let kernel_rtt_ns = stamps.and_then(|(sent, came)| came.checked_sub(sent));
                self.matched(
                    bytes,
                    sequence,
                    now_ns.saturating_sub(sent_ns),
                    kernel_rtt_ns,
                )
            }
            Err(why) => self.no_answer(bytes, why),
        }
    }

    /// It is an answer in time.
    fn matched(
        &mut self,
        bytes: usize,
        sequence: u64,
        rtt_ns: u64,
        kernel_rtt_ns: Option<u64>,
    ) -> Came {
        self.answer.matched.add(bytes);
        self.reordered += u64::from(self.newest > Some(sequence));
        self.newest = self.newest.max(Some(sequence));
        self.rtt.take(rtt_ns);
        if let Some(ns) = kernel_rtt_ns {
            self.kernel_rtt.take(ns);
        }
        Came::Answer {
            rtt_ns,
            kernel_rtt_ns,
        }
    }

    /// It is none.
    fn no_answer(&mut self, bytes: usize, why: AnswerDrop) -> Came {
        self.answer.dropped[why].add(bytes);
        Came::Dropped(why)
    }

    /// Gives up what was sent at `until_ns` or before.
    pub(crate) fn expire(&mut self, until_ns: u64, why: FlightDrop) {
        self.window.expire(until_ns, why);
    }

    /// Nothing that waits is sent any more.
    pub(crate) fn give_up_waiting(&mut self, why: SendDrop) {
        while !self.waiting.is_empty() {
            self.refused(why);
        }
    }

    /// When it has to be looked at again, whatever comes.
    pub(crate) fn wake_ns(&mut self, now_ns: u64, ends: Ends, time_out_ns: u64) -> Option<u64> {
        let due_ns = self.due_ns(now_ns, ends);
        let first_ns = self.window.first_ns();
        let expires_ns = first_ns.map(|sent_ns| sent_ns.saturating_add(time_out_ns));
        [due_ns, expires_ns].into_iter().flatten().min()
    }

    pub(crate) fn is_over(&self, now_ns: u64, ends: Ends) -> bool {
        let has_any = self.window.in_flight() > 0 || !self.waiting.is_empty();
        !has_any && self.due_ns(now_ns, ends).is_none()
    }

    /// Nothing is sent to it or comes from it any more.
    pub(crate) fn lose(&mut self) {
        self.is_lost = true;
        self.give_up_waiting(SendDrop::Disconnected);
        self.expire(u64::MAX, FlightDrop::ConnectionLost);
    }

    pub(crate) fn short(&self, now_ns: u64) -> f64 {
        match &self.next {
            Next::Open(schedule) => schedule.short(now_ns),
            Next::Closed(_) => 0.0,
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut waiting = Amount::default();
        for due in &self.waiting {
            waiting.add(due.bytes);
        }
        Counts {
            send: self.send,
            waiting,
            flight: *self.window.counts(),
            in_flight: self.window.held(),
            answer: self.answer,
            reordered: self.reordered,
        }
    }
}
