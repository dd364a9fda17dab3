//! The builder alone, from memory, beside a `memcpy` of the same bytes in the same run.
//!
//! `cargo bench -p forebay-evb` prints one row for each number of sources (sizes in the mixture of Test-2: of 90
//! sources 60 of 116 B, 20 of 338 B, 10 of 1170 B; messages of a 32 kB water mark). The builder commits its book
//! after each 256 events, as the builder stage does. Times are of the thread's own CPU clock, so that other load on
//! the machine shows as cold caches only. `-- SOURCES…` measures these numbers of sources only.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a benchmark tells what it measured"
)]

#[path = "../tests/harness/arena.rs"]
mod arena;

use std::hint::black_box;

use arena::{Arena, append};
use forebay_evb::{Builder, Config, EventMeta, Message, Output, Poll, Slot, declare};
use forebay_ledger::{GroupWriter, RunWriter, Schema, SchemaBuilder, Words};
use forebay_sys::clock::thread_cpu_ns;
use forebay_wire::subevent::SubEventRepr;

/// Runs of each measurement; the median counts.
const RUNS: usize = 7;
/// Sub-events of one run, whatever the number of sources.
const SUB_EVENTS: usize = 450_000;
/// When every message arrives, in virtual time.
const ARRIVAL_NS: u64 = 1;
const WATER_MARK_BYTES: usize = 32 << 10;
const EVENTS_PER_COMMIT: usize = 256;
/// Messages that the stage finds in the rings at one look.
const MESSAGES_PER_LOOK: usize = 64;
/// Room for events, used in circles as a sink's queue is.
const OUTPUT_BYTES: usize = 16 << 20;

fn main() {
    let asked: Vec<usize> = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let all = [16, 64, 90, 128, 256, 512, 1024];
    let counts = if asked.is_empty() { &all[..] } else { &asked };
    println!(
        "sources  events/s   ns/event  ns/sub-event (min..max)  B/event  GB/s  memcpy GB/s  builder/memcpy time"
    );
    for &sources in counts {
        Measurement::of(sources, None).print();
    }
    println!("the same with one source that has closed, every event partial:");
    for &sources in counts {
        Measurement::of(sources, Some(0)).print();
    }
}

/// Size of a sub-event of `source`, in the mixture of Test-2.
fn bytes_of(source: usize) -> u32 {
    match source % 9 {
        0..6 => 116,
        6..8 => 338,
        _ => 1170,
    }
}

/// Messages of all sources in the order in which they arrive.
fn load(sources: usize, events: usize) -> (Arena, Vec<(usize, Message)>) {
    let mut arena = Arena::new(sources);
    let mut arrivals = Vec::new();
    for source in 0..sources {
        let mut body = Vec::new();
        let mut items = 0;
        for event in 0..events {
            let sub = SubEventRepr {
                id: 0x8000 + source as u32,
                trigger_word: (event as u32) << 8 | ((event as u32 * 37) & 0xff),
                ..SubEventRepr::default()
            };
            append(&mut body, &sub, bytes_of(source), event as u8);
            items += 1;
            let next = bytes_of(source).next_multiple_of(8) as usize;
            if body.len() + 8 + next > WATER_MARK_BYTES || event + 1 == events {
                let message = arena.push(source, &body, items, 1);
                arrivals.push((event, source, message));
                body.clear();
                items = 0;
            }
        }
    }
    arrivals.sort_by_key(|&(event, ..)| event);
    let arrivals = arrivals.into_iter();
    (
        arena,
        arrivals
            .map(|(_, source, message)| (source, message))
            .collect(),
    )
}

struct Circle {
    memory: Vec<u8>,
    used: usize,
    events: u64,
    bytes: u64,
}

impl Circle {
    fn new() -> Self {
        Self {
            memory: vec![1; OUTPUT_BYTES],
            used: 0,
            events: 0,
            bytes: 0,
        }
    }

    fn room(&mut self, bytes: usize) -> &mut [u8] {
        if self.used + bytes > self.memory.len() {
            self.used = 0;
        }
        &mut self.memory[self.used..self.used + bytes]
    }
}

impl Output for Circle {
    fn reserve(&mut self, bytes: usize) -> Option<Slot<'_>> {
        Some(Slot {
            bytes: self.room(bytes),
            run: 1,
            unix_s: 1_795_289_046,
        })
    }

    fn commit(&mut self, event: &EventMeta) {
        self.used += event.bytes as usize;
        self.events += 1;
        self.bytes += u64::from(event.bytes);
    }
}

fn ledger(sources: usize) -> (Schema, Words, forebay_evb::Accounts) {
    let owners: Vec<String> = (0..sources)
        .map(|source| format!("source{source}"))
        .collect();
    let mut schema = SchemaBuilder::new("bench");
    let accounts = declare(&mut schema, &owners);
    let schema = schema.finish().expect("schema");
    let words = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &words, 1, 0).expect("ledger");
    (schema, words, accounts)
}

/// Builds everything once, of a source that has closed nothing; how long it took in ns.
fn build(
    arena: &Arena,
    arrivals: &[(usize, Message)],
    closed: Option<usize>,
    sources: usize,
    output: &mut Circle,
) -> u64 {
    let (schema, words, accounts) = ledger(sources);
    let mut writer = GroupWriter::attach(&schema, &words, accounts.group).expect("group");
    let mut builder =
        Builder::new(Config::new(sources), accounts, writer.restore()).expect("configuration");
    if let Some(source) = closed {
        builder.handle_close(source);
    }
    let mut built = 0;
    let start_ns = thread_cpu_ns();
    for look in arrivals.chunks(MESSAGES_PER_LOOK) {
        let alive = look.iter().filter(|(source, _)| Some(*source) != closed);
        for &(source, message) in alive {
            builder.handle_message(ARRIVAL_NS, source, message, arena);
        }
        while builder.poll(ARRIVAL_NS, arena, output) == Poll::Built {
            while builder.poll_loss().is_some() {}
            built += 1;
            if built == EVENTS_PER_COMMIT {
                writer.commit(builder.save());
                built = 0;
            }
        }
        writer.commit(builder.save());
    }
    thread_cpu_ns() - start_ns
}

/// Copies the same bytes, message by message, into the same room.
fn copy(arena: &Arena, arrivals: &[(usize, Message)], output: &mut Circle) -> u64 {
    use forebay_evb::Input;
    let start_ns = thread_cpu_ns();
    for &(source, message) in arrivals {
        let room = output.room(message.len as usize);
        black_box(arena.copy(source, message.at, room));
        output.used += message.len as usize;
    }
    thread_cpu_ns() - start_ns
}

struct Measurement {
    sources: usize,
    events: usize,
    event_bytes: f64,
    build_ns: Vec<u64>,
    copy_ns: Vec<u64>,
}

impl Measurement {
    fn of(sources: usize, closed: Option<usize>) -> Self {
        let events = SUB_EVENTS / sources;
        let (arena, arrivals) = load(sources, events);
        let mut output = Circle::new();
        let mut measured = Self {
            sources,
            events,
            event_bytes: 0.0,
            build_ns: Vec::new(),
            copy_ns: Vec::new(),
        };
        for run in 0..=RUNS {
            let before = (output.events, output.bytes);
            let copy_ns = copy(&arena, &arrivals, &mut output);
            let build_ns = build(&arena, &arrivals, closed, sources, &mut output);
            let built = output.events - before.0;
            assert_eq!(built, events as u64, "an event is missing");
            measured.event_bytes = (output.bytes - before.1) as f64 / events as f64;
            // The first run meets cold memory.
            if run > 0 {
                measured.build_ns.push(build_ns);
                measured.copy_ns.push(copy_ns);
            }
        }
        measured.build_ns.sort_unstable();
        measured.copy_ns.sort_unstable();
        measured
    }

    fn print(&self) {
        let median = |sorted: &[u64]| sorted[sorted.len() / 2] as f64;
        let (build_ns, copy_ns) = (median(&self.build_ns), median(&self.copy_ns));
        let event_ns = build_ns / self.events as f64;
        let per_sub = |ns: u64| ns as f64 / self.events as f64 / self.sources as f64;
        let bytes = self.event_bytes * self.events as f64;
        println!(
            "{:7} {:9.0} {:10.0} {:13.1} ({:5.1}..{:5.1}) {:8.0} {:5.2} {:12.2} {:20.2}",
            self.sources,
            1e9 / event_ns,
            event_ns,
            event_ns / self.sources as f64,
            per_sub(self.build_ns[0]),
            per_sub(self.build_ns[RUNS - 1]),
            self.event_bytes,
            bytes / build_ns,
            bytes / copy_ns,
            build_ns / copy_ns,
        );
    }
}
