//! A slot for each sender, paced at the port's rate inside it: the port's buffer stays empty. The default.

use crate::plan::{Plan, PlanError, PlanInput, Port};

pub(super) fn plan(input: &PlanInput, port: &Port) -> Result<Plan, PlanError> {
    super::in_turns(input, port, port.packet_ps, super::guard(input, port))
}
