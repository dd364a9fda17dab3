//! The window that is open, and its report.

use forebay_wire::tdm::{Report, Welcome};

use crate::clock::Line;
use crate::pace::Pacer;

/// A first packet later than this makes a window late, in ns.
const LATE_NS: u64 = 20_000;

#[derive(Debug)]
pub(super) struct Open {
    pub(super) number: u32,
    /// By the clock here.
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) pacer: Pacer,
    /// Most packets.
    pub(super) budget: u32,
    pub(super) sent: u32,
    /// The part of the guard that is there for being late, in ns.
    slack_ns: u64,
    pub(super) waited_for_input: bool,
    /// Time of one packet on the wire, in ps: what must be left of the window for it.
    packet_ps: u64,
    report: Report,
}

impl Open {
    pub(super) fn new(number: u32, start_ns: u64, welcome: &Welcome, budget: u32) -> Self {
        let packets = u64::from(welcome.window_packets.max(1));
        let packet_ps = match welcome.pace_ps {
            0 => welcome.window_ns.saturating_mul(1_000) / packets,
            pace_ps => pace_ps,
        };
        Self {
            number,
            start_ns,
            end_ns: start_ns.saturating_add(welcome.window_ns),
            pacer: Pacer::new(welcome.pace_ps, welcome.catch_up_packets, start_ns),
            budget: budget.min(welcome.window_packets),
            sent: 0,
            slack_ns: 0,
            waited_for_input: false,
            packet_ps,
            report: Report {
                window: number,
                ..Report::default()
            },
        }
    }

    /// What the guard holds beyond both clocks' errors and the last packet's time on the wire is for being late.
    pub(super) fn may_be_late_by(&mut self, guard_ns: u64, clock_error_ns: u64) {
        let needed_ns = clock_error_ns.saturating_mul(2) + self.packet_ps / 1_000;
        self.slack_ns = guard_ns.saturating_sub(needed_ns);
    }

    /// Its end, and what there is for being late.
    pub(super) const fn until_ns(&self) -> u64 {
        self.end_ns.saturating_add(self.slack_ns)
    }

    /// How long ahead bursts are given, of at most `lead_ns`: without a pace all of them would be due at the window's start, and nobody would know when they left.
    pub(super) const fn lead_ns(&self, lead_ns: u64) -> u64 {
        if self.pacer.is_flat_out() { 0 } else { lead_ns }
    }

    /// When the next burst leaves, if it is given away at `now_ns`.
    pub(super) const fn leaves_ns(&self, now_ns: u64) -> u64 {
        let due_ns = self.pacer.due_ns();
        if now_ns < due_ns { due_ns } else { now_ns }
    }

    /// How many packets may still go: what is left of the budget, and what still fits.
    pub(super) fn may_send(&self, now_ns: u64) -> u64 {
        let left_ns = self.until_ns().saturating_sub(now_ns.max(self.start_ns));
        let fits = left_ns.saturating_mul(1_000) / self.packet_ps.max(1);
        // What is due by the schedule was planned to fit: a burst that begins on time is not cut by the few ns until the time was read.
        let due_ns = self.pacer.due_ns();
        let due_left_ns = self.end_ns.saturating_sub(due_ns);
        let on_time = now_ns.saturating_sub(due_ns) < self.packet_ps / 1_000;
        let fits = if on_time {
            fits.max(due_left_ns.saturating_mul(1_000) / self.packet_ps.max(1))
        } else {
            fits
        };
        fits.min(u64::from(self.budget - self.sent))
    }

    /// Takes a burst into the report. True when the window began late with it.
    pub(super) fn add(
        &mut self,
        now_ns: u64,
        line: &Line,
        (packets, errors, payload_bytes): (u32, u32, u64),
        (first_packet, queue_late_ns): (u64, u64),
    ) -> bool {
        let remote_ns = line.remote_ns(now_ns);
        let first = self.sent == 0;
        // What a queue adds is known of all bursts together alone.
        let lateness_ns = now_ns.saturating_sub(self.start_ns).max(queue_late_ns);
        if first {
            self.report.first_packet = first_packet;
            self.report.first_ns = remote_ns;
            // A sender that had to wait for its input was not late.
            if !self.waited_for_input {
                self.report.lateness_ns = u32::try_from(lateness_ns).unwrap_or(u32::MAX);
            }
            let error_ns = line.error_at_ns(now_ns);
            self.report.clock_error_ns = u32::try_from(error_ns).unwrap_or(u32::MAX);
        }
        self.report.last_ns = remote_ns;
        self.report.packets += packets;
        self.report.errors += errors;
        self.report.payload_bytes += payload_bytes;
        self.sent += packets;
        self.pacer.sent(u64::from(packets), now_ns);
        first && !self.waited_for_input && lateness_ns >= LATE_NS
    }

    pub(super) fn report(&self, carried: u32) -> Report {
        Report {
            carried,
            ..self.report
        }
    }
}
