//! A counter that wakes a poller in another thread or process.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::EventfdFlags;
use rustix::io::Errno;

use crate::SysError;

/// An eventfd, non-blocking: signalled by one side, drained by the other.
#[derive(Debug)]
pub struct EventFd {
    fd: OwnedFd,
}

impl EventFd {
    /// Creates one that is not signalled.
    ///
    /// # Errors
    /// When descriptors run out.
    pub fn create() -> Result<Self, SysError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let fd = rustix::event::eventfd(0, flags)
            .map_err(|errno| SysError::new("eventfd", "", errno))?;
        Ok(Self { fd })
    }

    /// Takes one that another process handed over.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Wakes the other side; a signal not yet drained is not doubled.
    pub fn signal(&self) {
        // EAGAIN means that the counter is full, hence the other side is signalled already.
        while rustix::io::write(&self.fd, &1_u64.to_ne_bytes()) == Err(Errno::INTR) {}
    }

    /// Takes the signal back; tells whether there was one.
    pub fn drain(&self) -> bool {
        let mut count = [0_u8; 8];
        loop {
            match rustix::io::read(&self.fd, &mut count) {
                Err(Errno::INTR) => {}
                answer => return answer == Ok(8),
            }
        }
    }

    /// Leaves it full: readable, and not writable until it is drained. So it stands for something that has no room.
    pub fn fill(&self) {
        self.drain();
        while rustix::io::write(&self.fd, &(u64::MAX - 1).to_ne_bytes()) == Err(Errno::INTR) {}
    }

    /// Another descriptor of the same counter, to be handed to another process.
    ///
    /// # Errors
    /// When descriptors run out.
    pub fn share_fd(&self) -> Result<OwnedFd, SysError> {
        self.fd
            .try_clone()
            .map_err(|source| SysError::new("dup", "eventfd", source))
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_writable(event: &EventFd) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut polled = [PollFd::new(event, PollFlags::OUT)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut polled, Some(&at_once)).unwrap() == 1
    }

    #[test]
    fn what_is_full_is_not_writable_until_it_is_drained() {
        let event = EventFd::create().unwrap();
        assert!(is_writable(&event));
        // Signalled before, and full already: it is full all the same.
        event.signal();
        for _ in 0..2 {
            event.fill();
            assert!(!is_writable(&event));
        }
        assert!(event.drain());
        assert!(is_writable(&event) && !event.drain());
    }

    #[test]
    fn signals_collapse_into_one() {
        let event = EventFd::create().unwrap();
        assert!(!event.drain());
        let other = EventFd::from_fd(event.share_fd().unwrap());
        other.signal();
        other.signal();
        assert!(event.drain());
        assert!(!event.drain());
    }
}
