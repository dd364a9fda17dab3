//! Validation of cards: a batch of emulated ones, whose faults are known and are compared with what the campaign says, and the card behind a socket.

mod at_work;
mod batch;
mod bench;
mod truth;

pub use at_work::{DeviceReport, device};
pub use batch::{BatchPlan, BatchReport, CardPlan, Step, Summary, ValidatedCard, run};
pub use truth::{ByFault, Judged, Truth, TruthFault, judge, place_of};

pub use forebay_readout::validate::{
    Bound, CardReport, Measurement, Outcome, Round, Test, Verdict,
};
use thiserror::Error;

/// Kinds of faults, in the order in which they are listed.
pub const FAULT_KINDS: &[&str] = forebay_emu::card::board::DefectKind::NAMES;

/// Why a campaign could not be carried out.
#[derive(Debug, Error)]
pub enum ValidateError {
    /// A card that there cannot be.
    #[error("{card}: {source}")]
    Board {
        /// Name of the card.
        card: String,
        /// What is wrong.
        source: forebay_emu::card::board::BoardError,
    },
    /// The memory of a DMA buffer.
    #[error("DMA buffer: {0}")]
    Ring(#[from] forebay_ring::RingError),
    /// More faulty cards than cards.
    #[error("{faulty} of {cards} cards cannot be faulty; name as many or fewer")]
    Faulty {
        /// Cards.
        cards: usize,
        /// Of them faulty.
        faulty: usize,
    },
}

#[cfg(test)]
mod tests;
