//! The receiver stage alone, begun where another one was killed between `recvmmsg` and its commit: the test is its supervisor and its predecessor.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod rig;

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use forebay_ledger::{LedgerReader, RunWriter, Words};
use forebay_ring::{Producers, RingSetMemory};
use forebay_run::stage::{Order, Report};
use forebay_run_evb::books::{Books, CrashDrop, ReceiverDrop};
use forebay_run_evb::plan::Plan;
use forebay_run_evb::receiver::BATCH_SLOTS;
use forebay_run_evb::stages::{Hello, Role, run_stage};
use forebay_sys::control::Control;
use forebay_sys::mapping::{Access, Mapping, sealed_memfd};
use forebay_sys::socket::{UdpOptions, bind_udp};
use forebay_sys::udp_batch::{Ancillary, BatchTag, RecvBatch};
use tempfile::TempDir;

/// What the predecessor does before it is killed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Killed {
    /// It has nothing in hand.
    Idle,
    /// It has a datagram in its own memory.
    Scratch,
    /// It has one in the ring, where the books say that the next one is to be.
    InRing,
    /// It has one in the ring, and the books say another place.
    Elsewhere,
}

/// Datagrams, and bytes: taken, lost to the crash, passed on.
type Booked = [(u64, u64); 3];

/// What both receivers share.
struct Bench {
    plan: Plan,
    books: Books,
    words: Words,
    ledger: OwnedFd,
    memory: RingSetMemory,
    arena: OwnedFd,
    socket: OwnedFd,
    _folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let mut plan = rig::plan(folder.path(), 1);
        let any = (Ipv4Addr::LOCALHOST, 0).into();
        let bound = bind_udp(any, &UdpOptions::default()).unwrap();
        plan.ports = vec![bound.address];
        let books = Books::declare(&plan).unwrap();
        let ledger = sealed_memfd("ledger", books.schema.bytes_needed() as u64).unwrap();
        let words = Words::new(Mapping::of_fd(&ledger, Access::ReadWrite).unwrap());
        RunWriter::format(&books.schema, &words, std::process::id(), 1).unwrap();
        Self {
            memory: RingSetMemory::create(&plan.event_rings()).unwrap(),
            arena: RecvBatch::create_arena(BATCH_SLOTS).unwrap(),
            socket: bound.fd,
            plan,
            books,
            words,
            ledger,
            _folder: folder,
        }
    }

    /// The predecessor, up to its death.
    fn predecessor(&self, killed: Killed) {
        let ancillary = Ancillary {
            addresses: false,
            control: false,
        };
        let arena = self.arena.try_clone().unwrap();
        let mut batch = RecvBatch::attach(arena, BATCH_SLOTS, ancillary).unwrap();
        let fds = self.memory.producer_fds().unwrap();
        let mut rings = Producers::map(&self.plan.event_rings(), fds).unwrap();
        let place = if killed == Killed::Elsewhere { 64 } else { 0 };
        let tag = BatchTag {
            batch_id: 1,
            socket: 0,
            words: [place, 0],
        };
        let socket = self.socket.as_fd();
        match killed {
            Killed::Idle => {}
            Killed::Scratch => {
                let count = batch.receive_scratch(socket, BATCH_SLOTS, tag);
                assert_eq!(count.unwrap(), 1);
            }
            Killed::InRing | Killed::Elsewhere => {
                let mut loan = rings.rings[0].reserve(65_536).unwrap();
                let got = batch.receive_into(socket, &mut loan, tag).unwrap();
                assert!(got.is_some());
            }
        }
    }

    /// The successor, to its end in order.
    fn successor(&self) {
        let own = |fd: &OwnedFd| vec![fd.try_clone().unwrap()];
        let parts = [
            own(&self.ledger),
            self.memory.producer_fds().unwrap(),
            own(&self.arena),
            own(&self.socket),
        ];
        let (control, far) = Control::pair(Duration::from_secs(10)).unwrap();
        let hello = Hello {
            role: Role::Receiver,
            plan: self.plan.clone(),
            restarts: 1,
            fds: parts.iter().map(Vec::len).collect(),
            supervisor: std::process::id(),
        };
        let fds: Vec<_> = parts.iter().flatten().map(OwnedFd::as_fd).collect();
        let hello = serde_json::to_vec(&hello).unwrap();
        control.send(&hello, &fds).unwrap();
        let stage = std::thread::spawn(move || run_stage(far));
        let ready = control.receive().unwrap().unwrap();
        let ready: Report = serde_json::from_slice(&ready.body).unwrap();
        assert_eq!(ready, Report::Ready);
        let stop = serde_json::to_vec(&Order::Stop).unwrap();
        control.send(&stop, &[]).unwrap();
        stage.join().unwrap().unwrap();
    }

    fn booked(&self) -> Booked {
        let snapshot = LedgerReader::open(&self.words).unwrap().snapshot().unwrap();
        let account = &self.books.ports[0].sources[0].receiver;
        let crash = account.lost(ReceiverDrop::Second(CrashDrop::ReceiverCrash));
        [account.incoming, crash, account.outgoing]
            .map(|tally| (snapshot.value(tally.items), snapshot.value(tally.bytes)))
    }
}

/// What a successor books of one datagram that was sent; and its bytes.
fn after(killed: Killed) -> (Booked, u64) {
    let bench = Bench::new();
    let message = rig::message(0x8000, 0..3, 1_000);
    rig::socket()
        .send_to(&message, bench.plan.ports[0])
        .unwrap();
    bench.predecessor(killed);
    bench.successor();
    (bench.booked(), message.len() as u64)
}

#[test]
fn what_a_killed_receiver_had_in_hand_is_taken_over() {
    for killed in [Killed::Idle, Killed::Scratch, Killed::InRing] {
        let (booked, bytes) = after(killed);
        assert_eq!(booked, [(1, bytes), (0, 0), (1, bytes)]);
    }
}

#[test]
fn what_cannot_be_taken_over_is_lost_to_the_crash_by_name() {
    let (booked, bytes) = after(Killed::Elsewhere);
    assert_eq!(booked, [(1, bytes), (1, bytes), (0, 0)]);
}
