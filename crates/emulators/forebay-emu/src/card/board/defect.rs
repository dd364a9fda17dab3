//! What can be broken in a board, and what cures it.

use std::fmt;

use forebay_settings::choices;

use super::config::Firmware;

/// A defect below the face that diagnostics see.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Defect {
    /// The bus is dead: every register reads as all ones, no write arrives.
    NoAnswer,
    /// A bit of a register does not change.
    StuckRegisterBit {
        /// The register's.
        address: u32,
        /// The bit.
        bit: u8,
        /// What it stays at.
        high: bool,
    },
    /// A line of the registers' addresses does not change: registers stand for each other.
    StuckAddressLine {
        /// Which, 4 to 11.
        line: u8,
        /// What it stays at.
        high: bool,
    },
    /// Another firmware than it should be.
    WrongFirmware(Firmware),
    /// A link over which nothing comes.
    DeadLink {
        /// Number of the link.
        link: u8,
    },
    /// A link that does not always align.
    UnsteadyLink {
        /// Number of the link.
        link: u8,
        /// How often not, 0 to 1.
        fails: f64,
    },
    /// The inputs of two links are interchanged.
    SwappedLinks {
        /// Numbers of the links.
        links: [u8; 2],
    },
    /// Bits of a link are wrong at random.
    BitErrors {
        /// Number of the link.
        link: u8,
        /// How many of them, 0 to 0.5.
        rate: f64,
    },
    /// A line of the data path of a DMA buffer does not change.
    StuckDataBit {
        /// The buffer.
        buffer: u8,
        /// Which bit of each word.
        bit: u8,
        /// What it stays at.
        high: bool,
    },
    /// A line of the addresses within the blocks of a DMA buffer does not change: half of the words lie where others should.
    StuckDmaLine {
        /// The buffer.
        buffer: u8,
        /// Which line of the byte's address, 2 to 9.
        line: u8,
        /// What it stays at.
        high: bool,
    },
    /// Blocks that do not arrive.
    LostBlocks {
        /// Of which buffer.
        buffer: u8,
        /// Each so-many-th, 2 and more.
        every: u64,
    },
    /// A DMA buffer that never interrupts.
    NoInterrupt {
        /// Number of the DMA buffer.
        buffer: u8,
    },
    /// Blocks come more slowly than they should.
    SlowMemory {
        /// The share of the speed that is left.
        share: f64,
    },
    /// The TTC input has no clock.
    TtcUnlocked,
    /// Triggers are not counted.
    TriggersSkipped {
        /// Each so-many-th, 2 and more.
        every: u64,
    },
    /// Resets of the bunch counter are not seen.
    BcrLost {
        /// With this probability.
        chance: f64,
    },
    /// The queue of a link keeps its first marks.
    MarkIgnored {
        /// The link.
        link: u8,
    },
    /// XOFF of a link does not change.
    XoffStuck {
        /// The link.
        link: u8,
        /// What it stays at.
        high: bool,
    },
}

impl Defect {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> DefectKind {
        match self {
            Self::NoAnswer => DefectKind::NoAnswer,
            Self::StuckRegisterBit { .. } => DefectKind::StuckRegisterBit,
            Self::StuckAddressLine { .. } => DefectKind::StuckAddressLine,
            Self::WrongFirmware(_) => DefectKind::WrongFirmware,
            Self::DeadLink { .. } => DefectKind::DeadLink,
            Self::UnsteadyLink { .. } => DefectKind::UnsteadyLink,
            Self::SwappedLinks { .. } => DefectKind::SwappedLinks,
            Self::BitErrors { .. } => DefectKind::BitErrors,
            Self::StuckDataBit { .. } => DefectKind::StuckDataBit,
            Self::StuckDmaLine { .. } => DefectKind::StuckDmaLine,
            Self::LostBlocks { .. } => DefectKind::LostBlocks,
            Self::NoInterrupt { .. } => DefectKind::NoInterrupt,
            Self::SlowMemory { .. } => DefectKind::SlowMemory,
            Self::TtcUnlocked => DefectKind::TtcUnlocked,
            Self::TriggersSkipped { .. } => DefectKind::TriggersSkipped,
            Self::BcrLost { .. } => DefectKind::BcrLost,
            Self::MarkIgnored { .. } => DefectKind::MarkIgnored,
            Self::XoffStuck { .. } => DefectKind::XoffStuck,
        }
    }

    /// The name of its kind.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.kind().name()
    }
}

choices! {
    /// The kinds of defects.
    pub enum DefectKind {
        /// [`Defect::NoAnswer`].
        NoAnswer = "no_answer",
        /// [`Defect::StuckRegisterBit`].
        StuckRegisterBit = "stuck_register_bit",
        /// [`Defect::StuckAddressLine`].
        StuckAddressLine = "stuck_address_line",
        /// [`Defect::WrongFirmware`].
        WrongFirmware = "wrong_firmware",
        /// [`Defect::DeadLink`].
        DeadLink = "dead_link",
        /// [`Defect::UnsteadyLink`].
        UnsteadyLink = "unsteady_link",
        /// [`Defect::SwappedLinks`].
        SwappedLinks = "swapped_links",
        /// [`Defect::BitErrors`].
        BitErrors = "bit_errors",
        /// [`Defect::StuckDataBit`].
        StuckDataBit = "stuck_data_bit",
        /// [`Defect::StuckDmaLine`].
        StuckDmaLine = "stuck_dma_line",
        /// [`Defect::LostBlocks`].
        LostBlocks = "lost_blocks",
        /// [`Defect::NoInterrupt`].
        NoInterrupt = "no_interrupt",
        /// [`Defect::SlowMemory`].
        SlowMemory = "slow_memory",
        /// [`Defect::TtcUnlocked`].
        TtcUnlocked = "ttc_unlocked",
        /// [`Defect::TriggersSkipped`].
        TriggersSkipped = "triggers_skipped",
        /// [`Defect::BcrLost`].
        BcrLost = "bcr_lost",
        /// [`Defect::MarkIgnored`].
        MarkIgnored = "mark_ignored",
        /// [`Defect::XoffStuck`].
        XoffStuck = "xoff_stuck",
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = |high: bool| u8::from(high);
        match *self {
            Self::NoAnswer => f.write_str("the bus is dead"),
            Self::StuckRegisterBit { address, bit, high } => {
                write!(
                    f,
                    "bit {bit} of register {address:#05x} stays {}",
                    level(high)
                )
            }
            Self::StuckAddressLine { line, high } => {
                write!(f, "line {line} of register addresses stays {}", level(high))
            }
            Self::WrongFirmware(firmware) => write!(f, "firmware {:#010x}", firmware.version),
            Self::DeadLink { link } => write!(f, "link {link} is dead"),
            Self::UnsteadyLink { link, fails } => {
                write!(
                    f,
                    "link {link} does not align in {:.1} % of tries",
                    100.0 * fails
                )
            }
            Self::SwappedLinks { links: [a, b] } => write!(f, "links {a} and {b} are swapped"),
            Self::BitErrors { link, rate } => write!(f, "link {link} has bit errors at {rate:.1e}"),
            Self::StuckDataBit { buffer, bit, high } => {
                write!(
                    f,
                    "data bit {bit} of DMA buffer {buffer} stays {}",
                    level(high)
                )
            }
            Self::StuckDmaLine { buffer, line, high } => {
                write!(
                    f,
                    "address line {line} of DMA buffer {buffer} stays {}",
                    level(high)
                )
            }
            Self::LostBlocks { buffer, every } => {
                write!(f, "DMA buffer {buffer} loses each {every}th block")
            }
            Self::NoInterrupt { buffer } => write!(f, "DMA buffer {buffer} never interrupts"),
            Self::SlowMemory { share } => {
                write!(f, "memory has {:.0} % of its speed", 100.0 * share)
            }
            Self::TtcUnlocked => f.write_str("TTC has no clock"),
            Self::TriggersSkipped { every } => write!(f, "each {every}th trigger is not counted"),
            Self::BcrLost { chance } => write!(f, "{:.2} % of BCR are lost", 100.0 * chance),
            Self::MarkIgnored { link } => write!(f, "link {link} ignores its marks"),
            Self::XoffStuck { link, high } => {
                write!(f, "XOFF of link {link} stays {}", level(high))
            }
        }
    }
}

/// What people do to a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// Takes it out of its slot, and puts it in again.
    Reseat,
    /// Loads the firmware again.
    Reprogram,
    /// Cleans the fibres' ends.
    CleanFibre,
    /// Plugs fibres as they should be.
    Replug,
    /// Another optical transceiver.
    Transceiver,
    /// Solders anew.
    Resolder,
}

impl Repair {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Reseat,
        Self::Reprogram,
        Self::CleanFibre,
        Self::Replug,
        Self::Transceiver,
        Self::Resolder,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reseat => "reseat",
            Self::Reprogram => "reprogram",
            Self::CleanFibre => "clean_fibre",
            Self::Replug => "replug",
            Self::Transceiver => "transceiver",
            Self::Resolder => "resolder",
        }
    }
}

/// A defect, and the repair that cures it; none when nothing does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fault {
    /// What is broken.
    pub defect: Defect,
    /// What helps.
    pub cure: Option<Repair>,
}
