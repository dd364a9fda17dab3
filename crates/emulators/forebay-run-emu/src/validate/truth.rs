//! What is known of an emulated card, and how what the campaign said compares with it.

use std::collections::BTreeMap;

use forebay_emu::card::board::{Defect, Fault};
use forebay_readout::validate::{CardReport, Place, Verdict};
use serde::Serialize;

/// A fault that a card was given.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TruthFault {
    /// Its kind.
    pub kind: &'static str,
    /// Where it is.
    pub place: Place,
    /// In words.
    pub says: String,
    /// What cures it; none: nothing does.
    pub cure: Option<&'static str>,
}

/// How the first diagnosis compares with what the card was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judged {
    /// A good card that passed.
    Good,
    /// A good card that did not pass.
    FalseAlarm,
    /// A faulty card that passed.
    Missed,
    /// A faulty card whose likeliest suspect is one of its faults.
    Named,
    /// A faulty card that was found, and called something else.
    Misnamed,
}

/// What the emulator knows of a card.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Truth {
    /// What was wrong with it.
    pub faults: Vec<TruthFault>,
    /// How the campaign did.
    pub judged: Judged,
    /// Whether the place was right too.
    pub placed: bool,
    /// Whether it was let go with a fault.
    pub escaped: bool,
}

/// Where a defect shows.
#[must_use]
pub const fn place_of(defect: &Defect) -> Place {
    match *defect {
        Defect::StuckRegisterBit { address, bit, .. } => Place::Bit { address, bit },
        Defect::StuckAddressLine { line, .. } => Place::Line(line),
        Defect::DeadLink { link }
        | Defect::UnsteadyLink { link, .. }
        | Defect::BitErrors { link, .. }
        | Defect::MarkIgnored { link }
        | Defect::XoffStuck { link, .. } => Place::Link(link),
        Defect::SwappedLinks { links: [a, b] } => {
            if a < b {
                Place::Links(a, b)
            } else {
                Place::Links(b, a)
            }
        }
        Defect::StuckDataBit { buffer, bit, .. } => Place::BufferBit(buffer, bit),
        Defect::StuckDmaLine { buffer, line, .. } => Place::BufferLine(buffer, line),
        Defect::LostBlocks { buffer, .. } | Defect::NoInterrupt { buffer } => Place::Buffer(buffer),
        Defect::NoAnswer
        | Defect::WrongFirmware(_)
        | Defect::SlowMemory { .. }
        | Defect::TtcUnlocked
        | Defect::TriggersSkipped { .. }
        | Defect::BcrLost { .. } => Place::Card,
    }
}

/// Compares a report with the faults that the card had, and with those that are left.
#[must_use]
pub fn judge(faults: &[Fault], left: &[Fault], report: &CardReport) -> Truth {
    let first = report.rounds.first();
    let passed = report.verdict == Verdict::Passed;
    let likeliest = first.and_then(|round| round.diagnosis.first());
    let named =
        |fault: &&Fault| likeliest.is_some_and(|one| one.suspect.name() == fault.defect.name());
    let placed = |fault: &Fault| likeliest.is_some_and(|one| one.place == place_of(&fault.defect));
    let mut hits = faults.iter().filter(named);
    let judged = match (faults.is_empty(), passed) {
        (true, true) => Judged::Good,
        (true, false) => Judged::FalseAlarm,
        (false, true) => Judged::Missed,
        (false, false) if hits.clone().next().is_some() => Judged::Named,
        (false, false) => Judged::Misnamed,
    };
    Truth {
        faults: faults.iter().map(told).collect(),
        placed: judged == Judged::Named && hits.any(placed),
        judged,
        escaped: report.verdict != Verdict::Rejected && !left.is_empty(),
    }
}

fn told(fault: &Fault) -> TruthFault {
    TruthFault {
        kind: fault.defect.name(),
        place: place_of(&fault.defect),
        says: fault.defect.to_string(),
        cure: fault.cure.map(forebay_emu::card::board::Repair::name),
    }
}

/// Cards by the kind of their first fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByFault {
    /// Cards with it.
    pub cards: u64,
    /// Of them did not pass at first.
    pub found: u64,
    /// Of these were called by its name.
    pub named: u64,
    /// Of these at the right place.
    pub placed: u64,
    /// Good after a repair.
    pub recovered: u64,
    /// Not good in the end.
    pub rejected: u64,
    /// Let go with a fault.
    pub escaped: u64,
}

impl ByFault {
    /// Adds a card with a fault to the table of kinds.
    pub(super) fn add(table: &mut BTreeMap<&'static str, Self>, truth: &Truth, verdict: Verdict) {
        let Some(fault) = truth.faults.first() else {
            return;
        };
        let row = table.entry(fault.kind).or_default();
        row.cards += 1;
        row.found += u64::from(truth.judged != Judged::Missed);
        row.named += u64::from(truth.judged == Judged::Named);
        row.placed += u64::from(truth.placed);
        row.recovered += u64::from(verdict == Verdict::Recovered);
        row.rejected += u64::from(verdict == Verdict::Rejected);
        row.escaped += u64::from(truth.escaped);
    }
}
