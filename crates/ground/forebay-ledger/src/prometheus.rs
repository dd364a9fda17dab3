//! Snapshots in the text format that Prometheus reads (OpenMetrics 1.0), by `prometheus-client`.
//!
//! Its registry of live metrics is not used, as the counters live in mapped files: one collector encodes
//! the snapshots. Times become seconds, the base unit. A process with several ledgers shows them on one page ([`expose_all`]): each is a
//! [`Sheet`] whose label tells its samples from those of the others.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::balance::Balance;
use crate::directory::{AccountEntry, MetricEntry, MetricKind, WordRef};
use crate::histogram::Histogram;
use crate::snapshot::Snapshot;

/// The content type to serve the text with.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Families made here, which no declared metric may be named like.
pub(crate) const RESERVED: [&str; 23] = [
    "items",
    "bytes",
    "held_items",
    "held_bytes",
    "dropped_items",
    "dropped_bytes",
    "dropped_bytes_uncertain",
    "in_flight_items",
    "in_flight_bytes",
    "unconfirmed_items",
    "unconfirmed_bytes",
    "residual_items",
    "residual_bytes",
    "inferred_lost_items",
    "host_lost_items",
    "link_items",
    "process_cpu_seconds",
    "process_cpu_ns",
    "metrics_connections",
    "metrics_connections_cut",
    "elink_chunks",
    "elink_bytes",
    "elink_chunks_flagged",
];

/// Bounds of the exported buckets: 2^6 − 1 to 2^36 − 1, an octave each.
const EXPORTED_OCTAVES: std::ops::RangeInclusive<u32> = 6..=36;

/// Labels of a sample.
pub type Labels = Vec<(&'static str, String)>;

/// One ledger on a page of several.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// What tells its samples from those of the other ledgers; none: they have no further label.
    pub label: Option<(&'static str, String)>,
    /// What it says.
    pub snapshot: Arc<Snapshot>,
    /// Leaves out the accounts of which every term is 0: those of places that nobody has taken yet.
    pub only_used: bool,
}

impl Sheet {
    /// Everything of a snapshot, without a further label.
    #[must_use]
    pub fn whole(snapshot: Arc<Snapshot>) -> Self {
        Self {
            label: None,
            snapshot,
            only_used: false,
        }
    }

    fn shows(&self, entry: &AccountEntry) -> bool {
        let words = 2 * (3 + self.snapshot.directory.reasons_of(entry).len() as u32);
        let mut words = (0..words).map(|word| WordRef {
            group: entry.group,
            word: entry.base + word,
        });
        !self.only_used || words.any(|at| self.snapshot.at(at) > 0)
    }

    /// Labels of a sample of this ledger.
    fn labelled<const N: usize>(&self, labels: [(&'static str, String); N]) -> Labels {
        self.label.iter().cloned().chain(labels).collect()
    }
}

/// Samples that stand in no ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Its name, without `forebay_` in front and `_total` behind.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Whether it only goes up.
    pub is_counter: bool,
    /// Labels and value of each.
    pub samples: Vec<(Labels, f64)>,
}

/// Encodes everything in `snapshot`.
///
/// # Errors
/// Only when memory for the text cannot be had.
pub fn expose(snapshot: &Arc<Snapshot>) -> Result<String, fmt::Error> {
    expose_all(vec![Sheet::whole(Arc::clone(snapshot))], Vec::new())
}

/// Encodes several ledgers, and what stands in none, on one page: each family once, with the samples of all.
///
/// # Errors
/// Only when memory for the text cannot be had.
pub fn expose_all(sheets: Vec<Sheet>, families: Vec<Family>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("forebay");
    registry.register_collector(Box::new(Page { sheets, families }));
    let mut page = String::new();
    text::encode(&mut page, &registry)?;
    Ok(page)
}

#[derive(Debug)]
struct Page {
    sheets: Vec<Sheet>,
    families: Vec<Family>,
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let balances: Vec<Balance> = self.sheets.iter().map(|it| it.snapshot.balance()).collect();
        self.encode_terms(&mut encoder)?;
        self.encode_drops(&mut encoder)?;
        self.encode_balance(&balances, &mut encoder)?;
        self.encode_metrics(&mut encoder)?;
        self.encode_histograms(&mut encoder)?;
        self.encode_families(&mut encoder)
    }
}

/// One family of samples with the same label names.
fn family(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    kind: MetricType,
    samples: impl Iterator<Item = (Labels, f64)>,
) -> fmt::Result {
    let mut samples = samples.peekable();
    if samples.peek().is_none() {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, value) in samples {
        let mut sample = metric.encode_family(&labels)?;
        match kind {
            MetricType::Counter => sample.encode_counter::<NoLabelSet, _, f64>(&value, None)?,
            _ => sample.encode_gauge(&value)?,
        }
    }
    Ok(())
}

impl Page {
    /// What came in and went on, per account.
    fn encode_terms(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let values = |byte: u32| {
            self.sheets.iter().flat_map(move |sheet| {
                let accounts = sheet.snapshot.directory.accounts.iter();
                let shown = accounts.filter(|entry| sheet.shows(entry));
                shown.flat_map(move |entry| {
                    [("in", 0), ("out", 2)].map(|(direction, word)| {
                        let at = WordRef {
                            group: entry.group,
                            word: entry.base + word + byte,
                        };
                        let labels = sheet.labelled([
                            ("place", entry.place.clone()),
                            ("owner", entry.owner.clone()),
                            ("unit", entry.unit.to_string()),
                            ("direction", direction.to_owned()),
                        ]);
                        (labels, sheet.snapshot.at(at) as f64)
                    })
                })
            })
        };
        let counter = MetricType::Counter;
        family(
            encoder,
            "items",
            "Items that entered or left a place",
            counter,
            values(0),
        )?;
        family(
            encoder,
            "bytes",
            "Bytes that entered or left a place",
            counter,
            values(1),
        )
    }

    /// Every named loss, also those that never occurred: a rate needs the 0 before the first.
    fn encode_drops(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let drops = || self.sheets.iter().flat_map(drops_of);
        let counter = MetricType::Counter;
        let items = drops().map(|(labels, [items, ..])| (labels, items as f64));
        family(
            encoder,
            "dropped_items",
            "Items lost, by place, owner and reason",
            counter,
            items,
        )?;
        let least = drops().map(|(labels, [_, min, _])| (labels, min as f64));
        let help = "Bytes lost; at least, where the kernel counts items only";
        family(encoder, "dropped_bytes", help, counter, least)?;
        let open = drops().filter(|(_, [_, min, max])| max > min);
        let open = open.map(|(labels, [_, min, max])| (labels, (max - min) as f64));
        let help = "Bytes that may be lost on top, where the kernel counts items only";
        family(encoder, "dropped_bytes_uncertain", help, counter, open)
    }

    fn encode_metrics(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut families: BTreeMap<&str, Vec<(&Sheet, &MetricEntry)>> = BTreeMap::new();
        for sheet in &self.sheets {
            let shown = |entry: &&MetricEntry| entry.kind != MetricKind::Cursor;
            for entry in sheet.snapshot.directory.metrics.iter().filter(shown) {
                families
                    .entry(&entry.name)
                    .or_default()
                    .push((sheet, entry));
            }
        }
        for (name, entries) in families {
            let (name, scale) = base_unit(name);
            let Some((_, first)) = entries.first() else {
                continue;
            };
            let kind = match first.kind {
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge | MetricKind::Cursor => MetricType::Gauge,
            };
            let samples = entries.iter().map(|(sheet, entry)| {
                let snapshot = &sheet.snapshot;
                let group = snapshot.directory.groups.get(entry.at.group as usize);
                let group = group.map_or_else(String::new, |group| group.name.clone());
                let labels = sheet.labelled([("group", group), ("owner", entry.owner.clone())]);
                (labels, snapshot.at(entry.at) as f64 * scale)
            });
            family(encoder, &name, &first.help, kind, samples)?;
        }
        Ok(())
    }

    fn encode_histograms(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut families: BTreeMap<&str, Vec<(&Sheet, &Histogram)>> = BTreeMap::new();
        for sheet in &self.sheets {
            for histogram in &sheet.snapshot.histograms {
                let of_name = families.entry(&histogram.name).or_default();
                of_name.push((sheet, histogram));
            }
        }
        for (name, histograms) in families {
            let (name, scale) = base_unit(name);
            let help = format!("Distribution of {name}");
            let mut metric =
                encoder.encode_descriptor(&name, &help, None, MetricType::Histogram)?;
            for (sheet, histogram) in histograms {
                let labels = sheet.labelled([("owner", histogram.owner.clone())]);
                let buckets = exported_buckets(histogram, scale);
                let sum = histogram.sum() as f64 * scale;
                let mut sample = metric.encode_family(&labels)?;
                sample.encode_histogram::<NoLabelSet>(sum, histogram.count(), &buckets, None)?;
            }
        }
        Ok(())
    }

    fn encode_families(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for one in &self.families {
            let kind = if one.is_counter {
                MetricType::Counter
            } else {
                MetricType::Gauge
            };
            family(
                encoder,
                one.name,
                one.help,
                kind,
                one.samples.iter().cloned(),
            )?;
        }
        Ok(())
    }

    /// What is inside, what is left over, what is inferred.
    fn encode_balance(
        &self,
        balances: &[Balance],
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        let sheets = || self.sheets.iter().zip(balances);
        let accounts = || {
            sheets().flat_map(|(sheet, balance)| {
                // Lines come in the order of the accounts.
                let entries = balance
                    .accounts
                    .iter()
                    .zip(&sheet.snapshot.directory.accounts);
                let shown = entries.filter(|(_, entry)| sheet.shows(entry));
                shown.map(|(line, _)| {
                    let labels = labels_of("account", &line.place, &line.owner, line.unit);
                    (sheet.labelled(labels), line)
                })
            })
        };
        let links = || {
            sheets().flat_map(|(sheet, balance)| {
                balance.links.iter().map(|line| {
                    let labels = labels_of("link", &line.place, &line.owner, line.unit);
                    (sheet.labelled(labels), line)
                })
            })
        };
        let residuals = || {
            let of_links = links().filter_map(|(labels, line)| Some((labels, line.residual?)));
            accounts()
                .map(|(labels, line)| (labels, line.residual))
                .chain(of_links)
        };
        let gauge = MetricType::Gauge;
        let held = accounts().map(|(labels, line)| (labels, line.held.items as f64));
        family(encoder, "held_items", "Items inside a place", gauge, held)?;
        let held = accounts().map(|(labels, line)| (labels, line.held.bytes as f64));
        family(encoder, "held_bytes", "Bytes inside a place", gauge, held)?;
        let flying = links().map(|(labels, line)| (labels, line.in_flight.items as f64));
        family(
            encoder,
            "in_flight_items",
            "Items inside a link",
            gauge,
            flying,
        )?;
        let flying = links().map(|(labels, line)| (labels, line.in_flight.bytes as f64));
        family(
            encoder,
            "in_flight_bytes",
            "Bytes inside a link",
            gauge,
            flying,
        )?;
        let unconfirmed =
            || accounts().filter_map(|(labels, line)| Some((labels, line.unconfirmed?)));
        let items = unconfirmed().map(|(labels, left)| (labels, left.items as f64));
        let help = "Items that went out of a place and that no peer has acknowledged";
        family(encoder, "unconfirmed_items", help, gauge, items)?;
        let bytes = unconfirmed().map(|(labels, left)| (labels, left.bytes as f64));
        let help = "Bytes that went out of a place and that no peer has acknowledged";
        family(encoder, "unconfirmed_bytes", help, gauge, bytes)?;
        let items = residuals().map(|(labels, left)| (labels, left.items as f64));
        let help = "Items that are unaccounted for; absent where the sender keeps no books";
        family(encoder, "residual_items", help, gauge, items)?;
        let bytes = residuals().map(|(labels, left)| (labels, left.bytes as f64));
        family(
            encoder,
            "residual_bytes",
            "Bytes that are unaccounted for",
            gauge,
            bytes,
        )?;
        let inferred = sheets().flat_map(|(sheet, balance)| {
            balance.links.iter().filter_map(|line| {
                let labels = labels_of("link", &line.place, &line.owner, line.inferred_unit?);
                Some((sheet.labelled(labels), line.inferred_lost_items? as f64))
            })
        });
        let help = "Items that gaps in numbers say are lost: an inference, in no balance";
        family(
            encoder,
            "inferred_lost_items",
            help,
            MetricType::Counter,
            inferred,
        )?;
        let host = sheets().flat_map(|(sheet, balance)| {
            balance.host.iter().map(|line| {
                let labels = [
                    ("place", line.place.clone()),
                    ("owner", line.owner.to_owned()),
                    ("reason", line.reason.clone()),
                ];
                (sheet.labelled(labels), line.items as f64)
            })
        });
        family(
            encoder,
            "host_lost_items",
            "Items lost by the whole host, charged to nobody",
            MetricType::Counter,
            host,
        )
    }
}

/// Every named loss of a ledger: items, and bytes at least and at most.
fn drops_of(sheet: &Sheet) -> impl Iterator<Item = (Labels, [u64; 3])> {
    let (snapshot, directory) = (&sheet.snapshot, &sheet.snapshot.directory);
    let accounts = directory.accounts.iter();
    let of_accounts = accounts
        .filter(|entry| sheet.shows(entry))
        .flat_map(move |entry| {
            (3..)
                .zip(directory.reasons_of(entry))
                .map(move |(index, reason)| {
                    let word = entry.base + 2 * index;
                    let (items, bytes) = snapshot.pair(WordRef {
                        group: entry.group,
                        word,
                    });
                    let labels = drop_labels(&entry.place, &entry.owner, reason, entry.unit);
                    (sheet.labelled(labels), [items, bytes, bytes])
                })
        });
    let of_links = directory.links.iter().flat_map(move |entry| {
        entry.drops.iter().map(move |term| {
            let ((items, _), (min, max)) = snapshot.drop_amount(&term.amount);
            let unit = snapshot.unit_of(entry);
            let labels = drop_labels(&entry.place, &entry.owner, &term.reason, unit);
            (sheet.labelled(labels), [items, min, max])
        })
    });
    of_accounts.chain(of_links)
}

fn drop_labels(
    place: &str,
    owner: &str,
    reason: &str,
    unit: crate::Unit,
) -> [(&'static str, String); 4] {
    [
        ("place", place.to_owned()),
        ("owner", owner.to_owned()),
        ("reason", reason.to_owned()),
        ("unit", unit.to_string()),
    ]
}

fn labels_of(
    kind: &str,
    place: &str,
    owner: &str,
    unit: crate::Unit,
) -> [(&'static str, String); 4] {
    [
        ("kind", kind.to_owned()),
        ("place", place.to_owned()),
        ("owner", owner.to_owned()),
        ("unit", unit.to_string()),
    ]
}

/// Times in ns become seconds; other names stay.
fn base_unit(name: &str) -> (String, f64) {
    match name.strip_suffix("_ns") {
        Some(stem) => (format!("{stem}_seconds"), 1e-9),
        None => (name.to_owned(), 1.0),
    }
}

/// Fine buckets joined to octaves, each with its greatest value and its count.
fn exported_buckets(histogram: &Histogram, scale: f64) -> Vec<(f64, u64)> {
    let mut fine = histogram.buckets().peekable();
    let mut joined: Vec<(f64, u64)> = EXPORTED_OCTAVES
        .map(|octave| {
            let bound = (1u64 << octave) - 1;
            let mut count = 0u64;
            while let Some((_, n)) = fine.next_if(|&(last, _)| last <= bound) {
                count = count.saturating_add(n);
            }
            (bound as f64 * scale, count)
        })
        .collect();
    let rest = fine.fold(0, |sum: u64, (_, n)| sum.saturating_add(n));
    joined.push((f64::INFINITY, rest));
    // Buckets are told as running sums, which overflow only where a file is damaged.
    joined.iter_mut().fold(u64::MAX, |room, (_, count)| {
        *count = (*count).min(room);
        room - *count
    });
    joined
}
