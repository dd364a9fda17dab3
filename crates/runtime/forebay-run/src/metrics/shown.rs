//! What a process shows at its door: ledgers, as they come, tables beside them, and its processor time.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_ledger::prometheus::{Family, Sheet};
use forebay_ledger::{LedgerError, LedgerReader};
use forebay_sys::process;

use super::MetricsServer;
use crate::error::RunError;

/// A ledger, and what tells its samples from those of the others.
struct Ledger {
    label: Option<(&'static str, String)>,
    reader: LedgerReader,
    only_used: bool,
}

type Table = Box<dyn Fn() -> Vec<Family> + Send>;

#[derive(Default)]
struct Shelf {
    ledgers: Vec<Ledger>,
    tables: Vec<Table>,
}

/// A cheap handle on everything that one process shows; clones add to the same page.
#[derive(Clone, Default)]
pub struct Shown {
    shelf: Arc<Mutex<Shelf>>,
    label: Option<(&'static str, String)>,
    server: Option<Arc<MetricsServer>>,
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown")
            .field("label", &self.label)
            .finish_non_exhaustive()
    }
}

impl From<LedgerReader> for Shown {
    fn from(reader: LedgerReader) -> Self {
        let shown = Self::default();
        shown.add_ledger(reader);
        shown
    }
}

impl Shown {
    /// The same page, for one of several ledgers of a kind: what is added through this handle has a further label.
    #[must_use]
    pub fn labelled(&self, name: &'static str, value: &str) -> Self {
        Self {
            shelf: Arc::clone(&self.shelf),
            label: Some((name, value.to_owned())),
            server: self.server.clone(),
        }
    }

    /// Serves the page at `address` as long as this handle, or one made from it, lives.
    ///
    /// # Errors
    /// The address is in use or not ours.
    pub fn served_at(mut self, address: SocketAddr) -> Result<Self, RunError> {
        let server = MetricsServer::start(address, self.clone())?;
        self.server = Some(Arc::new(server));
        Ok(self)
    }

    /// Where it is served, if it is.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(|server| server.address())
    }

    /// Shows a ledger from now on.
    pub fn add_ledger(&self, reader: LedgerReader) {
        self.add(reader, false);
    }

    /// The same for one with places that may never be taken: their accounts are shown once something is in them.
    pub fn add_places(&self, reader: LedgerReader) {
        self.add(reader, true);
    }

    fn add(&self, reader: LedgerReader, only_used: bool) {
        self.shelf().ledgers.push(Ledger {
            label: self.label.clone(),
            reader,
            only_used,
        });
    }

    /// Shows what `table` says whenever it is asked.
    pub fn add_table(&self, table: impl Fn() -> Vec<Family> + Send + 'static) {
        self.shelf().tables.push(Box::new(table));
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        // A thread that panicked had put in a whole entry, or none.
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything as it is now. Tables of the same family are joined.
    pub(super) fn now(&self) -> Result<(Vec<Sheet>, Vec<Family>), LedgerError> {
        let shelf = self.shelf();
        let sheet = |ledger: &Ledger| {
            Ok::<_, LedgerError>(Sheet {
                label: ledger.label.clone(),
                snapshot: Arc::new(ledger.reader.snapshot()?),
                only_used: ledger.only_used,
            })
        };
        let sheets = shelf.ledgers.iter().map(sheet).collect::<Result<_, _>>()?;
        let mut families: Vec<Family> = vec![cpu()];
        for one in shelf.tables.iter().flat_map(|table| table()) {
            match families.iter_mut().find(|known| known.name == one.name) {
                Some(known) => known.samples.extend(one.samples),
                None => families.push(one),
            }
        }
        Ok((sheets, families))
    }
}

/// Processor time of the process, children that were waited for not included.
fn cpu() -> Family {
    let cpu = process::own_cpu_time();
    let sample = |mode: &str, ns: u64| (vec![("mode", mode.to_owned())], ns as f64 / 1e9);
    Family {
        name: "process_cpu_seconds",
        help: "Processor time of this process",
        is_counter: true,
        samples: vec![sample("user", cpu.user_ns), sample("system", cpu.system_ns)],
    }
}
