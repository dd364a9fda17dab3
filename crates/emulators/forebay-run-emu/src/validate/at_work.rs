//! The same campaign over a card at work, through its door.

use std::path::Path;

use forebay_readout::validate::{Campaign, CardReport, Expected, Limits, Test, Verdict};
use forebay_run_felix::device::DeviceError;
use serde::Serialize;

use crate::diagnostics::{Diagnosed, board_of};

/// What the campaign says of a card at work.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceReport {
    /// What it is called.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// Whether its board is emulated: always true, as long as no other card has a door.
    pub emulated: bool,
    /// One round: nobody repairs a card at work.
    #[serde(flatten)]
    pub report: CardReport,
}

/// Tests the card that listens at `path`, in its own time, which is the host's. `begin` is told each test before it begins.
///
/// # Errors
/// There is no card, it has no diagnostics, or it ends meanwhile.
pub fn device(path: &Path, begin: impl FnMut(Test)) -> Result<DeviceReport, DeviceError> {
    let mut card = Diagnosed::open(path)?;
    let board = board_of(&card.info);
    let campaign = Campaign {
        expected: Expected {
            links: board.links,
            buffers: board.buffers,
            block_bytes: board.format.bytes(),
            ..Expected::default()
        },
        limits: Limits::in_real_time(),
    };
    let round = campaign.test(&mut card, begin)?;
    let verdict = if round.passed() {
        Verdict::Passed
    } else {
        Verdict::Rejected
    };
    Ok(DeviceReport {
        name: card.info.name.clone(),
        pid: card.info.pid,
        emulated: true,
        report: CardReport {
            rounds: vec![round],
            verdict,
        },
    })
}
