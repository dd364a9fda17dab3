//! The board of an emulated card as its diagnostics see it: registers, links in loop-back, test blocks, the TTC input, queues.
//!
//! [`Board`] is told the time, is read and written by address ([`forebay_wire::felix::board`]), and writes its test blocks into whatever implements [`Dma`]. What is
//! broken in it ([`Defect`]) lies below that face: nothing says so but what the registers and blocks then hold. A [`Repair`] takes away what it cures.
//!
//! ```
//! use forebay_emu::card::board::{Board, BoardConfig, Defect, Fault, Repair};
//! use forebay_wire::felix::board::{LINK_ALIGNED, LINK_RESET};
//! # use forebay_emu::card::{CardConfig, Memory};
//! # let mut dma = Memory::new(&CardConfig::full_mode(1, 1.0, 64), 64);
//!
//! let dead = Fault { defect: Defect::DeadLink { link: 5 }, cure: Some(Repair::Transceiver) };
//! let mut board = Board::new(&BoardConfig { faults: vec![dead], ..BoardConfig::new(12, 1) })?;
//! board.write(LINK_RESET.address, 0xfff);
//! board.advance(2_000_000, &mut dma);
//! assert_eq!(board.read(LINK_ALIGNED.address), 0xfdf);
//! board.repair(Repair::Transceiver);
//! board.write(LINK_RESET.address, 0xfff);
//! board.advance(2_000_000, &mut dma);
//! assert_eq!(board.read(LINK_ALIGNED.address), 0xfff);
//! # Ok::<(), forebay_emu::card::board::BoardError>(())
//! ```

mod config;
mod defect;
mod draw;
mod lanes;
mod prbs;
mod queues;
mod test_blocks;
mod triggers;

use forebay_wire::felix::board::{
    Access, BLOCK_BYTES, BOARD_ID, DMA_BUFFERS, DMA_TEST_BLOCKS, DMA_TEST_HOLD, DMA_TEST_PATTERN,
    DMA_TEST_SEED, FIFO_BYTES, FIFO_FILL, FIFO_STATUS, FIFO_TEST_LINK, FIFO_TEST_POP,
    FIFO_TEST_PUSH, FIFO_XOFF_MARK, FIFO_XON_MARK, FIRMWARE_COMMIT, FIRMWARE_MODE,
    FIRMWARE_VERSION, LINK_ALIGNED, LINK_RESET, LINK_RX_ID, LINK_TX_ID, LINKS, NO_ANSWER,
    PRBS_BITS, PRBS_CLEAR, PRBS_ENABLE, PRBS_ERRORS, PRBS_LOCKED, PRBS_ORDER, Pattern, REGISTERS,
    Register, TTC_BCR_COUNT, TTC_CLEAR, TTC_ECR_COUNT, TTC_L1A_COUNT, TTC_SELECT, TTC_STATUS,
};

pub use self::config::{
    BOARD_BUFFERS, BOARD_FIRMWARE, BOARD_KIND, BOARD_LINKS, BoardConfig, BoardError, Firmware,
};
pub use self::defect::{Defect, DefectKind, Fault, Repair};
pub use self::draw::draw;
use self::lanes::Lanes;
use self::queues::Queues;
use self::test_blocks::{Ask, TestBlocks};
use self::triggers::TriggerInput;
pub use self::triggers::{TtcBurst, TtcSent};
use super::Dma;
use crate::rng::{Xoshiro256, hash};

/// A board. See the documentation of the module for how to drive it.
#[derive(Debug, Clone)]
pub struct Board {
    config: BoardConfig,
    /// Stored registers, in the order of [`REGISTERS`], all of a register behind each other.
    stored: Vec<u64>,
    lanes: Lanes,
    blocks: TestBlocks,
    ttc: TriggerInput,
    queues: Queues,
    rng: Xoshiro256,
}

/// Where the n-th of a register lies among all.
fn place(register: &Register, n: usize) -> usize {
    let before = REGISTERS.iter().take_while(|one| *one != register);
    before.map(|one| usize::from(one.count)).sum::<usize>() + n
}

impl Board {
    /// A board after its power came up: nothing is aligned.
    ///
    /// # Errors
    /// A configuration that cannot be carried out.
    pub fn new(config: &BoardConfig) -> Result<Self, BoardError> {
        config.validate()?;
        let each = |one: &Register| vec![one.reset; usize::from(one.count)];
        let mut board = Self {
            stored: REGISTERS.iter().flat_map(each).collect(),
            lanes: Lanes::new(config.links),
            blocks: TestBlocks::new(config.buffers),
            ttc: TriggerInput::new(hash(config.seed, 1)),
            queues: Queues::new(config.links),
            rng: Xoshiro256::new(hash(config.seed, 2)),
            config: config.clone(),
        };
        board.settle();
        Ok(board)
    }

    /// What is broken in it now.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.config.faults
    }

    fn defects(&self) -> impl Iterator<Item = &Defect> {
        self.config.faults.iter().map(|fault| &fault.defect)
    }

    /// A repair, after which the power comes up anew: true when something was cured.
    pub fn repair(&mut self, repair: Repair) -> bool {
        let before = self.config.faults.len();
        self.config
            .faults
            .retain(|fault| fault.cure != Some(repair));
        let each = |one: &Register| vec![one.reset; usize::from(one.count)];
        self.stored = REGISTERS.iter().flat_map(each).collect();
        self.lanes = Lanes::new(self.config.links);
        self.blocks = TestBlocks::new(self.config.buffers);
        self.queues = Queues::new(self.config.links);
        self.ttc.clear();
        self.settle();
        self.config.faults.len() < before
    }

    /// What bits that are stuck have made of registers that nobody has written yet.
    fn settle(&mut self) {
        let (links, xoff) = (self.config.links, FIFO_XOFF_MARK.reset);
        for link in 0..links {
            self.queues.set_marks(link, xoff, FIFO_XON_MARK.reset);
        }
    }

    fn answers(&self) -> bool {
        !self.defects().any(|defect| *defect == Defect::NoAnswer)
    }

    /// The address as it arrives behind lines that are stuck.
    fn arrived(&self, address: u32) -> u32 {
        self.defects()
            .fold(address, |address, defect| match *defect {
                Defect::StuckAddressLine { line, high: true } => address | 1 << line,
                Defect::StuckAddressLine { line, high: false } => address & !(1 << line),
                _ => address,
            })
    }

    /// The value with the bits that are stuck in this register.
    fn stuck(&self, address: u32, value: u64) -> u64 {
        self.defects().fold(value, |value, defect| match *defect {
            Defect::StuckRegisterBit {
                address: of,
                bit,
                high,
            } if of == address => {
                if high {
                    value | 1 << bit
                } else {
                    value & !(1 << bit)
                }
            }
            _ => value,
        })
    }

    /// What the register at an address says; 0 where none is.
    #[must_use]
    pub fn read(&self, address: u32) -> u64 {
        if !self.answers() {
            return NO_ANSWER;
        }
        let address = self.arrived(address);
        let Some((register, n)) = Register::find(address) else {
            return 0;
        };
        let value = match register.access {
            Access::Stored => self.stored[place(register, n)],
            Access::Constant => self.constant(register),
            Access::Status | Access::Action => self.status(register, n),
        };
        self.stuck(address, value & register.mask())
    }

    /// What a stored register holds, as the card's own parts see it.
    fn held(&self, register: &Register, n: usize) -> u64 {
        self.stuck(register.at(n), self.stored[place(register, n)])
    }

    fn constant(&self, register: &Register) -> u64 {
        let wrong = self.defects().find_map(|defect| match defect {
            Defect::WrongFirmware(firmware) => Some(*firmware),
            _ => None,
        });
        let firmware = wrong.unwrap_or(BOARD_FIRMWARE);
        match *register {
            BOARD_ID => BOARD_KIND,
            FIRMWARE_VERSION => u64::from(firmware.version),
            FIRMWARE_COMMIT => u64::from(firmware.commit),
            FIRMWARE_MODE => u64::from(firmware.mode),
            BLOCK_BYTES => self.config.format.bytes() as u64,
            LINKS => self.config.links as u64,
            DMA_BUFFERS => self.config.buffers as u64,
            FIFO_BYTES => self.queues.bytes(),
            _ => 0,
        }
    }

    fn status(&self, register: &Register, n: usize) -> u64 {
        let faults = &self.config.faults;
        let chosen = self.held(&FIFO_TEST_LINK, 0) as usize;
        match *register {
            LINK_ALIGNED => self.lanes.aligned(),
            PRBS_LOCKED => self.lanes.locked(),
            PRBS_BITS => self.lanes.bits(),
            PRBS_ERRORS => self.lanes.errors(n),
            LINK_RX_ID => {
                let sends = self.held(&PRBS_ENABLE, 0);
                let source = self.lanes.source(n, faults);
                source
                    .filter(|from| sends >> from & 1 == 0)
                    .map_or(0, |from| self.held(&LINK_TX_ID, from))
            }
            DMA_TEST_BLOCKS => self.blocks.left(n),
            TTC_STATUS => u64::from(!faults.iter().any(|one| one.defect == Defect::TtcUnlocked)),
            TTC_L1A_COUNT => self.ttc.counts.l1a,
            TTC_BCR_COUNT => self.ttc.counts.bcr,
            TTC_ECR_COUNT => self.ttc.counts.ecr,
            FIFO_FILL => self.queues.fill(chosen),
            FIFO_STATUS => u64::from(self.queues.is_xoff(chosen, faults)),
            _ => 0,
        }
    }

    /// Writes the register at an address; nothing happens where there is none, or none that can be written.
    pub fn write(&mut self, address: u32, value: u64) {
        if !self.answers() {
            return;
        }
        let address = self.arrived(address);
        let Some((register, n)) = Register::find(address) else {
            return;
        };
        let value = value & register.mask();
        match register.access {
            Access::Constant | Access::Status => {}
            Access::Stored => {
                self.stored[place(register, n)] = value;
                if [FIFO_XOFF_MARK, FIFO_XON_MARK].contains(register) {
                    self.set_marks();
                }
            }
            Access::Action => self.act(register, n, value),
        }
    }

    fn act(&mut self, register: &Register, n: usize, value: u64) {
        let chosen = self.held(&FIFO_TEST_LINK, 0) as usize;
        let faults = &self.config.faults;
        match *register {
            LINK_RESET => self.lanes.reset(value, faults, &mut self.rng),
            PRBS_CLEAR => {
                let enabled = self.held(&PRBS_ENABLE, 0);
                let order = self.held(&PRBS_ORDER, 0);
                let faults = &self.config.faults;
                self.lanes
                    .find_prbs(value, enabled, order, faults, &mut self.rng);
            }
            DMA_TEST_BLOCKS => self.blocks.begin(n, value),
            TTC_CLEAR => self.ttc.clear(),
            FIFO_TEST_PUSH => self.queues.push(chosen, value as usize),
            FIFO_TEST_POP => self.queues.pop(chosen, value as usize),
            _ => {}
        }
    }

    fn set_marks(&mut self) {
        let [xoff, xon] = [FIFO_XOFF_MARK, FIFO_XON_MARK].map(|mark| self.held(&mark, 0));
        for link in 0..self.config.links {
            let ignored = Defect::MarkIgnored { link: link as u8 };
            if !self.defects().any(|defect| *defect == ignored) {
                self.queues.set_marks(link, xoff, xon);
            }
        }
    }

    /// Lets so much of the card's time pass.
    pub fn advance(&mut self, ns: u64, dma: &mut impl Dma) {
        self.lanes.advance(ns, &self.config, &mut self.rng);
        let pattern = Pattern::of_number(self.held(&DMA_TEST_PATTERN, 0));
        let ask = Ask {
            pattern,
            seed: self.held(&DMA_TEST_SEED, 0) as u32,
            hold: self.held(&DMA_TEST_HOLD, 0),
        };
        self.blocks.advance(ns, &ask, &self.config, dma);
    }

    /// Whether a buffer takes test blocks only.
    #[must_use]
    pub fn holds(&self, buffer: usize) -> bool {
        self.answers() && self.held(&DMA_TEST_HOLD, 0) >> buffer & 1 == 1
    }

    /// Interrupts of a buffer since they were asked for.
    pub fn take_interrupts(&mut self, buffer: usize) -> u64 {
        self.blocks.take_interrupts(buffer)
    }

    /// Sends triggers and resets to the test input: what was sent.
    pub fn send_ttc(&mut self, burst: &TtcBurst) -> TtcSent {
        let counts = self.answers() && self.held(&TTC_SELECT, 0) == 1;
        self.ttc.play(burst, counts, &self.config.faults)
    }
}

#[cfg(test)]
#[path = "board/tests.rs"]
mod tests;
