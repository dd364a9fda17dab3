//! What one run came to, as numbers with their units.

use std::collections::BTreeMap;

use forebay_ledger::Verdict;
use forebay_run::record::Record;
use forebay_run_evb::plan::Memory;
use forebay_run_evb::summary::Summary;

use super::Setup;
use super::probe::Probe;
use forebay_report::rows::Row;

/// Bytes that wait, at one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fill {
    /// In the sockets' buffers, as the kernel counts memory.
    pub sockets: u64,
    /// In all rings between receiver and builder.
    pub rings: u64,
    /// In the fullest ring.
    pub fullest_ring: u64,
    /// In the rings of each group of sources.
    pub rings_by_group: Vec<u64>,
    /// In the sinks' queues.
    pub sinks: u64,
}

/// One run's results.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Triggers given by the sources, over the whole run.
    pub events_sent: u64,
    /// Complete events.
    pub events_complete: u64,
    /// Incomplete events, written and flagged.
    pub events_partial: u64,
    /// Events given up.
    pub events_discarded: u64,
    /// Complete events over triggers given.
    pub efficiency: f64,
    /// Items lost by place and reason, all sources together.
    pub drops: BTreeMap<String, u64>,
    /// What left over in the books.
    pub residual: [u64; 2],
    /// Triggers per second that the sources gave, while looked at.
    pub offered_hz: f64,
    /// Bytes of sub-events per second that the sources gave, while looked at.
    pub offered_bytes_per_s: f64,
    /// Events built per second, while looked at.
    pub built_hz: f64,
    /// Bytes of events per second, while looked at.
    pub built_bytes_per_s: f64,
    /// Datagrams received per second, while looked at.
    pub datagrams_hz: f64,
    /// Share of one core by stage, while looked at.
    pub cpu: BTreeMap<String, f64>,
    /// CPU time of receiver and builder together for an event built, in µs.
    pub cpu_us_per_event: f64,
    /// Whether the sources were the limit.
    pub generator_limited: bool,
    /// Fills while looked at.
    pub fills: Vec<Fill>,
    /// Upper bounds of memory, as announced at the start.
    pub memory: Memory,
    /// Resident memory by stage, in bytes: private, shared.
    pub resident: BTreeMap<String, [u64; 2]>,
    /// Latency from the first receive stamp to the sink's queue: median and 99th percentile, in ns.
    pub latency_ns: [u64; 2],
    /// Bytes in files.
    pub bytes_written: u64,
    /// From the first to the last event, in s.
    pub span_s: f64,
    /// From the first event until all stages have ended and the files are on the device, in s.
    pub whole_s: f64,
    /// Somebody asked to end.
    pub interrupted: bool,
}

impl Measured {
    pub(super) fn of(
        setup: &Setup,
        probe: &Probe<'_>,
        summary: &Record<Summary>,
        verdict: &Verdict,
        events_sent: u64,
    ) -> Self {
        let (first, last) = (probe.first.as_ref(), probe.last.as_ref());
        let seconds = first
            .zip(last)
            .map_or(f64::NAN, |(first, last)| (last.at - first.at).as_secs_f64());
        let rate = |of: fn(&super::probe::Mark) -> u64| {
            first.zip(last).map_or(f64::NAN, |(first, last)| {
                of(last).saturating_sub(of(first)) as f64 / seconds
            })
        };
        let cpu = |name: &String| {
            let (first, last) = first.zip(last)?;
            Some((
                name.clone(),
                last.cpu_ns
                    .get(name)?
                    .saturating_sub(*first.cpu_ns.get(name)?) as f64
                    / 1e9
                    / seconds,
            ))
        };
        let cpu: BTreeMap<String, f64> = last
            .map(|last| last.cpu_ns.keys().filter_map(cpu).collect())
            .unwrap_or_default();
        let built_hz = rate(|mark| mark.events);
        let offered_hz = rate(|mark| mark.triggers);
        let stages = |cpu: &BTreeMap<String, f64>| {
            cpu.get("receiver")
                .zip(cpu.get("builder"))
                .map_or(f64::NAN, |(a, b)| a + b)
        };
        let all = summary.events_built + summary.events_partial;
        Self {
            events_sent,
            events_complete: summary.events_built,
            events_partial: summary.events_partial,
            events_discarded: summary.events_discarded,
            efficiency: if events_sent > 0 {
                summary.events_built as f64 / events_sent as f64
            } else {
                f64::NAN
            },
            drops: by_reason(verdict),
            residual: [
                summary.envelope.books.residual_items,
                summary.envelope.books.residual_bytes,
            ],
            offered_hz,
            offered_bytes_per_s: offered_hz * setup.event_bytes(),
            built_hz,
            built_bytes_per_s: rate(|mark| mark.event_bytes),
            datagrams_hz: rate(|mark| mark.datagrams),
            cpu_us_per_event: stages(&cpu) * 1e6 / built_hz,
            cpu,
            generator_limited: summary.generator_limited,
            fills: probe.fills.clone(),
            memory: summary.memory,
            resident: last.map(|last| last.resident.clone()).unwrap_or_default(),
            latency_ns: [summary.event_latency_ns.p50, summary.event_latency_ns.p99],
            bytes_written: summary.bytes_written,
            span_s: if summary.event_rate_hz > 0.0 {
                all as f64 / summary.event_rate_hz
            } else {
                f64::NAN
            },
            whole_s: f64::NAN,
            interrupted: false,
        }
    }

    /// Items lost, whatever their unit.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.drops.values().sum()
    }

    /// Whether every event is complete, nothing was lost and the books close.
    #[must_use]
    pub fn is_lossless(&self) -> bool {
        self.lost() == 0
            && self.residual == [0, 0]
            && self.events_partial == 0
            && self.events_complete == self.events_sent
    }

    /// Share of one core that `stage` used, in percent.
    #[must_use]
    pub fn cpu_percent(&self, stage: &str) -> f64 {
        self.cpu.get(stage).map_or(f64::NAN, |share| share * 100.0)
    }

    /// Mean over the samples of what `of` counts.
    #[must_use]
    pub fn mean_fill(&self, of: impl Fn(&Fill) -> u64) -> f64 {
        self.fills.iter().map(|fill| of(fill) as f64).sum::<f64>() / self.fills.len() as f64
    }

    /// Largest sample of what `of` counts.
    #[must_use]
    pub fn max_fill(&self, of: impl Fn(&Fill) -> u64) -> u64 {
        self.fills.iter().map(of).max().unwrap_or(0)
    }

    /// As cells of a row.
    #[must_use]
    pub fn row(&self) -> Row {
        let mut row = Row::default();
        row.add("offered_hz", self.offered_hz);
        row.add("offered_bytes_per_s", self.offered_bytes_per_s);
        row.add("built_hz", self.built_hz);
        row.add("built_bytes_per_s", self.built_bytes_per_s);
        row.add("datagrams_hz", self.datagrams_hz);
        row.add("efficiency_percent", self.efficiency * 100.0);
        row.add("discarded_percent", (1.0 - self.efficiency) * 100.0);
        row.add("events_sent", self.events_sent);
        row.add("events_complete", self.events_complete);
        row.add("events_partial", self.events_partial);
        row.add("events_discarded", self.events_discarded);
        row.add("lost_items", self.lost());
        let drops = self
            .drops
            .iter()
            .map(|(name, items)| format!("{name}={items}"));
        row.add("drops", drops.collect::<Vec<_>>().join(" "));
        row.add("residual_items", self.residual[0]);
        row.add("residual_bytes", self.residual[1]);
        row.add("generator_limited", self.generator_limited);
        for stage in ["builder", "receiver", "generator"] {
            row.add(&format!("cpu_{stage}_percent"), self.cpu_percent(stage));
        }
        row.add("cpu_us_per_event", self.cpu_us_per_event);
        self.add_fills(&mut row);
        row.add("latency_ns_p50", self.latency_ns[0]);
        row.add("latency_ns_p99", self.latency_ns[1]);
        row.add("span_s", self.span_s);
        row
    }

    fn add_fills(&self, row: &mut Row) {
        let rings = self.memory.source_rings_bytes as f64;
        let sockets = self.memory.socket_buffers_bytes as f64;
        row.add(
            "ring_fill_percent_mean",
            self.mean_fill(|fill| fill.rings) / rings * 100.0,
        );
        row.add(
            "ring_fill_percent_max",
            self.max_fill(|fill| fill.rings) as f64 / rings * 100.0,
        );
        row.add(
            "fullest_ring_bytes_max",
            self.max_fill(|fill| fill.fullest_ring),
        );
        row.add(
            "socket_fill_percent_mean",
            self.mean_fill(|fill| fill.sockets) / sockets * 100.0,
        );
        row.add(
            "socket_fill_percent_max",
            self.max_fill(|fill| fill.sockets) as f64 / sockets * 100.0,
        );
        row.add("sink_fill_bytes_mean", self.mean_fill(|fill| fill.sinks));
        row.add("ring_capacity_bytes", self.memory.source_rings_bytes);
        row.add("socket_capacity_bytes", self.memory.socket_buffers_bytes);
        let groups = self
            .fills
            .first()
            .map_or(0, |fill| fill.rings_by_group.len());
        for group in 0..groups {
            row.add(
                &format!("ring_fill_mb_group{group}_mean"),
                self.mean_fill(|fill| fill.rings_by_group[group]) / 1e6,
            );
            row.add(
                &format!("ring_fill_mb_group{group}_max"),
                self.max_fill(|fill| fill.rings_by_group[group]) as f64 / 1e6,
            );
        }
    }
}

/// Losses of all owners together, by place and reason.
fn by_reason(verdict: &Verdict) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (name, lost) in verdict.balance.drops() {
        let mut words = name.splitn(3, '.');
        let name = [words.next(), words.next()]
            .map(Option::unwrap_or_default)
            .join(".");
        *all.entry(name).or_default() += lost.items;
    }
    all
}
