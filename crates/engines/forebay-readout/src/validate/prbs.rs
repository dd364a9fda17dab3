//! Bit errors: checkers of PRBS find each sequence, and the rate of wrong bits is shown to be below its limit.

use forebay_wire::felix::board::{
    PRBS_BITS, PRBS_CLEAR, PRBS_ENABLE, PRBS_ERRORS, PRBS_LOCKED, PRBS_ORDER,
};

use super::limits::{Expected, LinkLimits, PRBS_BOUNDS};
use super::links::align_all;
use super::report::{Bound, Test, TestReport};
use super::symptom::{Place, Sign, Symptom};
use super::{Access, Card};

/// How often a checker is given more time, at most, and how long at least.
const RUNS_MOST: u32 = 20;
const RUN_NS_MIN: u64 = 1_000_000;
/// Sequences; the last one is that of the long test.
const ORDERS: [u64; 4] = [7, 15, 23, 31];

pub(super) fn test<C: Card>(
    card: &mut C,
    expected: &Expected,
    limits: &LinkLimits,
) -> Result<TestReport, C::Error> {
    let mut report = TestReport::new(Test::Prbs);
    let aligned = align_all(card, expected, limits)?;
    if aligned != expected.link_mask() {
        let missing = expected.links() as u32 - aligned.count_ones();
        let left_out = format!("{missing} links that are not aligned");
        report.left_out.push(left_out);
    }
    let mut locked = aligned;
    for order in ORDERS {
        let found = card.access(&[
            Access::Write(PRBS_ENABLE.address, aligned),
            Access::Write(PRBS_ORDER.address, order),
            Access::Write(PRBS_CLEAR.address, aligned),
            Access::Read(PRBS_LOCKED.address),
        ])?;
        let found = found.first().copied().unwrap_or(0) & aligned;
        let name = format!("links whose checker finds PRBS{order}");
        let limit = Bound::Is(f64::from(aligned.count_ones()));
        report.measure(name, f64::from(found.count_ones()), "links", limit);
        locked &= found;
    }
    for link in (0..expected.links()).filter(|link| (aligned & !locked) >> link & 1 == 1) {
        let says = format!("the checker of link {link} does not find a sequence");
        let symptom = Symptom::new(Sign::NoPrbs, Place::Link(link as u8), says);
        report.symptoms.push(symptom);
    }
    let (bits, errors) = count(card, expected, locked, limits)?;
    judge(bits, &errors, locked, limits, &mut report);
    card.write(PRBS_ENABLE.address, 0)?;
    Ok(report.concluded())
}

/// Compares bits until each link is shown to be below the limit, or is surely above it: how many, and how many were wrong.
fn count<C: Card>(
    card: &mut C,
    expected: &Expected,
    links: u64,
    limits: &LinkLimits,
) -> Result<(f64, Vec<u64>), C::Error> {
    let reads = (0..expected.links()).map(|link| Access::Read(PRBS_ERRORS.at(link)));
    let reads: Vec<Access> = [Access::Read(PRBS_BITS.address)]
        .into_iter()
        .chain(reads)
        .collect();
    let mut bits = 0.0;
    let mut errors = Vec::new();
    for (most, bound) in PRBS_BOUNDS.into_iter().enumerate() {
        // A little more, so that what was compared is surely enough.
        let wanted = bound / limits.error_rate * 1.001;
        // A card whose time is another clock's may lack some.
        for _ in 0..RUNS_MOST {
            let lacking_ns = ((wanted - bits) / limits.lane_bps * 1e9).ceil() as u64;
            card.run(lacking_ns.max(RUN_NS_MIN))?;
            bits = card.read(PRBS_BITS.address)? as f64;
            if bits >= bound / limits.error_rate {
                break;
            }
        }
        let values = card.access(&reads)?;
        bits = values.first().copied().unwrap_or(0) as f64;
        errors = values.get(1..).unwrap_or_default().to_vec();
        errors.resize(expected.links(), 0);
        let more = |(link, count): (usize, &u64)| {
            links >> link & 1 == 1 && *count > most as u64 && (*count as usize) < PRBS_BOUNDS.len()
        };
        if !errors.iter().enumerate().any(more) {
            break;
        }
    }
    Ok((bits, errors))
}

fn judge(bits: f64, errors: &[u64], links: u64, limits: &LinkLimits, report: &mut TestReport) {
    let (mut worst, mut worst_good) = (0.0_f64, 0.0_f64);
    for (link, count) in errors.iter().enumerate() {
        if links >> link & 1 == 0 {
            continue;
        }
        let most = PRBS_BOUNDS.get(*count as usize);
        let bound = most.map_or(f64::INFINITY, |bound| bound / bits);
        if bound <= limits.error_rate {
            worst_good = worst_good.max(bound);
            continue;
        }
        let rate = *count as f64 / bits.max(1.0);
        worst = worst.max(rate);
        let name = format!("link {link}: wrong bits");
        let limit = Bound::Most((PRBS_BOUNDS.len() - 1) as f64);
        report.measure(name, *count as f64, "bits", limit);
        let says = format!("link {link}: {count} of {bits:.3e} bits are wrong, {rate:.1e}");
        // Too few bits for a judgement: the checker does not go on.
        let sign = if *count == 0 {
            Sign::NoPrbs
        } else {
            Sign::WrongBits
        };
        let symptom = Symptom::new(sign, Place::Link(link as u8), says);
        report.symptoms.push(symptom);
    }
    report.measure("bits compared on each link", bits, "bits", Bound::None);
    let limit = Bound::Most(limits.error_rate);
    let name = "rate of wrong bits of the worst good link, upper bound at 95 %";
    report.measure(name, worst_good, "", limit);
    if worst > 0.0 {
        report.measure("rate of wrong bits of the worst link", worst, "", limit);
    }
}
