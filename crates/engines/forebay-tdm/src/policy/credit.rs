//! The receiver grants window after window: the next sender begins when the report of the one before has come, or its time is over.
//!
//! It needs no common time, and idle senders cost no slot; but each window costs a way there and back between receiver and sender.

use crate::plan::{Plan, PlanError, PlanInput, Port, Reason};

pub(super) fn plan(input: &PlanInput, port: &Port) -> Result<Plan, PlanError> {
    let (computed, _) = super::guard(input, port);
    let guard_ns = input.guard_ns.unwrap_or(computed);
    let reason = Reason {
        what: "guard",
        value: crate::plan::units::time(&guard_ns),
        why: "a grant whose report does not come is over so long after its window".to_owned(),
    };
    let mut plan = super::in_turns(input, port, port.packet_ps, (guard_ns, reason))?;
    for slot in &mut plan.slots {
        slot.offset_ns = 0;
    }
    Ok(plan)
}
