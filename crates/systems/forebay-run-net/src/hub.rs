//! Sleeping until one of many connections has something.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use forebay_link::bytes::{ByteLink, Door};
use forebay_sys::SysError;
use forebay_sys::epoll::{Interest, Poller, Trigger};

/// Events taken in one round; the others come in the next.
const EVENTS_MAX: usize = 64;

/// Descriptors of links and doors, and the sleep on all of them.
#[derive(Debug)]
pub(super) struct Hub {
    poller: Poller,
}

impl Hub {
    pub(super) fn new() -> Result<Self, SysError> {
        Ok(Self {
            poller: Poller::create(EVENTS_MAX)?,
        })
    }

    pub(super) fn add_door(&self, door: &dyn Door) -> Result<(), SysError> {
        for fd in door.fds().into_iter().flatten() {
            self.poller.add(fd, 0, Interest::Readable, Trigger::Level)?;
        }
        Ok(())
    }

    pub(super) fn remove_door(&self, door: &dyn Door) {
        for fd in door.fds().into_iter().flatten() {
            // One that is not there is what is wanted.
            let _ = self.poller.remove(fd);
        }
    }

    pub(super) fn add(&self, link: &dyn ByteLink, for_room: bool) -> Result<(), SysError> {
        for (at, fd) in link.fds().into_iter().flatten().enumerate() {
            let interest = interest(link, at, for_room);
            self.poller.add(fd, 0, interest, Trigger::Level)?;
        }
        Ok(())
    }

    /// Waits for room, or no longer.
    pub(super) fn change(&self, link: &dyn ByteLink, for_room: bool) -> Result<(), SysError> {
        if !link.room_is_writable() {
            return Ok(());
        }
        let first = link.fds().into_iter().flatten().next();
        first.map_or(Ok(()), |fd| {
            let interest = interest(link, 0, for_room);
            self.poller.modify(fd, 0, interest, Trigger::Level)
        })
    }

    pub(super) fn remove(&self, link: &dyn ByteLink) {
        for fd in link.fds().into_iter().flatten() {
            let _ = self.poller.remove(fd);
        }
    }

    /// Sleeps until something is ready, at most so long.
    pub(super) fn sleep(&mut self, most: Duration) -> Result<(), SysError> {
        self.poller.wait(Some(most), Duration::ZERO).map(drop)
    }
}

impl AsFd for Hub {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

fn interest(link: &dyn ByteLink, at: usize, for_room: bool) -> Interest {
    if at == 0 && for_room && link.room_is_writable() {
        Interest::Both
    } else {
        Interest::Readable
    }
}
