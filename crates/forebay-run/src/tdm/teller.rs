//! Lines for the operator, from threads that wait for nobody.
//!
//! Whoever empties a socket, or is to send at an instant, does not wait for a terminal that stands still, or a pipe that nobody reads: lines go to a thread of their own.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::TdmError;

/// Lines that wait to be told, at most. Those that find no room are counted, and told no more.
const LINES_MAX: usize = 256;
/// What is left is waited for so long at the end.
const END: Duration = Duration::from_secs(1);
/// From look to look at the end.
const LOOK: Duration = Duration::from_millis(1);

/// The near end.
#[derive(Debug)]
pub(super) struct Teller {
    to: Option<SyncSender<String>>,
    thread: JoinHandle<()>,
    untold: u64,
}

impl Teller {
    /// Starts the thread, which hands each line to `tell`.
    pub(super) fn start(mut tell: impl FnMut(&str) + Send + 'static) -> Result<Self, TdmError> {
        let (to, lines) = sync_channel::<String>(LINES_MAX);
        let thread = std::thread::Builder::new()
            .name("tdm teller".to_owned())
            .spawn(move || lines.iter().for_each(|line| tell(&line)))
            .map_err(TdmError::file("starting a thread for", "messages"))?;
        Ok(Self {
            to: Some(to),
            thread,
            untold: 0,
        })
    }

    /// Tells a line, if there is room for it.
    pub(super) fn tell(&mut self, line: &str) {
        let to = self.to.as_ref();
        let told = to.is_some_and(|to| to.try_send(line.to_owned()).is_ok());
        self.untold += u64::from(!told);
    }

    /// No more lines come; gives how many found no room. What nobody reads by then stays unread.
    pub(super) fn finish(mut self) -> u64 {
        drop(self.to.take());
        let begun = Instant::now();
        while !self.thread.is_finished() && begun.elapsed() < END {
            std::thread::sleep(LOOK);
        }
        self.untold
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn whoever_tells_waits_for_nobody_and_what_finds_no_room_is_counted() {
        let (go_on, stands) = channel::<()>();
        let (told, lines) = channel();
        let mut teller = Teller::start(move |line| {
            // Nobody reads until the test says so.
            let _ = stands.recv();
            let _ = told.send(line.to_owned());
        })
        .unwrap();
        for number in 0..LINES_MAX + 100 {
            teller.tell(&number.to_string());
        }
        // One may be on its way already.
        assert!((99..=100).contains(&teller.untold), "{}", teller.untold);
        drop(go_on);
        let untold = teller.finish();
        let lines: Vec<String> = lines.iter().collect();
        assert_eq!(lines.len() as u64 + untold, LINES_MAX as u64 + 100);
        assert_eq!(lines[..2], ["0", "1"]);
    }
}
