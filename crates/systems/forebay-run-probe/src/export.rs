//! Where flow records go.

mod address;
mod carrier;
mod ipfix;
mod json_lines;
mod table;
mod templates;
mod trust;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::mem;
use std::ops::AddAssign;
use std::path::Path;
use std::time::Duration;

use forebay_flow::plugins::Fields;
use forebay_flow::{Config, FlowRecord, Volume};
use forebay_ledger::Leak;
use forebay_link::collector::{Patience, Place};
use forebay_run::stop::{Stop, Urgency};
use forebay_run::whole_file::{BeginError, WholeFile};
use forebay_sys::clock;
use forebay_sys::watched::OUTPUT_REMOVED;

use crate::config::ProbeSettings;
use crate::error::ProbeError;
pub use address::Export;
use carrier::Carrier;
use ipfix::Ipfix;
use json_lines::JsonLines;
use table::{Csv, Parquet};
pub(crate) use trust::Trust;
pub use trust::TrustError;

/// What names an exporter.
const OPTION: &str = "--export";
/// Records that are written together.
const BATCH: usize = 256;
/// One look at the end at whether a collector takes something.
const END_LOOK: Duration = Duration::from_millis(20);
/// At the end a pace is as if so small a part waited: all goes within 20 s.
const END_LOADS: usize = 40;

/// What is exported of a flow.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) record: FlowRecord,
    pub(crate) fields: Fields,
}

/// What an exporter writes to.
trait Output: Send {
    /// Writes some of the first of these records: how many. None where the collector takes nothing for now; the same records then come first again.
    fn write(&mut self, rows: &[Row]) -> Result<usize, Unwritten>;
    /// Tells the collector what was lost in front of the exporter, and what was not sent to it.
    fn report(&mut self, _before: &Losses, _not_sent: Amount) -> io::Result<()> {
        Ok(())
    }
    /// Records that went without what plugins found, since they would have been longer than a message.
    fn bare(&self) -> u64 {
        0
    }
    /// Whether something may be written behind what could not be.
    fn goes_on(&self) -> bool {
        false
    }
    /// So many records wait, which shall not be for long.
    fn load(&mut self, _waiting: usize) {}
    /// When it is to be written to again, if it said that it takes nothing for now and knows.
    fn next_ns(&self) -> Option<u64> {
        None
    }
    /// Looks after a collector while no record waits for it.
    fn tend(&mut self) {}
    /// Why its collector is looked for, if it is.
    fn away(&self) -> Option<&str> {
        None
    }
    /// Whether nobody can read anything of it before it is whole: until then nothing counts as written.
    fn is_whole_at_end(&self) -> bool {
        false
    }
    /// Makes it whole; nothing comes any more.
    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// Ends it.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Records that could not be written.
struct Unwritten {
    /// How many, from the first.
    records: usize,
    /// Why not.
    why: io::Error,
}

/// Records are counted, and go nowhere.
struct Nowhere;

impl Output for Nowhere {
    fn write(&mut self, rows: &[Row]) -> Result<usize, Unwritten> {
        Ok(rows.len())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

/// Records, and the packets in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) flows: u64,
    pub(crate) volume: Volume,
}

impl Amount {
    pub(crate) fn of(record: &FlowRecord) -> Self {
        Self {
            flows: 1,
            volume: record.volume(),
        }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.flows += other.flows;
        self.volume += other.volume;
    }
}

/// What was lost in front of the exporters, since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// Packets that did not come from the interface to the decoder. Nobody knows their octets.
    pub(crate) unread_packets: u64,
    /// Packets that the decoder refused.
    pub(crate) ignored: Volume,
    /// What the filter did, if there is one.
    pub(crate) filter: Option<Judged>,
    /// Records that found no room in a lane.
    pub(crate) no_room: Amount,
}

/// What came to a filter, and what it did not let pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) came_packets: u64,
    pub(crate) discarded: Volume,
}

impl AddAssign for Losses {
    fn add_assign(&mut self, other: Self) {
        self.unread_packets += other.unread_packets;
        self.ignored += other.ignored;
        self.no_room += other.no_room;
        if let Some(more) = other.filter {
            let sum = self.filter.get_or_insert_default();
            sum.came_packets += more.came_packets;
            sum.discarded += more.discarded;
        }
    }
}

/// Begins a file that has its name when it is whole.
fn begin(path: &Path) -> Result<(WholeFile, File), BeginError> {
    let file = WholeFile::create(path, OPTION)?;
    let to = file.handle().map_err(|source| BeginError::Place {
        path: path.to_path_buf(),
        option: OPTION,
        source,
    })?;
    Ok((file, to))
}

/// An exporter at work. It counts what comes to it, and of each record what became of it where that is known.
pub(crate) struct Exporter {
    pub(crate) name: String,
    is_file: bool,
    to: Box<dyn Output>,
    waiting: VecDeque<Row>,
    /// What its output has, and what is written when that is whole.
    at_stake: Amount,
    /// So many may wait.
    limit: usize,
    /// Records that came.
    pub(crate) came: Amount,
    pub(crate) written: Amount,
    /// Time-outs by the host's clock, of an interface.
    config: Option<Config>,
    /// By how much a record was written after the time-out of its flow, at most, in ns.
    late_max_ns: u64,
    /// Those that could not be written.
    pub(crate) unwritten: Amount,
    /// Those that found no room to wait.
    pub(crate) full: Amount,
    /// What went wrong first.
    why: Option<io::Error>,
    /// Nothing is written any more.
    has_failed: bool,
    pub(crate) leak: Leak,
    /// What an operator was told of: that it failed, that its collector is away, and why.
    told: (bool, Option<String>),
}

/// How an exporter ended that could not write something.
pub(crate) struct Failed {
    pub(crate) text: String,
    pub(crate) how: How,
}

/// What that is for the run.
pub(crate) enum How {
    /// Some records were lost, and the others were written.
    InPart,
    /// A collector was lost.
    Lost,
    /// A file could not be written.
    Unwritten,
    /// Somebody cut what was written.
    Removed,
}

impl Exporter {
    pub(crate) fn begin(
        export: &Export,
        settings: &ProbeSettings,
        trust: Option<&Trust>,
        stop: &Stop,
    ) -> Result<Self, ProbeError> {
        // A run that reads what goes on outlasts a collector that is away for a while.
        let lasts = settings.interface.is_some();
        let ipfix = |carrier| Box::new(Ipfix::new(carrier, settings));
        let to: Box<dyn Output> = match export {
            Export::None => Box::new(Nowhere),
            Export::JsonLines(path) => Box::new(JsonLines::create(path)?),
            Export::Csv(path) => Box::new(Csv::create(path, settings)?),
            Export::Parquet(path) => Box::new(Parquet::create(path, settings)?),
            Export::IpfixFile(path) => ipfix(Carrier::file(path)?),
            // What reads a file may be held back.
            Export::IpfixUdp(collector) => ipfix(Carrier::udp(collector, !lasts, stop)?),
            Export::IpfixTcp(collector) => {
                ipfix(Carrier::stream(Place::plain(collector), lasts, stop)?)
            }
            Export::IpfixTls(collector) => {
                let place = Place::secured(collector, trust.map(|trust| &trust.believed));
                let place = place.map_err(|error| ProbeError::collector(collector, error))?;
                ipfix(Carrier::stream(place, lasts, stop)?)
            }
        };
        Ok(Self {
            name: export.to_string(),
            is_file: export.file().is_some(),
            to,
            waiting: VecDeque::with_capacity(BATCH),
            at_stake: Amount::default(),
            limit: settings.queue_flows as usize,
            came: Amount::default(),
            written: Amount::default(),
            config: lasts.then(|| settings.engine(0).1),
            late_max_ns: 0,
            unwritten: Amount::default(),
            full: Amount::default(),
            why: None,
            has_failed: false,
            leak: Leak::off(),
            told: (false, None),
        })
    }

    /// Takes a record.
    pub(crate) fn export(&mut self, row: &Row) {
        self.came += Amount::of(&row.record);
        if self.waiting.len() >= self.limit {
            self.full += Amount::of(&row.record);
            return;
        }
        self.waiting.push_back(row.clone());
        if self.waiting.len().is_multiple_of(BATCH) {
            self.write_in_time();
        }
    }

    /// What an operator should know of it that was not told yet.
    pub(crate) fn news(&mut self) -> Option<String> {
        let now = (self.has_failed, self.to.away().map(str::to_owned));
        if self.told == now {
            return None;
        }
        self.told = now;
        let name = &self.name;
        Some(match (&self.told, &self.why) {
            ((true, _), Some(why)) => {
                format!("{name}: {why}; its records are counted as not written")
            }
            ((_, Some(why)), _) => {
                format!("{name} is away ({why}), and is looked for; records wait for it")
            }
            _ => format!("{name} is there again"),
        })
    }

    /// Records that went without what plugins found.
    pub(crate) fn bare(&self) -> u64 {
        self.to.bare()
    }

    /// By how much a record was written after the time-out of its flow, at most, in ns, where time-outs are by the host's clock.
    pub(crate) fn late_max_ns(&self) -> Option<u64> {
        self.config.map(|_| self.late_max_ns)
    }

    /// What waits to be written, or for the end of its file.
    pub(crate) fn held(&self) -> Amount {
        let mut held = self.at_stake;
        held += self.waits();
        held
    }

    fn waits(&self) -> Amount {
        let mut held = Amount::default();
        self.waiting
            .iter()
            .for_each(|row| held += Amount::of(&row.record));
        held
    }

    /// Whether it takes no more for now, but will do so by its pace.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() + BATCH > self.limit && self.next_ns().is_some()
    }

    /// When there is a turn for what waits, if something does and that is known.
    fn next_ns(&self) -> Option<u64> {
        let waits = !self.waiting.is_empty() && !self.has_failed;
        self.to.next_ns().filter(|_| waits)
    }

    /// How long until what waits has its turn, at most so long.
    pub(crate) fn until_turn(&self, most: Duration) -> Duration {
        self.next_ns().map_or(most, |at| {
            let left_ns = at.saturating_sub(clock::monotonic_ns());
            most.min(Duration::from_nanos(left_ns))
        })
    }

    /// Writes what waits, as far as it is taken, in time.
    pub(crate) fn write_in_time(&mut self) {
        self.to.load(self.waiting.len());
        self.write();
    }

    /// Writes what waits, as far as it is taken.
    pub(crate) fn write(&mut self) {
        if self.waiting.is_empty() {
            self.to.tend();
        }
        let mut waiting = mem::take(&mut self.waiting);
        while !waiting.is_empty() {
            if self.leak.take("export") {
                waiting.pop_front();
                continue;
            }
            // What wraps around the end of its memory comes next.
            let (left, _) = waiting.as_slices();
            let (done, is_written) = match self.step(left) {
                Ok(0) => break,
                Ok(records) => (records, true),
                Err(records) => (records.max(1), false),
            };
            let to = match is_written {
                true if self.to.is_whole_at_end() => &mut self.at_stake,
                true => &mut self.written,
                false => &mut self.unwritten,
            };
            let done = done.min(waiting.len());
            let config = self.config.filter(|_| is_written);
            let mut due_ns = u64::MAX;
            for one in waiting.drain(..done) {
                *to += Amount::of(&one.record);
                let due = config.and_then(|config| config.due_ns(&one.record));
                due_ns = due_ns.min(due.unwrap_or(u64::MAX));
            }
            let late_ns = clock::realtime_ns().saturating_sub(due_ns);
            self.late_max_ns = self.late_max_ns.max(late_ns);
        }
        self.waiting = waiting;
    }

    /// Writes all that waits, at the end: a collector that takes nothing is waited for, at most until `until_ns`, and what it does not take then is not written.
    pub(crate) fn write_all(&mut self, stop: &Stop, until_ns: u64) {
        let mut patience = Patience::new(self.waiting.len(), clock::monotonic_ns(), until_ns);
        loop {
            // There is time: the pace rises where it would not be enough.
            self.to.load(self.waiting.len() / END_LOADS);
            self.write();
            let left = self.waiting.len();
            let is_over = patience.is_over(left, clock::monotonic_ns());
            if left == 0 || is_over || stop.urgency() >= Urgency::Hurry {
                break;
            }
            std::thread::sleep(self.until_turn(END_LOOK));
        }
        if !self.waiting.is_empty() {
            self.unwritten += self.waits();
            self.waiting.clear();
            self.why.get_or_insert_with(|| {
                let why = match self.to.away() {
                    Some(_) => "the collector was away at the end",
                    None => "there was no time left for them at the end",
                };
                io::Error::new(io::ErrorKind::TimedOut, why)
            });
        }
        self.close();
    }

    /// Makes its output whole: what is in it is written now, or never.
    fn close(&mut self) {
        if !self.has_failed
            && let Err(why) = self.to.close()
        {
            self.has_failed = true;
            self.why.get_or_insert(why);
        }
        let at_stake = mem::take(&mut self.at_stake);
        match self.has_failed {
            true => self.unwritten += at_stake,
            false => self.written += at_stake,
        }
    }

    /// How many of the first of these records were written, or could not be.
    fn step(&mut self, rows: &[Row]) -> Result<usize, usize> {
        if self.has_failed {
            return Err(rows.len());
        }
        self.to.write(rows).map_err(|unwritten| {
            self.has_failed = !self.to.goes_on();
            self.why.get_or_insert(unwritten.why);
            unwritten.records
        })
    }

    /// Tells what was lost before, and which records were not sent: those without room in a lane or here, and those that could not be written.
    pub(crate) fn report(&mut self, before: &Losses) {
        let mut not_sent = before.no_room;
        not_sent += self.full;
        not_sent += self.unwritten;
        if !self.has_failed
            && let Err(why) = self.to.report(before, not_sent)
        {
            self.has_failed = !self.to.goes_on();
            self.why.get_or_insert(why);
        }
    }

    /// Brings it to its end.
    pub(crate) fn finish(self) -> Result<(), Failed> {
        let (name, is_file) = (self.name, self.is_file);
        let failed = |why: io::Error, how| Failed {
            text: match &how {
                How::Unwritten => {
                    format!("writing {name}: {why}; what was written is in {name}.part")
                }
                _ => format!("writing {name}: {why}"),
            },
            how,
        };
        let for_good = |why: io::Error| {
            let how = match why.to_string().starts_with(OUTPUT_REMOVED) {
                true => How::Removed,
                false if is_file => How::Unwritten,
                false => How::Lost,
            };
            failed(why, how)
        };
        match self.why {
            Some(why) if self.has_failed => {
                // A file keeps the name of its part.
                drop(self.to);
                Err(for_good(why))
            }
            why => {
                self.to.finish().map_err(for_good)?;
                why.map_or(Ok(()), |why| Err(failed(why, How::InPart)))
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
