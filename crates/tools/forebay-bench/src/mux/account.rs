//! Each client's packets over the whole way, counted at each hop by the parties on both of its sides.
//!
//! | hop | one party | the other |
//! |---|---|---|
//! | generator to card | what the generator says it sent | what the daemon says came for the client; on the way the kernels' counts of what both ends, the switch and the packet socket dropped |
//! | daemon to client | frames that the daemon gave | frames that the client received, and those that it left |
//! | client to daemon | frames that the client sent | packets that the daemon was handed |
//! | card to generator | packets of which the daemon says that the card took them | what the generator says came; on the way the kernels' counts again |
//!
//! What a hop of the wire loses of one client is the difference of both parties; that they are right is held by the kernels' counts, which know no clients: over all clients they must be the same. In
//! each program what came in is what went out, what was lost by name, and what is held, by its own books.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use forebay_ledger::Closed;
use serde::Serialize;
use serde_json::Value;

use super::ground::Counted;
use super::share::CpuShare;
use super::{ClientReport, MuxBenchSummary, Options, Workload};

/// Frames at the card that are for nobody; all others of the classifier's are not sent here.
const UNCLASSIFIED: [&str; 3] = ["malformed", "unmatched", "fragment"];
/// Losses in these of the daemon's accounts have a client as their owner.
const OF_CLIENTS: [&str; 3] = ["mux_deliver", "mux_receive", "mux_transmit"];

/// What the parties said at their ends.
pub(super) struct Told {
    pub(super) load: Value,
    pub(super) daemon: Value,
    pub(super) clients: Vec<Value>,
    pub(super) counted: Counted,
}

/// One thing that two parties have counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The thing that was counted.
    pub what: String,
    /// The count of the one that is named first.
    pub one: u64,
    /// That of the other.
    pub other: u64,
}

impl Check {
    pub(super) fn of(what: impl Into<String>, one: u64, other: u64) -> Self {
        Self {
            what: what.into(),
            one,
            other,
        }
    }

    pub(super) const fn off(&self) -> u64 {
        self.one.abs_diff(self.other)
    }
}

/// A client's packets at each hop, in the order of the way; of raw clients and their load, datagrams are frames. Frames beside the datagrams of the load (ARP, the first questions) are in those of daemon and client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hops {
    /// Datagrams that the generator sent.
    pub generator_sent: u64,
    /// Frames for the client that came to the daemon.
    pub daemon_came: u64,
    /// Frames that it gave.
    pub daemon_gave: u64,
    /// Frames that the client received.
    pub client_received: u64,
    /// Datagrams to its port among them.
    pub client_datagrams: u64,
    /// Frames that it sent.
    pub client_sent: u64,
    /// Datagrams of its port among them.
    pub client_datagrams_sent: u64,
    /// Packets that the daemon was handed.
    pub daemon_asked: u64,
    /// Packets of which it says that the card took them.
    pub daemon_sent: u64,
    /// Datagrams that came to the generator.
    pub generator_came: u64,
}

impl Hops {
    /// What was lost between generator and daemon, and between card and generator; less than 0 where more came than went.
    fn lost(&self) -> [i64; 2] {
        let others = self.client_received as i64 - self.client_datagrams as i64;
        let there = self.generator_sent as i64 - (self.daemon_came as i64 - others);
        let others = self.client_sent as i64 - self.client_datagrams_sent as i64;
        let back = self.daemon_sent as i64 - others - self.generator_came as i64;
        [there, back]
    }
}

/// A number of a record.
pub(super) fn number(json: &Value, key: &str) -> Result<u64> {
    let found = json[key].as_u64();
    found.with_context(|| format!("a record says no {key}: {json}"))
}

pub(super) fn real(json: &Value, key: &str) -> Result<f64> {
    let found = json[key].as_f64();
    found.with_context(|| format!("a record says no {key}: {json}"))
}

/// CPU time of a program, in s.
pub(super) fn cpu_s(json: &Value) -> f64 {
    let all = json["cpu_s"].as_object();
    all.map_or(0.0, |all| all.values().filter_map(Value::as_f64).sum())
}

/// What a program's own books leave over or inside.
pub(super) fn closed(json: &Value) -> Result<Closed> {
    Ok(Closed {
        residual_items: number(json, "residual_items")?,
        residual_bytes: number(json, "residual_bytes")?,
        left_items: number(json, "left_items")?,
        left_bytes: number(json, "left_bytes")?,
    })
}

/// Items lost in a record, each as place, reason and owner.
fn losses(json: &Value) -> Vec<([&str; 3], u64)> {
    let all = json["drops"].as_object().into_iter().flatten();
    let named = all.filter_map(|(name, lost)| {
        let mut parts = name.splitn(3, '.');
        let parts = [parts.next()?, parts.next()?, parts.next()?];
        Some((parts, lost["items"].as_u64()?))
    });
    named.filter(|(_, items)| *items > 0).collect()
}

/// What a target of the load had back at all.
pub(super) fn came(target: &Value) -> Result<u64> {
    let kinds = [
        "packets_answered",
        "late",
        "duplicate",
        "corrupt",
        "foreign",
    ];
    kinds.iter().map(|kind| number(target, kind)).sum()
}

/// Targets of the load.
pub(super) fn targets(load: &Value) -> Result<&[Value]> {
    let targets = load["targets"].as_array();
    let targets = targets.with_context(|| format!("the load's record has no targets: {load}"))?;
    Ok(targets)
}

/// What held the generator.
pub(super) fn limit(load: &Value) -> Option<String> {
    load["limit"].as_str().map(str::to_owned)
}

/// The program of the load made packets for so long, in s.
pub(super) fn sending_s(options: &Options, load: &Value) -> Result<f64> {
    // Clients that send by themselves are ended by the bench.
    match options.workload.is_sending() {
        true => Ok(options.duration.as_secs_f64()),
        false => real(load, "sending_s"),
    }
}

impl Told {
    fn hops(&self, at: usize) -> Result<Hops> {
        let target = &targets(&self.load)?[at];
        let (place, client) = (&self.daemon["clients"][at], &self.clients[at]);
        Ok(Hops {
            generator_sent: number(target, "packets_sent")?,
            daemon_came: number(place, "frames_for")?,
            daemon_gave: number(place, "frames_given")?,
            client_received: number(client, "frames_received")?,
            client_datagrams: number(client, "datagrams_came")?,
            client_sent: number(client, "frames_sent")?,
            client_datagrams_sent: number(client, "datagrams_sent")?,
            daemon_asked: number(place, "packets_asked")?,
            daemon_sent: number(place, "packets_sent")?,
            generator_came: came(target)?,
        })
    }

    /// Losses of the daemon at a place, for these reasons.
    fn at_card(&self, place: &str, reasons: Option<&[&str]>) -> u64 {
        let of_place = losses(&self.daemon)
            .into_iter()
            .filter(|([found, why, _], _)| {
                *found == place && reasons.is_none_or(|reasons| reasons.contains(why))
            });
        of_place.map(|(_, items)| items).sum()
    }

    /// Times that the daemon woke a client, and that it heard one ring.
    fn signals(&self) -> Result<u64> {
        let places = self.daemon["clients"].as_array();
        let bells = places.into_iter().flatten();
        let bells = bells.map(|place| number(place, "bells"));
        Ok(number(&self.daemon, "signals")? + bells.sum::<Result<u64>>()?)
    }

    /// Frames for which the generator's rings had no room, of load that is frames: UDP of its host has no part in them.
    fn ring_drops(&self) -> u64 {
        let targets = self.load["targets"].as_array();
        let targets = targets.filter(|_| self.load["transport"] == "raw");
        let drops = targets.into_iter().flatten();
        drops.filter_map(|it| it["socket_drops"].as_u64()).sum()
    }

    /// What two parties have counted.
    fn checks(&self, hops: &[Hops]) -> Vec<Check> {
        let mut checks = Vec::new();
        let mut lost = [0_i64; 2];
        for (hops, target) in hops.iter().zip(&self.clients) {
            let name = target["name"].as_str().unwrap_or_default();
            let left = losses(&self.daemon).into_iter().filter(|(parts, _)| {
                parts[0] == "mux_receive" && parts[1] == "client_gone" && parts[2] == name
            });
            let left: u64 = left.map(|(_, items)| items).sum();
            let gave =
                format!("{name}: frames that the daemon gave, and that the client had or left");
            checks.push(Check::of(
                gave,
                hops.daemon_gave,
                hops.client_received + left,
            ));
            let sent =
                format!("{name}: frames that the client sent, and that the daemon was handed");
            checks.push(Check::of(sent, hops.client_sent, hops.daemon_asked));
            for ((sum, of_client), way) in lost.iter_mut().zip(hops.lost()).zip(["there", "back"]) {
                *sum += of_client;
                let more = format!("{name}: packets that came on the way {way} and never went");
                checks.push(Check::of(more, 0, (-of_client).max(0) as u64));
            }
        }
        let card = self.at_card("mux_card_in", None);
        let nobody = self.at_card("mux_classify", Some(&UNCLASSIFIED));
        let counted = &self.counted;
        let kernels = [
            counted.there + card + nobody,
            counted.back + counted.far_errors + counted.far_no_port + self.ring_drops(),
        ];
        let ways = [
            "lost between generator and daemon, and dropped there by the kernels",
            "lost between card and generator, and dropped there by the kernels",
        ];
        for ((way, lost), kernels) in ways.into_iter().zip(lost).zip(kernels) {
            checks.push(Check::of(way, lost.max(0) as u64, kernels));
        }
        checks
    }

    /// What was lost of a client's packets, by place and reason.
    fn drops(&self, at: usize, hops: &Hops) -> BTreeMap<String, u64> {
        let mut drops = BTreeMap::new();
        let mut add = |name: String, items: u64| {
            if items > 0 {
                *drops.entry(name).or_default() += items;
            }
        };
        let client = &self.clients[at];
        let name = client["name"].as_str().unwrap_or_default();
        for ([place, why, owner], items) in losses(&self.load) {
            // What is lost in flight has its place elsewhere.
            if owner == name && place == "load_send" {
                add(format!("{place}.{why}"), items);
            }
        }
        for ([place, why, owner], items) in losses(&self.daemon) {
            if owner == name && OF_CLIENTS.contains(&place) {
                add(format!("{place}.{why}"), items);
            }
        }
        for ([place, why, _], items) in losses(client) {
            add(format!("{place}.{why}"), items);
        }
        let [there, back] = hops.lost().map(|lost| lost.max(0) as u64);
        let socket = self.load["targets"][at]["socket_drops"].as_u64();
        let socket = socket.unwrap_or(0).min(back);
        add("wire_there.dropped".to_owned(), there);
        add("far_socket.full".to_owned(), socket);
        add("wire_back.dropped".to_owned(), back - socket);
        drops
    }

    /// What was lost on the wire and at the card.
    fn wire_drops(&self) -> BTreeMap<String, u64> {
        let Counted {
            there,
            back,
            far_errors,
            far_no_port,
            ..
        } = self.counted;
        let kernels = [
            ("wire_there.dropped", there),
            ("wire_back.dropped", back),
            ("far_socket.full", far_errors + self.ring_drops()),
            ("far_socket.closed", far_no_port),
        ];
        let mut drops: BTreeMap<String, u64> = kernels
            .into_iter()
            .map(|(name, packets)| (name.to_owned(), packets))
            .collect();
        for ([place, why, _], items) in losses(&self.daemon) {
            if !OF_CLIENTS.contains(&place) {
                drops.insert(format!("{place}.{why}"), items);
            }
        }
        drops.retain(|_, packets| *packets > 0);
        drops
    }

    fn report(&self, options: &Options, at: usize, hops: &Hops) -> Result<ClientReport> {
        let said = &options.clients[at];
        let target = &targets(&self.load)?[at];
        let sending_s = sending_s(options, &self.load)?;
        let (achieved, seconds) = match options.workload {
            Workload::Echo | Workload::Heavy => (
                number(target, "packets_answered")?,
                real(target, "answering_s")?,
            ),
            Workload::RxMostly => (hops.client_datagrams, sending_s),
            Workload::TxMostly | Workload::TxInitiated => (hops.generator_came, sending_s),
        };
        let bits = (achieved * options.size_bytes as u64 * 8) as f64;
        let place = &self.daemon["clients"][at];
        Ok(ClientReport {
            name: target["name"].as_str().unwrap_or_default().to_owned(),
            is_trusted: place["is_trusted"].as_bool().unwrap_or_default(),
            requested_bps: said.load_bps as f64,
            achieved_bps: bits / seconds.max(1e-9),
            rtt_ns: target["rtt_ns"].clone(),
            sojourn_ns_max: number(place, "sojourn_ns_max")?,
            sojourn_ns_bound: said.sojourn_max_us.filter(|us| *us > 0).map(|us| us * 1000),
            limit_bps: said.limit_bps,
            drops: self.drops(at, hops),
            counts: *hops,
        })
    }

    /// Everything, and what does not add up: of the whole way, and in each program's own books.
    pub(super) fn summed_up(
        &self,
        options: &Options,
        share: CpuShare,
    ) -> Result<(MuxBenchSummary, Closed)> {
        let count = options.clients.len();
        let hops: Vec<Hops> = (0..count).map(|at| self.hops(at)).collect::<Result<_>>()?;
        let mut disagreements = self.checks(&hops);
        disagreements.retain(|check| check.off() > 0);
        let mut books = Closed {
            residual_items: disagreements.iter().map(Check::off).sum(),
            ..Closed::default()
        };
        for record in [&self.load, &self.daemon].into_iter().chain(&self.clients) {
            books = books.with(&closed(record)?);
        }
        let clients: Vec<ClientReport> = hops
            .iter()
            .enumerate()
            .map(|(at, hops)| self.report(options, at, hops))
            .collect::<Result<_>>()?;
        let packets: u64 = hops.iter().map(|it| it.daemon_gave + it.daemon_sent).sum();
        let per_packet = packets.max(1) as f64;
        let summary = MuxBenchSummary {
            workload: options.workload,
            is_raw: options.is_raw,
            policy: options.policy.name(),
            size_bytes: options.size_bytes,
            sending_s: sending_s(options, &self.load)?,
            wire_bps: options.wire_bps,
            placement: options.placement,
            cpus: forebay_sys::sched::cpu_count(),
            driver_threads: number(&self.daemon, "driver_threads")?,
            achieved_bps: clients.iter().map(|client| client.achieved_bps).sum(),
            clients,
            cpu_fraction: share.kernel,
            cpu_fraction_soaker: share.soaker,
            packets_per_cpu_second: packets as f64 / cpu_s(&self.daemon).max(1e-9),
            signals_per_packet: self.signals()? as f64 / per_packet,
            wire_drops: self.wire_drops(),
            disagreements,
            generator_limit: limit(&self.load),
            baseline: None,
            interrupted: false,
        };
        Ok((summary, books))
    }
}

#[cfg(test)]
mod tests;
