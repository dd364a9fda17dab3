//! What a sender has to say at its end.

use std::net::SocketAddr;

use forebay_ledger::{Taint, TaintKind};
use forebay_run_net::NetRecord;
use forebay_sys::clock;
use forebay_sys::gso::GsoMode;
use forebay_sys::socket;
use forebay_sys::stamped::Stamped;
use forebay_tdm::clock::Base;
use forebay_tdm::sender::{Over, Phase, Sender};
use forebay_wire::tdm::EndReason;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::super::lateness::Lateness;
use super::super::local_clock::LocalClock;
use super::LaunchSummary;
use super::input::{Ended, HeapsSent};

/// How far the time that the engine computes is from the truth, where that is known: the clocks of one host are the same.
pub(super) struct Truth(Histogram<u64>);

impl Default for Truth {
    fn default() -> Self {
        // Errors up to an hour, in ns, to three digits.
        let bounds = Histogram::new_with_bounds(1, 3_600_000_000_000, 3);
        Self(bounds.unwrap_or_else(|_| {
            Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits are allowed"))
        }))
    }
}

impl Truth {
    /// Looks at it where a burst leaves.
    pub(super) fn look(&mut self, clock: &LocalClock, sender: &Sender, now_ns: u64) {
        if let Some(line) = sender.clock().line() {
            let error_ns = line.remote_ns(now_ns).abs_diff(clock.true_ns(now_ns));
            self.0.saturating_record(error_ns);
        }
    }
}

/// What a sender knows of the clocks.
#[derive(Clone, Debug, Serialize)]
pub struct ClockSummary {
    /// What the receiver's clock shows more than the one here, in ns.
    pub offset_ns: i64,
    /// What the clock here gains on the receiver's, in 10^-9.
    pub skew_ppb: i64,
    /// Bound of the error, in ns.
    pub error_ns: u64,
    /// Half of the shortest way there and back, in ns.
    pub delay_ns: u64,
    /// Jumps of one of the clocks.
    pub steps: u64,
    /// Bursts of exchanges that were wrong.
    pub outliers: u64,
    /// How often somebody has set the wall clock here.
    pub wall_clock_steps: u64,
    /// Distance from the truth, 99 % are nearer, in ns; only where receiver and sender are one host it is one.
    pub same_host_error_ns_p99: u64,
    /// What the bound of the error rests on: `exchanges`, or `exchanges and disciplined wall clocks`.
    pub base: &'static str,
    /// Why.
    pub base_why: &'static str,
    /// Hardware stamps: what there is.
    pub hardware: String,
    /// The host's clock is disciplined by another program (NTP or PTP).
    pub disciplined: bool,
    /// Bound of that one's error by the kernel, in ns.
    pub discipline_error_ns: Option<u64>,
}

/// What a sender did.
#[derive(Clone, Debug, Serialize)]
pub struct SendSummary {
    /// Its name.
    pub name: String,
    /// How it ended: `ended` in order, whatever was lost, or why not.
    pub end: &'static str,
    /// Why, where it did not end by itself.
    pub why: Option<String>,
    /// The session, in hexadecimal digits.
    pub session: String,
    /// Windows with at least one packet.
    pub windows: u64,
    /// Packets given to the kernel.
    pub packets: u64,
    /// Of them, refused by the kernel for good.
    pub errors: u64,
    /// Bytes of payload in them.
    pub payload_bytes: u64,
    /// Sessions that it took part in; more than one where it repeats, or has lost a receiver.
    pub sessions: u64,
    /// Of them, those that the receiver ended before the input did.
    pub sessions_stopped: u64,
    /// Of them, those whose totals the receiver never told: what came is not known.
    pub sessions_unconfirmed: u64,
    /// Packets of the unconfirmed sessions.
    pub packets_unconfirmed: u64,
    /// Packets that receivers say have come, of all sessions with totals; none when there was none.
    pub received: Option<u64>,
    /// Packets that they say were lost, of the same.
    pub lost: Option<u64>,
    /// Packets of these sessions less those that came and those that were lost, of each session without its sign; none when there was none.
    pub sessions_residual_items: Option<u64>,
    /// Windows that began late.
    pub late: u64,
    /// Windows that were over before it woke up.
    pub preempted: u64,
    /// Windows left out because clocks contradicted each other.
    pub withheld: u64,
    /// Windows that were over before all had left that was planned for them and lay ready.
    pub cut: u64,
    /// Packets that went with a later window.
    pub carried: u64,
    /// Times that a receiver was lost.
    pub receivers_lost: u64,
    /// Calls in which the kernel took less than it was given.
    pub datagrams_in_vain: u64,
    /// What the network said of datagrams.
    pub network_errors: u64,
    /// How bursts left: `gso`, or `single` with the reason.
    pub bursts: String,
    /// How late this host wakes up.
    pub lateness: Lateness,
    /// Launch times of bursts.
    pub launches: LaunchSummary,
    /// Why this host's CPUs were not kept awake; none: they were.
    pub cpus_may_sleep: Option<String>,
    /// Clocks.
    pub clock: ClockSummary,
    /// Heaps, where its input are messages that keep their boundaries.
    pub heaps: Option<HeapsSent>,
    /// What the end of messaging has to say, where its input are messages.
    pub messages: Option<NetRecord>,
    /// Somebody asked for the end while it waited for a receiver, or for the start of a session, and it was not to repeat.
    pub stopped_early: bool,
}

impl SendSummary {
    /// What a user of the data must know.
    pub(super) fn taints(&self, sender: &Sender) -> Vec<Taint> {
        let mut taints = Vec::new();
        if let Some(left) = self.sessions_residual_items.filter(|left| *left > 0) {
            let text = format!("{left} packets neither came nor were lost, by what receivers say");
            taints.push(Taint::new(TaintKind::Residual, text));
        }
        let (sessions, packets) = (self.sessions_unconfirmed, self.packets_unconfirmed);
        let text = format!("what came of {packets} packets of {sessions} sessions is not known");
        if sender.ends_unconfirmed() {
            taints.push(Taint::new(TaintKind::Unconfirmed, text));
        } else if sessions > 0 {
            // A stream that went on at another receiver, and is not all confirmed.
            taints.push(Taint::new(TaintKind::PeerLost, text));
        }
        taints
    }

    /// Why it did not do its work, apart from its input: that it knows only what it sent is no failure.
    pub(super) fn failed(&self, sender: &Sender) -> Option<String> {
        let is_whole = matches!(self.end, "ended" | "interrupted") && !self.stopped_early;
        let is_well = is_whole || sender.ends_unconfirmed();
        let stopped = self.sessions_stopped > 0;
        let why = self.why.clone().unwrap_or_else(|| match stopped {
            true => format!(
                "{} sessions were ended by their receiver",
                self.sessions_stopped
            ),
            false => self.end.to_owned(),
        });
        (stopped || !is_well).then_some(why)
    }
}

pub(super) struct Host {
    pub(super) name: String,
    pub(super) receiver: SocketAddr,
    /// The input has an end.
    pub(super) is_finite: bool,
    pub(super) lateness: Lateness,
    pub(super) launches: LaunchSummary,
    pub(super) cpus: Option<String>,
    pub(super) mode: GsoMode,
    pub(super) datagrams_in_vain: u64,
    pub(super) network_errors: u64,
    pub(super) hardware: String,
    pub(super) input: Ended,
}

/// What stamps the interface to the receiver could make, and why they are not used.
pub(super) fn hardware_of(socket: &Stamped) -> String {
    let local = socket::local_address(socket);
    match local.and_then(|local| forebay_sys::clock::phc_of(local.ip())) {
        Ok(found) => match found.phc_index {
            Some(phc) if found.receive_hardware && found.transmit_hardware => format!(
                "{} stamps in hardware by /dev/ptp{phc}, and those stamps are not used: discipline the wall clock by it (ptp4l and phc2sys, on both hosts)",
                found.interface
            ),
            Some(phc) => format!(
                "{} has /dev/ptp{phc} and no hardware stamps of all datagrams",
                found.interface
            ),
            None => format!(
                "{} has no hardware clock; the kernel's stamps are used",
                found.interface
            ),
        },
        Err(error) => format!("not known: {error}"),
    }
}

/// What the bound of the clock's error rests on, and why.
fn base_of(sender: &Sender, is_disciplined: bool) -> (&'static str, &'static str) {
    let exchanges = "exchanges";
    match (
        sender.clock().base(),
        is_disciplined,
        sender.receiver_is_disciplined(),
    ) {
        (Base::Disciplined, ..) => (
            "exchanges and disciplined wall clocks",
            "both hosts' wall clocks are disciplined, and bound the error further than exchanges do",
        ),
        (Base::Contradicted, ..) => (
            exchanges,
            "both wall clocks are said to be disciplined, and are further apart than they say: see `chronyc tracking` on both hosts",
        ),
        (Base::Exchanges, true, true) => (
            exchanges,
            "both hosts' wall clocks are disciplined, and exchanges bound the error further than they do",
        ),
        (Base::Exchanges, false, _) => (
            exchanges,
            "the wall clock here is not disciplined (adjtimex): run chronyd, or ptp4l with phc2sys, on both hosts",
        ),
        (Base::Exchanges, true, false) => (
            exchanges,
            "the receiver's wall clock is not disciplined (adjtimex): run chronyd, or ptp4l with phc2sys, there",
        ),
    }
}

/// How it ended, and why, where it did not end by itself.
fn end_of(
    sender: &Sender,
    receiver: SocketAddr,
    is_finite: bool,
) -> (&'static str, Option<String>) {
    match sender.phase() {
        Phase::Over(Over::Complete) if is_finite && sender.has_input_left() => (
            "cut_short",
            Some(
                "the receiver's windows are over (its --windows), and the input is not: what is left was not sent"
                    .to_owned(),
            ),
        ),
        Phase::Over(Over::Complete) => ("ended", None),
        Phase::Over(Over::Interrupted) if sender.was_stopped_early() => {
            let told = match sender.sessions().unconfirmed_packets {
                0 => "stopped before a session began: nothing was sent".to_owned(),
                lost => format!(
                    "stopped before another session began: what came of {lost} packets is not known"
                ),
            };
            ("interrupted", Some(told))
        }
        Phase::Over(Over::Interrupted) => ("interrupted", None),
        Phase::Over(Over::Stopped(EndReason::Failed)) => (
            "stopped",
            Some(
                "the receiver ended the session: something failed there, and it says what"
                    .to_owned(),
            ),
        ),
        Phase::Over(Over::Stopped(reason)) => (
            "stopped",
            Some(format!("the receiver ended the session: {reason}")),
        ),
        Phase::Over(Over::Refused(reason)) => {
            ("refused", Some(format!("the receiver says no: {reason}")))
        }
        Phase::Over(Over::Unconfirmed(reason)) => {
            let did = match reason {
                EndReason::Complete => "all was sent",
                _ => "it was interrupted, and what it had sent was told",
            };
            let told = format!(
                "{did}; the receiver at {receiver} did not confirm: what came is not known"
            );
            ("unconfirmed", Some(told))
        }
        Phase::Over(Over::NoReceiver) => {
            let before = match sender.sessions().unconfirmed_packets {
                0 => String::new(),
                lost => format!("what came of {lost} packets is not known, and "),
            };
            let told = format!(
                "{before}no receiver answers at {receiver}; is `forebay tdm receive` at work there, with the same key?"
            );
            ("no_receiver", Some(told))
        }
        _ => ("given_up", Some("it was told to end at once".to_owned())),
    }
}

pub(super) fn of(sender: &Sender, local: &LocalClock, truth: &Truth, host: Host) -> SendSummary {
    let (end, why) = end_of(sender, host.receiver, host.is_finite);
    let sent = sender.sent();
    let line = sender.clock().line();
    let discipline = clock::discipline().ok();
    let is_disciplined = discipline.as_ref().is_some_and(|found| found.synchronised);
    let (base, base_why) = base_of(sender, is_disciplined);
    let sessions = sender.sessions();
    let is_told = sessions.all > sessions.unconfirmed && sender.received().is_some();
    SendSummary {
        name: host.name,
        end,
        why,
        session: format!("{:016x}", sender.session()),
        windows: sent.windows,
        packets: sent.packets,
        errors: sent.errors,
        payload_bytes: sent.payload_bytes,
        sessions: sessions.all,
        sessions_stopped: sessions.stopped,
        sessions_unconfirmed: sessions.unconfirmed,
        packets_unconfirmed: sessions.unconfirmed_packets,
        received: is_told.then_some(sessions.received),
        lost: is_told.then_some(sessions.lost),
        sessions_residual_items: is_told.then_some(sessions.residual_packets),
        late: sent.late,
        preempted: sent.preempted,
        withheld: sent.withheld,
        cut: sent.cut,
        carried: sent.carried,
        receivers_lost: sent.receivers_lost,
        datagrams_in_vain: host.datagrams_in_vain,
        network_errors: host.network_errors,
        bursts: match host.mode {
            GsoMode::Single { errno: 0 } => "single".to_owned(),
            GsoMode::Single { errno } => {
                format!("single: the kernel refused to cut bursts (error {errno})")
            }
            _ => "gso".to_owned(),
        },
        lateness: host.lateness,
        launches: host.launches,
        cpus_may_sleep: host.cpus,
        clock: ClockSummary {
            offset_ns: line.map_or(0, |line| line.offset_ns),
            skew_ppb: line.map_or(0, |line| (-line.skew * 1e9) as i64),
            error_ns: line.map_or(0, |line| line.error_at_ns(line.last_ns)),
            delay_ns: sender.clock().delay_ns(),
            steps: sender.clock().steps,
            outliers: sender.clock().outliers,
            wall_clock_steps: local.steps(),
            same_host_error_ns_p99: truth.0.value_at_quantile(0.99),
            base,
            base_why,
            hardware: host.hardware,
            disciplined: is_disciplined,
            discipline_error_ns: discipline
                .filter(|found| found.synchronised)
                .map(|found| found.error_max_ns),
        },
        heaps: host.input.heaps,
        messages: host.input.messages,
        stopped_early: sender.was_stopped_early(),
    }
}
