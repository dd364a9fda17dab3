//! Where flow records go.

mod address;
mod ipfix;
mod json_lines;

use std::fs::File;
use std::io;
use std::mem;
use std::ops::AddAssign;
use std::path::Path;

use forebay_flow::{FlowRecord, Volume};
use forebay_run::whole_file::{BeginError, WholeFile};

use crate::error::ProbeError;
pub use address::Export;
use ipfix::Ipfix;
use json_lines::JsonLines;

/// What names an exporter.
const OPTION: &str = "--export";
/// Records that are written together.
const BATCH: usize = 256;

/// What an exporter writes to.
trait Output {
    /// Writes some of the first of these records, one at least: how many.
    fn write(&mut self, records: &[FlowRecord]) -> Result<usize, Unwritten>;
    /// Ends it.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Records that could not be written.
struct Unwritten {
    /// How many, from the first.
    records: usize,
    /// Why not.
    why: io::Error,
    /// Whether the others are to be tried.
    goes_on: bool,
}

impl Unwritten {
    /// All of so many, and those that come.
    const fn for_good(records: usize, why: io::Error) -> Self {
        Self {
            records,
            why,
            goes_on: false,
        }
    }
}

/// Records are counted, and go nowhere.
struct Nowhere;

impl Output for Nowhere {
    fn write(&mut self, records: &[FlowRecord]) -> Result<usize, Unwritten> {
        Ok(records.len())
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
    fn of(record: &FlowRecord) -> Self {
        Self {
            flows: 1,
            volume: volume(record),
        }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.flows += other.flows;
        self.volume += other.volume;
    }
}

/// Packets of a record, of both directions.
pub(crate) const fn volume(record: &FlowRecord) -> Volume {
    Volume {
        packets: record.packets + record.packets_rev,
        octets: record.octets + record.octets_rev,
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
    to: Box<dyn Output>,
    waiting: Vec<FlowRecord>,
    /// Records that came.
    pub(crate) came: Amount,
    pub(crate) written: Amount,
    /// Those that could not be written.
    pub(crate) unwritten: Amount,
    /// What went wrong first.
    why: Option<io::Error>,
    /// Nothing is written any more.
    has_failed: bool,
}

/// How an exporter ended that could not write something.
pub(crate) struct Failed {
    pub(crate) text: String,
    /// It could not go on.
    pub(crate) for_good: bool,
}

impl Exporter {
    pub(crate) fn begin(export: &Export, uniflow: bool) -> Result<Self, ProbeError> {
        let to: Box<dyn Output> = match export {
            Export::None => Box::new(Nowhere),
            Export::JsonLines(path) => Box::new(JsonLines::create(path)?),
            Export::IpfixFile(path) => Box::new(Ipfix::to_file(path, uniflow)?),
            Export::IpfixUdp(collector) => Box::new(Ipfix::over_udp(collector, uniflow)?),
            Export::IpfixTcp(collector) => Box::new(Ipfix::over_tcp(collector, uniflow)?),
        };
        Ok(Self {
            name: export.to_string(),
            to,
            waiting: Vec::with_capacity(BATCH),
            came: Amount::default(),
            written: Amount::default(),
            unwritten: Amount::default(),
            why: None,
            has_failed: false,
        })
    }

    /// Takes a record.
    pub(crate) fn export(&mut self, record: &FlowRecord) {
        self.came += Amount::of(record);
        self.waiting.push(*record);
        if self.waiting.len() >= BATCH {
            self.write();
        }
    }

    /// What waits to be written.
    pub(crate) fn held(&self) -> Amount {
        let mut held = Amount::default();
        self.waiting.iter().for_each(|one| held += Amount::of(one));
        held
    }

    /// Writes what waits.
    pub(crate) fn write(&mut self) {
        let mut waiting = mem::take(&mut self.waiting);
        let mut left = &waiting[..];
        while !left.is_empty() {
            let (to, done) = match self.step(left) {
                Ok(records) => (&mut self.written, records),
                Err(records) => (&mut self.unwritten, records),
            };
            let (now, next) = left.split_at(done.clamp(1, left.len()));
            now.iter().for_each(|record| *to += Amount::of(record));
            left = next;
        }
        waiting.clear();
        self.waiting = waiting;
    }

    /// How many of the first of these records were written, or could not be.
    fn step(&mut self, records: &[FlowRecord]) -> Result<usize, usize> {
        if self.has_failed {
            return Err(records.len());
        }
        self.to.write(records).map_err(|unwritten| {
            let Unwritten {
                records,
                why,
                goes_on,
            } = unwritten;
            self.has_failed = !goes_on;
            self.why.get_or_insert(why);
            records
        })
    }

    /// Brings it to its end.
    pub(crate) fn finish(self) -> Result<(), Failed> {
        let failed = |why: io::Error, for_good| Failed {
            text: format!("writing {}: {why}", self.name),
            for_good,
        };
        match self.why {
            Some(why) if self.has_failed => Err(failed(why, true)),
            why => {
                self.to.finish().map_err(|why| failed(why, true))?;
                why.map_or(Ok(()), |why| Err(failed(why, false)))
            }
        }
    }
}
