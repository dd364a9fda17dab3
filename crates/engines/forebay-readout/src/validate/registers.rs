//! Registers: constants as they should be, and stored ones that hold what is written.

use forebay_wire::felix::board::{
    Access as Kind, BLOCK_BYTES, BOARD_ID, DMA_BUFFERS, FIFO_BYTES, FIRMWARE_COMMIT, FIRMWARE_MODE,
    FIRMWARE_VERSION, LINKS, NO_ANSWER, REGISTERS, Register,
};

use super::limits::Expected;
use super::report::{Bound, Test, TestReport};
use super::symptom::{Place, Sign, Symptom};
use super::{Access, Card};

/// Lines of register addresses that are looked at: those below are within a register, those above beyond the last one.
const LINES: std::ops::Range<u8> = 4..12;
/// Registers of which single bits stay, at most; of more it is not the bits that are wrong.
const BITS_MOST: usize = 2;

/// What each constant should be, and whether it names the firmware.
fn constants(expected: &Expected) -> [(Register, u64, bool); 8] {
    [
        (BOARD_ID, expected.board_id, false),
        (FIRMWARE_VERSION, expected.firmware_version, true),
        (FIRMWARE_COMMIT, expected.firmware_commit, true),
        (FIRMWARE_MODE, expected.firmware_mode, true),
        (BLOCK_BYTES, expected.block_bytes as u64, false),
        (LINKS, expected.links as u64, false),
        (DMA_BUFFERS, expected.buffers as u64, false),
        (FIFO_BYTES, expected.fifo_bytes, false),
    ]
}

/// A stored register.
#[derive(Debug, Clone, Copy)]
struct Stored {
    address: u32,
    mask: u64,
    reset: u64,
}

fn stored() -> Vec<Stored> {
    let each = |register: &'static Register| {
        (0..usize::from(register.count)).map(move |n| Stored {
            address: register.at(n),
            mask: register.mask(),
            reset: register.reset,
        })
    };
    let is_stored = |register: &&Register| register.access == Kind::Stored;
    REGISTERS.iter().filter(is_stored).flat_map(each).collect()
}

/// What is written to a register: another value for each address.
fn pattern(address: u32, inverted: bool) -> u64 {
    let value = u64::from(address)
        .wrapping_add(1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let value = value ^ value >> 29;
    if inverted { !value } else { value }
}

/// All stored registers written and then read, once.
struct Pass {
    inverted: bool,
    read: Vec<u64>,
    /// Constants, read after that.
    constants: Vec<u64>,
}

pub(super) fn test<C: Card>(card: &mut C, expected: &Expected) -> Result<TestReport, C::Error> {
    let mut report = TestReport::new(Test::Registers);
    let constants = constants(expected);
    let reads = constants.map(|(register, ..)| Access::Read(register.address));
    let values = card.access(&reads)?;
    if values.iter().all(|value| *value == NO_ANSWER) && !values.is_empty() {
        let says = "all registers read as all ones, as where nobody answers";
        report.measure("registers that answer", 0.0, "registers", Bound::Least(1.0));
        report
            .symptoms
            .push(Symptom::new(Sign::AllOnes, Place::Card, says));
        return Ok(report.concluded());
    }
    compare(&constants, &values, &mut report);
    let all = stored();
    let mut passes = Vec::new();
    for inverted in [false, true] {
        let write =
            |one: &Stored| Access::Write(one.address, pattern(one.address, inverted) & one.mask);
        let read = |one: &Stored| Access::Read(one.address);
        let accesses = all.iter().map(write).chain(all.iter().map(read));
        let accesses: Vec<Access> = accesses.chain(reads).collect();
        let mut read = card.access(&accesses)?;
        read.resize(all.len() + reads.len(), 0);
        let constants = read.split_off(all.len());
        passes.push(Pass {
            inverted,
            read,
            constants,
        });
    }
    let back = |one: &Stored| Access::Write(one.address, one.reset);
    card.access(&all.iter().map(back).collect::<Vec<_>>())?;
    let held = hold(&all, &passes, expected, &mut report.symptoms);
    let count = all.len() as f64;
    report.measure(
        "registers that hold what is written",
        held,
        "registers",
        Bound::Is(count),
    );
    Ok(report.concluded())
}

fn compare(constants: &[(Register, u64, bool)], values: &[u64], report: &mut TestReport) {
    let mut firmware_bits = 0;
    let mut firmware = Vec::new();
    for (n, (register, expected, is_firmware)) in constants.iter().enumerate() {
        let value = values.get(n).copied().unwrap_or(0);
        let differs = (value ^ expected).count_ones();
        report.measure(register.name, value as f64, "", Bound::Is(*expected as f64));
        if differs == 0 {
            continue;
        }
        let says = format!("{} is {value:#x}, not {expected:#x}", register.name);
        if *is_firmware {
            firmware_bits += differs;
            firmware.push(says);
        } else if differs == 1 {
            let place = bit(register.address, value ^ expected);
            report
                .symptoms
                .push(Symptom::new(Sign::ConstantBit, place, says));
        } else {
            let sign = Sign::ConstantDiffers;
            report.symptoms.push(Symptom::new(sign, Place::Card, says));
        }
        if firmware_bits == 1 && *is_firmware {
            firmware.push(bit(register.address, value ^ expected).to_string());
        }
    }
    match firmware_bits {
        0 => {}
        1 => {
            let of_bit =
                |(n, (register, expected, is_firmware)): (usize, &(Register, u64, bool))| {
                    let differs = values.get(n).copied().unwrap_or(0) ^ expected;
                    (*is_firmware && differs != 0).then(|| bit(register.address, differs))
                };
            let place = constants.iter().enumerate().find_map(of_bit);
            let place = place.unwrap_or(Place::Card);
            report
                .symptoms
                .push(Symptom::new(Sign::ConstantBit, place, firmware.join("; ")));
        }
        _ => report.symptoms.push(Symptom::new(
            Sign::FirmwareDiffers,
            Place::Card,
            firmware.join("; "),
        )),
    }
}

/// The place of the lowest bit of these.
fn bit(address: u32, bits: u64) -> Place {
    Place::Bit {
        address,
        bit: bits.trailing_zeros() as u8,
    }
}

/// How many registers hold what was written in both passes; what is wrong with the others.
fn hold(all: &[Stored], passes: &[Pass], expected: &Expected, symptoms: &mut Vec<Symptom>) -> f64 {
    let wrong = |(n, one): (usize, &Stored)| {
        let bits = |pass: &Pass| (pass.read[n] ^ pattern(one.address, pass.inverted)) & one.mask;
        let beyond = |pass: &Pass| pass.read[n] & !one.mask;
        let wrong = passes
            .iter()
            .fold(0, |wrong, pass| wrong | bits(pass) | beyond(pass));
        (wrong != 0).then_some((one.address, wrong))
    };
    let bad: Vec<(u32, u64)> = all.iter().enumerate().filter_map(wrong).collect();
    let held = (all.len() - bad.len()) as f64;
    if bad.is_empty() {
        return held;
    }
    let singles = bad.iter().all(|(_, bits)| bits.is_power_of_two());
    if bad.len() <= BITS_MOST && singles {
        for (address, bits) in &bad {
            let place = bit(*address, *bits);
            let says = format!("{place} does not take what is written");
            symptoms.push(Symptom::new(Sign::BitStays, place, says));
        }
        return held;
    }
    let fits = |(line, high): &(u8, bool)| is_aliased(*line, *high, all, passes, expected);
    let lines = LINES.flat_map(|line| [(line, false), (line, true)]);
    let symptom = match lines.into_iter().find(fits) {
        Some((line, high)) => Symptom::new(
            Sign::Aliased,
            Place::Line(line),
            format!(
                "{} registers hold what was written to others, as if line {line} of the address stayed {}",
                bad.len(),
                u8::from(high)
            ),
        ),
        None => Symptom::new(
            Sign::NotHeld,
            Place::Card,
            format!("{} registers do not hold what was written", bad.len()),
        ),
    };
    symptoms.push(symptom);
    held
}

/// Whether all that was read is what a line of the address would make that stays as it is.
fn is_aliased(line: u8, high: bool, all: &[Stored], passes: &[Pass], expected: &Expected) -> bool {
    let arrives = |address: u32| {
        if high {
            address | 1 << line
        } else {
            address & !(1 << line)
        }
    };
    let find = |address: u32| all.iter().position(|one| one.address == address);
    let constants = constants(expected);
    let mut told = 0;
    // What is there at first is not known.
    let mut held: Vec<Option<u64>> = vec![None; all.len()];
    for pass in passes {
        for one in all {
            if let Some(at) = find(arrives(one.address)) {
                held[at] = Some(pattern(one.address, pass.inverted) & one.mask & all[at].mask);
            }
        }
        let addresses = all.iter().map(|one| one.address);
        let addresses = addresses.chain(constants.iter().map(|one| one.0.address));
        for (address, read) in addresses.zip(pass.read.iter().chain(&pass.constants)) {
            let arrived = arrives(address);
            let constant = constants.iter().find(|one| one.0.address == arrived);
            let predicted = match (find(arrived), constant) {
                (Some(at), _) => held[at],
                (None, Some((_, value, _))) => Some(*value),
                (None, None) if Register::find(arrived).is_none() => Some(0),
                (None, None) => None,
            };
            match predicted {
                Some(predicted) if predicted != *read => return false,
                Some(_) if arrived != address => told += 1,
                _ => {}
            }
        }
    }
    told > 0
}
