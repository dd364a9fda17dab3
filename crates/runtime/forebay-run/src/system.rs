//! A program and the process under it.
//!
//! A [`System`] does its work under a [`Host`], and leaves a [`Record`]. The host is what every process has in common: whether and how fast it shall end, the fault switch of the
//! tests, and where lines for an operator go. Books, metrics page, balance and record are those of a [`KeptLedger`](crate::run_dir::KeptLedger). An end point of a library has a
//! [`Stop`] and a ledger, and no host.

use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::time::Duration;

use forebay_ledger::Leak;

use crate::error::RunError;
use crate::hops;
use crate::metrics::Shown;
use crate::record::Record;
use crate::stop::Stop;

/// A program that leaves a record.
pub trait System {
    /// Where the fault switch can make it lose items uncounted ([`hops`]).
    const HOPS: &'static [&'static str];
    /// What its record says beside what every record says.
    type Summary;
    /// Why it could not begin.
    type Error;

    /// Works until its input ends or `host` says so, and closes its books.
    ///
    /// # Errors
    /// Nothing could be begun. What fails later ends the run with its books closed, and is in the record.
    fn run(self, host: &Host) -> Result<Record<Self::Summary>, Self::Error>;
}

/// What an operator is told while a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note<'a> {
    /// What happens, as where it listens.
    Line(&'a str),
    /// What should be looked at.
    Warning(&'a str),
    /// Its metrics page answers there.
    Page(SocketAddr),
}

/// Where lines for an operator go.
pub trait Tell: Send + Sync {
    /// Tells a line. It does not wait until the line is read.
    fn tell(&self, note: Note<'_>);

    /// Waits at most so long until all is told. Gives how many lines were not told by then, of all so far.
    fn untold(&self, most: Duration) -> u64;
}

/// Nobody is told anything.
impl Tell for () {
    fn tell(&self, _: Note<'_>) {}

    fn untold(&self, _: Duration) -> u64 {
        0
    }
}

/// The process under a system.
pub struct Host {
    /// Whether and how fast it shall end.
    pub stop: Stop,
    /// The fault switch of the tests.
    pub leak: Leak,
    tell: Box<dyn Tell>,
}

impl Host {
    /// That of this process: its signals no longer kill it, and `FOREBAY_LEAK` may name one of `hops`.
    ///
    /// # Errors
    /// Descriptors or threads run out, or the switch names no hop of these.
    pub fn of_process(hops: &[&str], tell: impl Tell + 'static) -> Result<Self, RunError> {
        let leak = hops::leak_from_env(hops)?;
        Ok(Self::new(Stop::of_process()?, leak, tell))
    }

    /// One that a caller ends by itself, as a test does.
    #[must_use]
    pub fn new(stop: Stop, leak: Leak, tell: impl Tell + 'static) -> Self {
        let tell = Box::new(tell);
        Self { stop, leak, tell }
    }

    /// Tells what happens.
    pub fn say(&self, line: impl Display) {
        self.tell.tell(Note::Line(&line.to_string()));
    }

    /// Tells what should be looked at.
    pub fn warn(&self, warning: &str) {
        self.tell.tell(Note::Warning(warning));
    }

    /// The content of a metrics page that answers at `address`; without an address there is none.
    ///
    /// # Errors
    /// The address is in use.
    pub fn page(&self, address: Option<SocketAddr>) -> Result<Option<Shown>, RunError> {
        let Some(address) = address else {
            return Ok(None);
        };
        let shown = Shown::default().served_at(address)?;
        if let Some(address) = shown.address() {
            self.tell.tell(Note::Page(address));
        }
        Ok(Some(shown))
    }

    /// Waits at most so long until all is told; how many lines nobody has read by then.
    #[must_use]
    pub fn untold(&self, most: Duration) -> u64 {
        self.tell.untold(most)
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("stop", &self.stop)
            .field("leak", &self.leak)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Keeps what it was told.
    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<Vec<String>>>);

    impl Tell for Heard {
        fn tell(&self, note: Note<'_>) {
            self.0.lock().unwrap().push(format!("{note:?}"));
        }

        fn untold(&self, most: Duration) -> u64 {
            most.as_secs()
        }
    }

    #[test]
    fn an_operator_is_told_each_note_as_what_it_is() {
        let heard = Heard::default();
        let host = Host::new(Stop::of_library().unwrap(), Leak::off(), heard.clone());
        host.say(format_args!("at {}", 7));
        host.warn("full");
        let page = host.page(Some(([127, 0, 0, 1], 0).into())).unwrap();
        let address = page.and_then(|page| page.address()).unwrap();
        assert_ne!(address.port(), 0);
        assert!(host.page(None).unwrap().is_none());
        assert_eq!(host.untold(Duration::from_secs(3)), 3);
        let told = [
            r#"Line("at 7")"#.to_owned(),
            r#"Warning("full")"#.to_owned(),
            format!("Page({address})"),
        ];
        assert_eq!(*heard.0.lock().unwrap(), told);
    }
}
