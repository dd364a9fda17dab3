//! Links: whether they align each time, and which link hears which over the loop-back.

use forebay_wire::felix::board::{LINK_ALIGNED, LINK_RESET, LINK_RX_ID, LINK_TX_ID, PRBS_ENABLE};

use super::limits::{Expected, LinkLimits};
use super::report::{Bound, Test, TestReport};
use super::symptom::{Place, Sign, Symptom};
use super::{Access, Card};

/// Resets after which a link that aligns at times is given up for the tests that need it.
const LAST_TRIES: u32 = 16;

/// What a link says it is.
fn name(link: usize) -> u64 {
    0x80 | link as u64
}

/// Resets links, and waits: which are aligned then.
pub(super) fn align<C: Card>(
    card: &mut C,
    links: u64,
    limits: &LinkLimits,
) -> Result<u64, C::Error> {
    card.write(LINK_RESET.address, links)?;
    card.run(limits.align_ns)?;
    card.read(LINK_ALIGNED.address)
}

/// Aligns what can be aligned: which links are.
pub(super) fn align_all<C: Card>(
    card: &mut C,
    expected: &Expected,
    limits: &LinkLimits,
) -> Result<u64, C::Error> {
    let wanted = expected.link_mask();
    let mut aligned = card.read(LINK_ALIGNED.address)? & wanted;
    for _ in 0..LAST_TRIES {
        if aligned == wanted {
            break;
        }
        aligned = align(card, wanted & !aligned, limits)? & wanted;
    }
    Ok(aligned)
}

pub(super) fn test<C: Card>(
    card: &mut C,
    expected: &Expected,
    limits: &LinkLimits,
) -> Result<TestReport, C::Error> {
    let mut report = TestReport::new(Test::Links);
    let wanted = expected.link_mask();
    let mut counts = vec![0_u32; expected.links()];
    for _ in 0..limits.align_tries {
        let aligned = align(card, wanted, limits)?;
        for (link, count) in counts.iter_mut().enumerate() {
            *count += (aligned >> link & 1) as u32;
        }
    }
    let tries = limits.align_tries;
    let always = counts.iter().filter(|count| **count == tries).count();
    let all = Bound::Is(counts.len() as f64);
    let steady = report.measure(
        "links that align at every reset",
        always as f64,
        "links",
        all,
    );
    for (link, count) in counts.iter().enumerate().filter(|_| !steady) {
        if *count == tries {
            continue;
        }
        let name = format!("link {link}: resets after which it aligns");
        report.measure(
            name,
            f64::from(*count),
            "resets",
            Bound::Is(f64::from(tries)),
        );
        let sign = if *count == 0 {
            Sign::NeverAligns
        } else {
            Sign::SometimesAligns
        };
        let says = format!("link {link} aligned after {count} of {tries} resets");
        let symptom = Symptom::new(sign, Place::Link(link as u8), says);
        report.symptoms.push(symptom);
    }
    let aligned = align_all(card, expected, limits)?;
    listen(card, expected, aligned, &mut report)?;
    Ok(report.concluded())
}

/// Each link says its name: whose does each one hear?
fn listen<C: Card>(
    card: &mut C,
    expected: &Expected,
    aligned: u64,
    report: &mut TestReport,
) -> Result<(), C::Error> {
    let links = expected.links();
    let quiet = [Access::Write(PRBS_ENABLE.address, 0)];
    let says = (0..links).map(|link| Access::Write(LINK_TX_ID.at(link), name(link)));
    let hears = (0..links).map(|link| Access::Read(LINK_RX_ID.at(link)));
    let accesses: Vec<Access> = quiet.into_iter().chain(says).chain(hears).collect();
    let mut heard = card.access(&accesses)?;
    heard.resize(links, 0);
    let partner = |link: usize| (0..links).find(|other| heard[link] == name(*other));
    let mut right = 0;
    for link in (0..links).filter(|link| aligned >> link & 1 == 1) {
        match partner(link) {
            Some(other) if other == link => right += 1,
            Some(other) if partner(other) == Some(link) => {
                if link < other {
                    let place = Place::Links(link as u8, other as u8);
                    let says = format!("links {link} and {other} hear each other");
                    report
                        .symptoms
                        .push(Symptom::new(Sign::Swapped, place, says));
                }
            }
            other => {
                let whom = other.map_or_else(
                    || format!("{:#x}, which nobody says", heard[link]),
                    |other| format!("link {other}"),
                );
                let says = format!("link {link} hears {whom}");
                let place = Place::Link(link as u8);
                report
                    .symptoms
                    .push(Symptom::new(Sign::HearsWrong, place, says));
            }
        }
    }
    let limit = Bound::Is(f64::from(aligned.count_ones()));
    report.measure(
        "aligned links that hear themselves",
        f64::from(right),
        "links",
        limit,
    );
    if aligned != expected.link_mask() {
        let missing = links as u32 - aligned.count_ones();
        report
            .left_out
            .push(format!("{missing} links that are not aligned"));
    }
    Ok(())
}
