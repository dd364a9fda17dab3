//! From symptoms to what is likely broken, by a table.

use serde::Serialize;

use super::symptom::{Place, Sign, Symptom};

/// What may be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Suspect {
    /// The bus.
    NoAnswer,
    /// A bit of a register.
    StuckRegisterBit,
    /// A line of register addresses.
    StuckAddressLine,
    /// The firmware is another one.
    WrongFirmware,
    /// A link, for good.
    DeadLink,
    /// A link, at times.
    UnsteadyLink,
    /// Fibres of two links.
    SwappedLinks,
    /// A fibre, a transceiver.
    BitErrors,
    /// A line of the data path.
    StuckDataBit,
    /// A line of the addresses in blocks.
    StuckDmaLine,
    /// Blocks that do not arrive.
    LostBlocks,
    /// An interrupt.
    NoInterrupt,
    /// The memory, or the card's way to it.
    SlowMemory,
    /// The clock of the TTC input.
    TtcUnlocked,
    /// The counter of triggers.
    TriggersSkipped,
    /// The decoder of the TTC input.
    BcrLost,
    /// Marks of a queue.
    MarkIgnored,
    /// XOFF of a link.
    XoffStuck,
}

/// What people may do to a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// Take it out of its slot, and put it in again.
    Reseat,
    /// Load the firmware again.
    Reprogram,
    /// Clean the fibres' ends.
    CleanFibre,
    /// Plug fibres as they should be.
    Replug,
    /// Another optical transceiver.
    Transceiver,
    /// Solder anew.
    Resolder,
}

impl Remedy {
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

/// A suspect, where, and how well it fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// What may be broken.
    pub suspect: Suspect,
    /// Where.
    pub place: Place,
    /// How well symptoms fit: only for comparison.
    pub score: i32,
}

/// What a suspect shows.
struct Pattern {
    suspect: Suspect,
    /// Any of these at a place makes it a suspect there.
    shows: &'static [Sign],
    /// These it explains, wherever they are.
    explains: &'static [Sign],
    remedies: &'static [Remedy],
}

use Remedy::{CleanFibre, Replug, Reprogram, Reseat, Resolder, Transceiver};

/// All signs but those of a bus that cannot be trusted: a bit of a register may be that of any part of the card.
const ANY: &[Sign] = &[
    Sign::FirmwareDiffers,
    Sign::ConstantDiffers,
    Sign::NeverAligns,
    Sign::SometimesAligns,
    Sign::Swapped,
    Sign::HearsWrong,
    Sign::NoPrbs,
    Sign::WrongBits,
    Sign::DataBitStays,
    Sign::WordsMoved,
    Sign::WordsWrong,
    Sign::BlocksMissing,
    Sign::BlocksStop,
    Sign::NoInterrupt,
    Sign::Slow,
    Sign::Unlocked,
    Sign::L1aDiffers,
    Sign::BcrDiffers,
    Sign::EcrDiffers,
    Sign::MarksIgnored,
    Sign::XoffStaysUp,
    Sign::XoffStaysDown,
    Sign::MarksMissed,
    Sign::QueueWrong,
];

const fn pattern(
    suspect: Suspect,
    shows: &'static [Sign],
    explains: &'static [Sign],
    remedies: &'static [Remedy],
) -> Pattern {
    Pattern {
        suspect,
        shows,
        explains,
        remedies,
    }
}

/// Of equal scores the first one is the likeliest. Repairs stand in the order in which they are tried: the cheap ones first.
const PATTERNS: &[Pattern] = &[
    pattern(
        Suspect::NoAnswer,
        &[Sign::AllOnes],
        &[],
        &[Reseat, Resolder],
    ),
    pattern(
        Suspect::StuckAddressLine,
        &[Sign::Aliased],
        &[
            Sign::NotHeld,
            Sign::ConstantBit,
            Sign::FirmwareDiffers,
            Sign::ConstantDiffers,
        ],
        &[Reprogram, Resolder],
    ),
    pattern(
        Suspect::StuckRegisterBit,
        &[Sign::BitStays, Sign::ConstantBit],
        ANY,
        &[Reprogram, Resolder],
    ),
    pattern(
        Suspect::WrongFirmware,
        &[Sign::FirmwareDiffers],
        &[Sign::ConstantBit, Sign::ConstantDiffers],
        &[Reprogram],
    ),
    pattern(
        Suspect::DeadLink,
        &[Sign::NeverAligns],
        &[Sign::HearsWrong, Sign::NoPrbs],
        &[Transceiver, CleanFibre, Resolder],
    ),
    pattern(
        Suspect::SwappedLinks,
        &[Sign::Swapped],
        &[Sign::HearsWrong],
        &[Replug],
    ),
    pattern(
        Suspect::UnsteadyLink,
        &[Sign::SometimesAligns],
        &[
            Sign::NeverAligns,
            Sign::HearsWrong,
            Sign::NoPrbs,
            Sign::WrongBits,
        ],
        &[CleanFibre, Transceiver],
    ),
    pattern(
        Suspect::BitErrors,
        &[Sign::WrongBits, Sign::NoPrbs],
        &[Sign::SometimesAligns],
        &[CleanFibre, Transceiver],
    ),
    pattern(
        Suspect::StuckDataBit,
        &[Sign::DataBitStays],
        &[Sign::WordsWrong],
        &[Reseat, Resolder],
    ),
    pattern(
        Suspect::StuckDmaLine,
        &[Sign::WordsMoved],
        &[Sign::WordsWrong],
        &[Reprogram, Resolder],
    ),
    pattern(
        Suspect::LostBlocks,
        &[Sign::BlocksMissing, Sign::BlocksStop],
        &[Sign::Slow],
        &[Reseat, Reprogram],
    ),
    pattern(
        Suspect::NoInterrupt,
        &[Sign::NoInterrupt],
        &[],
        &[Reseat, Reprogram],
    ),
    pattern(
        Suspect::SlowMemory,
        &[Sign::Slow],
        &[Sign::BlocksStop],
        &[Reseat, Reprogram],
    ),
    pattern(
        Suspect::TtcUnlocked,
        &[Sign::Unlocked],
        &[Sign::L1aDiffers, Sign::BcrDiffers, Sign::EcrDiffers],
        &[CleanFibre, Transceiver],
    ),
    pattern(
        Suspect::TriggersSkipped,
        &[Sign::L1aDiffers],
        &[Sign::EcrDiffers],
        &[Reprogram, Transceiver],
    ),
    pattern(
        Suspect::BcrLost,
        &[Sign::BcrDiffers],
        &[Sign::EcrDiffers],
        &[Reprogram, Transceiver],
    ),
    pattern(
        Suspect::MarkIgnored,
        &[Sign::MarksIgnored],
        &[Sign::MarksMissed],
        &[Reprogram],
    ),
    pattern(
        Suspect::XoffStuck,
        &[Sign::XoffStaysUp, Sign::XoffStaysDown],
        &[Sign::MarksMissed, Sign::MarksIgnored],
        &[Reprogram, Resolder],
    ),
    // What fits nothing known, from the broadest part to the narrowest.
    pattern(
        Suspect::StuckAddressLine,
        &[Sign::NotHeld],
        ANY,
        &[Reprogram, Resolder],
    ),
    pattern(
        Suspect::WrongFirmware,
        &[Sign::ConstantDiffers],
        &[Sign::FirmwareDiffers, Sign::ConstantBit],
        &[Reprogram],
    ),
    pattern(
        Suspect::StuckDmaLine,
        &[Sign::WordsWrong],
        &[],
        &[Reprogram, Resolder],
    ),
    pattern(
        Suspect::BcrLost,
        &[Sign::EcrDiffers],
        &[],
        &[Reprogram, Transceiver],
    ),
    pattern(
        Suspect::BitErrors,
        &[Sign::HearsWrong],
        &[Sign::NoPrbs],
        &[CleanFibre, Transceiver],
    ),
    pattern(
        Suspect::MarkIgnored,
        &[Sign::MarksMissed, Sign::QueueWrong],
        &[],
        &[Reprogram],
    ),
];

/// Suspects that are told, at most.
const TOLD: usize = 3;
/// What fits at the place, above all a bus that cannot be trusted, since nothing else can be believed then; what fits elsewhere, and what is left over.
const SPOILS: i32 = 100;
const SHOWS: i32 = 4;
const EXPLAINS: i32 = 1;
const LEFT: i32 = -1;

impl Suspect {
    /// All of them, in the order of their names in reports of truth.
    pub const ALL: [Self; 18] = [
        Self::NoAnswer,
        Self::StuckRegisterBit,
        Self::StuckAddressLine,
        Self::WrongFirmware,
        Self::DeadLink,
        Self::UnsteadyLink,
        Self::SwappedLinks,
        Self::BitErrors,
        Self::StuckDataBit,
        Self::StuckDmaLine,
        Self::LostBlocks,
        Self::NoInterrupt,
        Self::SlowMemory,
        Self::TtcUnlocked,
        Self::TriggersSkipped,
        Self::BcrLost,
        Self::MarkIgnored,
        Self::XoffStuck,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoAnswer => "no_answer",
            Self::StuckRegisterBit => "stuck_register_bit",
            Self::StuckAddressLine => "stuck_address_line",
            Self::WrongFirmware => "wrong_firmware",
            Self::DeadLink => "dead_link",
            Self::UnsteadyLink => "unsteady_link",
            Self::SwappedLinks => "swapped_links",
            Self::BitErrors => "bit_errors",
            Self::StuckDataBit => "stuck_data_bit",
            Self::StuckDmaLine => "stuck_dma_line",
            Self::LostBlocks => "lost_blocks",
            Self::NoInterrupt => "no_interrupt",
            Self::SlowMemory => "slow_memory",
            Self::TtcUnlocked => "ttc_unlocked",
            Self::TriggersSkipped => "triggers_skipped",
            Self::BcrLost => "bcr_lost",
            Self::MarkIgnored => "mark_ignored",
            Self::XoffStuck => "xoff_stuck",
        }
    }

    /// What is tried, in this order.
    #[must_use]
    pub fn remedies(self) -> &'static [Remedy] {
        let own = PATTERNS.iter().find(|pattern| pattern.suspect == self);
        own.map_or(&[], |pattern| pattern.remedies)
    }
}

/// What may be broken, the likeliest first; nothing without symptoms.
#[must_use]
pub fn diagnose(symptoms: &[Symptom]) -> Vec<Diagnosis> {
    let mut found: Vec<Diagnosis> = Vec::new();
    for pattern in PATTERNS {
        let shown = |symptom: &&Symptom| pattern.shows.contains(&symptom.sign);
        let mut places: Vec<Place> = symptoms.iter().filter(shown).map(|one| one.place).collect();
        places.sort_unstable();
        places.dedup();
        for place in places {
            let is_known = |one: &Diagnosis| (one.suspect, one.place) == (pattern.suspect, place);
            if !found.iter().any(is_known) {
                found.push(Diagnosis {
                    suspect: pattern.suspect,
                    place,
                    score: score(pattern, place, symptoms),
                });
            }
        }
    }
    // Stable: of equal ones the order of the table stays.
    found.sort_by_key(|one| std::cmp::Reverse(one.score));
    found.truncate(TOLD);
    found
}

fn score(pattern: &Pattern, place: Place, symptoms: &[Symptom]) -> i32 {
    let of = |symptom: &Symptom| {
        if pattern.shows.contains(&symptom.sign) && symptom.place == place {
            if symptom.sign.spoils_the_bus() {
                SPOILS
            } else {
                SHOWS
            }
        } else if pattern.explains.contains(&symptom.sign) {
            EXPLAINS
        } else {
            LEFT
        }
    };
    symptoms.iter().map(of).sum()
}
