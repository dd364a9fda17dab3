//! Messages to the front ends of an emulated card: taken, sent back, or lost by name, and the books close.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use std::collections::BTreeMap;

use forebay_emu::card::{Card, CardConfig, ElinkConfig, Memory, Speed};
use forebay_emu::rng::Xoshiro256;
use forebay_readout::{Chunk, Config, Decoder, Status};
use forebay_wire::felix::{
    BlockFormat, Elink, FromHostLoss, PACKET_BYTES, PacketFormat, PacketWriter,
};

const LOOPED: [u16; 2] = [0x40, 0x1c9];
const SUNK: u16 = 0;

fn config(format: BlockFormat, packets: PacketFormat) -> CardConfig {
    let mut config = CardConfig::full_mode(2, 20_000.0, 64);
    config.format = format;
    config.front_end.packets = packets;
    config.front_end.message_bytes_max = 9000;
    config.elinks[1].loop_back = true;
    config.elinks.push(ElinkConfig {
        elink: Elink::new(LOOPED[1]).unwrap(),
        speed: Speed::Gbt { width_bits: 32 },
        buffer: 1,
        stream: None,
        loop_back: true,
    });
    config.buffers = 2;
    config
}

/// A card with what reads its blocks.
struct Bench {
    card: Card,
    dma: Memory,
    decoders: Vec<Decoder>,
    back: BTreeMap<u16, Vec<Vec<u8>>>,
    now_ns: u64,
}

impl Bench {
    fn new(config: &CardConfig, blocks: usize) -> Self {
        let decoder = |_| Decoder::new(config.format, &Config::default()).unwrap();
        Self {
            card: Card::new(config).unwrap(),
            dma: Memory::new(config, blocks),
            decoders: (0..config.buffers).map(decoder).collect(),
            back: BTreeMap::new(),
            now_ns: 0,
        }
    }

    fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
        while !self.card.handle_time(self.now_ns, &mut self.dma) {}
    }

    fn read(&mut self) {
        let back = &mut self.back;
        let mut take = |chunk: Chunk<'_, &[u8]>| {
            let mut bytes = Vec::new();
            chunk.payload.append_to(&mut bytes);
            assert_eq!(chunk.status, Status::GOOD);
            back.entry(chunk.elink.number()).or_default().push(bytes);
            true
        };
        for (buffer, decoder) in self.decoders.iter_mut().enumerate() {
            self.dma.take(buffer, |block| {
                decoder.handle_block(block).unwrap();
                assert!(decoder.poll(block, &mut take));
            });
        }
    }

    /// Writes a message when the card takes packets, and reads until it does.
    fn send(&mut self, format: PacketFormat, elink: u16, message: &[u8]) {
        let elink = Elink::new(elink).unwrap();
        let mut writer = PacketWriter::begin(format, elink, message).unwrap();
        let mut packet = [0; PACKET_BYTES];
        while writer.emit(&mut packet) {
            while !self.card.takes_packets() {
                self.pass(100_000);
                self.read();
            }
            self.card.handle_packet(self.now_ns, &packet);
        }
    }

    fn finish(&mut self) {
        while !self.card.finish(self.now_ns, &mut self.dma) {
            self.read();
        }
        self.read();
        for decoder in &self.decoders {
            assert_eq!(decoder.account().residual(), [0; 3]);
        }
    }
}

#[test]
fn what_an_e_link_is_sent_comes_back_in_order_and_byte_by_byte() {
    let blocks = [
        BlockFormat::PHASE1,
        BlockFormat::phase2(4096).unwrap(),
        BlockFormat::phase2(2048).unwrap().with_headers(),
    ];
    for format in blocks {
        for packets in [PacketFormat::Rm5, PacketFormat::Rm4] {
            // So few blocks that links are told to stop, and queues fill.
            let mut bench = Bench::new(&config(format, packets), 16);
            let mut random = Xoshiro256::new(7);
            let mut sent: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
            for n in 0..1500_u64 {
                let elink = [LOOPED[0], LOOPED[1], SUNK][n as usize % 3];
                let bytes = match n % 7 {
                    0 => 0,
                    1 => 60,
                    2 => 3000,
                    _ => 2 * (random.below(200)) as usize,
                };
                let message: Vec<u8> = (0..bytes).map(|_| random.bits() as u8).collect();
                bench.send(packets, elink, &message);
                sent.entry(elink).or_default().push(message);
                bench.pass(2_000);
            }
            bench.finish();
            let account = bench.card.account();
            assert_eq!(account.residual(), [0; 3], "{account:#?}");
            for elink in LOOPED {
                assert_eq!(
                    bench.back[&elink], sent[&elink],
                    "{format} {packets} {elink:#x}"
                );
            }
            // Its front end answers triggers and nothing else.
            let answers = bench.back[&SUNK].len() as u64;
            assert_eq!(answers, account.triggers.accepted);
            let books = account.from_host;
            assert_eq!((books.looped.messages, books.sunk.messages), (1000, 500));
            let bytes: usize = sent[&SUNK].iter().map(Vec::len).sum();
            assert_eq!(books.sunk.bytes, bytes as u64);
            let of = |number| account.elinks.iter().find(|one| one.elink == number);
            let looped = of(Elink::new(LOOPED[1]).unwrap()).unwrap();
            assert_eq!(
                (looped.sent_to_it.items, looped.chunks.in_dma.items),
                (500, 500)
            );
        }
    }
}

#[test]
fn a_full_dma_buffer_stops_packets_and_loses_none() {
    let config = config(BlockFormat::phase2(1024).unwrap(), PacketFormat::Rm5);
    let mut bench = Bench::new(&config, 4);
    let elink = Elink::new(LOOPED[0]).unwrap();
    let mut taken = 0_u64;
    // Nobody reads.
    while bench.card.takes_packets() {
        let mut packet = [0; PACKET_BYTES];
        let message = (taken as u16).to_le_bytes();
        let mut writer = PacketWriter::begin(PacketFormat::Rm5, elink, &message).unwrap();
        assert!(writer.emit(&mut packet));
        bench.card.handle_packet(bench.now_ns, &packet);
        taken += 1;
        bench.pass(1_000);
        assert!(taken < 100_000, "it takes for ever");
    }
    let account = bench.card.account();
    assert_eq!(account.residual(), [0; 3]);
    assert!(account.chunks.held().items > 256, "{account:#?}");
    bench.finish();
    assert!(bench.card.takes_packets());
    let back: Vec<u16> = bench.back[&LOOPED[0]]
        .iter()
        .map(|bytes| u16::from_le_bytes(bytes[..].try_into().unwrap()))
        .collect();
    let sent: Vec<u16> = (0..taken).map(|n| n as u16).collect();
    assert_eq!(back, sent);
    assert_eq!(bench.card.account().residual(), [0; 3]);
}

#[test]
fn a_card_may_have_nothing_but_e_links_that_send_back() {
    let mut config = config(BlockFormat::phase2(4096).unwrap(), PacketFormat::Rm5);
    config.elinks.remove(0);
    let mut bench = Bench::new(&config, 64);
    bench.send(PacketFormat::Rm5, LOOPED[0], b"ping");
    bench.pass(10_000);
    let due = bench.card.poll_timeout();
    assert!(due.is_some_and(|due| due <= 60_000), "{due:?}");
    bench.pass(2_000_000);
    bench.read();
    assert_eq!(bench.back[&LOOPED[0]], [b"ping"]);
    bench.finish();
    let account = bench.card.account();
    assert!(account.triggers.accepted > 0);
    assert_eq!(account.residual(), [0; 3]);
}

#[test]
fn what_is_wrong_with_packets_is_lost_by_name_and_costs_no_other_message() {
    let config = config(BlockFormat::phase2(4096).unwrap(), PacketFormat::Rm5);
    let mut bench = Bench::new(&config, 64);
    bench.send(PacketFormat::Rm5, 0x333, &[1; 70]);
    bench.send(PacketFormat::Rm5, LOOPED[0], &[2; 9001]);
    bench.send(PacketFormat::Rm5, LOOPED[0], &[3; 9000]);
    bench.card.handle_packet(bench.now_ns, &[9; 7]);
    // A writer that goes in the middle of a message.
    let elink = Elink::new(LOOPED[1]).unwrap();
    let mut writer = PacketWriter::begin(PacketFormat::Rm5, elink, &[4; 100]).unwrap();
    let mut packet = [0; PACKET_BYTES];
    assert!(writer.emit(&mut packet));
    bench.card.handle_packet(bench.now_ns, &packet);
    assert_eq!(bench.card.account().from_host.decoded.held.bytes, 30);
    bench.card.abandon_packets();
    bench.send(PacketFormat::Rm5, LOOPED[1], &[5; 100]);
    bench.finish();
    let account = bench.card.account();
    assert_eq!(account.residual(), [0; 3], "{account:#?}");
    let books = account.from_host;
    let dropped = books.dropped();
    let found: Vec<_> = dropped
        .iter()
        .map(|(why, pieces)| (why.name(), pieces.packets, pieces.messages, pieces.bytes))
        .collect();
    let expected = [
        ("no_elink", 3, 1, 70),
        (FromHostLoss::WrongSize.name(), 1, 0, 0),
        (FromHostLoss::TooLong.name(), 301, 1, 9001),
        (FromHostLoss::NotFull.name(), 0, 0, 0),
        (FromHostLoss::Unended.name(), 1, 1, 30),
    ];
    assert_eq!(found, expected);
    assert_eq!(bench.back[&LOOPED[0]], [vec![3; 9000]]);
    assert_eq!(bench.back[&LOOPED[1]], [vec![5; 100]]);
}
