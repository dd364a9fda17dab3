//! What is seen of a run from outside while it goes on: counters, CPU time, fills.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use forebay_ledger::{LedgerReader, Snapshot};
use forebay_run_evb::books::Books;
use forebay_run_evb::plan::Plan;

use super::{Fill, Setup};

/// How often fills are looked at.
const PERIOD: Duration = Duration::from_millis(40);

/// Counters at one instant.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    pub(super) at: Instant,
    pub(super) triggers: u64,
    pub(super) events: u64,
    pub(super) event_bytes: u64,
    pub(super) datagrams: u64,
    /// CPU time by stage, in ns.
    pub(super) cpu_ns: BTreeMap<String, u64>,
    /// Resident memory by stage, in bytes: private, shared. Only at the end: it takes the kernel some time.
    pub(super) resident: BTreeMap<String, [u64; 2]>,
}

/// Watches one run.
pub(super) struct Probe<'a> {
    setup: &'a Setup,
    plan: &'a Plan,
    books: &'a Books,
    started: Option<Instant>,
    next: Option<Instant>,
    pids: BTreeMap<String, u32>,
    pub(super) first: Option<Mark>,
    pub(super) last: Option<Mark>,
    pub(super) fills: Vec<Fill>,
}

impl<'a> Probe<'a> {
    pub(super) fn new(setup: &'a Setup, plan: &'a Plan, books: &'a Books) -> Self {
        let none = (None, None);
        Self {
            setup,
            plan,
            books,
            started: None,
            next: None,
            pids: BTreeMap::new(),
            first: none.0,
            last: none.1,
            fills: Vec::new(),
        }
    }

    /// To be called often.
    pub(super) fn tick(&mut self, reader: &LedgerReader) {
        let now = Instant::now();
        let started = *self.started.get_or_insert(now);
        let elapsed_s = (now - started).as_secs_f64();
        let over_s = self.setup.warm_s + self.setup.measure_s;
        if elapsed_s < self.setup.warm_s
            || self.last.is_some()
            || self.next.is_some_and(|next| now < next)
        {
            return;
        }
        self.next = Some(now + PERIOD);
        let Ok(snapshot) = reader.snapshot() else {
            return;
        };
        self.fills.push(self.fill(&snapshot));
        if self.first.is_none() {
            self.pids = stages();
            self.first = Some(self.mark(&snapshot, false));
        } else if elapsed_s >= over_s {
            self.last = Some(self.mark(&snapshot, true));
        }
    }

    fn mark(&self, snapshot: &Snapshot, ends: bool) -> Mark {
        let balance = snapshot.balance();
        let datagrams = balance
            .accounts
            .iter()
            .filter(|line| line.place == "receiver")
            .map(|line| line.incoming.items)
            .sum();
        let (events, event_bytes) = snapshot.tally(self.books.builder.events.outgoing);
        let cpu = |(name, pid): (&String, &u32)| {
            Some((name.clone(), forebay_sys::process::cpu_time_ns(*pid).ok()?))
        };
        Mark {
            at: Instant::now(),
            triggers: self
                .books
                .generator
                .as_ref()
                .map_or(0, |words| snapshot.value(words.events)),
            events,
            event_bytes,
            datagrams,
            cpu_ns: self.pids.iter().filter_map(cpu).collect(),
            resident: self
                .pids
                .iter()
                .filter(|_| ends)
                .map(|(name, pid)| (name.clone(), resident(*pid)))
                .collect(),
        }
    }

    /// Fill of rings, sockets and sinks' queues now.
    fn fill(&self, snapshot: &Snapshot) -> Fill {
        let mut fill = Fill {
            rings_by_group: vec![0; self.setup.groups.len()],
            ..Fill::default()
        };
        for (port, words) in self.books.ports.iter().enumerate() {
            fill.sockets += snapshot.value(words.buffer_fill);
            for (queue, source) in words.sources.iter().zip(self.plan.sources_of(port)) {
                let released = snapshot.value(self.books.builder.sources[source].released);
                let bytes = snapshot.value(queue.tail).saturating_sub(released);
                fill.rings += bytes;
                fill.fullest_ring = fill.fullest_ring.max(bytes);
                fill.rings_by_group[self.group_of(source)] += bytes;
            }
        }
        for (offer, sink) in self.books.offers.iter().zip(&self.books.sinks) {
            fill.sinks += snapshot
                .value(offer.tail)
                .saturating_sub(snapshot.value(sink.head));
        }
        fill
    }

    fn group_of(&self, source: usize) -> usize {
        let mut end = 0;
        let is_in = |group: &(usize, u32, f64)| {
            end += group.0;
            source < end
        };
        self.setup.groups.iter().position(is_in).unwrap_or(0)
    }
}

/// Processes of this one's stages by role.
fn stages() -> BTreeMap<String, u32> {
    let own = std::process::id();
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent: u32 = stat
            .rsplit_once(')')?
            .1
            .split_whitespace()
            .nth(1)?
            .parse()
            .ok()?;
        let command = fs::read(format!("/proc/{pid}/cmdline"))
            .ok()
            .filter(|_| parent == own)?;
        let mut words = command.split(|byte| *byte == 0);
        let role = words
            .find(|word| *word == b"stage")
            .and_then(|_| words.next())?;
        Some((String::from_utf8_lossy(role).into_owned(), pid))
    })
    .collect()
}

/// Resident memory of a process in bytes: its own, and its part of what is shared. A page that is mapped twice counts once.
fn resident(pid: u32) -> [u64; 2] {
    let status = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    ["Pss_Anon:", "Pss_Shmem:"].map(|name| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_default();
        line.trim()
            .trim_end_matches("kB")
            .trim()
            .parse::<u64>()
            .map_or(0, |kib| kib * 1024)
    })
}
