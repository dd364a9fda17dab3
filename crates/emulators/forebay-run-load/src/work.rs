//! The loop: what is due goes out, what came comes in, and then it sleeps until the next of both.

use std::time::Duration;

use forebay_load::{CATCH_UP_NS, Load};
use forebay_run::Host;
use forebay_run::stop::Urgency;
use forebay_sys::clock::{monotonic_ns, thread_cpu_ns};
use forebay_sys::epoll::{Interest, Poller, Trigger};
use forebay_sys::{SysError, wait};

use crate::books::Books;
use crate::end::{End, RingCounts, Seen};

/// Books are shown so often, in ns, and no sleep is longer.
const SHOW_NS: u64 = 100_000_000;
/// The kernel may delay a sleep by so much to bundle it with others, in ns.
const SLACK_NS: u64 = 1_000;

/// A target's end, and whether it waits for room.
pub(crate) struct Way {
    pub(crate) end: Box<dyn End>,
    is_full: bool,
    /// It is asked no more.
    is_closed: bool,
}

impl Way {
    pub(crate) fn new(end: Box<dyn End>) -> Self {
        Self {
            end,
            is_full: false,
            is_closed: false,
        }
    }
}

/// What there is to say of the program itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effort {
    /// When it began.
    pub(crate) begun_ns: u64,
    /// How long it made packets, in ns.
    pub(crate) sending_ns: u64,
    /// CPU time of that, in ns.
    pub(crate) cpu_ns: u64,
    /// How long a target's socket had no room, in ns; the longest of them.
    pub(crate) full_ns: u64,
}

pub(crate) struct Work<'a> {
    pub(crate) load: Load,
    pub(crate) ways: Vec<Option<Way>>,
    pub(crate) seen: Seen,
    pub(crate) books: &'a mut Books,
    poller: Poller,
    full_ns: Vec<u64>,
}

/// Until when packets were sent at the rate that was asked for: the end, or the last packet behind it that caught up. One that only then found room is none of these.
fn sent_until_ns(end_ns: u64, sent_ns: Option<u64>) -> u64 {
    let latest_ns = end_ns.saturating_add(CATCH_UP_NS);
    sent_ns.unwrap_or(0).clamp(end_ns, latest_ns)
}

impl<'a> Work<'a> {
    pub(crate) fn new(
        load: Load,
        ways: Vec<Option<Way>>,
        seen: Seen,
        books: &'a mut Books,
    ) -> Result<Self, SysError> {
        let poller = Poller::create(ways.len() + 1)?;
        for (at, way) in ways.iter().enumerate() {
            if let Some(way) = way {
                poller.add(way.end.fd(), at as u64, Interest::Readable, Trigger::Level)?;
            }
        }
        Ok(Self {
            full_ns: vec![0; ways.len()],
            load,
            ways,
            seen,
            books,
            poller,
        })
    }

    /// Works until all packets are answered or given up.
    pub(crate) fn all(
        &mut self,
        host: &Host,
        begun_ns: u64,
        duration: Option<Duration>,
    ) -> Result<Effort, SysError> {
        wait::set_timer_slack_ns(SLACK_NS)?;
        let stop = self.ways.len() as u64;
        self.poller
            .add(&host.stop, stop, Interest::Readable, Trigger::Level)?;
        let end_ns = duration.map(|time| begun_ns.saturating_add(time.as_nanos() as u64));
        let cpu_ns = thread_cpu_ns();
        let (mut shown_ns, mut is_asked) = (begun_ns, false);
        let mut effort = Effort {
            begun_ns,
            ..Effort::default()
        };
        // What had come before this time is taken: nothing of it is given up for a pause of this process.
        let mut taken_ns = begun_ns;
        loop {
            let now_ns = monotonic_ns();
            self.load.handle_timeout(taken_ns);
            if !is_asked && host.stop.is_asked() {
                is_asked = true;
                effort.sending_ns = now_ns.min(end_ns.unwrap_or(u64::MAX)) - begun_ns;
                self.load.stop(now_ns);
                self.poller.remove(&host.stop)?;
            }
            if !is_asked && end_ns.is_none_or(|end_ns| now_ns < end_ns) {
                effort.sending_ns = now_ns - begun_ns;
                effort.cpu_ns = thread_cpu_ns() - cpu_ns;
            }
            if self.load.is_over(now_ns) || host.stop.urgency() >= Urgency::Hurry {
                // The last look was some time before the end, unless there was nobody left.
                if let Some(end_ns) = end_ns.filter(|_| !is_asked && !self.is_lost()) {
                    effort.sending_ns = sent_until_ns(end_ns, self.load.sent_ns()) - begun_ns;
                }
                break;
            }
            self.send()?;
            if now_ns >= shown_ns + SHOW_NS {
                shown_ns = now_ns;
                self.show();
            }
            taken_ns = self.receive(now_ns)?;
        }
        for (at, way) in self.ways.iter_mut().enumerate() {
            if let Some(way) = way {
                way.end.shut(&mut self.load, at, &mut self.seen);
            }
        }
        self.load.end();
        self.show();
        effort.full_ns = self.full_ns.iter().copied().max().unwrap_or(0);
        Ok(effort)
    }

    /// Fills in the books what there is now.
    fn show(&mut self) {
        let rings = self.ways.iter_mut().map(|way| way.as_mut()?.end.ring());
        let rings: Vec<Option<RingCounts>> = rings.collect();
        self.books.show(|at| (self.load.counts(at), rings[at]));
    }

    /// Whether no target is left.
    fn is_lost(&self) -> bool {
        self.ways.iter().flatten().all(|way| way.end.is_lost())
    }

    /// Sends what is due, and asks for room where there is none.
    fn send(&mut self) -> Result<(), SysError> {
        for (at, way) in self.ways.iter_mut().enumerate() {
            let Some(way) = way else { continue };
            let is_full = !way.end.send(&mut self.load, at);
            if way.end.is_lost() && !way.is_closed {
                way.is_closed = true;
                self.poller.remove(way.end.fd())?;
            } else if is_full != way.is_full && !way.is_closed {
                let interest = match is_full {
                    true => Interest::Both,
                    false => Interest::Readable,
                };
                let fd = way.end.fd();
                self.poller
                    .modify(fd, at as u64, interest, Trigger::Level)?;
            }
            way.is_full = is_full;
        }
        Ok(())
    }

    /// Sleeps until something comes or is due, and takes what came. What had come before the time that it gives is taken.
    fn receive(&mut self, shown_ns: u64) -> Result<u64, SysError> {
        let now_ns = monotonic_ns();
        let due_ns = self.load.poll_timeout(now_ns).unwrap_or(u64::MAX);
        let until_ns = due_ns.min(shown_ns + SHOW_NS);
        let time = Duration::from_nanos(until_ns.saturating_sub(now_ns));
        let ready: Vec<u64> = self
            .poller
            .wait(Some(time), Duration::ZERO)?
            .map(|ready| ready.token)
            .collect();
        let slept_ns = monotonic_ns() - now_ns;
        for (way, full_ns) in self.ways.iter().zip(&mut self.full_ns) {
            let is_full = way.as_ref().is_some_and(|way| way.is_full);
            *full_ns += if is_full { slept_ns } else { 0 };
        }
        for token in ready {
            let at = token as usize;
            if let Some(Some(way)) = self.ways.get_mut(at) {
                way.end.receive(&mut self.load, at, &mut self.seen);
            }
        }
        Ok(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_time_in_which_packets_were_sent() {
        let end_ns = 3_000_000_000;
        for (sent_ns, wanted_ns) in [
            (None, end_ns),
            (Some(end_ns - 7), end_ns),
            (Some(end_ns + 90_000_000), end_ns + 90_000_000),
            // It waited for room.
            (Some(end_ns + 900_000_000), end_ns + CATCH_UP_NS),
        ] {
            assert_eq!(sent_until_ns(end_ns, sent_ns), wanted_ns, "{sent_ns:?}");
        }
    }
}
