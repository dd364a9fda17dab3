//! What a receiver has to say at its end.

mod senders;
mod words;

use std::collections::BTreeMap;

use forebay_ledger::{DropReason, OneOf, Taint, TaintKind};
use forebay_run::removed::Removed;
use forebay_run_net::NetRecord;
use forebay_sys::watched::OUTPUT_REMOVED;
use forebay_tdm::plan::Plan;
use forebay_tdm::receiver::{Lost, PeerTotals, Phase, Receiver, Row};
use forebay_wire::tdm::{DATA_HEAD_BYTES, EndReason, RefuseReason};
use hdrhistogram::Histogram;
use serde::Serialize;

use super::heaps::HeapTally;
use super::{ReceivePlan, StallSummary};
pub use senders::SenderSummary;
pub use words::closing;

/// Longest time that the histograms tell apart, in ns.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// What is summed up over windows as they close.
#[derive(Default)]
pub(super) struct Sums {
    lateness: Times,
    clock_error: Times,
    travel: Times,
    windows: u64,
    /// Packets of closed windows that came, by sender.
    closed: Vec<u64>,
    last_came_ns: u64,
    pub(super) socket_drops: u64,
    /// Datagrams without an address.
    pub(super) nameless: u64,
    pub(super) lost_bytes: u64,
    pub(super) lost_ranges: u64,
}

/// Times, to three digits.
struct Times(Option<Histogram<u64>>);

impl Default for Times {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_NS, 3).ok())
    }
}

impl Times {
    fn record(&mut self, ns: u64) {
        if let Some(times) = &mut self.0 {
            times.saturating_record(ns);
        }
    }

    fn at(&self, quantile: f64) -> u64 {
        self.0
            .as_ref()
            .map_or(0, |times| times.value_at_quantile(quantile))
    }
}

impl Sums {
    pub(super) fn add(&mut self, row: &Row) {
        self.windows += 1;
        let sender = usize::from(row.sender);
        if self.closed.len() <= sender {
            self.closed.resize(sender + 1, 0);
        }
        if let Some(closed) = self.closed.get_mut(sender) {
            *closed += row.received;
        }
        self.last_came_ns = self.last_came_ns.max(row.last_came_ns);
        if row.reported {
            self.lateness.record(u64::from(row.lateness_ns));
            self.clock_error.record(u64::from(row.clock_error_ns));
        }
        if row.received > 0 {
            self.travel
                .record(u64::try_from(row.travel_mean_ns()).unwrap_or(0));
        }
    }
}

impl Sums {
    /// Packets that came of windows that are not closed.
    fn held(&self, sender: usize, peer: &PeerTotals) -> u64 {
        let closed = self.closed.get(sender).copied().unwrap_or(0);
        peer.received.saturating_sub(closed)
    }
}

/// One scheme, or the one session of a receiver: what scripts rely on.
#[derive(Clone, Debug, Serialize)]
pub struct SchemeSummary {
    /// The schedule of those that share the port.
    pub scheme: &'static str,
    /// Senders that took part.
    pub senders: u64,
    /// Length of a window, in ns: of the longest, where shares differ.
    pub window_ns: u64,
    /// Nothing is sent for so long after each window, in ns.
    pub guard_ns: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets that came.
    pub received: u64,
    /// Packets that did not, by cause.
    pub lost: BTreeMap<&'static str, u64>,
    /// Sent and held less received less lost: the sum over senders, each without its sign.
    pub residual_items: u64,
    /// Part of the port's rate that came, heads and what is around them on the wire included, from the first window's start to the end of the last burst on the wire.
    pub port_utilisation: f64,
    /// Payload that came, in bits/s over the same time.
    pub goodput_bps: f64,
    /// How late windows began; 99 % are better, in ns.
    pub window_lateness_ns_p99: u64,
    /// Bound of the error of senders' clocks; 99 % of windows are better, in ns.
    pub clock_error_ns_p99: u64,
    /// Packets that came between those of another window, counted for both.
    pub overlaps: u64,
}

/// What a receiver did.
#[derive(Clone, Debug, Serialize)]
pub struct ReceiveSummary {
    /// The session.
    pub schemes: Vec<SchemeSummary>,
    /// Its senders.
    pub by_sender: Vec<SenderSummary>,
    /// How it ended: `ended` in order, whatever was lost, or why not.
    pub end: &'static str,
    /// Windows that were closed.
    pub windows: u64,
    /// Datagrams that came, and what became of them.
    pub datagrams: BTreeMap<&'static str, u64>,
    /// Datagrams that the kernel dropped at the socket; merged ones count once, so it is a lower bound unless merging is off.
    pub socket_drops: u64,
    /// Of them, those that no window misses.
    pub socket_drops_elsewhere: u64,
    /// Merging is off, and so each datagram that the socket dropped is in `socket_drops` and in `lost`'s `socket_overflow`. With merging both are lower bounds: the kernel
    /// counts a merged buffer once, and the rest of it stands in `lost` by its place, most of it as `whole_window` or `inside`.
    pub socket_overflow_exact: bool,
    /// Times in which this host did not read its socket, and the kernel dropped datagrams there: what windows of that time miss is in `lost` as `receiver_stalled`.
    pub stalls: StallSummary,
    /// How much may wait for the disk, in bytes.
    pub writer_queue_bytes: u64,
    /// How much did at most, as blocks of 1 MiB.
    pub writer_queue_most_bytes: u64,
    /// How often grants were held back because half of that queue was full.
    pub grants_held: u64,
    /// Bytes of streams that are missing, because they did not come or could not be written.
    pub lost_bytes: u64,
    /// In so many ranges.
    pub lost_ranges: u64,
    /// Payloads that were not those of the test stream.
    pub wrong_payloads: u64,
    /// The way from kernel to kernel: mean of a window, the middle one, in ns.
    pub travel_ns_p50: u64,
    /// The same; 99 % are shorter.
    pub travel_ns_p99: u64,
    /// Control datagrams that could not be sent.
    pub control_refused: u64,
    /// Senders that asked for a place and got none, by reason: each time they asked.
    pub hellos_refused: BTreeMap<&'static str, u64>,
    /// Hellos that were welcomed and whose sender said nothing more: they took no place.
    pub hellos_unanswered: u64,
    /// Lines for the operator that nobody read in time: they were told nowhere.
    pub lines_untold: u64,
    /// How often somebody has set the wall clock here.
    pub wall_clock_steps: u64,
    /// What was written, and went with files that somebody removed or cut.
    #[serde(skip_serializing_if = "Removed::is_none")]
    pub output_removed: Removed,
}

/// What a number of packets that the socket dropped is worth where datagrams are merged.
const LOWER_BOUND: &str =
    "a merged buffer counts once, the rest of it by its place; --no-gro counts each packet";

impl ReceiveSummary {
    /// Packets that were lost, with what their number is worth.
    #[must_use]
    pub fn lost_in_words(&self, cause: &str, packets: u64) -> String {
        if cause == "socket_overflow" && !self.socket_overflow_exact {
            format!("lost, {cause}: at least {packets} ({LOWER_BOUND})")
        } else {
            format!("lost, {cause}: {packets}")
        }
    }

    /// What is to be known of the numbers of lost packets, where some are no exact ones.
    #[must_use]
    pub fn of_lost(&self) -> Option<String> {
        let is_known = self.socket_overflow_exact;
        (!is_known).then(|| format!("socket_overflow is a lower bound: {LOWER_BOUND}."))
    }

    /// What a user of the data must know; `failed` is what failed here.
    pub(super) fn taints(&self, failed: Option<&str>) -> Vec<Taint> {
        let schemes = self.schemes.iter().map(|scheme| scheme.residual_items);
        let heaps = |it: &SenderSummary| it.heaps.as_ref().map_or(0, |it| it.residual_items);
        let heaps = self.by_sender.iter().map(heaps).map(i64::unsigned_abs);
        let left: u64 = schemes.chain(heaps).sum();
        let mut taints = Vec::new();
        if left > 0 {
            let text = format!("{left} packets or heaps were neither written nor lost by name");
            taints.push(Taint::new(TaintKind::Residual, text));
        }
        let of_whole_file = failed.filter(|why| why.contains(OUTPUT_REMOVED));
        if self.output_removed.any() || of_whole_file.is_some() {
            let text = of_whole_file.unwrap_or("what was written is gone");
            taints.push(Taint::new(TaintKind::OutputRemoved, text));
        }
        // A silent sender has not told its totals: what it sent last is not known.
        let lost = self.lost_senders().next();
        if lost.is_some() || self.end == "incomplete" {
            let text = lost.unwrap_or_else(|| "a sender was lost".to_owned());
            taints.push(Taint::new(TaintKind::PeerLost, text));
        }
        taints
    }

    fn lost_senders(&self) -> impl Iterator<Item = String> {
        let died = self.by_sender.iter();
        let died = died.filter(|it| it.state == "dead" && !it.sent_known);
        died.map(|it| format!("{} died: what it sent last is not known", it.name))
    }

    /// Why it did not do its work.
    pub(super) fn failed(&self, failed: Option<&str>) -> Option<String> {
        let mut all = Vec::new();
        if self.wrong_payloads > 0 {
            let differ = match self.wrong_payloads {
                1 => "packet differs",
                _ => "packets differ",
            };
            all.push(format!(
                "{} {differ} from the test stream; was a sender started with --input?",
                self.wrong_payloads
            ));
        }
        all.extend(self.lost_senders());
        all.extend(failed.map(str::to_owned));
        if all.is_empty() && !matches!(self.end, "ended" | "interrupted") {
            all.push(format!("the session is {}", self.end));
        }
        (!all.is_empty()).then(|| all.join("; "))
    }
}

pub(super) struct Host<'a> {
    pub(super) plan: &'a ReceivePlan,
    pub(super) wrong: u64,
    pub(super) heaps: Vec<HeapTally>,
    pub(super) handed_on: Vec<Option<NetRecord>>,
    /// By sender and reason.
    pub(super) not_written: Vec<BTreeMap<&'static str, u64>>,
    pub(super) output_removed: Removed,
    pub(super) stalls: StallSummary,
    pub(super) grants_held: u64,
    pub(super) queue_bytes: (u64, u64),
    pub(super) refused: u64,
    pub(super) lines_untold: u64,
    pub(super) wall_clock_steps: u64,
}

/// A plan in one line.
pub(super) fn describe(plan: &Plan) -> String {
    let reasons = plan
        .reasons
        .iter()
        .map(|reason| format!("{} {}", reason.what, reason.value));
    let reasons: Vec<String> = reasons.collect();
    let senders = match plan.slots.len() {
        1 => "1 sender".to_owned(),
        several => format!("{several} senders"),
    };
    format!(
        "{} for {senders}: {}; {:.1} % of the port",
        plan.mode,
        reasons.join(", "),
        plan.utilisation * 100.0
    )
}

const fn name_of(reason: RefuseReason) -> &'static str {
    match reason {
        RefuseReason::Full => "no_place",
        RefuseReason::NameTaken => "name_taken",
        RefuseReason::Key => "key",
        RefuseReason::PacketBytes => "packet_bytes",
        RefuseReason::NoSession => "no_session",
    }
}

fn by_cause(lost: &Lost) -> BTreeMap<&'static str, u64> {
    lost.iter()
        .map(|(cause, packets)| (cause.name(), packets))
        .collect()
}

pub(super) fn of(receiver: &Receiver, sums: &Sums, host: Host<'_>) -> ReceiveSummary {
    let end = match receiver.phase() {
        Phase::Over(EndReason::Complete) => "ended",
        Phase::Over(EndReason::Interrupted) => "interrupted",
        Phase::Over(EndReason::Failed) => "incomplete",
        Phase::Failed(_) => "failed",
        _ => "given_up",
    };
    let counts = receiver.counts();
    let mut datagrams = BTreeMap::from([
        ("came", counts.came + sums.nameless),
        ("data", counts.data),
        ("control", counts.control),
    ]);
    let dropped = counts.dropped.iter();
    let dropped = dropped.filter(|(why, count)| matches!(why, OneOf::First(_)) || *count > 0);
    if sums.nameless > 0 {
        datagrams.insert("no_address", sums.nameless);
    }
    datagrams.extend(dropped.map(|(why, count)| (why.name(), count)));
    ReceiveSummary {
        schemes: vec![scheme(receiver, sums, &host)],
        by_sender: senders::by_sender(receiver, sums, &host),
        end,
        windows: sums.windows,
        datagrams,
        socket_drops: sums.socket_drops,
        socket_drops_elsewhere: receiver.overflow_elsewhere(),
        socket_overflow_exact: host.plan.no_gro,
        stalls: host.stalls,
        writer_queue_bytes: host.queue_bytes.0,
        writer_queue_most_bytes: host.queue_bytes.1,
        grants_held: host.grants_held,
        lost_bytes: sums.lost_bytes,
        lost_ranges: sums.lost_ranges,
        wrong_payloads: host.wrong,
        travel_ns_p50: sums.travel.at(0.5),
        travel_ns_p99: sums.travel.at(0.99),
        control_refused: host.refused,
        hellos_refused: receiver
            .refused()
            .filter(|(_, count)| *count > 0)
            .map(|(reason, count)| (name_of(reason), count))
            .collect(),
        lines_untold: host.lines_untold,
        hellos_unanswered: receiver.hellos_unanswered(),
        wall_clock_steps: host.wall_clock_steps,
        output_removed: host.output_removed,
    }
}

fn scheme(receiver: &Receiver, sums: &Sums, host: &Host<'_>) -> SchemeSummary {
    let mut lost = Lost::default();
    let (mut sent, mut received, mut payload, mut overlaps) = (0, 0, 0, 0);
    let mut residual = 0;
    for (at, peer) in receiver.peers().enumerate() {
        lost.add(&peer.lost);
        sent += peer.sent;
        received += peer.received;
        payload += peer.payload_bytes;
        overlaps += peer.overlaps;
        // One that has too much does not make up for one that has too little.
        residual += (peer.residual() + sums.held(at, peer).cast_signed()).unsigned_abs();
    }
    let port = &host.plan.port;
    let tag = if host.plan.key.is_some() {
        forebay_wire::tdm::TAG_BYTES
    } else {
        0
    };
    let around = (DATA_HEAD_BYTES + tag) as u64 + u64::from(port.wire_overhead_bytes);
    let plan = receiver.plan();
    // A burst is there at once where no port is on the way: on the wire its packets come one after the other.
    let burst_ps = plan.map_or(0, |plan| {
        plan.packet_ps * received.min(u64::from(plan.burst_packets))
    });
    let span_ns = sums.last_came_ns.saturating_sub(receiver.start_ns()) + burst_ps / 1_000;
    let seconds = if receiver.start_ns() == 0 {
        0.0
    } else {
        span_ns as f64 / 1e9
    };
    let per_second = |bytes: u64| {
        if seconds > 0.0 {
            bytes as f64 * 8.0 / seconds
        } else {
            0.0
        }
    };
    let windows = plan.map(|plan| plan.slots.iter().map(|slot| slot.window_ns));
    SchemeSummary {
        scheme: port.mode.name(),
        senders: receiver.peers().len() as u64,
        window_ns: windows.and_then(Iterator::max).unwrap_or(0),
        guard_ns: plan.map_or(0, |plan| plan.guard_ns),
        sent,
        received,
        lost: by_cause(&lost),
        residual_items: residual,
        port_utilisation: per_second(payload + received * around) / port.link_rate_bps as f64,
        goodput_bps: per_second(payload),
        window_lateness_ns_p99: sums.lateness.at(0.99),
        clock_error_ns_p99: sums.clock_error.at(0.99),
        overlaps,
    }
}
