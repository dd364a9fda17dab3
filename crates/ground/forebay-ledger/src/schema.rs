//! Declaring a ledger: the same calls in every process give the same handles.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::directory::{
    ACCOUNT_FIXED_WORDS, AccountEntry, ConfirmedEntry, Directory, GroupEntry, HistogramEntry,
    HostEntry, LossTableEntry, MetricEntry, MetricKind, WordRef, fingerprint,
};
use crate::error::{LedgerError, SchemaError};
use crate::layout::Layout;
use crate::link::LinkSpec;
use crate::loss::TABLE_WORDS;
use crate::reason::{DropReason, Lossless};
use crate::unit::Unit;

/// A group: the unit of atomic commit, with one writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(pub(crate) u32);

/// An account, for links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccountId(pub(crate) u32);

/// A link between accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkId(pub(crate) u32);

/// A histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HistogramId(pub(crate) u32);

/// A loss table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LossTableId(pub(crate) u32);

/// One word of a group. It knows its group, so that it can be used in a link as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Counter {
    pub(crate) group: u32,
    pub(crate) word: u32,
}

impl Counter {
    /// The group whose book holds this word.
    #[must_use]
    pub const fn group(self) -> GroupId {
        GroupId(self.group)
    }

    pub(crate) const fn reference(self) -> WordRef {
        WordRef {
            group: self.group,
            word: self.word,
        }
    }
}

/// Items and bytes of one term of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tally {
    /// Number of items.
    pub items: Counter,
    /// Their bytes; always the word after `items`.
    pub bytes: Counter,
}

impl Tally {
    const fn at(group: u32, word: u32) -> Self {
        Self {
            items: Counter { group, word },
            bytes: Counter {
                group,
                word: word + 1,
            },
        }
    }
}

/// The terms of one account. Each is counted where its event happens; none from the others.
///
/// `R` are the reasons for which it loses items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account<R = Lossless> {
    /// What came in.
    pub incoming: Tally,
    /// What went on.
    pub outgoing: Tally,
    /// What is inside now: counted up on arrival, down on leaving.
    pub held: Tally,
    /// What was lost here, each term at the place of its reason.
    dropped: Vec<Tally>,
    of: PhantomData<fn() -> R>,
}

impl<R: DropReason> Account<R> {
    /// What was lost here for this reason.
    #[must_use]
    pub fn lost(&self, why: R) -> Tally {
        self.dropped[why.index()]
    }

    /// What was lost here, reason by reason.
    pub fn losses(&self) -> impl Iterator<Item = (R, Tally)> {
        R::all().zip(self.dropped.iter().copied())
    }
}

/// Collects declarations; [`finish`](Self::finish) checks them all.
#[derive(Clone, Debug, Default)]
pub struct SchemaBuilder {
    directory: Directory,
    reason_sets: HashMap<Vec<String>, u32>,
    error: Option<SchemaError>,
}

impl SchemaBuilder {
    /// Starts the ledger of the run `run_id`.
    #[must_use]
    pub fn new(run_id: &str) -> Self {
        let directory = Directory {
            run_id: run_id.to_owned(),
            ..Directory::default()
        };
        Self {
            directory,
            ..Self::default()
        }
    }

    /// Names the program that writes it, such as `tdm-send`.
    pub fn program(&mut self, name: &str) {
        name.clone_into(&mut self.directory.program);
    }

    /// States that `account`, and all others of its place and unit, stand for what the program does: what goes out there is what a reader wants to see first.
    pub fn headline(&mut self, account: AccountId) {
        let of = |at: u32| {
            let account = self.directory.accounts.get(at as usize);
            account.map(|account| (&account.place, account.unit))
        };
        let (new, mut before) = (of(account.0), self.directory.headline.iter());
        if !before.any(|at| of(*at) == new) {
            self.directory.headline.push(account.0);
        }
    }

    /// Declares a group: counters and cursors that commit as one record, by one writer.
    pub fn group(&mut self, name: &str) -> GroupId {
        let id = self.directory.groups.len() as u32;
        self.directory.groups.push(GroupEntry {
            name: name.to_owned(),
            words: 0,
        });
        GroupId(id)
    }

    /// Declares the account of `owner` at `place`, all of whose terms are words of `group`.
    ///
    /// Each reason of `R` to lose an item gets a term of its own; there is no "other". An account that loses nothing has [`Lossless`].
    pub fn account<R: DropReason>(
        &mut self,
        group: GroupId,
        place: &str,
        owner: &str,
        unit: Unit,
    ) -> (AccountId, Account<R>) {
        let reasons: Vec<&str> = R::all().map(DropReason::name).collect();
        let id = self.directory.accounts.len() as u32;
        let base = self.claim(group, ACCOUNT_FIXED_WORDS + 2 * reasons.len() as u32);
        let reason_set = self.reason_set(&reasons);
        self.directory.accounts.push(AccountEntry {
            group: group.0,
            base,
            place: place.to_owned(),
            owner: owner.to_owned(),
            unit,
            reasons: reason_set,
            one_observer: false,
        });
        let term = |index: u32| Tally::at(group.0, base + 2 * index);
        let dropped = (0..reasons.len() as u32)
            .map(|index| term(3 + index))
            .collect();
        (
            AccountId(id),
            Account {
                incoming: term(0),
                outgoing: term(1),
                held: term(2),
                dropped,
                of: PhantomData,
            },
        )
    }

    /// Declares an account whose terms only one observer can see, such as what another program says of its own: its numbers are shown, with the words *not
    /// balanced: one observer* in the place of a residual. A residual of numbers from one observer would be 0 whatever happens, and prove nothing.
    pub fn unbalanced_account<R: DropReason>(
        &mut self,
        group: GroupId,
        place: &str,
        owner: &str,
        unit: Unit,
    ) -> (AccountId, Account<R>) {
        let declared = self.account(group, place, owner, unit);
        self.last_has_one_observer();
        declared
    }

    fn last_has_one_observer(&mut self) {
        if let Some(entry) = self.directory.accounts.last_mut() {
            entry.one_observer = true;
        }
    }

    /// Declares what the peer of `account` has acknowledged of what went out of it, by the peer's own count, in items and bytes. The rest is
    /// *unconfirmed*: a state of the sender's knowledge, in no balance.
    pub fn confirmed(&mut self, account: AccountId) -> Tally {
        let accounts = &self.directory.accounts;
        let group = accounts.get(account.0 as usize).map(|entry| entry.group);
        // Of a foreign account the check finds out.
        let group = group.unwrap_or(u32::MAX);
        let base = self.claim(GroupId(group), 2);
        let tally = Tally::at(group, base);
        self.directory.confirmed.push(ConfirmedEntry {
            account: account.0,
            at: tally.items.reference(),
        });
        tally
    }

    /// Declares a named word that commits with the counters but is no term of an account: a ring
    /// position, a file offset.
    pub fn cursor(&mut self, group: GroupId, name: &str) -> Counter {
        self.metric(group, MetricKind::Cursor, name, "", "")
    }

    /// Declares two cursor words, `name_items` and `name_bytes`: what a ring's producer has published, or its consumer taken.
    pub fn cursor_tally(&mut self, group: GroupId, name: &str) -> Tally {
        let items = self.cursor(group, &format!("{name}_items"));
        let bytes = self.cursor(group, &format!("{name}_bytes"));
        Tally { items, bytes }
    }

    /// Declares a metric that goes up and down. `owner` may be empty; the unit is last in the name.
    pub fn gauge(&mut self, group: GroupId, name: &str, owner: &str, help: &str) -> Counter {
        self.metric(group, MetricKind::Gauge, name, owner, help)
    }

    /// Declares a metric that only goes up. `owner` may be empty; the name comes without `_total`.
    pub fn counter(&mut self, group: GroupId, name: &str, owner: &str, help: &str) -> Counter {
        self.metric(group, MetricKind::Counter, name, owner, help)
    }

    /// Declares the named loss of a link, to be counted in `group` in items and bytes.
    pub fn link_drop(&mut self, group: GroupId) -> Tally {
        let base = self.claim(group, 2);
        Tally::at(group.0, base)
    }

    /// Declares the kernel's drop counter of a link: items only.
    pub fn kernel_drop(&mut self, group: GroupId) -> Counter {
        let word = self.claim(group, 1);
        Counter {
            group: group.0,
            word,
        }
    }

    /// Declares a loss that belongs to the whole host (such as `Ip: ReasmFails`). It is charged to
    /// the owner `host` for information, never to a source.
    pub fn host_term(&mut self, group: GroupId, place: &str, reason: &str) -> Counter {
        let word = self.claim(group, 1);
        let at = WordRef {
            group: group.0,
            word,
        };
        self.directory.host.push(HostEntry {
            at,
            place: place.to_owned(),
            reason: reason.to_owned(),
        });
        Counter {
            group: group.0,
            word,
        }
    }

    /// Declares the connection between two hops.
    pub fn link(&mut self, spec: LinkSpec) -> LinkId {
        let id = self.directory.links.len() as u32;
        self.directory.links.push(spec.into_entry());
        LinkId(id)
    }

    /// Declares a histogram `name` of values in `unit` (`ns`, `bytes`, `items`). `owner` may be empty.
    pub fn histogram(&mut self, name: &str, unit: &str, owner: &str) -> HistogramId {
        let id = self.directory.histograms.len() as u32;
        self.directory.histograms.push(HistogramEntry {
            name: name.to_owned(),
            unit: unit.to_owned(),
            owner: owner.to_owned(),
        });
        HistogramId(id)
    }

    /// Declares a table of `rows` lost ranges whose row count commits with `group`. A row names its
    /// cause by the index in `causes`, a list of (place, reason).
    pub fn loss_table(
        &mut self,
        group: GroupId,
        rows: u32,
        causes: &[(&str, &str)],
    ) -> LossTableId {
        let id = self.directory.loss_tables.len() as u32;
        let base = self.claim(group, TABLE_WORDS);
        let causes = causes
            .iter()
            .map(|&(place, reason)| (place.to_owned(), reason.to_owned()))
            .collect();
        self.directory.loss_tables.push(LossTableEntry {
            group: group.0,
            base,
            rows,
            causes,
        });
        LossTableId(id)
    }

    /// Checks the declarations and fixes the layout.
    ///
    /// # Errors
    /// The first declaration that cannot stand.
    pub fn finish(self) -> Result<Schema, SchemaError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        Schema::of(self.directory).map_err(|error| match error {
            LedgerError::Declaration(error) => error,
            LedgerError::OutOfBounds { what, .. } => SchemaError::ForeignHandle { what },
            _ => SchemaError::ForeignHandle { what: "schema" },
        })
    }

    fn metric(
        &mut self,
        group: GroupId,
        kind: MetricKind,
        name: &str,
        owner: &str,
        help: &str,
    ) -> Counter {
        let word = self.claim(group, 1);
        self.directory.metrics.push(MetricEntry {
            at: WordRef {
                group: group.0,
                word,
            },
            kind,
            name: name.to_owned(),
            owner: owner.to_owned(),
            help: help.to_owned(),
        });
        Counter {
            group: group.0,
            word,
        }
    }

    /// Takes `words` words of `group` and returns the first.
    fn claim(&mut self, group: GroupId, words: u32) -> u32 {
        let Some(entry) = self.directory.groups.get_mut(group.0 as usize) else {
            self.error
                .get_or_insert(SchemaError::ForeignHandle { what: "group" });
            return 0;
        };
        let base = entry.words;
        entry.words = base.saturating_add(words);
        base
    }

    fn reason_set(&mut self, reasons: &[&str]) -> u32 {
        let reasons: Vec<String> = reasons.iter().map(|&reason| reason.to_owned()).collect();
        if let Some(&known) = self.reason_sets.get(&reasons) {
            return known;
        }
        let id = self.directory.reasons.len() as u32;
        self.directory.reasons.push(reasons.clone());
        self.reason_sets.insert(reasons, id);
        id
    }
}

/// A checked declaration with its layout. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Schema {
    pub(crate) directory: Arc<Directory>,
    pub(crate) json: Arc<[u8]>,
    pub(crate) layout: Arc<Layout>,
    fingerprint: u64,
}

impl Schema {
    fn of(directory: Directory) -> Result<Self, LedgerError> {
        directory.check()?;
        let json = serde_json::to_vec(&directory).map_err(|error| LedgerError::Directory {
            detail: error.to_string(),
        })?;
        let layout = Layout::of(&directory, json.len());
        Ok(Self {
            fingerprint: fingerprint(&json),
            directory: Arc::new(directory),
            json: json.into(),
            layout: Arc::new(layout),
        })
    }

    /// Size of the file in 64-bit words.
    #[must_use]
    pub fn words_needed(&self) -> usize {
        self.layout.total_words
    }

    /// Size of the file in bytes.
    #[must_use]
    pub fn bytes_needed(&self) -> usize {
        self.words_needed() * 8
    }

    /// A hash of all declarations: a process may use a file only when both agree.
    #[must_use]
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The run's name.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.directory.run_id
    }
}
