//! Faults at random: which kind, where, how strong, and what would cure it.
//!
//! All of it is a model: nobody has published which faults cards of a batch have. Kinds are equally likely, places too, strengths over the ranges below. The
//! shares of repairs that cure a kind are this project's assumption.

use forebay_wire::felix::board::{Access, REGISTERS};

use super::config::{BOARD_FIRMWARE, BoardConfig, Firmware};
use super::defect::{Defect, DefectKind, Fault, Repair};
use crate::rng::Xoshiro256;

use Repair::{CleanFibre, Replug, Reprogram, Reseat, Resolder, Transceiver};

/// Of a hundred faults of a kind, how many a repair cures; the others are for good.
const fn cures(kind: DefectKind) -> &'static [(Repair, u64)] {
    match kind {
        DefectKind::NoAnswer => &[(Reseat, 70), (Resolder, 15)],
        DefectKind::StuckRegisterBit => &[(Reprogram, 45), (Resolder, 30)],
        DefectKind::StuckAddressLine => &[(Reprogram, 60), (Resolder, 15)],
        DefectKind::WrongFirmware => &[(Reprogram, 95)],
        DefectKind::DeadLink => &[(Transceiver, 50), (CleanFibre, 25), (Resolder, 10)],
        DefectKind::UnsteadyLink => &[(CleanFibre, 50), (Transceiver, 30)],
        DefectKind::SwappedLinks => &[(Replug, 90)],
        DefectKind::BitErrors => &[(CleanFibre, 60), (Transceiver, 25)],
        DefectKind::StuckDataBit => &[(Reseat, 40), (Resolder, 35)],
        DefectKind::StuckDmaLine => &[(Reprogram, 40), (Resolder, 35)],
        DefectKind::LostBlocks => &[(Reseat, 50), (Reprogram, 25)],
        DefectKind::NoInterrupt => &[(Reseat, 60), (Reprogram, 25)],
        DefectKind::SlowMemory => &[(Reseat, 65), (Reprogram, 15)],
        DefectKind::TtcUnlocked => &[(CleanFibre, 40), (Transceiver, 40)],
        DefectKind::TriggersSkipped => &[(Reprogram, 60), (Transceiver, 15)],
        DefectKind::BcrLost => &[(Reprogram, 60), (Transceiver, 15)],
        DefectKind::MarkIgnored => &[(Reprogram, 80)],
        DefectKind::XoffStuck => &[(Reprogram, 55), (Resolder, 25)],
    }
}

/// Ranges of strengths, over whose logarithms they are spread.
const ERROR_RATES: (f64, f64) = (1e-9, 1e-5);
const ALIGN_FAILS: (f64, f64) = (0.02, 0.5);
const LOST_EVERY: (f64, f64) = (4.0, 1000.0);
const SKIPPED_EVERY: (f64, f64) = (10.0, 20_000.0);
const BCR_LOST: (f64, f64) = (1e-3, 0.5);
const SLOW_SHARES: (f64, f64) = (0.1, 0.85);

fn log_between(range: (f64, f64), rng: &mut Xoshiro256) -> f64 {
    (range.0.ln() + (range.1.ln() - range.0.ln()) * rng.unit()).exp()
}

/// A fault of a kind (none: any), as a batch of such boards may have it.
#[must_use]
pub fn draw(kind: Option<DefectKind>, config: &BoardConfig, rng: &mut Xoshiro256) -> Fault {
    let any = DefectKind::ALL[rng.below(DefectKind::ALL.len() as u64) as usize];
    let defect = defect(kind.unwrap_or(any), config, rng);
    let mut hundred = rng.below(100);
    let cure = cures(defect.kind()).iter().find(|(_, share)| {
        let is_it = hundred < *share;
        hundred = hundred.wrapping_sub(*share);
        is_it
    });
    Fault {
        defect,
        cure: cure.map(|(repair, _)| *repair),
    }
}

fn defect(kind: DefectKind, config: &BoardConfig, rng: &mut Xoshiro256) -> Defect {
    let link = rng.below(config.links as u64) as u8;
    let buffer = rng.below(config.buffers as u64) as u8;
    let high = rng.below(2) == 1;
    match kind {
        DefectKind::NoAnswer => Defect::NoAnswer,
        DefectKind::StuckRegisterBit => stuck_bit(rng),
        DefectKind::StuckAddressLine => Defect::StuckAddressLine {
            line: 4 + rng.below(8) as u8,
            high,
        },
        DefectKind::WrongFirmware => Defect::WrongFirmware(Firmware {
            version: BOARD_FIRMWARE.version - 1 - rng.below(2) as u32,
            commit: rng.bits() as u32,
            mode: if high { BOARD_FIRMWARE.mode } else { 0 },
        }),
        DefectKind::DeadLink => Defect::DeadLink { link },
        DefectKind::UnsteadyLink => Defect::UnsteadyLink {
            link,
            fails: log_between(ALIGN_FAILS, rng),
        },
        DefectKind::SwappedLinks if config.links > 1 => {
            let step = 1 + rng.below(config.links as u64 - 1);
            let other = (u64::from(link) + step) % config.links as u64;
            Defect::SwappedLinks {
                links: [link.min(other as u8), link.max(other as u8)],
            }
        }
        // A board of one link has none to swap with.
        DefectKind::SwappedLinks | DefectKind::BitErrors => Defect::BitErrors {
            link,
            rate: log_between(ERROR_RATES, rng),
        },
        DefectKind::StuckDataBit => Defect::StuckDataBit {
            buffer,
            bit: rng.below(32) as u8,
            high,
        },
        DefectKind::StuckDmaLine => Defect::StuckDmaLine {
            buffer,
            line: 2 + rng.below(8) as u8,
            high,
        },
        DefectKind::LostBlocks => Defect::LostBlocks {
            buffer,
            every: log_between(LOST_EVERY, rng) as u64,
        },
        DefectKind::NoInterrupt => Defect::NoInterrupt { buffer },
        DefectKind::SlowMemory => Defect::SlowMemory {
            share: log_between(SLOW_SHARES, rng),
        },
        DefectKind::TtcUnlocked => Defect::TtcUnlocked,
        DefectKind::TriggersSkipped => Defect::TriggersSkipped {
            every: log_between(SKIPPED_EVERY, rng) as u64,
        },
        DefectKind::BcrLost => Defect::BcrLost {
            chance: log_between(BCR_LOST, rng),
        },
        DefectKind::MarkIgnored => Defect::MarkIgnored { link },
        DefectKind::XoffStuck => Defect::XoffStuck { link, high },
    }
}

/// A bit of a register that can be written, any as likely as any other register.
fn stuck_bit(rng: &mut Xoshiro256) -> Defect {
    let stored = |n: u64| {
        let mut n = n as usize;
        let mut all = REGISTERS.iter().filter(|one| one.access == Access::Stored);
        all.find_map(|one| {
            let count = usize::from(one.count);
            let found = (n < count).then_some((one, n));
            n = n.wrapping_sub(count);
            found
        })
    };
    let count: u64 = REGISTERS
        .iter()
        .filter(|one| one.access == Access::Stored)
        .map(|one| u64::from(one.count))
        .sum();
    let Some((register, n)) = stored(rng.below(count)) else {
        return Defect::NoAnswer;
    };
    Defect::StuckRegisterBit {
        address: register.at(n),
        bit: rng.below(u64::from(register.width_bits)) as u8,
        high: rng.below(2) == 1,
    }
}
