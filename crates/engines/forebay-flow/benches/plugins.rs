//! What plugins cost a packet: connections of 50 segments of 500 bytes each, with a handshake and the first message of a client of TLS, of 20,000 flows in turns.

#![allow(missing_docs, clippy::expect_used)]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use forebay_flow::plugins::{Fields, PluginKind, Plugins};
use forebay_flow::{Batch, Config, DecodeConfig, Decoder, FlowRecord, Frame, LinkType, Table};

fn main() {
    divan::main();
}

const FLOWS: u32 = 20_000;
const SEGMENTS: u32 = 50;
const PAYLOAD_BYTES: usize = 500;
const HEADERS_BYTES: usize = 40;
const SETS: [&[PluginKind]; 4] = [
    &[],
    &[PluginKind::Pstats],
    &[
        PluginKind::Tls,
        PluginKind::Dns,
        PluginKind::Http,
        PluginKind::Quic,
        PluginKind::Pstats,
    ],
    &PluginKind::ALL,
];

/// The first message of a client, in its record, filled up.
fn hello() -> Vec<u8> {
    let extensions = [
        &[0, 0, 0, 16, 0, 14, 0, 0, 11][..],
        b"example.org",
        &[0, 16, 0, 5, 0, 3, 2, b'h', b'2', 0, 43, 0, 3, 2, 3, 4],
    ]
    .concat();
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 6, 0x13, 1, 0x13, 2, 0xc0, 0x2f, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let message = [&[1, 0, 0, body.len() as u8], &body[..]].concat();
    let mut record = [&[22, 3, 1, 0, message.len() as u8], &message[..]].concat();
    record.resize(PAYLOAD_BYTES, 0);
    record
}

/// Segment `n` of a flow, without its payload where it is of the handshake.
fn segment(flow: u32, n: u32, hello: &[u8]) -> Vec<u8> {
    let is_reverse = n == 1 || n > 3 && !n.is_multiple_of(3);
    let (flags, payload) = match n {
        0 => (0x02, &[][..]),
        1 => (0x12, &[][..]),
        2 => (0x10, &[][..]),
        3 => (0x18, hello),
        _ => (0x18, &[0xa5; PAYLOAD_BYTES][..]),
    };
    let mut packet = vec![0; HEADERS_BYTES];
    let length = (HEADERS_BYTES + payload.len()) as u16;
    packet[..2].copy_from_slice(&[0x45, 0]);
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    (packet[8], packet[9]) = (64, 6);
    let [_, b, c, d] = flow.to_be_bytes();
    let ends = [([10, b, c, d], 50_000_u16), ([192, 168, 0, 1], 443)];
    let from = usize::from(is_reverse);
    packet[12..16].copy_from_slice(&ends[from].0);
    packet[16..20].copy_from_slice(&ends[1 - from].0);
    packet[20..22].copy_from_slice(&ends[from].1.to_be_bytes());
    packet[22..24].copy_from_slice(&ends[1 - from].1.to_be_bytes());
    let sequence = if n == 0 {
        0
    } else {
        1 + 500 * n.saturating_sub(3)
    };
    packet[24..28].copy_from_slice(&sequence.to_be_bytes());
    packet[28..32].copy_from_slice(&u32::from(n > 0).to_be_bytes());
    (packet[32], packet[33]) = (5 << 4, flags);
    packet.extend(payload);
    packet
}

#[divan::bench(sample_count = 10, args = [0, 1, 2, 3])]
fn decode_count_and_read(bencher: Bencher<'_, '_>, set: usize) {
    let hello = hello();
    let of_flow: Vec<_> = (0..SEGMENTS).map(|n| segment(0, n, &hello)).collect();
    let mut decoder = Decoder::new(&DecodeConfig::default()).expect("sound");
    let mut table = Table::new(&Config::default()).expect("sound");
    let mut plugins = Plugins::new(SETS[set], table.places());
    let mut batch = Batch::new(64);
    let (mut time_ns, mut found) = (0, 0);
    let mut run = || {
        let mut ended = |_: &FlowRecord, fields: Fields| {
            found += usize::from(black_box(fields).set() != 0);
        };
        let mut bytes = Vec::new();
        for segment in &of_flow {
            for flow in 0..FLOWS {
                bytes.clear();
                bytes.extend_from_slice(segment);
                let is_reverse = bytes[12] == 192;
                let at = if is_reverse { 17 } else { 13 };
                bytes[at..at + 3].copy_from_slice(&flow.to_be_bytes()[1..]);
                time_ns += 500;
                let frame = Frame {
                    time_ns,
                    link: Some(LinkType::RawIp),
                    bytes: &bytes,
                    wire_bytes: bytes.len() as u32,
                };
                let packet = decoder.handle_frame(&frame).expect("a good packet");
                plugins.batch(&mut batch, &packet);
                if batch.is_full() {
                    table.handle_batch(&batch, &mut plugins.watch(&mut ended));
                    batch.clear();
                }
            }
        }
        let mut watch = plugins.watch(&mut ended);
        table.handle_batch(&batch, &mut watch);
        batch.clear();
        table.end_all_watched(&mut watch);
    };
    run();
    bencher
        .counter(ItemsCount::new(FLOWS * SEGMENTS))
        .bench_local(run);
    assert!(found > 0 || SETS[set].is_empty());
}
