//! The card's side of its from-host buffer: packets out of shared memory into the engine.

use forebay_emu::card::Card;
use forebay_ring::{BlockConsumer, BlockRingMemory, BlockRingSpec, RingError};
use forebay_run_felix::device::{Door, Writer};
use forebay_wire::felix::PACKET_BYTES;

use crate::card_books::FromHostBook;
use crate::diagnostics::ServedBoard;

/// Packets that are taken between two looks at the time.
const BATCH: u64 = 4096;

/// The from-host buffer as the card has it.
pub(super) struct FromHostSide {
    spec: BlockRingSpec,
    packets: BlockConsumer,
    book: FromHostBook,
    /// Where the packets of a writer that is gone end.
    seam: Option<u64>,
    /// Where those end that are read at the card's end.
    end: Option<u64>,
    closed: bool,
    /// How often the card took no packet though there was one.
    pub(super) held_up: u64,
    /// Writers that wrote what cannot be.
    pub(super) broken_writers: u64,
}

impl FromHostSide {
    /// Makes such a buffer, and the memory of it that is to be offered at the door.
    pub(super) fn open(
        spec: BlockRingSpec,
        book: FromHostBook,
    ) -> Result<(Self, BlockRingMemory), RingError> {
        let (memory, packets) = make(&spec)?;
        let side = Self {
            spec,
            packets,
            book,
            seam: None,
            end: None,
            closed: false,
            held_up: 0,
            broken_writers: 0,
        };
        Ok((side, memory))
    }

    /// Takes packets, as many as a batch and as the card has room for: whether there were some.
    pub(super) fn turn(
        &mut self,
        card: &mut Card,
        card_ns: u64,
        door: &mut Door<ServedBoard>,
        warn: &mut dyn FnMut(&str),
    ) -> Result<bool, RingError> {
        if self.closed {
            return Ok(false);
        }
        let there = match self.packets.look() {
            Ok(there) => there,
            Err(RingError::Peer { fault, .. }) => {
                self.start_over(card, door, &format!("{fault}"), warn)?;
                return Ok(false);
            }
            Err(other) => return Err(other),
        };
        let there = self.until_end(there, door);
        let mut taken = 0;
        while taken < there.min(BATCH) && card.takes_packets() {
            let Some(packet) = self.packets.block(taken) else {
                break;
            };
            // A block is as long as a packet.
            if let Some(packet) = packet.array::<PACKET_BYTES>(0) {
                card.handle_packet(card_ns, &packet);
            }
            taken += 1;
        }
        self.held_up += u64::from(taken == 0 && there > 0);
        if taken > 0 {
            self.packets.take(taken);
            // First the books, then the release: what the writer sees taken is in them, whatever happens to this process.
            self.book.commit(card, self.held_up);
            self.packets.release(self.packets.read_position());
            self.packets.notify();
        }
        self.settle(card, door);
        Ok(taken > 0)
    }

    /// Of so many packets those of this writer, and of the time before the card's end.
    fn until_end(&mut self, there: u64, door: &Door<ServedBoard>) -> u64 {
        let (at, block) = (self.packets.read_position(), PACKET_BYTES as u64);
        if door.writer() == Writer::Gone && self.seam.is_none() {
            self.seam = Some(at + there * block);
        }
        match self.end {
            Some(end) => there.min(end.saturating_sub(at) / block),
            None => there,
        }
    }

    /// When all packets of a writer that is gone are read, the messages that he did not end are lost, and another writer may come.
    fn settle(&mut self, card: &mut Card, door: &mut Door<ServedBoard>) {
        let at = self.packets.read_position();
        if self.seam.is_some_and(|seam| at >= seam) {
            self.seam = None;
            card.abandon_packets();
            self.book.commit(card, self.held_up);
            door.settle_writer();
        }
    }

    /// A writer that writes what cannot be costs its own packets: it is hung up on, and the next one gets new memory.
    fn start_over(
        &mut self,
        card: &mut Card,
        door: &mut Door<ServedBoard>,
        fault: &str,
        warn: &mut dyn FnMut(&str),
    ) -> Result<(), RingError> {
        warn(&format!(
            "the writer of the from-host buffer is broken or hostile: {fault}; it is hung up on, and what it wrote since is not read"
        ));
        self.broken_writers += 1;
        door.dismiss_writer();
        let (memory, packets) = make(&self.spec)?;
        self.packets = packets;
        self.seam = None;
        card.abandon_packets();
        self.book.commit(card, self.held_up);
        // At the card's end nobody else is let in.
        door.offer_from_host(Some(memory).filter(|_| self.end.is_none()));
        self.end = self.end.map(|_| 0);
        Ok(())
    }

    /// The card is about to end: what is in the buffer now is read, and nothing that comes later.
    pub(super) fn begin_end(&mut self, door: &mut Door<ServedBoard>) {
        door.offer_from_host(None);
        let there = self.packets.look().unwrap_or(0);
        self.end = Some(self.packets.read_position() + there * PACKET_BYTES as u64);
    }

    /// Whether all of that is read.
    pub(super) fn is_read(&self) -> bool {
        let at = self.packets.read_position();
        self.closed || self.end.is_some_and(|end| at >= end)
    }

    /// Reads no more: what is unread stays so, and what has not ended is lost by name.
    pub(super) fn close(&mut self, card: &mut Card) {
        if !self.closed {
            self.closed = true;
            card.abandon_packets();
            self.book.commit(card, self.held_up);
            self.packets.close();
        }
    }

    /// Sleeps until there are packets, at most so long.
    pub(super) fn sleep(&mut self, most: std::time::Duration) {
        // A fault is found at the next look.
        if self.packets.wait(most).is_err() {
            std::thread::sleep(most);
        }
    }

    /// Packets that nobody has read.
    pub(super) fn left(&mut self) -> u64 {
        self.packets.look().unwrap_or(0)
    }
}

fn make(spec: &BlockRingSpec) -> Result<(BlockRingMemory, BlockConsumer), RingError> {
    let memory = BlockRingMemory::create(spec)?;
    let packets = BlockConsumer::map(spec, memory.consumer_fds()?)?;
    Ok((memory, packets))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use forebay_emu::card::CardConfig;
    use forebay_run_felix::device::{
        DeviceError, DeviceInfo, FromHostDevice, FromHostInfo, Wanted, ask, from_host_spec,
    };
    use forebay_wire::felix::{Elink, PacketFormat, PacketWriter};

    use super::*;
    use crate::card_books::CardBooks;

    struct Bench {
        card: Card,
        side: FromHostSide,
        door: Door<ServedBoard>,
        path: PathBuf,
        warnings: Vec<String>,
        books: CardBooks,
        _directory: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Self {
            Self::of(&CardConfig::full_mode(2, 1000.0, 64))
        }

        fn of(config: &CardConfig) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("card.sock");
            let card = Card::new(config).unwrap();
            let (books, book) =
                CardBooks::open("card", None, &card.account(), 1, &mut |_| {}).unwrap();
            let (side, memory) = FromHostSide::open(from_host_spec("card", 2048), book).unwrap();
            let info = DeviceInfo {
                name: "card".into(),
                marker: 0xc0ce,
                headers: false,
                blocks: vec![64],
                elinks: vec![vec![0, 64]],
                from_host: Some(FromHostInfo {
                    packets: 2048,
                    format: "rm5".into(),
                    message_bytes_max: 1000,
                }),
                pid: std::process::id(),
            };
            let dma = BlockRingMemory::create(&info.spec(0).unwrap()).unwrap();
            let mut door = Door::open(&path, info, vec![dma]).unwrap();
            door.offer_from_host(Some(memory));
            Self {
                card,
                side,
                door,
                path,
                warnings: Vec::new(),
                books,
                _directory: directory,
            }
        }

        fn turn(&mut self) -> bool {
            self.door.serve().unwrap();
            let warnings = &mut self.warnings;
            let mut warn = |text: &str| warnings.push(text.to_owned());
            let (card, door) = (&mut self.card, &mut self.door);
            self.side.turn(card, 0, door, &mut warn).unwrap()
        }

        /// Turns until the thread's answer is there.
        fn serving<T: Send + 'static>(
            &mut self,
            ask: impl FnOnce(&Path) -> T + Send + 'static,
        ) -> T {
            let path = self.path.clone();
            let asking = std::thread::spawn(move || ask(&path));
            while !asking.is_finished() {
                self.turn();
                std::thread::yield_now();
            }
            asking.join().unwrap()
        }

        /// Of the account in packets and of that in messages: what came, went on, is held and was lost, in items and bytes.
        fn accounts(&self) -> [[[u64; 2]; 4]; 2] {
            let balance = self.books.ledger.reader().unwrap().snapshot().unwrap();
            let balance = balance.balance();
            let lines = balance.accounts.iter();
            let mut lines = lines.filter(|line| line.place == "from_host");
            std::array::from_fn(|_| {
                let line = lines.next().unwrap();
                assert!(line.residual.is_zero(), "{line:?}");
                let lost = line.dropped.iter();
                let lost = lost.fold([0; 2], |[items, bytes], it| {
                    [items + it.items, bytes + it.bytes_min]
                });
                [
                    [line.incoming.items, line.incoming.bytes],
                    [line.outgoing.items, line.outgoing.bytes],
                    [
                        line.held.items.unsigned_abs(),
                        line.held.bytes.unsigned_abs(),
                    ],
                    lost,
                ]
            })
        }

        fn metric(&self, name: &str) -> u64 {
            let snapshot = self.books.ledger.reader().unwrap().snapshot().unwrap();
            snapshot.metric("from_host", name, "").unwrap()
        }

        fn writer(&mut self) -> Result<FromHostDevice, DeviceError> {
            self.serving(FromHostDevice::open)
        }
    }

    fn write(device: &mut FromHostDevice, message: &[u8], packets: usize) {
        let elink = Elink::of_link(1).unwrap();
        let mut writer = PacketWriter::begin(PacketFormat::Rm5, elink, message).unwrap();
        let mut packet = [0; PACKET_BYTES];
        for _ in 0..packets {
            assert!(writer.emit(&mut packet));
            device.packets.reserve().unwrap().copy_from_slice(&packet);
            device.packets.commit();
        }
        device.packets.publish();
    }

    #[test]
    fn a_message_that_its_writer_did_not_end_is_no_part_of_the_next_writers() {
        let mut bench = Bench::new();
        let mut first = bench.writer().unwrap();
        write(&mut first, &[1; 100], 4);
        write(&mut first, &[2; 100], 2);
        while bench.turn() {}
        let size = PACKET_BYTES as u64;
        let packets = [[6, 6 * size], [4, 4 * size], [2, 2 * size], [0, 0]];
        let messages = [[2, 160], [1, 100], [1, 60], [0, 0]];
        assert_eq!(bench.accounts(), [packets, messages]);
        drop(first);
        let mut next = bench.writer();
        while next.is_err() {
            next = bench.writer();
        }
        write(&mut next.unwrap(), &[3; 10], 1);
        while bench.turn() {}
        bench.side.close(&mut bench.card);
        let books = bench.card.from_host();
        assert_eq!(books.residual(), [0; 3]);
        assert_eq!((books.sunk.messages, books.sunk.bytes), (2, 110));
        let dropped = books.dropped();
        let dropped = dropped.iter().filter(|(_, pieces)| pieces.bytes > 0);
        let dropped: Vec<_> = dropped
            .map(|(why, pieces)| (why.name(), pieces.messages, pieces.bytes))
            .collect();
        assert_eq!(dropped, [("unended", 1, 60)]);
        let packets = [[7, 7 * size], [5, 5 * size], [0, 0], [2, 2 * size]];
        let messages = [[3, 170], [2, 110], [0, 0], [1, 60]];
        assert_eq!(bench.accounts(), [packets, messages]);
        let metrics = ["from_host_sunk", "from_host_looped", "from_host_held_up"];
        assert_eq!(metrics.map(|name| bench.metric(name)), [2, 0, 0]);
        assert!(bench.warnings.is_empty());
    }

    #[test]
    fn what_front_ends_send_back_has_gone_on_and_what_has_no_front_end_is_lost_by_name() {
        let mut config = CardConfig::full_mode(2, 1000.0, 64);
        config.elinks[1].loop_back = true;
        let mut bench = Bench::of(&config);
        let mut writer = bench.writer().unwrap();
        write(&mut writer, &[1; 100], 4);
        let nobody = Elink::of_link(5).unwrap();
        let mut packets = PacketWriter::begin(PacketFormat::Rm5, nobody, &[2; 31]).unwrap();
        let mut packet = [0; PACKET_BYTES];
        while packets.emit(&mut packet) {
            writer.packets.reserve().unwrap().copy_from_slice(&packet);
            writer.packets.commit();
        }
        writer.packets.publish();
        while bench.turn() {}
        let size = PACKET_BYTES as u64;
        let packets = [[6, 6 * size], [4, 4 * size], [0, 0], [2, 2 * size]];
        let messages = [[2, 131], [1, 100], [0, 0], [1, 31]];
        assert_eq!(bench.accounts(), [packets, messages]);
        let metrics = ["from_host_sunk", "from_host_looped"];
        assert_eq!(metrics.map(|name| bench.metric(name)), [0, 1]);
    }

    #[test]
    fn a_writer_that_writes_what_cannot_be_is_named_and_hung_up_on_and_the_next_one_is_served() {
        use rustix::io::pwrite;

        let mut bench = Bench::new();
        // It takes the descriptors and writes its own index by hand: a position beyond all that was ever read, then one within a packet.
        for nonsense in [1_u64 << 62, 7] {
            let (hostile, fds) = bench.serving(|path| {
                let asked = ask(path, Wanted::FromHost, &|| false).unwrap();
                (asked.0, asked.2)
            });
            let writable = fds
                .iter()
                .filter(|fd| pwrite(fd, &nonsense.to_ne_bytes(), 128).is_ok())
                .count();
            assert!(writable > 0);
            while bench.door.writer() == Writer::Here {
                bench.turn();
            }
            drop(hostile);
        }
        assert_eq!((bench.side.broken_writers, bench.warnings.len()), (2, 2));
        assert!(
            bench.warnings[0].contains("hostile"),
            "{:?}",
            bench.warnings
        );
        let mut honest = bench.writer().unwrap();
        write(&mut honest, &[4; 31], 2);
        while bench.card.from_host().sunk.messages == 0 {
            bench.turn();
        }
        assert_eq!(bench.card.from_host().residual(), [0; 3]);
    }

    #[test]
    fn at_its_end_the_card_reads_what_is_there_and_nothing_that_comes_later() {
        let mut bench = Bench::new();
        let mut writer = bench.writer().unwrap();
        write(&mut writer, &[1; 60], 2);
        bench.side.begin_end(&mut bench.door);
        write(&mut writer, &[2; 60], 2);
        while bench.turn() {}
        assert!(bench.side.is_read() && !writer.packets.is_read_no_more());
        bench.side.close(&mut bench.card);
        assert!(writer.packets.is_read_no_more());
        assert_eq!(
            (bench.side.left(), bench.card.from_host().sunk.messages),
            (2, 1)
        );
        assert_eq!(writer.packets.blocks() - writer.packets.free_blocks(), 2);
        let late = bench.writer().unwrap_err().to_string();
        assert!(late.contains("no more"), "{late}");
    }
}
