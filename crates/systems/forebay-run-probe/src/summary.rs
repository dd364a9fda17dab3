//! What a probe's run came to.

use std::collections::BTreeMap;

use forebay_run::record::{Envelope, Record};
use forebay_xdp::{Reason, Term};
use serde::Serialize;

use crate::books::exporter_name;
use crate::export::Exporter;
use crate::filter::{RuleSummary, summaries};
use crate::flows::Flows;
use crate::live::RingCounts;
use crate::offload::Seen;
use crate::packets::PacketsSummary;

/// The record of a probe.
pub type ProbeRecord = Record<ProbeSummary>;

/// What it has to say beside what every record says.
#[derive(Clone, Debug, Serialize)]
pub struct ProbeSummary {
    /// Packets that came in: of an interface those that were read from its rings.
    pub packets_in: u64,
    /// Their octets: of IP packets as their headers say, of others what is behind the link header.
    pub octets_in: u64,
    /// What an interface was read by; of a capture nothing.
    pub input: Option<&'static str>,
    /// Packets that the filter discarded.
    pub packets_filtered: u64,
    /// Their octets.
    pub octets_filtered: u64,
    /// Flow records that were exported, of one exporter where there are several: the least.
    pub flows_exported: u64,
    /// Packets in them.
    pub packets_exported: u64,
    /// Octets in them.
    pub octets_exported: u64,
    /// Packets among them that were counted below user space, and came back.
    pub packets_offloaded: u64,
    /// Their octets.
    pub octets_offloaded: u64,
    /// What counted them, and what happened to flows that it was lent.
    pub offload: Option<OffloadSummary>,
    /// What the books leave over, in packets and octets: `residual_items` and `residual_bytes`.
    pub residual_packets: u64,
    /// Octets that the books leave over.
    pub residual_octets: u64,
    /// Packets in a second of the run.
    pub packet_rate_hz: f64,
    /// Packets of an interface that the kernel lost as it had no room for them: beside those that came in.
    pub packets_dropped_by_kernel: u64,
    /// How often the interface went down.
    pub interface_downs: u64,
    /// By how much a record came after the time-out of its flow, at most, in ns: of an interface until it was written, by the host's clock and of the exporter that was the latest; of a capture
    /// until it was formed, by the capture's clock.
    pub export_late_max_ns: u64,
    /// Packets with a time before that of one that came earlier.
    pub out_of_order: u64,
    /// Packets with a time so far ahead that the clock did not follow, as no other had it.
    pub times_disbelieved: u64,
    /// How often a capture's time was begun anew: 64 packets, one after the other, were late by more than the idle time-out. All flows end there.
    pub times_set_back: u64,
    /// Fragments that were given the ports of the first one of their packet.
    pub fragments_joined: u64,
    /// Fragments without ports.
    pub fragments_unknown: u64,
    /// Flows that a plugin gave up as all its buffers were in use.
    pub plugins_no_room: u64,
    /// Each rule of the packet filter.
    pub filter: Vec<RuleSummary>,
    /// Packets that were exported themselves, if any were to be.
    pub export_packets: Option<PacketsSummary>,
    /// Each exporter.
    pub exports: Vec<ExportSummary>,
}

/// What was counted below user space.
#[derive(Clone, Debug, Serialize)]
pub struct OffloadSummary {
    /// What it was, and where frames met it.
    pub kind: &'static str,
    /// Frames that came to it.
    pub frames: u64,
    /// Those of them that it counted.
    pub frames_counted: u64,
    /// Those of them that it let go up without what is behind their headers.
    pub frames_trimmed: u64,
    /// Flows that were lent.
    pub flows_lent: u64,
    /// How often it had no room for a flow.
    pub flows_not_lent: u64,
    /// How often what was counted of a flow came to the flow table while the flow stayed (`--offload-limit`).
    pub collected: u64,
    /// Its program was taken off the interface before the end, by somebody else or with the interface: later packets came up.
    pub is_taken_off: bool,
    /// How often it told of a flow, by the reason: a segment that may end it, a time-out, that N packets were counted (`--offload-limit`), or an entry in use by other CPUs.
    pub exports: BTreeMap<&'static str, u64>,
}

impl OffloadSummary {
    /// What tables below have seen, from which flow tables collected so often.
    fn of((kind, seen): (&'static str, &[Seen]), collected: u64) -> Self {
        let sum = |count: fn(&Seen) -> u64| seen.iter().map(count).sum();
        Self {
            kind,
            frames: sum(|seen| seen.frames),
            frames_counted: sum(|seen| seen.counts.of(Term::Counted).frames),
            frames_trimmed: sum(|seen| seen.counts.of(Term::Trimmed).frames),
            flows_lent: sum(|seen| seen.lent),
            flows_not_lent: sum(|seen| seen.refused),
            collected,
            is_taken_off: seen.iter().any(|seen| seen.is_taken_off),
            exports: Reason::ALL
                .iter()
                .enumerate()
                .map(|(at, reason)| {
                    let told = seen.iter().map(|seen| seen.exports[at]).sum();
                    (reason.name(), told)
                })
                .collect(),
        }
    }
}

/// What an exporter has done.
#[derive(Clone, Debug, Serialize)]
pub struct ExportSummary {
    /// What it is called in accounts and losses.
    pub owner: String,
    /// What was asked for.
    pub to: String,
    /// Records written.
    pub flows: u64,
    /// Packets in them.
    pub packets: u64,
    /// Octets in them.
    pub octets: u64,
    /// Records that could not be written.
    pub flows_unwritten: u64,
    /// Of an interface, by how much a record was written after the time-out of its flow, at most, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_max_ns: Option<u64>,
    /// Records that went without what plugins found, since with it they are longer than a message of UDP.
    pub flows_without_fields: u64,
}

impl ExportSummary {
    pub(crate) fn of((place, exporter): (usize, &Exporter)) -> Self {
        let Exporter {
            name,
            written,
            unwritten,
            ..
        } = exporter;
        Self {
            owner: exporter_name(place),
            to: name.clone(),
            flows: written.flows,
            packets: written.volume.packets,
            octets: written.volume.octets,
            flows_unwritten: unwritten.flows,
            late_max_ns: exporter.late_max_ns(),
            flows_without_fields: exporter.bare(),
        }
    }
}

/// What a thread had captured.
pub(crate) struct Captured<'a> {
    pub(crate) flows: &'a Flows<'a>,
    pub(crate) ring: Option<&'a RingCounts>,
}

impl ProbeSummary {
    pub(crate) fn of(
        captured: &[Captured<'_>],
        offload: Option<(&'static str, &[Seen])>,
        exports: Vec<ExportSummary>,
        packets: Option<PacketsSummary>,
        envelope: &Envelope,
    ) -> Self {
        let least = exports.iter().min_by_key(|export| export.flows);
        let of_least = |count: fn(&ExportSummary) -> u64| least.map_or(0, count);
        let sum = |count: fn(&Captured<'_>) -> u64| captured.iter().map(count).sum::<u64>();
        let formed_late_ns = captured.iter().map(|one| one.flows.late_max_ns).max();
        let written_late_ns = exports.iter().filter_map(|export| export.late_max_ns).max();
        let packets_in = sum(|one| one.flows.seen.packets + one.flows.taken_below().packets);
        Self {
            packets_in,
            octets_in: sum(|one| one.flows.seen.octets + one.flows.taken_below().octets),
            input: captured
                .iter()
                .find_map(|one| one.ring)
                .map(|ring| ring.kind),
            packets_filtered: sum(|one| one.flows.filtered.packets),
            octets_filtered: sum(|one| one.flows.filtered.octets),
            flows_exported: of_least(|export| export.flows),
            packets_exported: of_least(|export| export.packets),
            octets_exported: of_least(|export| export.octets),
            packets_offloaded: sum(|one| one.flows.table.offloaded().packets),
            octets_offloaded: sum(|one| one.flows.table.offloaded().octets),
            offload: offload.map(|below| {
                let collected = sum(|one| one.flows.table.offload_counts().collected);
                OffloadSummary::of(below, collected)
            }),
            residual_packets: envelope.books.residual_items,
            residual_octets: envelope.books.residual_bytes,
            packet_rate_hz: packets_in as f64 / envelope.duration_s.max(1e-9),
            packets_dropped_by_kernel: sum(|one| one.ring.map_or(0, RingCounts::lost)),
            interface_downs: captured
                .iter()
                .filter_map(|one| one.ring)
                .map(|ring| ring.downs)
                .max()
                .unwrap_or_default(),
            export_late_max_ns: written_late_ns.or(formed_late_ns).unwrap_or(0),
            out_of_order: sum(|one| one.flows.table.counts().out_of_order),
            times_disbelieved: sum(|one| one.flows.table.counts().disbelieved),
            times_set_back: sum(|one| one.flows.set_backs),
            fragments_joined: sum(|one| one.flows.decoder.fragments_joined()),
            fragments_unknown: sum(|one| one.flows.decoder.fragments_unknown()),
            plugins_no_room: sum(|one| one.flows.plugins.no_room()),
            filter: summaries(captured.iter().map(|one| &one.flows.filter)),
            export_packets: packets,
            exports,
        }
    }
}
