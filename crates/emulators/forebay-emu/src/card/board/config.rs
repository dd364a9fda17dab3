//! What an emulated board is.

use forebay_wire::felix::BlockFormat;
use forebay_wire::felix::board::{BOARD_BUFFERS as BUFFERS, BOARD_LINKS as MOST_LINKS, Register};
use thiserror::Error;

use super::defect::{Defect, Fault};
use crate::config::{ConfigError, in_range};

/// Least and most links of a board.
pub const BOARD_LINKS: (usize, usize) = (1, MOST_LINKS);
/// Least and most DMA buffers of a board.
pub const BOARD_BUFFERS: (usize, usize) = (1, BUFFERS);
/// What `BOARD_ID` says.
pub const BOARD_KIND: u64 = 0x712;
/// The firmware that a board should have.
pub const BOARD_FIRMWARE: Firmware = Firmware {
    version: 0x0502_0003,
    commit: 0x1f3c_9a7e,
    mode: 1,
};

/// A firmware, as registers name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Firmware {
    /// Major and minor, 8 bits each, and patch, 16 bits.
    pub version: u32,
    /// The first 32 bits of its commit.
    pub commit: u32,
    /// What its links speak, 4 bits.
    pub mode: u8,
}

/// An emulated board.
#[derive(Debug, Clone, PartialEq)]
pub struct BoardConfig {
    /// Links, 1 to 24.
    pub links: usize,
    /// DMA buffers, 1 to 8.
    pub buffers: usize,
    /// Size and marker of blocks. Default Phase II, 4 KiB.
    pub format: BlockFormat,
    /// Bits of a link in a second. Default 9.6 Gb/s, as in FULL mode.
    pub lane_bps: f64,
    /// Share of wrong bits of a link on which nothing is wrong. Default 1e-15.
    pub lane_error_rate: f64,
    /// Bytes that all DMA buffers take in a second. Default 6.4 GB/s: what eight lanes of PCIe 3.0 carry, about.
    pub dma_bytes_per_s: f64,
    /// All that is random follows from it. Default 1.
    pub seed: u64,
    /// What is broken. Default nothing.
    pub faults: Vec<Fault>,
}

/// Why there is no such board.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum BoardError {
    /// A number out of its range.
    #[error(transparent)]
    Range(#[from] ConfigError),
    /// A fault of a register that there is not.
    #[error(
        "no bit {bit} of a register at address {address:#x}: a fault needs one that the card has"
    )]
    NoRegisterBit {
        /// The address.
        address: u32,
        /// The bit.
        bit: u8,
    },
}

impl BoardConfig {
    /// A sound board with so many links and DMA buffers.
    #[must_use]
    pub fn new(links: usize, buffers: usize) -> Self {
        Self {
            links,
            buffers,
            format: BlockFormat::phase2(4096).unwrap_or(BlockFormat::PHASE1),
            lane_bps: 9.6e9,
            lane_error_rate: 1e-15,
            dma_bytes_per_s: 6.4e9,
            seed: 1,
            faults: Vec::new(),
        }
    }

    pub(super) fn validate(&self) -> Result<(), BoardError> {
        in_range("links", self.links, BOARD_LINKS.0, BOARD_LINKS.1)?;
        in_range("buffers", self.buffers, BOARD_BUFFERS.0, BOARD_BUFFERS.1)?;
        in_range("lane_bps", self.lane_bps, 1e6, 1e12)?;
        in_range("lane_error_rate", self.lane_error_rate, 0.0, 0.5)?;
        in_range("dma_bytes_per_s", self.dma_bytes_per_s, 1e6, 1e12)?;
        self.faults
            .iter()
            .try_for_each(|fault| self.has(&fault.defect))
    }

    /// Whether it has the part that this fault breaks.
    ///
    /// # Errors
    /// It has not.
    pub fn bears(&self, fault: &Fault) -> Result<(), BoardError> {
        self.has(&fault.defect)
    }

    fn has(&self, defect: &Defect) -> Result<(), BoardError> {
        let link = |link: u8| in_range("faults.link", usize::from(link), 0, self.links - 1);
        let buffer =
            |buffer: u8| in_range("faults.buffer", usize::from(buffer), 0, self.buffers - 1);
        match *defect {
            Defect::StuckRegisterBit { address, bit, .. } => {
                let found = Register::find(address).filter(|found| bit < found.0.width_bits);
                found.ok_or(BoardError::NoRegisterBit { address, bit })?;
            }
            Defect::StuckAddressLine { line, .. } => in_range("faults.line", line, 4, 11)?,
            Defect::DeadLink { link: of }
            | Defect::MarkIgnored { link: of }
            | Defect::XoffStuck { link: of, .. } => link(of)?,
            Defect::UnsteadyLink { link: of, fails } => {
                link(of)?;
                in_range("faults.chance", fails, 0.0, 1.0)?;
            }
            Defect::SwappedLinks { links } => {
                links.into_iter().try_for_each(link)?;
                in_range("faults.links", u8::from(links[0] != links[1]), 1, 1)?;
            }
            Defect::BitErrors { link: of, rate } => {
                link(of)?;
                in_range("faults.rate", rate, 0.0, 0.5)?;
            }
            Defect::StuckDataBit {
                buffer: of, bit, ..
            } => {
                buffer(of)?;
                in_range("faults.bit", bit, 0, 31)?;
            }
            Defect::StuckDmaLine {
                buffer: of, line, ..
            } => {
                buffer(of)?;
                in_range("faults.line", line, 2, 9)?;
            }
            Defect::LostBlocks { buffer: of, every } => {
                buffer(of)?;
                in_range("faults.every", every, 2, u64::MAX)?;
            }
            Defect::NoInterrupt { buffer: of } => buffer(of)?,
            Defect::SlowMemory { share } => in_range("faults.share", share, 0.001, 1.0)?,
            Defect::TriggersSkipped { every } => in_range("faults.every", every, 2, u64::MAX)?,
            Defect::BcrLost { chance } => in_range("faults.chance", chance, 0.0, 1.0)?,
            Defect::NoAnswer | Defect::WrongFirmware(_) | Defect::TtcUnlocked => {}
        }
        Ok(())
    }
}
