//! Faults at random: which kind, where, how strong, and what would cure it.
//!
//! All of it is a model: nobody has published which faults cards of a batch have. Kinds are equally likely, places too, strengths over the ranges below. The
//! shares of repairs that cure a kind are this project's assumption.

use forebay_wire::felix::board::{Access, REGISTERS};

use super::config::{BOARD_FIRMWARE, BoardConfig, Firmware};
use super::defect::{Defect, Fault, Repair};
use crate::rng::Xoshiro256;

use Repair::{CleanFibre, Replug, Reprogram, Reseat, Resolder, Transceiver};

/// Of a hundred faults of each kind, how many a repair cures; the others are for good. By [`Defect::index`].
const CURES: [&[(Repair, u64)]; Defect::COUNT] = [
    &[(Reseat, 70), (Resolder, 15)],
    &[(Reprogram, 45), (Resolder, 30)],
    &[(Reprogram, 60), (Resolder, 15)],
    &[(Reprogram, 95)],
    &[(Transceiver, 50), (CleanFibre, 25), (Resolder, 10)],
    &[(CleanFibre, 50), (Transceiver, 30)],
    &[(Replug, 90)],
    &[(CleanFibre, 60), (Transceiver, 25)],
    &[(Reseat, 40), (Resolder, 35)],
    &[(Reprogram, 40), (Resolder, 35)],
    &[(Reseat, 50), (Reprogram, 25)],
    &[(Reseat, 60), (Reprogram, 25)],
    &[(Reseat, 65), (Reprogram, 15)],
    &[(CleanFibre, 40), (Transceiver, 40)],
    &[(Reprogram, 60), (Transceiver, 15)],
    &[(Reprogram, 60), (Transceiver, 15)],
    &[(Reprogram, 80)],
    &[(Reprogram, 55), (Resolder, 25)],
];

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

/// A fault of a kind ([`Defect::index`]; none: any), as a batch of such boards may have it.
#[must_use]
pub fn draw(kind: Option<usize>, config: &BoardConfig, rng: &mut Xoshiro256) -> Fault {
    let any = rng.below(Defect::COUNT as u64) as usize;
    let defect = defect(kind.unwrap_or(any), config, rng);
    let mut hundred = rng.below(100);
    let cure = CURES[defect.index()].iter().find(|(_, share)| {
        let is_it = hundred < *share;
        hundred = hundred.wrapping_sub(*share);
        is_it
    });
    Fault {
        defect,
        cure: cure.map(|(repair, _)| *repair),
    }
}

fn defect(kind: usize, config: &BoardConfig, rng: &mut Xoshiro256) -> Defect {
    let link = rng.below(config.links as u64) as u8;
    let buffer = rng.below(config.buffers as u64) as u8;
    let high = rng.below(2) == 1;
    match kind {
        0 => Defect::NoAnswer,
        1 => stuck_bit(rng),
        2 => Defect::StuckAddressLine {
            line: 4 + rng.below(8) as u8,
            high,
        },
        3 => Defect::WrongFirmware(Firmware {
            version: BOARD_FIRMWARE.version - 1 - rng.below(2) as u32,
            commit: rng.bits() as u32,
            mode: if high { BOARD_FIRMWARE.mode } else { 0 },
        }),
        4 => Defect::DeadLink { link },
        5 => Defect::UnsteadyLink {
            link,
            fails: log_between(ALIGN_FAILS, rng),
        },
        6 if config.links > 1 => {
            let step = 1 + rng.below(config.links as u64 - 1);
            let other = (u64::from(link) + step) % config.links as u64;
            Defect::SwappedLinks {
                links: [link.min(other as u8), link.max(other as u8)],
            }
        }
        // A board of one link has none to swap with.
        6 | 7 => Defect::BitErrors {
            link,
            rate: log_between(ERROR_RATES, rng),
        },
        8 => Defect::StuckDataBit {
            buffer,
            bit: rng.below(32) as u8,
            high,
        },
        9 => Defect::StuckDmaLine {
            buffer,
            line: 2 + rng.below(8) as u8,
            high,
        },
        10 => Defect::LostBlocks {
            buffer,
            every: log_between(LOST_EVERY, rng) as u64,
        },
        11 => Defect::NoInterrupt { buffer },
        12 => Defect::SlowMemory {
            share: log_between(SLOW_SHARES, rng),
        },
        13 => Defect::TtcUnlocked,
        14 => Defect::TriggersSkipped {
            every: log_between(SKIPPED_EVERY, rng) as u64,
        },
        15 => Defect::BcrLost {
            chance: log_between(BCR_LOST, rng),
        },
        16 => Defect::MarkIgnored { link },
        _ => Defect::XoffStuck { link, high },
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
