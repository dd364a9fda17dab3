//! The TTC input: a clock, and counters that agree with what was sent.

use forebay_wire::felix::board::{
    TTC_BCR_COUNT, TTC_CLEAR, TTC_ECR_COUNT, TTC_L1A_COUNT, TTC_LOCKED, TTC_SELECT, TTC_STATUS,
    TTC_TEST_INPUT,
};

use super::limits::TtcLimits;
use super::report::{Bound, Test, TestReport};
use super::symptom::{Place, Sign, Symptom};
use super::{Access, Card};

pub(super) fn test<C: Card>(card: &mut C, limits: &TtcLimits) -> Result<TestReport, C::Error> {
    let mut report = TestReport::new(Test::Ttc);
    let status = card.read(TTC_STATUS.address)?;
    let locked = report.measure("clock", (status & TTC_LOCKED) as f64, "", Bound::Is(1.0));
    if !locked {
        let says = "the TTC input has no clock";
        report
            .symptoms
            .push(Symptom::new(Sign::Unlocked, Place::Card, says));
        return Ok(report.concluded());
    }
    let choose = |input| {
        [
            Access::Write(TTC_SELECT.address, input),
            Access::Write(TTC_CLEAR.address, 1),
        ]
    };
    card.access(&choose(TTC_TEST_INPUT))?;
    let sent = card.send_ttc(&limits.burst)?;
    let counters = [TTC_L1A_COUNT, TTC_BCR_COUNT, TTC_ECR_COUNT];
    let mut counted = card.access(&counters.map(|one| Access::Read(one.address)))?;
    counted.resize(counters.len(), 0);
    card.access(&choose(0))?;
    let all = [
        ("triggers", sent.l1a, Sign::L1aDiffers),
        ("BCR", sent.bcr, Sign::BcrDiffers),
        ("ECR", sent.ecr, Sign::EcrDiffers),
    ];
    for ((name, sent, sign), counted) in all.into_iter().zip(counted) {
        let limit = Bound::Is(sent as f64);
        if !report.measure(format!("{name} counted"), counted as f64, name, limit) {
            let says = format!("{counted} {name} were counted, {sent} were sent");
            report.symptoms.push(Symptom::new(sign, Place::Card, says));
        }
    }
    Ok(report.concluded())
}
