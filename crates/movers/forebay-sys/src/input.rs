//! Waiting for a terminal or pipe that somebody types into, and noticing that they are gone.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// What a wait for input came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Nothing came.
    Quiet,
    /// Something can be read.
    Ready,
    /// The other side has hung up: nothing will come any more.
    Gone,
}

/// Waits for input on `fd`, at most for `timeout`. A signal ends the wait early.
#[must_use]
pub fn wait_input(fd: impl AsFd, timeout: Duration) -> Input {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let timeout = Timespec::try_from(timeout).ok();
    match poll(&mut fds, timeout.as_ref()) {
        Ok(0) | Err(Errno::INTR) => Input::Quiet,
        Err(_) => Input::Gone,
        Ok(_) => {
            let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
            if fds[0].revents().intersects(gone) {
                Input::Gone
            } else {
                Input::Ready
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn quiet_ready_and_gone_are_told_apart() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        assert_eq!(wait_input(&reader, Duration::ZERO), Input::Quiet);
        writer.write_all(b"q").unwrap();
        assert_eq!(wait_input(&reader, Duration::from_secs(10)), Input::Ready);
        drop(writer);
        assert_eq!(wait_input(&reader, Duration::from_secs(10)), Input::Gone);
    }
}
