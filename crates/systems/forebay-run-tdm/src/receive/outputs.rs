//! What is made of packets and windows as they come, beside streams and books.

use std::path::PathBuf;

use forebay_ledger::{Balance, Taint, TaintKind};
use forebay_run::record::Record;
use forebay_sys::watched::OUTPUT_REMOVED;
use forebay_tdm::plan::Plan;
use forebay_tdm::receiver::Row;

use super::super::TdmError;
use super::found::Found;
use super::histograms::Histograms;
use super::original::{OriginalCsv, OriginalFile};
use super::rows::RowFile;
use super::watch::{Came, Watch};
use super::{Output, ReceivePlan, ReceiveSummary};

/// What is told of packets and windows to those in memory, on the thread that receives: they wait for nobody. One that fails is told of at the end, and not tried again.
pub(super) struct Outputs<'a> {
    histograms: Option<Histograms>,
    watches: Vec<&'a mut dyn Watch>,
    /// What failed first.
    pub(super) failed: Option<String>,
}

impl<'a> Outputs<'a> {
    pub(super) fn create(
        plan: &ReceivePlan,
        watches: Vec<&'a mut dyn Watch>,
    ) -> Result<Self, TdmError> {
        let histograms = plan.histograms.as_deref();
        Ok(Self {
            histograms: histograms.map(Histograms::create).transpose()?,
            watches,
            failed: None,
        })
    }

    pub(super) fn joined(&mut self, sender: usize, name: &str) {
        let Ok(sender) = u16::try_from(sender) else {
            return;
        };
        if let Some(histograms) = &mut self.histograms {
            histograms.joined(sender, name);
        }
        for watch in &mut self.watches {
            watch.joined(sender, name);
        }
    }

    /// There is a plan; the first window begins at `start_ns`.
    pub(super) fn planned(&mut self, plan: &Plan, start_ns: u64) {
        for watch in &mut self.watches {
            watch.planned(plan, start_ns);
        }
    }

    #[inline]
    pub(super) fn packet(&mut self, came: &Came) {
        if let Some(histograms) = &mut self.histograms {
            histograms.packet(came);
        }
        for watch in &mut self.watches {
            watch.packet(came);
        }
    }

    pub(super) fn window(&mut self, row: &Row, wall_ns: i64) {
        if let Some(histograms) = &mut self.histograms {
            histograms.window(row);
        }
        let mut failed = None;
        self.watches
            .retain_mut(|watch| match watch.window(row, wall_ns) {
                Ok(()) => true,
                Err(error) => {
                    failed.get_or_insert(error);
                    false
                }
            });
        failed.into_iter().for_each(|error| self.fail(error));
    }

    fn fail(&mut self, error: String) {
        self.failed.get_or_insert(error);
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self) {
        if let Some(Err(error)) = self.histograms.take().map(Histograms::finish) {
            self.fail(error);
        }
    }

    /// The books are closed: what tells of them is written, and its failure goes into the record.
    pub(super) fn conclude(&mut self, record: &mut Record<ReceiveSummary>, balance: &Balance) {
        for watch in &mut self.watches {
            if let Err(error) = watch.finish(record, balance) {
                if error.contains(OUTPUT_REMOVED) {
                    let taint = Taint::new(TaintKind::OutputRemoved, error.clone());
                    record.envelope.taints.push(taint);
                }
                record.envelope.fail(error);
            }
        }
    }
}

/// Files with a line for each window or packet, which the writer has.
#[derive(Default)]
pub(super) struct Files {
    /// Directory, form, windows, and whether packets have a keyed hash: what the original's file is made from.
    csv: Option<(PathBuf, OriginalCsv, u32, bool)>,
    rows: Option<RowFile>,
    original: Option<OriginalFile>,
    /// What failed first.
    pub(super) failed: Option<String>,
}

impl Files {
    pub(super) fn create(plan: &ReceivePlan) -> Result<Self, TdmError> {
        let rows = match (&plan.output, plan.rows) {
            (Output::Directory(directory), true) => Some(RowFile::create(directory)?),
            _ => None,
        };
        let csv = match (&plan.output, &plan.csv) {
            (Output::Directory(directory), Some(csv)) => Some((
                directory.clone(),
                csv.clone(),
                plan.windows,
                plan.key.is_some(),
            )),
            _ => None,
        };
        Ok(Self {
            csv,
            rows,
            original: None,
            failed: None,
        })
    }

    /// There is a plan, by which the original's file has its name.
    pub(super) fn planned(&mut self, plan: &Plan) -> Result<(), TdmError> {
        if let Some((directory, csv, windows, keyed)) = &self.csv {
            let file = OriginalFile::create(directory, csv, *windows, plan, *keyed)?;
            self.original = Some(file);
        }
        Ok(())
    }

    #[inline]
    pub(super) fn packet(&mut self, came: &Came, wall_ns: i64) {
        let original = self.original.as_mut();
        let done = original.map(|it| it.packet(came, wall_ns).map_err(|error| it.told(&error)));
        if let Some(Err(error)) = done {
            self.failed.get_or_insert(error);
            self.original = None;
        }
    }

    pub(super) fn window(&mut self, row: &Row, wall_ns: i64) {
        let rows = self.rows.as_mut();
        let done = rows.map(|it| it.write(row, wall_ns).map_err(|error| it.told(&error)));
        if let Some(Err(error)) = done {
            self.failed.get_or_insert(error);
            self.rows = None;
        }
        let original = self.original.as_mut();
        let done = original.map(|it| it.window(row, wall_ns).map_err(|error| it.told(&error)));
        if let Some(Err(error)) = done {
            self.failed.get_or_insert(error);
            self.original = None;
        }
    }

    /// What somebody did to them.
    pub(super) fn look(&mut self, found: &mut Found) {
        if let Some(rows) = &mut self.rows {
            rows.look(found);
        }
        if let Some(original) = &mut self.original {
            original.look(found);
        }
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self, found: &mut Found) {
        let original = self.original.take();
        let done = original.map(|mut it| {
            let done = it.finish().map_err(|error| it.told(&error));
            it.look(found);
            done
        });
        if let Some(Err(error)) = done {
            self.failed.get_or_insert(error);
        }
        let rows = self.rows.take();
        let done = rows.map(|mut it| {
            let done = it.finish().map_err(|error| it.told(&error));
            it.look(found);
            done
        });
        if let Some(Err(error)) = done {
            self.failed.get_or_insert(error);
        }
    }
}
