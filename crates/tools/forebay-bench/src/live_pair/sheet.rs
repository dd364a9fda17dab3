//! What every party of a run has counted, side by side.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use super::Offload;
use super::collector::Collected;
use super::ground::Wire;

/// What the parties said at their ends.
pub(super) struct Told {
    pub(super) generator: Value,
    pub(super) probe: Value,
    pub(super) wire: Wire,
    pub(super) collected: Option<Collected>,
    pub(super) interrupted: bool,
}

/// Packets, and octets of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Volume {
    /// Packets.
    pub packets: u64,
    /// Octets of IP, headers included.
    pub octets: u64,
}

impl Volume {
    /// What part of another it is, in per cent: of packets, and of octets.
    #[must_use]
    pub fn percent_of(self, all: Self) -> [f64; 2] {
        let percent = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
        [
            percent(self.packets, all.packets),
            percent(self.octets, all.octets),
        ]
    }
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// What counted heavy flows.
    pub offload: Offload,
    /// The same as the probe says it, with where frames met it.
    pub offload_kind: Option<String>,
    /// What the kernel took from the generator.
    pub sent: Volume,
    /// Packets of the profile that were larger than the wire takes, and were sent as large as that.
    pub shortened_packets: u64,
    /// Packets a second that were sent.
    pub packet_rate_hz: f64,
    /// The generator or its host did not reach the rate that was asked for.
    pub generator_was_limit: bool,
    /// Packets that an end of the wire dropped, by the kernel's counters of both.
    pub wire_dropped_packets: u64,
    /// Packets that came in at the far end, by the kernel.
    pub wire_arrived_packets: u64,
    /// What the kernel had no room for in the probe's ring: packets by its own count; octets, which it does not count, as what is left of those sent.
    pub ring_lost: Volume,
    /// The same in per cent of what was sent.
    pub ring_lost_percent: f64,
    /// Octets of it, in per cent of what was sent.
    pub ring_lost_octets_percent: f64,
    /// What came to the probe, or was counted for it below user space.
    pub taken: Volume,
    /// What is in records.
    pub recorded: Volume,
    /// Records.
    pub flows: u64,
    /// What was counted below user space.
    pub offloaded: Volume,
    /// Other losses of the probe, by name.
    pub lost: BTreeMap<String, u64>,
    /// CPU time of the probe, in s. What the kernel spends below user space is not in it: the sender pays for that on a virtual wire.
    pub probe_cpu_s: f64,
    /// CPU time of the generator, in s.
    pub generator_cpu_s: f64,
    /// What the collector has.
    pub collected: Option<Collected>,
    /// What the books of both programs leave over, items and bytes.
    pub residual: [u64; 2],
    /// The user ended it early.
    pub interrupted: bool,
    /// Counts of two parties that are not the same, each pair in words.
    pub disagreements: Vec<String>,
    /// Books close, and nobody does.
    pub agrees: bool,
}

/// A number of a record.
fn number(json: &Value, key: &str) -> Result<u64> {
    let found = json[key].as_u64();
    found.with_context(|| format!("a record says no {key}: {json}"))
}

fn volume(json: &Value, kind: &str) -> Result<Volume> {
    Ok(Volume {
        packets: number(json, &format!("packets{kind}"))?,
        octets: number(json, &format!("octets{kind}"))?,
    })
}

fn cpu_s(json: &Value) -> f64 {
    let all = json["cpu_s"].as_object();
    all.map_or(0.0, |all| all.values().filter_map(Value::as_f64).sum())
}

/// Losses of a record, by place and reason.
fn losses(json: &Value) -> BTreeMap<String, u64> {
    let all = json["drops"].as_object().into_iter().flatten();
    let items = all.filter_map(|(name, lost)| Some((name.clone(), lost["items"].as_u64()?)));
    items.filter(|(_, items)| *items > 0).collect()
}

fn residual(told: &Told) -> Result<[u64; 2]> {
    let mut sum = [0; 2];
    for json in [&told.generator, &told.probe] {
        for terms in [
            ["residual_items", "residual_bytes"],
            ["left_items", "left_bytes"],
        ] {
            sum[0] += number(json, terms[0])?;
            sum[1] += number(json, terms[1])?;
        }
    }
    Ok(sum)
}

impl Side {
    pub(super) fn of(offload: Offload, told: Told) -> Result<Self> {
        let Told {
            generator, probe, ..
        } = &told;
        let (sent, taken) = (volume(generator, "")?, volume(probe, "_in")?);
        let ring_lost = Volume {
            packets: number(probe, "packets_dropped_by_kernel")?,
            octets: sent.octets.saturating_sub(taken.octets),
        };
        let [ring_lost_percent, ring_lost_octets_percent] = ring_lost.percent_of(sent);
        let interface = &generator["interface"];
        let kind = probe["offload"]["kind"].as_str().map(str::to_owned);
        let mut lost = losses(probe);
        lost.retain(|name, _| !name.starts_with("ring.kernel_ring_full"));
        let mut side = Self {
            offload,
            offload_kind: kind,
            sent,
            shortened_packets: number(interface, "shortened_packets")?,
            packet_rate_hz: generator["packet_rate_hz"].as_f64().unwrap_or_default(),
            generator_was_limit: interface["was_limit"] == true,
            wire_dropped_packets: told.wire.dropped,
            wire_arrived_packets: told.wire.arrived,
            ring_lost,
            ring_lost_percent,
            ring_lost_octets_percent,
            taken,
            recorded: volume(probe, "_exported")?,
            flows: number(probe, "flows_exported")?,
            offloaded: volume(probe, "_offloaded")?,
            lost,
            probe_cpu_s: cpu_s(probe),
            generator_cpu_s: cpu_s(generator),
            collected: told.collected,
            residual: residual(&told)?,
            interrupted: told.interrupted,
            disagreements: Vec::new(),
            agrees: false,
        };
        side.disagreements = side.disagree();
        side.agrees = side.disagreements.is_empty() && side.residual == [0; 2];
        Ok(side)
    }

    /// Counts of two parties that are not the same, each pair in words: generator, kernel, probe and collector each have a count of their own.
    fn disagree(&self) -> Vec<String> {
        let unrecorded = |place: &str| {
            let named = self.lost.iter().filter(|(name, _)| name.starts_with(place));
            named.map(|(_, items)| items).sum::<u64>()
        };
        let unread = self.ring_lost.packets + unrecorded("ring.");
        let mut checks = vec![
            (
                "sent, and arrived or dropped on the wire",
                self.sent.packets,
                self.wire_arrived_packets + self.wire_dropped_packets,
            ),
            (
                "arrived, and in the probe or lost by its ring",
                self.wire_arrived_packets,
                self.taken.packets + unread,
            ),
            (
                "in the probe, and in records or lost by name",
                self.taken.packets,
                self.recorded.packets + unrecorded("packets."),
            ),
        ];
        if unread + self.wire_dropped_packets == 0 {
            checks.push((
                "octets sent, and in the probe",
                self.sent.octets,
                self.taken.octets,
            ));
        }
        if let Some(collected) = &self.collected {
            let flows = "records exported, and those of nfcapd";
            checks.push((flows, self.flows, collected.flows));
            let packets = "packets in records, and those of nfcapd";
            checks.push((packets, self.recorded.packets, collected.packets));
            let octets = "octets in records, and those of nfcapd";
            checks.push((octets, self.recorded.octets, collected.octets));
        }
        let differ = checks.into_iter().filter(|(_, one, other)| one != other);
        differ
            .map(|(what, one, other)| format!("{what}: {one} and {other}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type Change = fn(&mut Told);

    fn told() -> Told {
        let closed =
            json!({"residual_items": 0, "residual_bytes": 0, "left_items": 0, "left_bytes": 0});
        let with = |mut more: Value| {
            let more_of = more.as_object_mut().unwrap();
            more_of.extend(closed.as_object().unwrap().clone());
            more
        };
        Told {
            generator: with(json!({
                "packets": 100, "octets": 50_000, "packet_rate_hz": 10.0, "cpu_s": {"main": 0.5},
                "interface": {"shortened_packets": 3, "was_limit": false},
            })),
            probe: with(json!({
                "packets_in": 90, "octets_in": 45_000, "packets_exported": 89, "octets_exported": 44_900,
                "flows_exported": 7, "packets_offloaded": 40, "octets_offloaded": 20_000,
                "packets_dropped_by_kernel": 8, "cpu_s": {"a": 0.25, "b": 0.5},
                "offload": {"kind": "xdp, in the driver"},
                "drops": {
                    "ring.kernel_ring_full": {"items": 8}, "packets.not_ip": {"items": 1}, "export.not_written": {"items": 0},
                },
            })),
            wire: Wire {
                sent: 98,
                arrived: 98,
                dropped: 2,
            },
            collected: Some(Collected {
                flows: 7,
                packets: 89,
                octets: 44_900,
                ..Collected::default()
            }),
            interrupted: false,
        }
    }

    #[test]
    fn all_parties_agree_to_the_packet() {
        let side = Side::of(Offload::Xdp, told()).unwrap();
        assert_eq!(side.disagreements, Vec::<String>::new());
        assert!(side.agrees);
        assert_eq!((side.ring_lost.packets, side.ring_lost.octets), (8, 5_000));
        assert_eq!(
            (side.ring_lost_percent, side.ring_lost_octets_percent),
            (8.0, 10.0)
        );
        assert_eq!((side.probe_cpu_s, side.generator_cpu_s), (0.75, 0.5));
        assert_eq!(
            side.lost,
            BTreeMap::from([("packets.not_ip".to_owned(), 1)])
        );
    }

    #[test]
    fn one_packet_that_somebody_else_counts_is_found() {
        let wrong: [(Change, &str); 6] = [
            (
                |told| told.generator["packets"] = 101.into(),
                "sent, and arrived",
            ),
            (|told| told.wire.dropped = 1, "sent, and arrived"),
            (
                |told| told.probe["packets_dropped_by_kernel"] = 7.into(),
                "lost by its ring",
            ),
            (
                |told| told.probe["drops"]["packets.not_ip"]["items"] = 2.into(),
                "lost by name",
            ),
            (
                |told| told.collected.as_mut().unwrap().octets -= 1,
                "octets in records",
            ),
            (
                |told| told.collected.as_mut().unwrap().flows += 1,
                "records exported",
            ),
        ];
        for (change, named) in wrong {
            let mut told = told();
            change(&mut told);
            let side = Side::of(Offload::Off, told).unwrap();
            assert!(!side.agrees);
            let [one] = &side.disagreements[..] else {
                panic!("{named}: {:?}", side.disagreements)
            };
            assert!(one.contains(named), "{one}");
        }
    }

    #[test]
    fn books_that_do_not_close_and_lost_octets_are_no_agreement() {
        let mut open = told();
        open.probe["left_items"] = 1.into();
        let side = Side::of(Offload::Off, open).unwrap();
        assert!(side.disagreements.is_empty() && !side.agrees);
        let mut whole = told();
        whole.wire = Wire {
            sent: 100,
            arrived: 100,
            dropped: 0,
        };
        whole.probe["packets_dropped_by_kernel"] = 0.into();
        whole.probe["packets_in"] = 100.into();
        whole.probe["drops"]["packets.not_ip"]["items"] = 11.into();
        let side = Side::of(Offload::Off, whole).unwrap();
        assert_eq!(
            side.disagreements,
            ["octets sent, and in the probe: 50000 and 45000"]
        );
    }

    #[test]
    fn a_record_that_says_too_little_is_named() {
        let mut told = told();
        told.probe["packets_in"] = Value::Null;
        let error = Side::of(Offload::Off, told).unwrap_err();
        assert!(error.to_string().contains("packets_in"), "{error}");
    }
}
