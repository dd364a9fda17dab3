//! A sink over TCP against a mover.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use forebay_ledger::{Leak, LedgerReader, RunWriter, SchemaBuilder, Words};
use forebay_ring::{Meta, Producers, RingSetMemory, RingSetSpec};
use forebay_run::Stop;
use forebay_run_mover::{Mover, MoverPlan};
use forebay_sink::{FilePlan, Sink, SinkBooks, SinkDrop, SinkHandle, Stall, To, declare_writer};
use forebay_wire::hld::{EventHeader, EventId};
use forebay_wire::mover::BLOCK_BYTES_MAX;

const RUN: u32 = 77;

/// Puts one event of `bytes` into the queue; of a long one nothing is ever read.
fn push(producers: &mut Producers, bytes: u32) {
    let mut header = EventHeader::new(EventId::data(1), 0, RUN);
    header.size = bytes;
    let mut loan = producers.rings[0].reserve(bytes as usize).unwrap();
    loan[..32].copy_from_slice(&header.to_bytes());
    let meta = Meta {
        tag: RUN,
        items: 1,
        flags: 0,
        stamp_ns: 0,
    };
    loan.commit(bytes as usize, meta);
}

fn mover(directory: &Path) -> Mover {
    let file = FilePlan::of_streams(directory.into());
    let listen = ([127, 0, 0, 1], 0).into();
    let once = true;
    let plan = MoverPlan {
        listen,
        file,
        once,
        idle_limit_ms: 60_000,
    };
    Mover::open(plan, Stop::of_library().unwrap()).unwrap()
}

#[test]
fn blocks_that_no_mover_takes_are_lost_by_name_and_the_rest_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let (address, peer) = mpsc::channel();
    let directory = folder.path().to_path_buf();
    let mover = thread::spawn(move || {
        let mover = mover(&directory);
        address.send(mover.address().unwrap()).unwrap();
        mover.run().unwrap()
    });
    let mut schema = SchemaBuilder::new("run-1");
    let (own, _) = declare_writer(&mut schema, "sink", "tcp");
    let schema = schema.finish().unwrap();
    let words = Words::zeroed(schema.words_needed());
    RunWriter::format(&schema, &words, 1, 1).unwrap();
    let spec = RingSetSpec::new("queue", vec![512 << 20], BLOCK_BYTES_MAX + 8);
    let memory = RingSetMemory::create(&spec).unwrap();
    let mut producers = Producers::map(&spec, memory.producer_fds().unwrap()).unwrap();
    let too_long = BLOCK_BYTES_MAX + 8;
    for bytes in [too_long, 64, too_long, 72, 80, too_long] {
        push(&mut producers, bytes);
    }
    producers.rings[0].publish();
    producers.rings[0].close();
    let fds = memory.consumer_fds().unwrap();
    let sink = Sink {
        name: "tcp".into(),
        to: To::Mover {
            tcp: peer.recv().unwrap().into(),
            run_id: "run-1".into(),
        },
        queue: spec,
        books: SinkBooks::attach(&schema, &words, own.clone()).unwrap(),
        leak: Leak::off(),
        stall: Stall::default(),
    };
    let sink = SinkHandle::start(sink, fds).unwrap();
    sink.expect_end();
    let reports = sink.join(Duration::from_secs(30));
    assert!(reports.is_empty(), "{reports:?}");
    let snapshot = LedgerReader::open(&words).unwrap().snapshot().unwrap();
    let account = &own.account;
    let lost = snapshot.tally(account.lost(SinkDrop::TooLong));
    assert_eq!(lost, (3, 3 * u64::from(too_long)));
    assert_eq!(snapshot.tally(account.outgoing), (3, 64 + 72 + 80));
    let all = (6, 3 * u64::from(too_long) + 64 + 72 + 80);
    assert_eq!(snapshot.tally(account.incoming), all);
    assert_eq!(snapshot.tally(account.held), (0, 0));
    assert_eq!(snapshot.tally(own.taken), all);
    let moved = mover.join().unwrap();
    assert!(moved.is_closed());
    assert_eq!((moved.events_written, moved.bytes_written), (3, 216));
}
