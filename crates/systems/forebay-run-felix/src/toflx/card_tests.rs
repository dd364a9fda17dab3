//! A card as its writer has it, with a door and a ring and no engine behind.

use std::os::fd::OwnedFd;

use forebay_ledger::Leak;
use forebay_ring::{BlockConsumer, BlockRingMemory};
use forebay_wire::felix::{FromHostDecoder, PacketFormat, Taken};

use super::*;
use crate::device::{DeviceInfo, Door, FromHostInfo};

const PACKETS: u64 = 2048;

struct Bench {
    door: Door,
    memory_of_reader: Vec<OwnedFd>,
    packets: BlockConsumer,
    card: Card,
    books: Books,
    _directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("card.sock");
        let info = DeviceInfo {
            name: "card".into(),
            marker: 0xc0ce,
            headers: false,
            blocks: vec![64],
            elinks: vec![vec![0, 64]],
            from_host: Some(FromHostInfo {
                packets: PACKETS,
                format: "rm4".into(),
                message_bytes_max: 20_000,
            }),
            pid: std::process::id(),
        };
        let dma = BlockRingMemory::create(&info.spec(0).unwrap()).unwrap();
        let spec = info.from_host_spec().unwrap();
        let memory = BlockRingMemory::create(&spec).unwrap();
        let memory_of_reader = memory.consumer_fds().unwrap();
        let packets = BlockConsumer::map(&spec, memory.consumer_fds().unwrap()).unwrap();
        let mut door = Door::open(&socket, info, vec![dma]).unwrap();
        door.offer_from_host(Some(memory));
        let target = CardTarget {
            socket,
            detector: 0,
            connector: 0,
        };
        let mut bench = Self {
            door,
            memory_of_reader,
            packets,
            card: Card::new(0, target, None),
            books: Books::open(None, 1, Leak::off(), &mut |_| {}).unwrap(),
            _directory: directory,
        };
        bench.card.ask();
        while !bench.card.is_here() {
            bench.door.serve().unwrap();
            bench.card.tend(&mut bench.books);
            std::thread::yield_now();
        }
        bench
    }

    fn take(&mut self, link: u16, message: &[u8]) {
        let elink = Elink::of_link(link).unwrap();
        self.books.came(message.len() as u64);
        self.books.routed(message.len() as u64);
        self.card.take(elink, message, &mut self.books);
    }

    /// What the card would read, all of it: the lengths and first bytes of messages.
    fn read(&mut self) -> Vec<(usize, u8)> {
        self.card.show();
        let mut decoder = FromHostDecoder::new(PacketFormat::Rm4, 20_000);
        let there = self.packets.look().unwrap();
        let mut found = Vec::new();
        for ahead in 0..there {
            let packet = self.packets.block(ahead).unwrap().to_vec();
            if let Taken::Message { bytes, .. } = decoder.handle_packet(&packet) {
                found.push((bytes.len(), bytes[0]));
            }
        }
        assert_eq!(decoder.account().held.packets, 0, "whole messages only");
        self.packets.take(there);
        self.packets.release(self.packets.read_position());
        self.card.see(&mut self.books);
        found
    }

    /// The books as they are: what they leave over, what is held, and what is lost by name.
    fn balance(&mut self) -> (u64, u64, Vec<(String, u64)>) {
        self.books.commit();
        let snapshot = self.books.ledger.reader().unwrap().snapshot().unwrap();
        let balance = snapshot.balance();
        let held = balance.accounts.iter();
        let held = held.map(|line| line.held.items.unsigned_abs()).sum();
        let lines = balance.accounts.iter().flat_map(|line| &line.dropped);
        let lost = lines.filter(|line| line.items > 0);
        let lost = lost.map(|line| (line.reason.clone(), line.items));
        let rest = balance.residual_items + balance.residual_bytes;
        (rest, held, lost.collect())
    }
}

#[test]
fn what_waits_goes_in_order_and_whole_and_has_a_name_when_it_cannot() {
    let mut bench = Bench::new();
    // 667 packets each: three go in, the others wait.
    for n in 0..5_u8 {
        bench.take(1, &[n; 20_000]);
    }
    // It would fit, and is not first.
    bench.take(0, &[5; 30]);
    bench.take(0, &[6; 31]);
    bench.take(0, &[7; 20_002]);
    bench.take(2, &[8; 2]);
    assert!(bench.card.waits());
    let (rest, held, lost) = bench.balance();
    assert_eq!((rest, held), (0, 3 * 667 + 3));
    let names: Vec<&str> = lost.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["unknown_elink", "too_long", "odd_length"]);
    assert_eq!(bench.read(), [(20_000, 0), (20_000, 1), (20_000, 2)]);
    bench.card.drain(&mut bench.books);
    assert!(!bench.card.waits());
    assert_eq!(bench.read(), [(20_000, 3), (20_000, 4), (30, 5)]);
    assert_eq!(bench.balance().0, 0);
    for n in 0..4_u8 {
        bench.take(1, &[n; 20_000]);
    }
    bench.card.give_up(Unwritten::Stopped, &mut bench.books);
    let (rest, held, lost) = bench.balance();
    assert_eq!((rest, held), (0, 3 * 667));
    assert!(lost.contains(&("stopped".into(), 1)), "{lost:?}");
    assert_eq!(bench.read().len(), 3);
    assert_eq!(bench.balance().1, 0);
}

/// Items of an account's terms: incoming, outgoing and held.
fn terms(bench: &mut Bench, place: &str) -> [u64; 3] {
    bench.books.commit();
    let snapshot = bench.books.ledger.reader().unwrap().snapshot().unwrap();
    let balance = snapshot.balance();
    let account = balance.accounts.iter().find(|line| line.place == place);
    let account = account.unwrap();
    let held = account.held.items.unsigned_abs();
    [account.incoming.items, account.outgoing.items, held]
}

#[test]
fn what_the_card_has_not_taken_at_the_end_is_told_by_its_ring() {
    let mut bench = Bench::new();
    for n in 0..3_u8 {
        bench.take(1, &[n; 20_000]);
    }
    assert_eq!(terms(&mut bench, "ring"), [3 * 667, 0, 3 * 667]);
    assert_eq!(bench.read().len(), 3);
    assert_eq!(terms(&mut bench, "ring"), [3 * 667, 3 * 667, 0]);
    bench.take(1, &[3; 20_000]);
    bench.take(1, &[4; 30]);
    bench.card.leave(&mut bench.books);
    assert_eq!(bench.card.summary.packets_left, 668);
    assert_eq!(terms(&mut bench, "ring"), [3 * 667 + 668, 3 * 667, 0]);
    assert_eq!(terms(&mut bench, "encode"), [5, 5, 0]);
    let (rest, held, lost) = bench.balance();
    assert_eq!((rest, held), (0, 0));
    assert_eq!(lost, [("not_taken".into(), 668)]);
}

#[test]
fn a_card_that_writes_what_cannot_be_is_named_and_the_books_close() {
    let mut bench = Bench::new();
    for n in 0..5_u8 {
        bench.take(1, &[n; 20_000]);
    }
    bench.card.show();
    let nonsense = (1_u64 << 62).to_ne_bytes();
    let written = bench.memory_of_reader.iter();
    let written = written.filter(|fd| rustix::io::pwrite(fd, &nonsense, 128).is_ok());
    assert!(written.count() > 0);
    while bench.card.is_here() {
        bench.card.see(&mut bench.books);
        bench.card.tend(&mut bench.books);
    }
    let broken = bench.card.summary.broken.clone().unwrap();
    assert!(broken.contains("index"), "{broken}");
    assert_eq!(
        (bench.card.summary.end, bench.card.summary.times_lost),
        (CardEnd::Lost, 1)
    );
    // It comes back no more: what is for it is lost by another name.
    bench.take(1, &[9; 10]);
    let (rest, held, lost) = bench.balance();
    assert_eq!((rest, held), (0, 0));
    let expected = [("no_card", 1), ("card_gone", 2), ("card_gone", 3 * 667)];
    let expected: Vec<(String, u64)> = expected.map(|(name, n)| (name.into(), n)).into();
    assert_eq!(lost, expected);
}
