//! What the data path does: windows open and close, bursts leave.

use forebay_wire::tdm::{Data, Message, Mode, Packet, Report, Welcome};

use super::window::Open;
use super::{Next, Phase, REPORTS_MAX, Sender};
use crate::clock::Line;

/// A grant that is older than this is left out, in ns: half of what the receiver allows for the ways.
const GRANT_LASTS_NS: u64 = 1_000_000;

impl Sender {
    /// What the data path is to do; `available` packets of input lie ready, and `ended` says that no more will come.
    pub fn poll_burst(&mut self, now_ns: u64, available: u64, ended: bool) -> Next {
        let (Phase::Running, Some(welcome), Some(line)) =
            (self.phase, self.welcome, self.clock.line())
        else {
            return Next::Idle;
        };
        loop {
            if self.open.is_none() {
                // What is granted to a sender without input is no window.
                let windows = match welcome.mode {
                    Mode::Credit => self.here.windows,
                    _ => u64::from(self.next_window),
                };
                let all = welcome.windows != 0 && windows >= u64::from(welcome.windows);
                let has_more = !ended || available > 0;
                if all || !has_more {
                    self.input_left = has_more;
                    self.begin_end(now_ns);
                    return Next::Idle;
                }
                if self.clock.is_unsure() && welcome.mode != Mode::Credit {
                    // Nobody knows whose turn it is; which windows that cost is known when the clock is.
                    self.was_unsure = true;
                    return Next::Idle;
                }
                match self.next_open(now_ns, available, &welcome, &line) {
                    Some(open) => self.open = Some(open),
                    None => {
                        self.input_left = self.phase == Phase::Ending && has_more;
                        return Next::Idle;
                    }
                }
            }
            let Some(open) = &mut self.open else {
                return Next::Idle;
            };
            if self.clock.is_unsure() {
                self.withhold(now_ns);
                continue;
            }
            // What is given to the kernel ahead leaves at its instant nevertheless.
            let lead_ns = open.lead_ns(self.lead_ns);
            let ahead_ns = now_ns.saturating_add(lead_ns);
            if ahead_ns < open.start_ns {
                return Next::At(open.start_ns - lead_ns);
            }
            let most = open.may_send(open.leaves_ns(now_ns));
            if most == 0 {
                self.close_window(available);
                continue;
            }
            if available == 0 {
                if ended || now_ns >= open.end_ns || welcome.mode == Mode::Credit {
                    self.close_window(0);
                    continue;
                }
                open.waited_for_input = true;
                return Next::Input(open.end_ns);
            }
            let due_ns = open.pacer.due_ns();
            if ahead_ns < due_ns {
                return Next::At(due_ns - lead_ns);
            }
            let burst = most.min(available).min(u64::from(welcome.burst_packets));
            return Next::Burst(u32::try_from(burst).unwrap_or(u32::MAX));
        }
    }

    /// When a burst that is given to the kernel at `now_ns` shall leave: `now_ns`, or later, where it is given ahead ([`Sender::give_ahead`]).
    #[must_use]
    pub fn leaves_ns(&self, now_ns: u64) -> u64 {
        self.open
            .as_ref()
            .filter(|open| open.lead_ns(self.lead_ns) > 0)
            .map_or(now_ns, |open| open.leaves_ns(now_ns))
    }

    /// When the window that is open ends, its part of the guard included, in ns of the clock here.
    #[must_use]
    pub fn window_ends_ns(&self) -> Option<u64> {
        self.open.as_ref().map(Open::until_ns)
    }

    /// The window that comes next; those that are over were missed.
    fn next_open(
        &mut self,
        now_ns: u64,
        available: u64,
        welcome: &Welcome,
        line: &Line,
    ) -> Option<Open> {
        if welcome.mode == Mode::Credit {
            let grant = self.grant.take()?;
            let age_ns = line.remote_ns(now_ns).saturating_sub(grant.start_ns);
            if age_ns > GRANT_LASTS_NS {
                // It would reach into another's turn, and goes back.
                self.all.preempted += u64::from(available > 0);
                let open = Open::new(grant.window, now_ns, welcome, grant.packets);
                self.push_report(open.report(0));
                return None;
            }
            let start_ns = line.local_ns(grant.start_ns).max(now_ns);
            return Some(Open::new(grant.window, start_ns, welcome, grant.packets));
        }
        let remote_ns = line.remote_ns(now_ns);
        let into = remote_ns.saturating_sub(welcome.start_ns);
        let mut current = into / welcome.cycle_ns;
        if into % welcome.cycle_ns >= welcome.window_ns {
            current += 1;
        }
        let current = u32::try_from(current).unwrap_or(u32::MAX);
        let current = if welcome.windows == 0 {
            current
        } else {
            current.min(welcome.windows)
        };
        if current > self.next_window {
            let missed = current - self.next_window;
            // Windows before it took part are none of its own.
            if self.was_unsure && self.has_joined {
                self.all.withheld += u64::from(missed);
            } else if available > 0 && self.has_joined {
                self.all.preempted += u64::from(missed);
                self.preempted_since_report = self.preempted_since_report.saturating_add(missed);
            }
            self.next_window = current;
            if welcome.windows != 0 && current >= welcome.windows {
                self.begin_end(now_ns);
                return None;
            }
        }
        (self.has_joined, self.was_unsure) = (true, false);
        let since_ns = u64::from(self.next_window).saturating_mul(welcome.cycle_ns);
        let start_ns = line.local_ns(welcome.start_ns.saturating_add(since_ns));
        let mut open = Open::new(self.next_window, start_ns, welcome, welcome.window_packets);
        open.may_be_late_by(welcome.guard_ns, line.error_at_ns(now_ns.max(start_ns)));
        Some(open)
    }

    /// Writes the head of the packet that is `ahead` packets and `ahead_bytes` bytes behind the next one, for a payload of so many bytes.
    /// Returns its bytes; `None` when no window is open.
    pub fn front(
        &self,
        now_ns: u64,
        ahead: u32,
        ahead_bytes: u64,
        payload_bytes: usize,
        out: &mut [u8],
    ) -> Option<usize> {
        let (open, line) = (self.open.as_ref()?, self.clock.line()?);
        let data = Data {
            packet: self.here.packets + u64::from(ahead),
            offset: self.offset + ahead_bytes,
            sent_ns: line.remote_ns(now_ns),
            window: open.number,
            index: open.sent + ahead,
            payload: &[],
        };
        let packet = Packet {
            session: self.session,
            sender: self.index,
            start: self.start,
            message: Message::Data(data),
            tag: None,
        };
        packet.emit_front(self.config.key.is_some(), payload_bytes, out)
    }

    /// Packets were given to the kernel at `now_ns`, `errors` of them in vain; together they carried so many bytes of payload.
    pub fn burst_sent(&mut self, now_ns: u64, packets: u32, errors: u32, payload_bytes: u64) {
        let (Some(open), Some(line)) = (&mut self.open, self.clock.line()) else {
            return;
        };
        let first_packet = self.here.packets;
        let queue_late_ns = match open.lead_ns(self.lead_ns) {
            0 => 0,
            _ => self.config.lateness_ns,
        };
        let late = open.add(
            now_ns,
            &line,
            (packets, errors, payload_bytes),
            (first_packet, queue_late_ns),
        );
        for sums in [&mut self.here, &mut self.all] {
            sums.windows += u64::from(open.sent == packets);
            sums.packets += u64::from(packets);
            sums.errors += u64::from(errors);
            sums.payload_bytes += payload_bytes;
        }
        self.all.late += u64::from(late);
        self.offset += payload_bytes;
    }

    /// The window that is open is left out, or cut off.
    pub(super) fn withhold(&mut self, now_ns: u64) {
        self.forget_unbegun_window(now_ns);
        if self.open.is_some() {
            self.all.withheld += 1;
            self.close_window(0);
        }
    }

    /// What is known of the clock has changed: the start of a window that is to come is computed again.
    pub(super) fn forget_unbegun_window(&mut self, now_ns: u64) {
        let is_scheduled = self
            .welcome
            .is_some_and(|welcome| welcome.mode != Mode::Credit);
        if is_scheduled
            && self
                .open
                .as_ref()
                .is_some_and(|open| open.sent == 0 && now_ns < open.start_ns)
        {
            self.open = None;
        }
    }

    pub(super) fn close_window(&mut self, available: u64) {
        let Some(open) = self.open.take() else {
            return;
        };
        self.next_window = open.number.saturating_add(1);
        if open.sent == 0 {
            if available > 0 && !open.waited_for_input {
                self.all.preempted += 1;
                self.preempted_since_report = self.preempted_since_report.saturating_add(1);
            }
            let is_granted = self
                .welcome
                .is_some_and(|welcome| welcome.mode == Mode::Credit);
            if is_granted {
                // The turn goes back at once.
                self.push_report(open.report(0));
            }
            return;
        }
        let carried = u64::from(open.budget - open.sent).min(available);
        self.all.carried += carried;
        self.all.cut += u64::from(carried > 0);
        let mut report = open.report(u32::try_from(carried).unwrap_or(u32::MAX));
        report.preempted = std::mem::take(&mut self.preempted_since_report);
        self.push_report(report);
    }

    fn push_report(&mut self, report: Report) {
        if self.reports.len() == REPORTS_MAX {
            self.reports.pop_front();
            self.all.reports_given_up += 1;
        }
        self.reports.push_back((report, None));
    }
}
