//! Reading a ledger: anyone may, at any time, without the writers noticing.

use std::sync::Arc;

use crate::directory::{Directory, WordRef};
use crate::error::LedgerError;
use crate::group::read_group;
use crate::histogram::{self, Histogram};
use crate::layout::Layout;
use crate::loss::{self, LossTable};
use crate::run::{Header, RunStatus};
use crate::schema::{Counter, Tally};
use crate::unit::Unit;
use crate::words::Words;

/// A ledger opened for reading by its own directory alone.
#[derive(Clone, Debug)]
pub struct LedgerReader {
    words: Words,
    directory: Arc<Directory>,
    layout: Layout,
    fingerprint: u64,
}

impl LedgerReader {
    /// Opens a ledger. Nothing in `words` is trusted: whatever they hold, the result is a
    /// ledger or a named error.
    ///
    /// # Errors
    /// Names what is wrong with the file.
    pub fn open(words: &Words) -> Result<Self, LedgerError> {
        let header = Header::read(words)?;
        let bytes = header.directory(words)?;
        let directory: Directory =
            serde_json::from_slice(&bytes).map_err(|error| LedgerError::Directory {
                detail: error.to_string(),
            })?;
        directory.check()?;
        let layout = Layout::of(&directory, bytes.len());
        header.expect("total words", header.total_words, layout.total_words as u64)?;
        RunStatus::read(words)?;
        let fingerprint = header.fingerprint;
        Ok(Self {
            words: words.clone(),
            directory: Arc::new(directory),
            layout,
            fingerprint,
        })
    }

    /// The run's name.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.directory.run_id
    }

    /// The hash of all declarations.
    #[must_use]
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The run's header, now.
    ///
    /// # Errors
    /// The condition word has no meaning.
    pub fn run_status(&self) -> Result<RunStatus, LedgerError> {
        RunStatus::read(&self.words)
    }

    /// Copies all groups, each consistent in itself. Two groups may be read at different instants:
    /// while data flows, a link between them shows what is on its way.
    ///
    /// # Errors
    /// A group that its writer commits faster than it can be read, or a meaningless condition word.
    pub fn snapshot(&self) -> Result<Snapshot, LedgerError> {
        let groups = self
            .layout
            .groups
            .iter()
            .zip(&self.directory.groups)
            .map(|(place, entry)| {
                let busy = || LedgerError::Busy {
                    group: entry.name.clone(),
                    attempts: crate::group::READ_ATTEMPTS,
                };
                read_group(&self.words, place).ok_or_else(busy)
            });
        let groups = groups.collect::<Result<Vec<_>, _>>()?;
        Ok(Snapshot {
            run: RunStatus::read(&self.words)?,
            directory: Arc::clone(&self.directory),
            losses: self.losses(&groups),
            histograms: self.histograms(),
            groups,
        })
    }

    fn losses(&self, groups: &[Vec<u64>]) -> Vec<LossTable> {
        let tables = self
            .directory
            .loss_tables
            .iter()
            .zip(&self.layout.loss_tables);
        tables
            .filter_map(|(entry, &start)| {
                let rows = self
                    .words
                    .get(start..start + entry.rows as usize * loss::ROW_WORDS)?;
                Some(loss::read_table(
                    rows,
                    entry,
                    groups.get(entry.group as usize)?,
                ))
            })
            .collect()
    }

    fn histograms(&self) -> Vec<Histogram> {
        let places = self
            .directory
            .histograms
            .iter()
            .zip(&self.layout.histograms);
        places
            .filter_map(|(entry, &start)| {
                Some(Histogram::read(
                    self.words.get(start..start + histogram::WORDS)?,
                    entry,
                ))
            })
            .collect()
    }
}

/// One metric, gauge or cursor of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricLine<'a> {
    /// Name of its group.
    pub group: &'a str,
    /// Its name, the unit last.
    pub name: &'a str,
    /// Whose it is; may be empty.
    pub owner: &'a str,
    /// Its value.
    pub value: u64,
}

/// A copy of a whole ledger.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) directory: Arc<Directory>,
    pub(crate) groups: Vec<Vec<u64>>,
    /// The run's header.
    pub run: RunStatus,
    /// The loss tables, in order of declaration.
    pub losses: Vec<LossTable>,
    /// The histograms, in order of declaration.
    pub histograms: Vec<Histogram>,
}

impl Snapshot {
    /// The run's name.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.directory.run_id
    }

    /// What kind of program writes it; none in a ledger that does not say so, as of version 1 of the layout.
    #[must_use]
    pub fn program(&self) -> Option<&str> {
        Some(self.directory.program.as_str()).filter(|name| !name.is_empty())
    }

    /// The places and units of the accounts that stand for what the program does.
    pub fn headline(&self) -> impl Iterator<Item = (&str, Unit)> {
        let accounts = self.directory.headline.iter();
        let accounts = accounts.filter_map(|at| self.directory.accounts.get(*at as usize));
        accounts.map(|account| (account.place.as_str(), account.unit))
    }

    /// The value of a word, for callers that declared the schema. 0 for a word of another schema.
    #[must_use]
    pub fn value(&self, counter: Counter) -> u64 {
        self.at(counter.reference())
    }

    /// Items and bytes of one term, for callers that declared the schema.
    #[must_use]
    pub fn tally(&self, tally: Tally) -> (u64, u64) {
        (self.value(tally.items), self.value(tally.bytes))
    }

    /// All metrics, gauges and cursors, in order of declaration, for callers that did not declare the schema.
    pub fn metrics(&self) -> impl Iterator<Item = MetricLine<'_>> {
        self.directory.metrics.iter().map(|entry| MetricLine {
            group: self
                .directory
                .groups
                .get(entry.at.group as usize)
                .map_or("", |group| &group.name),
            name: &entry.name,
            owner: &entry.owner,
            value: self.at(entry.at),
        })
    }

    /// The value of a metric or cursor by the names of its group, itself and its owner, for callers
    /// that did not declare the schema.
    #[must_use]
    pub fn metric(&self, group: &str, name: &str, owner: &str) -> Option<u64> {
        let group = self
            .directory
            .groups
            .iter()
            .position(|entry| entry.name == group)?;
        let is_it = |m: &&crate::directory::MetricEntry| {
            m.at.group as usize == group && m.name == name && m.owner == owner
        };
        self.directory
            .metrics
            .iter()
            .find(is_it)
            .map(|metric| self.at(metric.at))
    }

    pub(crate) fn at(&self, at: WordRef) -> u64 {
        let group = self.groups.get(at.group as usize);
        group
            .and_then(|words| words.get(at.word as usize))
            .copied()
            .unwrap_or(0)
    }

    /// Items at `at`, bytes in the word after it.
    pub(crate) fn pair(&self, at: WordRef) -> (u64, u64) {
        (
            self.at(at),
            self.at(WordRef {
                word: at.word + 1,
                ..at
            }),
        )
    }
}
