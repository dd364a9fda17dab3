//! Links that were ended and have still something to hand over: nobody else waits for that.

use std::thread::JoinHandle;

use forebay_link::bytes::ByteLink;

/// Most links that are waited for at the same time, each by a thread, for a second at the most. One more has to wait for the oldest.
const LEAVING_MAX: usize = 64;

/// Those that are waited for; dropped, it waits for all of them.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    threads: Vec<JoinHandle<()>>,
}

impl Leaving {
    /// Lets a link go.
    pub(super) fn add(&mut self, mut link: Box<dyn ByteLink>) {
        if !link.lingers() {
            return;
        }
        self.threads.retain(|thread| !thread.is_finished());
        if self.threads.len() >= LEAVING_MAX {
            join(self.threads.remove(0));
        }
        let thread = std::thread::Builder::new().name("leaving".into());
        // Without a thread it is dropped, and waited for, here.
        self.threads.extend(thread.spawn(move || drop(link)));
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.threads.drain(..).for_each(join);
    }
}

fn join(thread: JoinHandle<()>) {
    // One that panicked has dropped its link.
    let _ = thread.join();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::os::fd::BorrowedFd;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use forebay_link::bytes::{ByteLinkError, FDS_MAX, Received};

    use super::*;

    /// Its drop waits until it is told to go on, and says that it did.
    #[derive(Debug)]
    struct Slow {
        lingers: bool,
        may_go: Receiver<()>,
        went: Sender<()>,
    }

    impl ByteLink for Slow {
        fn send(&mut self, _: &[&[u8]]) -> Result<usize, ByteLinkError> {
            Ok(0)
        }
        fn receive(&mut self) -> Result<Received, ByteLinkError> {
            Ok(Received::Ended)
        }
        fn bytes(&self) -> &[u8] {
            &[]
        }
        fn used(&mut self, _: usize) {}
        fn expect(&mut self, _: usize) -> Result<(), ByteLinkError> {
            Ok(())
        }
        fn finish(&mut self) {}
        fn lingers(&mut self) -> bool {
            self.lingers
        }
        fn arm(&mut self, _: bool) -> Result<bool, ByteLinkError> {
            Ok(true)
        }
        fn fds(&self) -> [Option<BorrowedFd<'_>>; FDS_MAX] {
            [None, None]
        }
        fn peer(&self) -> &str {
            "slow"
        }
    }

    impl Drop for Slow {
        fn drop(&mut self) {
            if self.lingers {
                self.may_go.recv().unwrap();
            }
            self.went.send(()).unwrap();
        }
    }

    #[test]
    fn a_link_that_takes_long_to_leave_holds_nobody_up_and_is_waited_for_at_the_end() {
        let (went, gone) = channel();
        let mut leaving = Leaving::default();
        let mut add = |lingers| {
            let (go, may_go) = channel();
            let went = went.clone();
            leaving.add(Box::new(Slow {
                lingers,
                may_go,
                went,
            }));
            go
        };
        let slow: Vec<Sender<()>> = (0..10).map(|_| add(true)).collect();
        assert!(gone.try_recv().is_err(), "none of them has gone");
        add(false);
        gone.recv().unwrap();
        slow.iter().for_each(|go| go.send(()).unwrap());
        drop(leaving);
        assert_eq!(gone.try_iter().count(), 10);
    }
}
