//! No schedule, for comparison: every sender sends as much as its slot would carry, all at the same time, flat out.

use crate::plan::{Plan, PlanError, PlanInput, Port};

pub(super) fn plan(input: &PlanInput, port: &Port) -> Result<Plan, PlanError> {
    let mut plan = super::in_turns(input, port, 0, super::guard(input, port))?;
    for slot in &mut plan.slots {
        slot.offset_ns = 0;
    }
    if plan.slots.len() > 1 {
        plan.warnings.push(
            "all senders send at once: what the port's buffer does not hold is lost".to_owned(),
        );
    }
    Ok(plan)
}
