//! The sink against a real mover.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use forebay_ledger::{LedgerReader, RunWriter, Words};
use forebay_ring::{Meta, Producers, RingSetMemory};
use forebay_wire::hld::{EventHeader, EventId};

use super::*;
use crate::books::{Books, SinkDrop};
use crate::mover::{Mover, MoverPlan};
use crate::plan::{Plan, SinkKind};
use crate::presets;
use crate::sink::SinkHandle;

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
    let SinkKind::File(file) = presets::file_sink(directory.into(), "be").kind else {
        panic!("no file")
    };
    let listen = ([127, 0, 0, 1], 0).into();
    let once = true;
    let plan = MoverPlan {
        listen,
        file,
        once,
        idle_limit_ms: 60_000,
    };
    Mover::open(plan).unwrap()
}

fn plan(directory: &Path, peer: SocketAddr) -> Plan {
    let mut plan = presets::plan("run-1", directory, [127, 0, 0, 1].into(), 50_000, 1);
    let mut sink = presets::tcp_sink(peer);
    sink.queue_bytes = 512 << 20;
    plan.sinks = vec![sink];
    plan
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
    let plan = plan(folder.path(), peer.recv().unwrap());
    let books = Books::declare(&plan).unwrap();
    let words = Words::zeroed(books.schema.bytes_needed() / 8);
    RunWriter::format(&books.schema, &words, 1, 1).unwrap();
    let spec = plan.sink_ring(0);
    let memory = RingSetMemory::create(&spec).unwrap();
    let mut producers = Producers::map(&spec, memory.producer_fds().unwrap()).unwrap();
    let too_long = BLOCK_BYTES_MAX + 8;
    for bytes in [too_long, 64, too_long, 72, 80, too_long] {
        push(&mut producers, bytes);
    }
    producers.rings[0].publish();
    producers.rings[0].close();
    let fds = memory.consumer_fds().unwrap();
    let sink = SinkHandle::start(&plan, 0, &books, words.clone(), fds, Leak::off()).unwrap();
    sink.expect_end();
    let reports = sink.join(Duration::from_secs(30));
    assert!(reports.is_empty(), "{reports:?}");
    let snapshot = LedgerReader::open(&words).unwrap().snapshot().unwrap();
    let account = &books.sinks[0].account;
    let lost = snapshot.tally(account.lost(SinkDrop::TooLong));
    assert_eq!(lost, (3, 3 * u64::from(too_long)));
    assert_eq!(snapshot.tally(account.outgoing), (3, 64 + 72 + 80));
    let all = (6, 3 * u64::from(too_long) + 64 + 72 + 80);
    assert_eq!(snapshot.tally(account.incoming), all);
    assert_eq!(snapshot.tally(account.held), (0, 0));
    assert_eq!(snapshot.tally(books.sinks[0].taken), all);
    let moved = mover.join().unwrap();
    assert!(moved.is_closed());
    assert_eq!((moved.events_written, moved.bytes_written), (3, 216));
}
