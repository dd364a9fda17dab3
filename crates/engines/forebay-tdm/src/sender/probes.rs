//! When probes leave: while the port is quiet, as far as this is known.
//!
//! A probe that leaves in another sender's window waits in the port's buffer behind that one's burst, and so does not take the same time as
//! its answer on the way back. In the guard behind the sender's own window nobody sends: what it has sent has left the port, and it has a whole cycle until its
//! answers could hold it up. Where windows are granted nobody else sends when the grant has come.

use forebay_wire::tdm::{Mode, Probe, Welcome};

use super::exchanges::PROBE_EVERY_NS;
use super::{Phase, Sender};

/// Trains of probes in one guard.
const TRAINS_IN_A_GUARD: u64 = 2;
/// A probe that found no quiet time for so long goes nevertheless, in ns; at least two cycles.
const PATIENCE_NS: u64 = 250_000_000;

impl Sender {
    pub(super) fn probe_due(&mut self, now_ns: u64) -> Option<Probe> {
        let due_ns = self.probe_ns()?;
        if now_ns < due_ns || now_ns < self.quiet_ns(due_ns, now_ns) {
            return None;
        }
        let every_ns = match self.shared_slots() {
            Some(welcome) => quiet_span_ns(&welcome) / TRAINS_IN_A_GUARD,
            None => PROBE_EVERY_NS,
        };
        self.exchanges.due(now_ns, every_ns)
    }

    /// Who has sent all it has to send needs no clock.
    fn probe_ns(&self) -> Option<u64> {
        let wanted = self.phase != Phase::Ending;
        self.exchanges.probe_ns().filter(|_| wanted)
    }

    /// When something of the exchanges is to be done.
    pub(super) fn exchange_ns(&self) -> u64 {
        let probe = self
            .probe_ns()
            .map(|due_ns| self.quiet_ns(due_ns, due_ns.max(self.looked_ns)));
        let over = self.exchanges.over_ns();
        probe.into_iter().chain(over).min().unwrap_or(u64::MAX)
    }

    /// The configuration, when it has slots of which each sender has its own, and they are in use.
    fn shared_slots(&self) -> Option<Welcome> {
        let welcome = self.welcome.filter(|_| self.phase == Phase::Running)?;
        let has_slots = matches!(welcome.mode, Mode::Slots | Mode::SlotsPaced);
        (has_slots && quiet_span_ns(&welcome) > 0).then_some(welcome)
    }

    /// The first quiet time from `now_ns` on for a probe that is due since `due_ns`.
    fn quiet_ns(&self, due_ns: u64, now_ns: u64) -> u64 {
        let cycle_ns = self.welcome.map_or(0, |welcome| welcome.cycle_ns);
        let patience_ns = due_ns.saturating_add(PATIENCE_NS.max(2 * cycle_ns));
        if self.phase == Phase::Running && self.granted() {
            return if self.grant.is_some() {
                now_ns
            } else {
                patience_ns
            };
        }
        let (Some(welcome), Some(line)) = (self.shared_slots(), self.clock.line()) else {
            return now_ns;
        };
        let remote_ns = i128::from(line.remote_ns(now_ns));
        let into = (remote_ns - i128::from(welcome.start_ns)).rem_euclid(welcome.cycle_ns.into());
        let span_ns = quiet_span_ns(&welcome);
        let into_ns = u64::try_from(into).unwrap_or(0);
        let until_ns = welcome.window_ns.saturating_add(welcome.guard_ns);
        let from_ns = until_ns.saturating_sub(span_ns);
        if (from_ns..=until_ns).contains(&into_ns) {
            return now_ns;
        }
        let cycles_ns = if into_ns < from_ns {
            0
        } else {
            welcome.cycle_ns
        };
        let wait_ns = (from_ns + cycles_ns).saturating_sub(into_ns);
        now_ns.saturating_add(wait_ns).min(patience_ns.max(now_ns))
    }

    fn granted(&self) -> bool {
        self.welcome
            .is_some_and(|welcome| welcome.mode == Mode::Credit)
    }
}

/// The second half of the guard: the last packets of the window before it have left the port.
const fn quiet_span_ns(welcome: &Welcome) -> u64 {
    let half = welcome.guard_ns / 2;
    if half < welcome.cycle_ns { half } else { 0 }
}
