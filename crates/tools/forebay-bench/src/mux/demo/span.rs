//! What was counted between two looks, client by client: by the load, by the daemon, and by the kernel of the switch.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use forebay_ledger::{Histogram, Snapshot};
use forebay_load::target_name;
use serde::Serialize;
use serde_json::Value;

use super::{CLIENTS, SIZE_BYTES, is_flood};

/// Round-trip times: the kernel's where there are some, else the program's.
const RTT: [&str; 2] = ["load_kernel_rtt_ns", "load_rtt_ns"];

/// What was counted between two looks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Span {
    /// The policy of the clients' class, as the daemon said at the end.
    pub policy: String,
    /// When it began, in s of the load.
    pub from_s: f64,
    /// When it ended.
    pub to_s: f64,
    /// Client by client.
    pub clients: Vec<SpanClient>,
    /// Packets of all clients that the line out had no room for, by the kernel of the switch.
    pub line_dropped_packets: u64,
}

/// The same of a client.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SpanClient {
    /// A, B, C.
    pub name: String,
    /// It is the one that floods.
    pub is_flood: bool,
    /// Packets that were sent for it to answer.
    pub asked_packets: u64,
    /// Answers in time.
    pub answered_packets: u64,
    /// Packets whose answer did not come in time, of those that were sent 1 s before.
    pub unanswered_packets: u64,
    /// What was asked of it, in bits of UDP payload a second.
    pub asked_bps: f64,
    /// What came of that in time.
    pub got_bps: f64,
    /// Round-trip times.
    pub rtt_ns: Rtt,
    /// Packets of it that the daemon dropped, by place and reason.
    pub drops: BTreeMap<String, u64>,
}

/// Round-trip times, in ns; at most 1.6 % off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rtt {
    /// How many were measured.
    pub count: u64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
}

/// All that was counted until a look.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    at_s: f64,
    policy: String,
    clients: Vec<Counts>,
    line_dropped: u64,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    asked: u64,
    answered: u64,
    unanswered: u64,
    rtt: [Option<Histogram>; 2],
    drops: BTreeMap<String, u64>,
}

impl Reading {
    /// Of the load's ledger, the daemon's status and the switch.
    pub(super) fn of(
        at_s: f64,
        load: &Snapshot,
        status: &Value,
        line_dropped: u64,
    ) -> Result<Self> {
        let clients = (0..CLIENTS).map(|at| Counts::of(at, load, status));
        let policy = status["classes"][0]["settings"]["policy"].as_str();
        Ok(Self {
            at_s,
            policy: policy
                .with_context(|| format!("the daemon says no policy: {status}"))?
                .to_owned(),
            clients: clients.collect::<Result<_>>()?,
            line_dropped,
        })
    }

    /// What came since.
    pub(super) fn since(&self, before: &Self) -> Span {
        let time_s = (self.at_s - before.at_s).max(1e-9);
        let pairs = self.clients.iter().zip(&before.clients).enumerate();
        Span {
            policy: self.policy.clone(),
            from_s: before.at_s,
            to_s: self.at_s,
            clients: pairs
                .map(|(at, (now, then))| now.since(then, at, time_s))
                .collect(),
            line_dropped_packets: self.line_dropped.saturating_sub(before.line_dropped),
        }
    }
}

impl Counts {
    fn of(at: usize, load: &Snapshot, status: &Value) -> Result<Self> {
        let name = target_name(at);
        let balance = load.balance();
        let mut lines = balance.accounts.iter();
        let flight = lines.find(|line| line.place == "load_flight" && line.owner == name);
        let flight = flight.with_context(|| format!("the load has no account of {name}"))?;
        let unanswered = flight.dropped.iter();
        let unanswered = unanswered.filter(|lost| lost.reason == "time_out");
        let place = status["clients"].as_array().into_iter().flatten();
        let place = place.into_iter().find(|place| place["name"] == *name);
        let place = place.with_context(|| format!("the daemon has no client {name}: {status}"))?;
        let drops = place["drops"].as_object().into_iter().flatten();
        Ok(Self {
            asked: flight.incoming.items,
            answered: flight.outgoing.items,
            unanswered: unanswered.map(|lost| lost.items).sum(),
            rtt: RTT.map(|of| {
                let mut all = load.histograms.iter();
                all.find(|it| it.name == of && it.owner == name).cloned()
            }),
            drops: drops
                .filter_map(|(why, count)| Some((why.clone(), count.as_u64()?)))
                .collect(),
        })
    }

    fn since(&self, before: &Self, at: usize, time_s: f64) -> SpanClient {
        let bps = |packets: u64| (packets * SIZE_BYTES as u64 * 8) as f64 / time_s;
        let asked_packets = self.asked.saturating_sub(before.asked);
        let answered_packets = self.answered.saturating_sub(before.answered);
        let histograms = self.rtt.iter().zip(&before.rtt);
        let mut histograms =
            histograms.filter_map(|(now, then)| Some(now.as_ref()?.since(then.as_ref()?)));
        let rtt = histograms.find(|it| it.count() > 0);
        let drops = self.drops.iter().map(|(why, now)| {
            let then = before.drops.get(why).copied().unwrap_or(0);
            (why.clone(), now.saturating_sub(then))
        });
        SpanClient {
            name: target_name(at),
            is_flood: is_flood(at),
            asked_packets,
            answered_packets,
            unanswered_packets: self.unanswered.saturating_sub(before.unanswered),
            asked_bps: bps(asked_packets),
            got_bps: bps(answered_packets),
            rtt_ns: rtt.map_or(Rtt::default(), |it| Rtt {
                count: it.count(),
                p50: it.percentile(50.0),
                p99: it.percentile(99.0),
            }),
            drops: drops.filter(|(_, packets)| *packets > 0).collect(),
        }
    }
}
