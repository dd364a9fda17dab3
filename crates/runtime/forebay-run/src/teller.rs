//! Lines for people, from threads that wait for nobody.
//!
//! A thread that empties a socket or a ring, or is to send at an instant, does not wait for a terminal that stands still, or a pipe that nobody reads: lines go to a thread of
//! their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Lines that wait to be told, at most. Those that find no room are counted, and told no more.
pub const LINES_MAX: usize = 1024;
/// From look to look while it is waited for.
const LOOK: Duration = Duration::from_millis(1);

/// The near end.
#[derive(Debug)]
pub struct Teller {
    to: SyncSender<String>,
    given: AtomicU64,
    told: Arc<AtomicU64>,
    untold: AtomicU64,
}

impl Teller {
    /// Starts the thread, which hands each line to `tell`. It ends with the near end, when all is told.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(mut tell: impl FnMut(&str) + Send + 'static) -> std::io::Result<Self> {
        let (to, lines) = sync_channel::<String>(LINES_MAX);
        let told = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&told);
        std::thread::Builder::new()
            .name("teller".to_owned())
            .spawn(move || {
                for line in lines {
                    tell(&line);
                    counted.fetch_add(1, Ordering::Release);
                }
            })?;
        Ok(Self {
            to,
            given: AtomicU64::new(0),
            told,
            untold: AtomicU64::new(0),
        })
    }

    /// Tells a line, if there is room for it.
    pub fn tell(&self, line: &str) {
        let count = match self.to.try_send(line.to_owned()) {
            Ok(()) => &self.given,
            Err(_) => &self.untold,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until all that found room is told, at most so long. Gives how many lines are not told by then: those that found no room so far, and those that nobody
    /// has read yet.
    pub fn flush(&self, most: Duration) -> u64 {
        let begun = Instant::now();
        let given = self.given.load(Ordering::Relaxed);
        while self.told.load(Ordering::Acquire) < given && begun.elapsed() < most {
            std::thread::sleep(LOOK);
        }
        let waiting = given.saturating_sub(self.told.load(Ordering::Acquire));
        self.untold.load(Ordering::Relaxed) + waiting
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn whoever_tells_waits_for_nobody_and_what_finds_no_room_is_counted() {
        let (go_on, stands) = channel::<()>();
        let (tell, told) = channel();
        let teller = Teller::start(move |line| {
            // Nobody reads until the test says so.
            let _ = stands.recv();
            let _ = tell.send(line.to_owned());
        })
        .unwrap();
        for number in 0..LINES_MAX + 100 {
            teller.tell(&number.to_string());
        }
        assert_eq!(teller.flush(Duration::ZERO), LINES_MAX as u64 + 100);
        drop(go_on);
        // One may have been on its way already.
        let untold = teller.flush(Duration::from_secs(20));
        assert!((99..=100).contains(&untold), "{untold}");
        drop(teller);
        let lines: Vec<String> = told.iter().collect();
        assert_eq!(lines.len() as u64 + untold, LINES_MAX as u64 + 100);
        assert_eq!(lines[..2], ["0", "1"]);
    }
}
