//! What a packet costs: to decode it, to count it in a table of so many flows, and where each one begins a flow in a full table.

#![allow(missing_docs, clippy::expect_used)]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use forebay_flow::{
    Config, DecodeConfig, Decoder, Eviction, FlowKey, Frame, LinkType, Packet, Table,
};

fn main() {
    divan::main();
}

const PACKETS: u32 = 1_000_000;
/// Packets that are decoded before they are counted.
const BATCH: usize = 64;
const FRAME_BYTES: usize = 54;
const EVICTIONS: [Eviction; 2] = [Eviction::Oldest, Eviction::LineLru];

/// A number that looks random, and comes once for each `n` of 24 bits.
const fn scattered(n: u32) -> u32 {
    (n.wrapping_mul(0x9e_3779) ^ 0x5a_5a5a) & 0xff_ffff
}

/// A segment of TCP of one of so many flows, in one direction or the other.
fn frame(flow: u32, is_reverse: bool) -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    frame[16..18].copy_from_slice(&40_u16.to_be_bytes());
    (frame[22], frame[23]) = (64, 6);
    let [_, b, c, d] = scattered(flow).to_be_bytes();
    let ends = [[10, b, c, d], [192, 168, 0, 1]];
    let ports = [50_000_u16.to_be_bytes(), 443_u16.to_be_bytes()];
    let from = usize::from(is_reverse);
    frame[26..30].copy_from_slice(&ends[from]);
    frame[30..34].copy_from_slice(&ends[1 - from]);
    frame[34..36].copy_from_slice(&ports[from]);
    frame[36..38].copy_from_slice(&ports[1 - from]);
    (frame[46], frame[47]) = (5 << 4, 0x10);
    frame
}

/// Flows in an order as if at random, one packet in three the other way.
fn frames(flows: u32) -> Vec<[u8; FRAME_BYTES]> {
    let flow = |n| ((u64::from(scattered(n)) * u64::from(flows)) >> 24) as u32;
    (0..PACKETS).map(|n| frame(flow(n), n % 3 == 0)).collect()
}

fn decoded<'a>(decoder: &mut Decoder, bytes: &'a [u8], time_ns: u64) -> Packet<'a> {
    let frame = Frame {
        time_ns,
        link: Some(LinkType::Ethernet),
        bytes,
        wire_bytes: bytes.len() as u32,
    };
    decoder.handle_frame(&frame).expect("a good frame")
}

fn decoder() -> Decoder {
    Decoder::new(&DecodeConfig::default()).expect("sound")
}

#[divan::bench(sample_count = 10, args = [20_000, 100_000])]
fn decode(bencher: Bencher<'_, '_>, flows: u32) {
    let (frames, mut decoder) = (frames(flows), decoder());
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| {
        for bytes in &frames {
            black_box(decoded(&mut decoder, bytes, 0));
        }
    });
}

#[divan::bench(sample_count = 10, args = EVICTIONS, consts = [20_000, 100_000, 1_000_000])]
fn decode_and_count<const FLOWS: u32>(bencher: Bencher<'_, '_>, eviction: Eviction) {
    let (frames, mut decoder) = (frames(FLOWS), decoder());
    let config = Config {
        flows: (FLOWS * 3 / 2).max(1 << 17),
        eviction,
        hash_seed: 1,
        ..Config::default()
    };
    let mut table = Table::new(&config).expect("sound");
    let mut time_ns = 0;
    let mut batch = Vec::with_capacity(BATCH);
    // 2 million packets a second.
    let mut run = || {
        for frames in frames.chunks(BATCH) {
            let packets = frames.iter().map(|bytes| {
                time_ns += 500;
                decoded(&mut decoder, bytes, time_ns)
            });
            batch.extend(packets);
            table.handle_packets(&batch, &mut |record| {
                black_box(record);
            });
            batch.clear();
        }
    };
    run();
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(run);
}

/// Ten million flows in all, each of one packet, over a table that is full with a million.
#[divan::bench(sample_count = 10, args = EVICTIONS)]
fn new_flows_over_a_full_table(bencher: Bencher<'_, '_>, eviction: Eviction) {
    let config = Config {
        flows: 1 << 20,
        eviction,
        hash_seed: 1,
        ..Config::default()
    };
    let mut table = Table::new(&config).expect("sound");
    let first = frame(0, false);
    let first = decoded(&mut decoder(), &first, 0);
    let mut flow = 0_u32;
    let mut run = || {
        for _ in 0..PACKETS {
            let mut packet = first;
            packet.time_ns = u64::from(flow) * 500;
            let source = core::net::Ipv4Addr::from_bits(flow).into();
            packet.key = FlowKey::new(source, first.key.destination(), 6).with_ports(50_000, 443);
            flow += 1;
            table.handle_packet(&packet, &mut |record| {
                black_box(record);
            });
        }
    };
    run();
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(run);
}
