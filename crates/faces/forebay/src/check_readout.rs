//! `forebay check` of all files but those of event builders and chains.

use std::fmt;
use std::path::Path;

use forebay_config::{ConfigError, Source, load};
use forebay_run::chain::{self, Member};
use forebay_run_emu::card::CardPlan;
use forebay_run_emu::config::{FileKind, kind_of};
use forebay_run_emu::validate::BatchPlan;
use forebay_run_evb::config::Chain as EvbFile;
use forebay_run_felix::toflx::ToFlxPlan;
use forebay_run_felix::tohost::ToHostFile;
use serde::Serialize;

use crate::run::kinds;

/// What such a file says.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    file: String,
    good: bool,
    /// The kind of the file, as a member of a chain names it, or `batch`.
    kind: &'static str,
    /// E-links of a card.
    #[serde(skip_serializing_if = "Option::is_none")]
    elinks: Option<usize>,
    /// DMA buffers of a card, and the memory that they take together.
    #[serde(skip_serializing_if = "Option::is_none")]
    dma_buffers: Option<(usize, u64)>,
    /// Cards that to-host reads, or to-flx writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    devices: Option<usize>,
    /// Cards of a batch, and how many of them are faulty.
    #[serde(skip_serializing_if = "Option::is_none")]
    cards: Option<(usize, usize)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: good", self.file)?;
        if let (Some(elinks), Some((buffers, bytes))) = (self.elinks, self.dma_buffers) {
            let memory = forebay_report::text::bytes(bytes as f64);
            write!(
                f,
                "\n  a card of {elinks} E-links, DMA buffers: {buffers}, {memory} together"
            )?;
        }
        if let Some(devices) = self.devices {
            let name = if self.kind == "toflx" {
                "to-flx"
            } else {
                "to-host"
            };
            write!(f, "\n  {name}, cards: {devices}")?;
        }
        if let Some((cards, faulty)) = self.cards {
            write!(f, "\n  a batch of cards: {cards}, of them faulty: {faulty}")?;
        }
        Ok(())
    }
}

/// The kind of a file of a program that has nothing more to tell than that it is good; the event builder has.
fn check_kind(
    file: &Path,
    text: &str,
    said: &[String],
) -> Option<Result<&'static str, ConfigError>> {
    let kinds = kinds();
    let name = chain::kind_of(text, &kinds)?;
    let kind = kinds.iter().find(|kind| kind.name == name)?;
    let check = || {
        kind.check(&Source::read(file, said)?)?;
        Ok(name)
    };
    (name != EvbFile::KIND).then(check)
}

/// What a file of link readout says; none when it is no such file.
pub(crate) fn check(file: &Path, said: &[String]) -> Option<Result<Report, ConfigError>> {
    let text = std::fs::read_to_string(file).ok()?;
    let report = |kind| Report {
        file: file.display().to_string(),
        good: true,
        kind,
        elinks: None,
        dma_buffers: None,
        devices: None,
        cards: None,
    };
    let Some(kind) = kind_of(&text) else {
        return check_kind(file, &text, said).map(|kind| kind.map(report));
    };
    Some(match kind {
        FileKind::Card => load(file, said).map(|plan: CardPlan| {
            let (buffers, bytes) = (plan.config.buffers, plan.dma_bytes());
            Report {
                elinks: Some(plan.config.elinks.len()),
                dma_buffers: Some((buffers, bytes)),
                ..report("card")
            }
        }),
        FileKind::ToHost => load(file, said).map(|plan: ToHostFile| Report {
            devices: Some(plan.devices.len()),
            ..report("tohost")
        }),
        FileKind::Batch => load(file, said).map(|plan: BatchPlan| {
            let faulty = plan.cards.iter().filter(|card| !card.faults.is_empty());
            Report {
                cards: Some((plan.cards.len(), faulty.count())),
                ..report("batch")
            }
        }),
        FileKind::ToFlx => load(file, said).map(|plan: ToFlxPlan| Report {
            devices: Some(plan.cards.len()),
            ..report("toflx")
        }),
    })
}
