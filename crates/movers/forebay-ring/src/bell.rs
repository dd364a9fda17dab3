//! The two bells of a set: *data ready*, rung by the producer, and *space free*, rung by the consumer.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::error::RingError;
use crate::memory::Shared;
use crate::wake::WaitFlag;

/// The side that rings: may be cloned and given to several threads.
#[derive(Debug, Clone)]
pub struct Notifier {
    flag: Shared<WaitFlag>,
    event: Arc<OwnedFd>,
}

impl Notifier {
    pub(crate) fn new(flag: Shared<WaitFlag>, event: OwnedFd) -> Self {
        Notifier {
            flag,
            event: Arc::new(event),
        }
    }

    /// Call after a batch of publishes (or releases): one full fence, and a signal only if the other side asked for it. Says whether it did.
    pub fn notify(&self) -> bool {
        let asked = self.is_asked();
        if asked {
            // The only refusal is "would overflow", and then the bell is ringing already.
            let _ = rustix::io::write(&*self.event, &1u64.to_ne_bytes());
        }
        asked
    }

    /// Whether the other side asked to be signalled, with the same fence: for one that rings in another way. Both sides share the bell's descriptor, so a peer
    /// that is not trusted can have a signal wait until that peer likes.
    pub fn is_asked(&self) -> bool {
        self.flag.is_asked()
    }
}

/// The side that sleeps: one per side of a set.
///
/// Always sleep with a time-out: a peer that is killed between its publish and its signal leaves the bell silent.
#[derive(Debug)]
pub struct Waiter {
    flag: Shared<WaitFlag>,
    event: OwnedFd,
}

impl Waiter {
    pub(crate) fn new(flag: Shared<WaitFlag>, event: OwnedFd) -> Self {
        flag.done();
        Waiter { flag, event }
    }

    /// Asks to be signalled. **Look at the rings again after this** and sleep only if there is still nothing to do.
    pub fn prepare(&self) {
        self.flag.ask();
    }

    /// Awake: takes the question back and clears the signal. Call after each `prepare`, then look at the rings.
    pub fn finish(&self) {
        self.flag.done();
        let mut count = [0; 8];
        // Refused with "try again" when nobody rang.
        let _ = rustix::io::read(&self.event, &mut count);
    }

    /// Awake, and the signal stays: for one that waits for its edge, and never reads the bell. A peer that is not trusted can have a read wait until that peer likes.
    pub fn finish_unread(&self) {
        self.flag.done();
    }

    /// Sleeps between `prepare` and `finish`. `true` if signalled, `false` after the time or when interrupted.
    pub fn sleep(&self, timeout: Duration) -> Result<bool, RingError> {
        let timeout = Timespec {
            tv_sec: timeout.as_secs().min(i32::MAX as u64) as i64,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(&self.event, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(RingError::System {
                call: "poll",
                what: "eventfd",
                errno,
            }),
        }
    }
}

impl AsFd for Waiter {
    /// For epoll: readable when signalled, until `finish`.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
