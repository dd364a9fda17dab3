//! A slot for each sender, flat out inside it, for comparison: what is faster than the port waits in its buffer, and what finds that full is lost.

use crate::plan::{Plan, PlanError, PlanInput, Port};

pub(super) fn plan(input: &PlanInput, port: &Port) -> Result<Plan, PlanError> {
    let mut plan = super::in_turns(input, port, 0, super::guard(input, port))?;
    let longest = plan.slots.iter().map(|slot| u64::from(slot.packets)).max();
    let longest = longest.unwrap_or(0);
    if longest > port.buffer_packets {
        plan.warnings.push(format!(
            "a window of {longest} packets is sent flat out, and the port's buffer holds {}: the rest is lost where senders are faster than the port; slots-paced is not",
            port.buffer_packets
        ));
    }
    Ok(plan)
}
