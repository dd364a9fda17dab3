//! The builder stage alone: the test is its supervisor and its receiver.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod rig;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_ledger::{LedgerReader, RunWriter, Snapshot, Words};
use forebay_ring::{Meta, Producers, RingSetMemory};
use forebay_run::RunError;
use forebay_run::stage::{Order, Report};
use forebay_run_evb::books::Books;
use forebay_run_evb::plan::Plan;
use forebay_run_evb::stages::{Hello, Role, run_stage};
use forebay_sys::control::{Control, ControlError};
use forebay_sys::mapping::{Access, Mapping, sealed_memfd};
use tempfile::TempDir;

/// Bytes behind a message's sub-events.
const TRAILER_BYTES: usize = 32;

struct Bench {
    books: Books,
    words: Words,
    control: Control,
    stage: JoinHandle<Result<(), RunError>>,
    rings: Producers,
    _memory: (RingSetMemory, Vec<RingSetMemory>),
}

impl Bench {
    fn start(plan: &Plan) -> Self {
        let books = Books::declare(plan).unwrap();
        let ledger = sealed_memfd("ledger", books.schema.bytes_needed() as u64).unwrap();
        let words = Words::new(Mapping::of_fd(&ledger, Access::ReadWrite).unwrap());
        RunWriter::format(&books.schema, &words, std::process::id(), 1).unwrap();
        let sources = RingSetMemory::create(&plan.event_rings()).unwrap();
        let rings = Producers::map(&plan.event_rings(), sources.producer_fds().unwrap()).unwrap();
        let sinks: Vec<_> = (0..plan.sinks.len())
            .map(|sink| RingSetMemory::create(&plan.sink_ring(sink)).unwrap())
            .collect();
        let mut parts = vec![vec![ledger], sources.consumer_fds().unwrap()];
        for sink in &sinks {
            parts.push(sink.producer_fds().unwrap());
            parts.push(sink.consumer_fds().unwrap());
        }
        let (control, far) = Control::pair(Duration::from_secs(10)).unwrap();
        let hello = Hello {
            role: Role::Builder,
            plan: plan.clone(),
            restarts: 0,
            fds: parts.iter().map(Vec::len).collect(),
            supervisor: std::process::id(),
        };
        let fds: Vec<_> = parts.iter().flatten().map(OwnedFd::as_fd).collect();
        control
            .send(&serde_json::to_vec(&hello).unwrap(), &fds)
            .unwrap();
        let stage = std::thread::spawn(move || run_stage(far));
        let ready = control.receive().unwrap().unwrap();
        let ready: Report = serde_json::from_slice(&ready.body).unwrap();
        assert_eq!(ready, Report::Ready);
        Self {
            books,
            words,
            control,
            stage,
            rings,
            _memory: (sources, sinks),
        }
    }

    /// Puts a message of `triggers` into the ring of `source`.
    fn send(&mut self, source: usize, triggers: std::ops::Range<u32>) {
        let items = triggers.len() as u32;
        let message = rig::message(0x8000 + source as u32, triggers, 100);
        let kept = &message[..message.len() - TRAILER_BYTES];
        let ring = &mut self.rings.rings[source];
        let mut loan = ring.reserve(kept.len()).unwrap();
        loan.copy_from_slice(kept);
        let meta = Meta {
            items,
            tag: 0,
            flags: 0,
            stamp_ns: 0,
        };
        loan.commit(kept.len(), meta);
        ring.publish();
        self.rings.notify();
    }

    fn snapshot(&self) -> Snapshot {
        LedgerReader::open(&self.words).unwrap().snapshot().unwrap()
    }

    /// Complete and partial events so far.
    fn built(&self) -> (u64, u64) {
        let snapshot = self.snapshot();
        let accounts = &self.books.builder;
        (
            snapshot.value(accounts.complete),
            snapshot.value(accounts.partial),
        )
    }

    fn wait_built(&self, events: u64) {
        let limit = Instant::now() + Duration::from_secs(20);
        while self.built().0 + self.built().1 < events {
            assert!(Instant::now() < limit, "{:?}", self.built());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Tells the stage to stop and gives what its ledger says.
    fn end(mut self) -> Snapshot {
        self.rings.rings.iter_mut().for_each(|ring| ring.close());
        let stop = serde_json::to_vec(&Order::Stop).unwrap();
        self.control.send(&stop, &[]).unwrap();
        std::mem::replace(&mut self.stage, std::thread::spawn(|| Ok(())))
            .join()
            .unwrap()
            .unwrap();
        self.snapshot()
    }
}

fn plan(folder: &Path) -> Plan {
    let mut plan = rig::plan(folder, 2);
    for (port, number) in plan.ports.iter_mut().zip(1..) {
        port.set_port(number);
    }
    plan
}

/// A receiver killed between the end of its rings and its own end is started again and goes on with them.
#[test]
fn a_ring_that_is_opened_again_is_waited_for_again() {
    let folder = TempDir::new().unwrap();
    let mut bench = Bench::start(&plan(folder.path()));
    bench.send(0, 0..10);
    bench.send(1, 0..10);
    bench.wait_built(10);
    for ring in &mut bench.rings.rings {
        ring.close();
    }
    bench.rings.notify();
    std::thread::sleep(Duration::from_millis(100));
    for ring in &mut bench.rings.rings {
        let position = ring.position();
        ring.resume(position).unwrap();
    }
    // Source 1 is behind, by less than the time-out of 1 s.
    bench.send(0, 10..20);
    std::thread::sleep(Duration::from_millis(200));
    bench.send(1, 10..20);
    bench.wait_built(20);
    assert_eq!(bench.built(), (20, 0));
    bench.end();
}

/// Whose fault it is, and the numbers, are in the error itself.
#[test]
fn a_supervisor_that_talks_nonsense_is_told_so() {
    let (near, far) = Control::pair(Duration::from_secs(10)).unwrap();
    near.send(b"nonsense", &[]).unwrap();
    match run_stage(far).unwrap_err() {
        RunError::NotUnderstood { what, bytes, .. } => assert_eq!((what, bytes), ("plan", 8)),
        other => panic!("{other}"),
    }
    let (near, far) = Control::pair(Duration::from_secs(10)).unwrap();
    let folder = TempDir::new().unwrap();
    let hello = Hello {
        role: Role::Builder,
        plan: plan(folder.path()),
        restarts: 0,
        fds: Vec::new(),
        supervisor: 0,
    };
    near.send(&serde_json::to_vec(&hello).unwrap(), &[])
        .unwrap();
    let error = run_stage(far).unwrap_err();
    assert!(
        matches!(error, RunError::PartMissing { what: "ledger" }),
        "{error}"
    );
    let (near, far) = Control::pair(Duration::from_secs(10)).unwrap();
    drop(near);
    let error = run_stage(far).unwrap_err();
    assert!(
        matches!(error, RunError::Control(ControlError::PeerGone)),
        "{error}"
    );
}
