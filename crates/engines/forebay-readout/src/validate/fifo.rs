//! Queues behind links: XOFF comes and goes at the marks that were set.

use forebay_wire::felix::board::{
    FIFO_FILL, FIFO_STATUS, FIFO_TEST_LINK, FIFO_TEST_POP, FIFO_TEST_PUSH, FIFO_XOFF,
    FIFO_XOFF_MARK, FIFO_XON_MARK,
};

use super::limits::Expected;
use super::report::{Bound, Test, TestReport};
use super::symptom::{Place, Sign, Symptom};
use super::{Access, Card};

/// Marks in sixteenths, that at which XOFF comes and that at which it goes; the first are those after a reset.
const MARKS: [(u64, u64); 3] = [(12, 4), (8, 2), (15, 10)];
/// Steps up to the whole size, and down again.
const STEPS: u64 = 32;

/// A queue while it was filled and emptied: fill and XOFF after each step, the first before any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Crossed {
    /// The step up at which XOFF was seen first, from 0.
    rises: Option<u64>,
    /// The step down at which it was not seen any more.
    falls: Option<u64>,
    /// Steps at which the fill was another than it should be.
    fills_wrong: u64,
}

pub(super) fn test<C: Card>(card: &mut C, expected: &Expected) -> Result<TestReport, C::Error> {
    let mut report = TestReport::new(Test::Fifo);
    let mut good = 0;
    for link in 0..expected.links() {
        let mut crossed = Vec::new();
        for marks in MARKS {
            crossed.push(cross(card, link, marks, expected.fifo_bytes)?);
        }
        match fault(&crossed) {
            None => good += 1,
            Some((sign, says)) => {
                let says = format!("link {link}: {says}");
                let place = Place::Link(link as u8);
                report.symptoms.push(Symptom::new(sign, place, says));
            }
        }
    }
    card.access(&[
        Access::Write(FIFO_XOFF_MARK.address, FIFO_XOFF_MARK.reset),
        Access::Write(FIFO_XON_MARK.address, FIFO_XON_MARK.reset),
        Access::Write(FIFO_TEST_LINK.address, 0),
    ])?;
    let limit = Bound::Is(expected.links() as f64);
    let name = "links whose XOFF comes and goes at three pairs of marks";
    report.measure(name, f64::from(good), "links", limit);
    Ok(report.concluded())
}

/// Fills and empties the queue of a link.
fn cross<C: Card>(
    card: &mut C,
    link: usize,
    (xoff, xon): (u64, u64),
    fifo_bytes: u64,
) -> Result<Crossed, C::Error> {
    let step = fifo_bytes / STEPS;
    let look = [
        Access::Read(FIFO_FILL.address),
        Access::Read(FIFO_STATUS.address),
    ];
    let each = |register: u32| {
        (0..STEPS).flat_map(move |_| [Access::Write(register, step), look[0], look[1]])
    };
    let begin = [
        Access::Write(FIFO_TEST_LINK.address, link as u64),
        Access::Write(FIFO_TEST_POP.address, 0xffff),
        Access::Write(FIFO_TEST_POP.address, 0xffff),
        Access::Write(FIFO_XOFF_MARK.address, xoff),
        Access::Write(FIFO_XON_MARK.address, xon),
    ];
    let accesses: Vec<Access> = begin
        .into_iter()
        .chain(look)
        .chain(each(FIFO_TEST_PUSH.address))
        .chain(each(FIFO_TEST_POP.address))
        .collect();
    let mut values = card.access(&accesses)?;
    values.resize(2 * (2 * STEPS as usize + 1), 0);
    let is_xoff = |step: u64| values[2 * step as usize + 1] & FIFO_XOFF != 0;
    let should = |at: u64| step * at.min(2 * STEPS - at);
    let wrong = |at: &u64| values[2 * *at as usize] != should(*at);
    Ok(Crossed {
        rises: (0..=STEPS).find(|at| is_xoff(*at)),
        falls: (1..=STEPS).find(|at| !is_xoff(STEPS + at)),
        fills_wrong: (0..=2 * STEPS).filter(wrong).count() as u64,
    })
}

/// Steps at which XOFF should come and go with these marks.
fn due((xoff, xon): (u64, u64)) -> (Option<u64>, Option<u64>) {
    let of = |sixteenths: u64| sixteenths * STEPS / 16;
    (Some(of(xoff)), Some(STEPS - of(xon)))
}

fn fault(crossed: &[Crossed]) -> Option<(Sign, String)> {
    let all = |is: &dyn Fn(&Crossed) -> bool| crossed.iter().all(is);
    let at = |one: &Crossed| (one.rises, one.falls);
    if let Some(one) = crossed.iter().find(|one| one.fills_wrong > 0) {
        let says = format!("the fill was wrong at {} steps", one.fills_wrong);
        return Some((Sign::QueueWrong, says));
    }
    if crossed
        .iter()
        .zip(MARKS)
        .all(|(one, marks)| at(one) == due(marks))
    {
        return None;
    }
    if all(&|one| at(one) == (Some(0), None)) {
        return Some((
            Sign::XoffStaysUp,
            "XOFF is up though the queue is empty".into(),
        ));
    }
    if all(&|one| one.rises.is_none()) {
        return Some((
            Sign::XoffStaysDown,
            "XOFF does not come though the queue is full".into(),
        ));
    }
    if all(&|one| at(one) == due(MARKS[0])) {
        let says = "XOFF comes and goes at the marks of the reset, whatever was written";
        return Some((Sign::MarksIgnored, says.into()));
    }
    Some((
        Sign::MarksMissed,
        "XOFF comes or goes at other fills than its marks".into(),
    ))
}
