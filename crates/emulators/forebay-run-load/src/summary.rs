//! What load came to: target by target, and whether this program was the limit.

use std::fmt::Write as _;

use forebay_ledger::{HistogramSummary, Snapshot};
use forebay_load::{AnswerDrop, Load, Moments, Pace, Rate, target_name};
use forebay_sys::host::CpuTicks;
use serde::Serialize;

use crate::LoadPlan;
use crate::address::Address;
use crate::work::{Effort, Way};

/// A part that lacks is told from here on: what is due at the very end may lack.
const SHORT: f64 = 0.01;
/// A program that needs so much of its time as CPU time had no more to give.
const BUSY: f64 = 0.8;
/// A socket without room for so much of the time held it up.
const FULL: f64 = 0.1;

/// Round-trip times, in ns; none of them where there was no answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RttSummary {
    /// By what clock: `kernel` (stamps of both packets), or `program`.
    pub source: &'static str,
    /// How many there are.
    pub count: u64,
    /// Least.
    pub min: Option<u64>,
    /// Mean.
    pub mean: Option<f64>,
    /// Standard deviation.
    pub deviation: Option<f64>,
    /// Median.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    pub p999: Option<u64>,
    /// Greatest.
    pub max: Option<u64>,
}

/// What became of one target's packets.
#[derive(Clone, Debug, Serialize)]
pub struct TargetSummary {
    /// Its name: A, B, …
    pub name: String,
    /// Its address.
    pub address: Address,
    /// Bits of payload in a second that were asked for; none in a closed loop.
    pub requested_bps: Option<f64>,
    /// Bits of payload in a second that left.
    pub sent_bps: f64,
    /// Bits of payload in a second that were answered in time: of the time until the last such answer, or in which packets were sent if that is longer (`answering_s`).
    pub achieved_bps: f64,
    /// That time, in s.
    pub answering_s: f64,
    /// Packets that left.
    pub packets_sent: u64,
    /// Packets that were answered in time.
    pub packets_answered: u64,
    /// Packets that left and were not.
    pub packets_lost: u64,
    /// Packets that were due and that the kernel did not take.
    pub packets_refused: u64,
    /// Answers that came too late.
    pub late: u64,
    /// Answers that came again.
    pub duplicate: u64,
    /// Answers in time that came behind those to later packets.
    pub reordered: u64,
    /// Packets that came with other bytes than were sent.
    pub corrupt: u64,
    /// Packets that came and are no answers of this load.
    pub foreign: u64,
    /// Bytes of payload of a packet, in the mean.
    pub packet_bytes_mean: f64,
    /// Round-trip times: by the kernel's stamps if there are.
    pub rtt_ns: RttSummary,
    /// By how much packets were sent later than they were due, in the mean, in ns.
    pub late_ns_mean: f64,
    /// The most of that, in ns.
    pub late_ns_max: u64,
    /// The part of what was due that was not made, 0 to 1.
    pub short_fraction: f64,
    /// Answers that the kernel dropped as this program did not take them in time; they are among the lost packets.
    pub socket_drops: u64,
    /// What went wrong with it first.
    pub error: Option<String>,
    /// How often something did.
    pub errors: u64,
}

/// What load came to.
#[derive(Clone, Debug, Serialize)]
pub struct LoadSummary {
    /// What packets went over.
    pub transport: &'static str,
    /// How long packets were sent, in s: as long as was asked for, up to 100 ms longer where some were late, or less where it ended before.
    pub sending_s: f64,
    /// The part of that in which this program used a CPU.
    pub sender_cpu_fraction: f64,
    /// The part of the host's CPU time that was idle.
    pub idle_fraction: f64,
    /// Ticks of the host that were idle.
    pub idle_ticks: u64,
    /// Ticks of the host.
    pub total_ticks: u64,
    /// This program did not send what was asked for, or did not take what came; none: it was not the limit.
    pub limit: Option<String>,
    /// Target by target.
    pub targets: Vec<TargetSummary>,
}

impl LoadSummary {
    /// Targets that never answered, with what went wrong; none: there is no such.
    #[must_use]
    pub fn failed_targets(&self) -> Option<String> {
        let failed = self.targets.iter().filter_map(|target| {
            let error = target.error.as_ref()?;
            let failed = || format!("target {} at {}: {error}", target.name, target.address);
            (target.packets_answered == 0).then(failed)
        });
        let failed: Vec<String> = failed.collect();
        (!failed.is_empty()).then(|| failed.join("; "))
    }
}

/// All that a summary is made of.
pub(crate) struct Outcome<'a> {
    pub(crate) plan: &'a LoadPlan,
    pub(crate) load: &'a Load,
    pub(crate) ways: &'a [Option<Way>],
    pub(crate) unopened: &'a [Option<String>],
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) effort: Effort,
    pub(crate) ended_ns: u64,
    pub(crate) ticks: CpuTicks,
}

impl Outcome<'_> {
    pub(crate) fn summary(&self) -> LoadSummary {
        let targets: Vec<TargetSummary> = (0..self.ways.len()).map(|at| self.target(at)).collect();
        let (idle, total) = (self.ticks.idle, self.ticks.total());
        LoadSummary {
            transport: self.plan.transport.name(),
            sending_s: self.sending_s(),
            sender_cpu_fraction: self.part(self.effort.cpu_ns),
            idle_fraction: idle as f64 / total.max(1) as f64,
            idle_ticks: idle,
            total_ticks: total,
            limit: self.limit(&targets),
            targets,
        }
    }

    /// How long packets were sent: as long as was asked for or until the last one was, unless it ended before.
    fn sending_s(&self) -> f64 {
        self.effort.sending_ns as f64 / 1e9
    }

    /// How long packets of a target were answered: answers that lie in queues at the end of the sending would be more than there are in a second.
    fn answering_s(&self, at: usize) -> f64 {
        let last_ns = self.load.answered_ns(at).unwrap_or(0);
        let answering_ns = last_ns.saturating_sub(self.effort.begun_ns);
        answering_ns.max(self.effort.sending_ns) as f64 / 1e9
    }

    fn part(&self, ns: u64) -> f64 {
        ns as f64 / self.effort.sending_ns.max(1) as f64
    }

    fn limit(&self, targets: &[TargetSummary]) -> Option<String> {
        let short = targets.iter().map(|it| it.short_fraction);
        let short = short.fold(0.0, f64::max);
        let dropped: u64 = targets.iter().map(|it| it.socket_drops).sum();
        let (busy, full) = (
            self.part(self.effort.cpu_ns),
            self.part(self.effort.full_ns),
        );
        let why = match () {
            () if full > FULL => format!(
                "its socket had no room for {:.0} % of the time",
                full * 100.0
            ),
            () if busy > BUSY => format!("it used {:.0} % of its CPU", busy * 100.0),
            () => format!(
                "it used {:.0} % of its CPU, and was held up otherwise",
                busy * 100.0
            ),
        };
        if short > SHORT {
            return Some(format!(
                "{:.1} % of what was due was not sent: {why}",
                short * 100.0
            ));
        }
        (dropped > 0).then(|| {
            format!("{dropped} answers were dropped at its socket, as it did not take them in time")
        })
    }

    fn target(&self, at: usize) -> TargetSummary {
        let (address, pace) = self.plan.targets[at];
        let (counts, answering_s) = (self.load.counts(at), self.answering_s(at));
        let a_second = |bytes: u64, seconds: f64| bytes as f64 * 8.0 / seconds.max(1e-9);
        let sent = counts.flight.sent;
        let packet_bytes_mean = sent.bytes as f64 / sent.packets.max(1) as f64;
        let dropped = |why: AnswerDrop| counts.answer.dropped[why].packets;
        let trouble = self.ways[at].as_ref().map(|way| way.end.trouble().clone());
        let unopened = self.unopened[at].clone();
        let lateness = self.load.lateness(at);
        TargetSummary {
            name: target_name(at),
            address,
            requested_bps: match pace {
                Pace::Closed(_) => None,
                Pace::Open(Rate::Bits(bits)) => Some(bits as f64),
                Pace::Open(Rate::Packets(rate)) => Some(rate as f64 * packet_bytes_mean * 8.0),
            },
            sent_bps: a_second(sent.bytes, self.sending_s()),
            achieved_bps: a_second(counts.flight.answered.bytes, answering_s),
            answering_s,
            packets_sent: sent.packets,
            packets_answered: counts.flight.answered.packets,
            packets_lost: counts
                .flight
                .lost
                .iter()
                .map(|(_, lost)| lost.packets)
                .sum(),
            packets_refused: counts.send.dropped.iter().map(|(_, it)| it.packets).sum(),
            late: dropped(AnswerDrop::Late),
            duplicate: dropped(AnswerDrop::Duplicate),
            reordered: counts.reordered,
            corrupt: dropped(AnswerDrop::Corrupt),
            foreign: dropped(AnswerDrop::Foreign),
            packet_bytes_mean,
            rtt_ns: self.rtt(at),
            late_ns_mean: lateness.mean(),
            late_ns_max: lateness.max(),
            // What is not sent to one that is lost is no fault of the sender.
            short_fraction: match &self.ways[at] {
                Some(way) if !way.end.is_lost() => self.load.short(at, self.ended_ns),
                _ => 0.0,
            },
            socket_drops: self.ways[at].as_ref().map_or(0, |way| way.end.dropped()),
            errors: trouble.as_ref().map_or(1, |trouble| trouble.times),
            error: unopened.or_else(|| trouble.and_then(|trouble| trouble.first)),
        }
    }

    fn rtt(&self, at: usize) -> RttSummary {
        let kernel = self.load.kernel_rtt(at);
        match kernel.count() {
            0 => self.rtt_of("program", "load_rtt_ns", at, self.load.rtt(at)),
            _ => self.rtt_of("kernel", "load_kernel_rtt_ns", at, kernel),
        }
    }

    fn rtt_of(&self, source: &'static str, name: &str, at: usize, exact: &Moments) -> RttSummary {
        let owner = target_name(at);
        let mut all = self.snapshot.histograms.iter();
        let found = all.find(|it| it.name == name && it.owner == owner);
        let Some(HistogramSummary {
            p50,
            p90,
            p99,
            p999,
            ..
        }) = found.map(|it| it.summary())
        else {
            return RttSummary::default();
        };
        if exact.count() == 0 {
            return RttSummary {
                source,
                ..RttSummary::default()
            };
        }
        RttSummary {
            source,
            count: exact.count(),
            min: Some(exact.min()),
            mean: Some(exact.mean()),
            deviation: Some(exact.deviation()),
            p50: Some(p50),
            p90: Some(p90),
            p99: Some(p99),
            p999: Some(p999),
            max: Some(exact.max()),
        }
    }
}

/// The columns that ipbench publishes, a line for each target: throughput in bits of payload a second, times in µs, and idle and total time of this host in ticks of the kernel.
#[must_use]
pub fn csv(summary: &LoadSummary) -> String {
    let mut lines = String::from(
        "requested,achieved,sent,size,rtt_min,rtt_avg,rtt_max,rtt_sd,rtt_median,bad_packets,idle,total",
    );
    for target in &summary.targets {
        let rtt = &target.rtt_ns;
        let whole = |ns: Option<u64>| ns.unwrap_or(0) as f64;
        let times = [
            whole(rtt.min),
            rtt.mean.unwrap_or(0.0),
            whole(rtt.max),
            rtt.deviation.unwrap_or(0.0),
            whole(rtt.p50),
        ];
        let [min, mean, max, deviation, median] = times.map(|ns| format!("{:.1}", ns / 1e3));
        // Writing into a text does not fail.
        let _ = write!(
            lines,
            "\n{:.0},{:.0},{:.0},{:.0},{min},{mean},{max},{deviation},{median},{},{},{}",
            target.requested_bps.unwrap_or(0.0),
            target.achieved_bps,
            target.sent_bps,
            target.packet_bytes_mean,
            target.corrupt + target.foreign,
            summary.idle_ticks,
            summary.total_ticks,
        );
    }
    lines
}
