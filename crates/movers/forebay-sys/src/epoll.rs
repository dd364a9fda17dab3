//! Waiting for many descriptors at once, with a bounded spin before the sleep.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::SysError;

/// Shorter sleeps end in time: `epoll_wait` knows whole milliseconds only, and 50 µs would become 1 ms.
const FINE: Duration = Duration::from_millis(10);

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Something to read, or the peer's end.
    Readable,
    /// Room to write.
    Writable,
    /// Either.
    Both,
}

/// When a condition is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// As long as it holds.
    Level,
    /// When it comes about anew; read until empty.
    Edge,
}

/// One ready descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The token it was added with.
    pub token: u64,
    /// There is something to read.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// The peer has closed, or the descriptor is in error.
    pub hung_up: bool,
}

/// An epoll instance and room for one round of events.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

// SAFETY: only the kernel's token keeps an event from being `Send`, as it could be a pointer; here it is always made of, and read as, a number.
unsafe impl Send for Poller {}

impl std::fmt::Debug for Poller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poller")
            .field("epoll", &self.epoll)
            .finish_non_exhaustive()
    }
}

impl Poller {
    /// Makes a poller that reports at most `events_max` descriptors a round (the others come in the next).
    ///
    /// # Errors
    /// When descriptors run out.
    pub fn create(events_max: usize) -> Result<Self, SysError> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)
            .map_err(|errno| SysError::new("epoll_create1", "", errno))?;
        Ok(Self {
            epoll,
            events: Vec::with_capacity(events_max.max(1)),
        })
    }

    /// Adds a descriptor; it leaves by [`remove`](Self::remove) or when all its duplicates are closed.
    ///
    /// # Errors
    /// When it is already there or cannot be polled.
    pub fn add(
        &self,
        fd: impl AsFd,
        token: u64,
        interest: Interest,
        trigger: Trigger,
    ) -> Result<(), SysError> {
        epoll::add(
            &self.epoll,
            fd,
            EventData::new_u64(token),
            flags(interest, trigger),
        )
        .map_err(|errno| SysError::new("epoll_ctl(ADD)", format!("token {token}"), errno))
    }

    /// Changes what a descriptor is waited for.
    ///
    /// # Errors
    /// When it is not there.
    pub fn modify(
        &self,
        fd: impl AsFd,
        token: u64,
        interest: Interest,
        trigger: Trigger,
    ) -> Result<(), SysError> {
        epoll::modify(
            &self.epoll,
            fd,
            EventData::new_u64(token),
            flags(interest, trigger),
        )
        .map_err(|errno| SysError::new("epoll_ctl(MOD)", format!("token {token}"), errno))
    }

    /// Takes a descriptor out.
    ///
    /// # Errors
    /// When it is not there.
    pub fn remove(&self, fd: impl AsFd) -> Result<(), SysError> {
        epoll::delete(&self.epoll, fd).map_err(|errno| SysError::new("epoll_ctl(DEL)", "", errno))
    }

    /// Waits for at most `timeout`, of which the first `spin` (at most) by looking again and again, which
    /// answers in under a microsecond but uses a CPU; zero goes to sleep at once. An empty answer is a time-out
    /// or a signal.
    ///
    /// # Errors
    /// When the kernel refuses the call.
    pub fn wait(
        &mut self,
        timeout: Option<Duration>,
        spin: Duration,
    ) -> Result<impl Iterator<Item = Ready> + '_, SysError> {
        let spin = timeout.map_or(spin, |timeout| spin.min(timeout));
        if !self.look_for(spin)? {
            let left = timeout.map(|timeout| timeout.saturating_sub(spin));
            self.round(left)?;
        }
        Ok(self.events.iter().map(ready))
    }

    /// Spins until something is ready or `spin` is over.
    fn look_for(&mut self, spin: Duration) -> Result<bool, SysError> {
        self.events.clear();
        if spin.is_zero() {
            return Ok(false);
        }
        let start = Instant::now();
        loop {
            self.round(Some(Duration::ZERO))?;
            if !self.events.is_empty() {
                return Ok(true);
            }
            if start.elapsed() >= spin {
                return Ok(false);
            }
            std::hint::spin_loop();
        }
    }

    fn round(&mut self, timeout: Option<Duration>) -> Result<(), SysError> {
        self.events.clear();
        let mut timeout = timeout;
        if let Some(fine) =
            timeout.filter(|timeout| (Duration::from_nanos(1)..FINE).contains(timeout))
        {
            if !self.is_ready_within(fine)? {
                return Ok(());
            }
            timeout = Some(Duration::ZERO);
        }
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut self.events),
            timeout.map(timespec).as_ref(),
        ) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(SysError::new("epoll_wait", "", errno)),
        }
    }

    /// Sleeps until something is ready, at most so long; the kernel adds its slack of 50 µs.
    fn is_ready_within(&self, timeout: Duration) -> Result<bool, SysError> {
        let mut polled = [PollFd::new(&self.epoll, PollFlags::IN)];
        match rustix::event::poll(&mut polled, Some(&timespec(timeout))) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(SysError::new("ppoll", "", errno)),
        }
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}

fn flags(interest: Interest, trigger: Trigger) -> EventFlags {
    let interest = match interest {
        Interest::Readable => EventFlags::IN | EventFlags::RDHUP,
        Interest::Writable => EventFlags::OUT,
        Interest::Both => EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP,
    };
    match trigger {
        Trigger::Level => interest,
        Trigger::Edge => interest | EventFlags::ET,
    }
}

fn ready(event: &Event) -> Ready {
    let flags = event.flags;
    Ready {
        token: event.data.u64(),
        readable: flags.contains(EventFlags::IN),
        writable: flags.contains(EventFlags::OUT),
        hung_up: flags.intersects(EventFlags::HUP | EventFlags::RDHUP | EventFlags::ERR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eventfd::EventFd;

    fn tokens(poller: &mut Poller, timeout: Duration, spin: Duration) -> Vec<u64> {
        poller
            .wait(Some(timeout), spin)
            .unwrap()
            .map(|ready| ready.token)
            .collect()
    }

    #[test]
    fn level_repeats_and_edge_does_not() {
        let mut poller = Poller::create(8).unwrap();
        let (level, edge) = (EventFd::create().unwrap(), EventFd::create().unwrap());
        poller
            .add(&level, 1, Interest::Readable, Trigger::Level)
            .unwrap();
        poller
            .add(&edge, u64::MAX, Interest::Readable, Trigger::Edge)
            .unwrap();
        assert!(tokens(&mut poller, Duration::ZERO, Duration::ZERO).is_empty());
        level.signal();
        edge.signal();
        let mut both = tokens(&mut poller, Duration::from_secs(5), Duration::ZERO);
        both.sort_unstable();
        assert_eq!(both, [1, u64::MAX]);
        assert_eq!(tokens(&mut poller, Duration::ZERO, Duration::ZERO), [1]);
        poller.remove(&level).unwrap();
        assert!(tokens(&mut poller, Duration::ZERO, Duration::ZERO).is_empty());
    }

    #[test]
    fn a_short_sleep_is_short_and_is_ended_by_an_event() {
        let mut poller = Poller::create(1).unwrap();
        let event = EventFd::create().unwrap();
        poller
            .add(&event, 4, Interest::Readable, Trigger::Level)
            .unwrap();
        // The shortest of many: on a busy machine a single one may take any time.
        let sleeps = std::iter::repeat_with(|| {
            let start = Instant::now();
            assert!(tokens(&mut poller, Duration::from_micros(50), Duration::ZERO).is_empty());
            start.elapsed()
        });
        let shortest = sleeps.take(200).min().unwrap();
        let whole = Duration::from_micros(50)..Duration::from_millis(1);
        assert!(whole.contains(&shortest), "{shortest:?}");
        event.signal();
        let woken = tokens(&mut poller, Duration::from_millis(9), Duration::ZERO);
        assert_eq!(woken, [4]);
    }

    #[test]
    fn the_spin_sees_a_signal_from_another_thread() {
        let mut poller = Poller::create(1).unwrap();
        let event = EventFd::create().unwrap();
        poller
            .add(&event, 3, Interest::Readable, Trigger::Level)
            .unwrap();
        let other = EventFd::from_fd(event.share_fd().unwrap());
        let thread = std::thread::spawn(move || other.signal());
        assert_eq!(
            tokens(
                &mut poller,
                Duration::from_secs(30),
                Duration::from_secs(30)
            ),
            [3]
        );
        thread.join().unwrap();
    }

    #[test]
    fn a_poller_may_wait_in_another_thread_and_inside_another_poller() {
        let (mut outer, inner) = (Poller::create(1).unwrap(), Poller::create(1).unwrap());
        let event = EventFd::create().unwrap();
        inner
            .add(&event, 1, Interest::Readable, Trigger::Level)
            .unwrap();
        outer
            .add(&inner, 2, Interest::Readable, Trigger::Level)
            .unwrap();
        let thread = std::thread::spawn(move || {
            let woken = tokens(&mut outer, Duration::from_secs(30), Duration::ZERO);
            (outer, woken)
        });
        event.signal();
        let (mut outer, woken) = thread.join().unwrap();
        assert_eq!(woken, [2]);
        event.drain();
        assert!(tokens(&mut outer, Duration::ZERO, Duration::ZERO).is_empty());
    }

    #[test]
    fn the_spin_is_bounded_by_the_timeout() {
        let mut poller = Poller::create(1).unwrap();
        let start = Instant::now();
        assert!(
            tokens(
                &mut poller,
                Duration::from_millis(2),
                Duration::from_secs(60)
            )
            .is_empty()
        );
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}
