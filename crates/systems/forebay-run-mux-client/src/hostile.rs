//! A client that means harm: it lies about packets, buffers and positions of its rings, keeps what it is given, rings without end, and comes again when it was disconnected. Beside clients that
//! behave it shows what that costs them, which is to be nothing, and that the multiplexer's account has each lie under its name.
//!
//! It maps nothing of what it is handed, and counts itself what it tells. The multiplexer's record has the same numbers in `lies` and `parted`, counted there.

mod books;
mod lies;
mod place;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use forebay_client::protocol::Reason as No;
use forebay_client::{ClientError, Handed};
use forebay_ledger::{Leak, Reason};
use forebay_run::record::Record;
use forebay_run::run_dir::RunEnd;
use forebay_run::{Host, System};
use forebay_sys::clock::monotonic_ns;
use forebay_sys::wait;
use serde::Serialize;

use self::books::{Books, Counts, HOPS};
use self::lies::{ENDS, End, LEAVES, LIES, Lie};
use self::place::{Hostile, Told};
use crate::error::MuxClientError;

/// Longest wait for the multiplexer's answer, and for it to take what it was told.
const PATIENCE: Duration = Duration::from_secs(5);
/// A place that is taken, or for which there is no memory, is asked for again for so long.
const PLACE_WAIT: Duration = Duration::from_secs(30);
/// And after so long each time, in ns.
const AGAIN_NS: u64 = 20_000_000;
/// Rings of each bell in one connection.
const RINGS: u32 = 1_000;
/// One kind of lie is told so many times at most, to be disconnected for it.
const INSISTS_MAX: u32 = 1_000;

/// A client that is to do harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostilePlan {
    /// The multiplexer's socket.
    pub socket: PathBuf,
    /// The name of its place.
    pub name: String,
    /// Ends after so many connections; none: when it is told to.
    pub connections: Option<u64>,
    /// Ends after so long; none: when it is told to.
    pub duration: Option<Duration>,
    /// Where ledger and record lie; none: nowhere.
    pub out: Option<PathBuf>,
}

/// What it did, by its own counts.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostileSummary {
    /// The name of its place.
    pub name: String,
    /// Times that it had the place.
    pub connections: u64,
    /// Lies that it told, by the names that the multiplexer counts them under.
    pub lies: BTreeMap<&'static str, u64>,
    /// How it ended its connections: positions of rings that cannot be, lies without end, and leaving with all that it held.
    pub ends: BTreeMap<&'static str, u64>,
    /// Times that its place was still taken, or had no memory, and was asked for again.
    pub asked_again: u64,
    /// Last words of the multiplexer, by reason.
    pub refusals: BTreeMap<&'static str, u64>,
    /// Packets that were sound: the first of two in one buffer, in each connection.
    pub packets_sound: u64,
    /// Frames that it was given.
    pub frames_given: u64,
    /// Those that it gave back; it kept the others.
    pub frames_returned: u64,
    /// Times that it reached for memory that is not its own to write, or for another length of what is.
    pub reaches: u64,
    /// Those of them that the kernel let it, by name. A client of the multiplexer's own user, or of root, can open files anew.
    pub reached: BTreeMap<&'static str, u64>,
    /// Times that it rang.
    pub rings: u64,
}

/// The record of a client that does harm.
pub type HostileRecord = Record<HostileSummary>;

impl System for HostilePlan {
    const HOPS: &'static [&'static str] = &HOPS;
    type Summary = HostileSummary;
    type Error = MuxClientError;

    fn run(self, host: &Host) -> Result<HostileRecord, MuxClientError> {
        let first = self.ask().map_err(|source| self.refused(source))?;
        let mut tell = |text: &str| host.warn(text);
        let books = Books::open(self.out.as_deref(), &mut tell)?;
        if let Some(duration) = self.duration {
            host.stop.end_after(duration);
        }
        host.say(format_args!(
            "{} has its place, and does what harm it can",
            self.name
        ));
        let mut work = Work {
            summary: HostileSummary {
                name: self.name.clone(),
                ..HostileSummary::default()
            },
            plan: &self,
            books,
            leak: host.leak.clone(),
        };
        let failed = work.all(first, host).err();
        let mut end = RunEnd::in_order(host.stop.reason().unwrap_or(Reason::LimitReached));
        end.failed = failed.map(|error| error.to_string());
        let Work { summary, books, .. } = work;
        Ok(books.close(end, summary)?)
    }
}

impl HostilePlan {
    fn ask(&self) -> Result<Handed, ClientError> {
        Handed::ask(&self.socket, &self.name, PATIENCE)
    }

    fn refused(&self, source: ClientError) -> MuxClientError {
        MuxClientError::of_place(&self.name, &self.socket, source)
    }
}

struct Work<'a> {
    plan: &'a HostilePlan,
    summary: HostileSummary,
    books: Books,
    leak: Leak,
}

impl Work<'_> {
    /// One connection after the other, until it is over or told to end.
    fn all(&mut self, first: Handed, host: &Host) -> Result<(), MuxClientError> {
        let mut next = Some(first);
        for end in ENDS.into_iter().cycle() {
            let Some(handed) = next else { return Ok(()) };
            self.summary.connections += 1;
            self.connection(handed, end, host)?;
            if self.plan.connections == Some(self.summary.connections) {
                return Ok(());
            }
            next = self.come_again(host)?;
        }
        Ok(())
    }

    /// Takes its place again; none: it was told to end first.
    fn come_again(&mut self, host: &Host) -> Result<Option<Handed>, MuxClientError> {
        let until_ns = monotonic_ns() + PLACE_WAIT.as_nanos() as u64;
        while !host.stop.is_asked() {
            match self.plan.ask() {
                Ok(handed) => return Ok(Some(handed)),
                Err(ClientError::Refused(no))
                    if matches!(no.reason, No::Taken | No::Resource)
                        && monotonic_ns() < until_ns =>
                {
                    self.summary.asked_again += 1;
                }
                Err(source) => return Err(self.plan.refused(source)),
            }
            // A sign of life.
            self.books.show(&Counts::default());
            wait::sleep_until_or([host.stop.as_fd()], monotonic_ns() + AGAIN_NS, 0)?;
        }
        Ok(None)
    }

    /// Does all of the harm that leaves the connection open, and then some that ends it.
    fn connection(&mut self, handed: Handed, end: End, host: &Host) -> Result<(), MuxClientError> {
        let mut hostile = Hostile::open(handed).map_err(|source| self.plan.refused(source))?;
        let mut done = self.harm(&mut hostile, end, host);
        if done.is_ok() && !hostile.is_over() {
            done = hostile.leave(PATIENCE).map_err(Into::into);
            *self.summary.ends.entry(LEAVES).or_default() += 1;
        }
        self.summary.packets_sound += hostile.packets_sound();
        self.summary.frames_given += hostile.frames_given()?;
        self.summary.frames_returned += hostile.frames_returned();
        self.summary.rings += hostile.rings();
        let mut counts = hostile.counts()?;
        counts.leak(&mut self.leak);
        self.books.show(&counts);
        done
    }

    fn harm(&mut self, hostile: &mut Hostile, end: End, host: &Host) -> Result<(), MuxClientError> {
        hostile.say_taken_back_beyond()?;
        for lie in LIES {
            if host.stop.is_asked() {
                return Ok(());
            }
            if self.tell(hostile, lie)? {
                return self.last_word(hostile);
            }
        }
        for (name, is_reached) in hostile.reach() {
            self.summary.reaches += 1;
            if is_reached {
                *self.summary.reached.entry(name).or_default() += 1;
            }
        }
        hostile.ring_without_end(RINGS);
        self.end(hostile, end, host)
    }

    /// Tells a lie; whether the connection is over.
    fn tell(&mut self, hostile: &mut Hostile, lie: Lie) -> Result<bool, MuxClientError> {
        let told = hostile.tell(lie)?;
        let was_taken = matches!(told, Told::Taken | Told::Over { was_taken: true });
        if was_taken {
            *self.summary.lies.entry(lie.name()).or_default() += 1;
        }
        Ok(matches!(told, Told::Over { .. }))
    }

    /// Ends the connection, unless it is to be left with all that it holds, or the multiplexer hears no end of one lie.
    fn end(&mut self, hostile: &mut Hostile, end: End, host: &Host) -> Result<(), MuxClientError> {
        match end {
            End::Leaves => return Ok(()),
            End::Insists(lie) => {
                let mut is_over = false;
                for _ in 0..INSISTS_MAX {
                    if is_over || host.stop.is_asked() {
                        break;
                    }
                    is_over = self.tell(hostile, lie)?;
                }
                if !is_over {
                    return Ok(());
                }
            }
            End::Position(position) => hostile.say_position(position)?,
        }
        self.last_word(hostile)?;
        *self.summary.ends.entry(end.name()).or_default() += 1;
        Ok(())
    }

    fn last_word(&mut self, hostile: &mut Hostile) -> Result<(), MuxClientError> {
        let word = hostile.last_word(PATIENCE);
        let reason = word.map_err(|source| self.plan.refused(source))?;
        *self.summary.refusals.entry(reason).or_default() += 1;
        Ok(())
    }
}
