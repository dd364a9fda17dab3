//! What a packet costs with so many rules that do not match it, decoded and counted in a table of 4,096 flows.

#![allow(missing_docs, clippy::expect_used)]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use forebay_flow::filter::{Filter, Rule};
use forebay_flow::{Config, DecodeConfig, Decoder, Frame, LinkType, Table};

fn main() {
    divan::main();
}

const PACKETS: u32 = 1_000_000;
const FLOWS: u32 = 4_096;
const BATCH: usize = 64;
const FRAME_BYTES: usize = 54;

/// A segment of TCP of one of so many flows.
fn frame(flow: u32) -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    frame[16..18].copy_from_slice(&40_u16.to_be_bytes());
    (frame[22], frame[23]) = (64, 6);
    let [_, b, c, d] = flow.to_be_bytes();
    frame[26..30].copy_from_slice(&[10, b, c, d]);
    frame[30..34].copy_from_slice(&[192, 168, 0, 1]);
    frame[34..38].copy_from_slice(&[0xc3, 0x50, 1, 0xbb]);
    (frame[46], frame[47]) = (5 << 4, 0x10);
    frame
}

fn rules(rules: u32) -> Filter {
    let rule = |n: u32| -> Rule {
        let text = match n % 4 {
            0 => format!("drop src 172.16.{n}.0/24 tcp"),
            1 => format!("drop net 2001:db8:{n}::/48"),
            2 => format!("drop port {}", 1000 + n),
            _ => format!("drop dst 203.0.113.{n} dst-port 53 udp"),
        };
        text.parse().expect("a rule")
    };
    let rules: Vec<Rule> = (0..rules).map(rule).collect();
    Filter::new(&rules).expect("few rules")
}

#[divan::bench(args = [0, 1, 16], sample_count = 15)]
fn decode_filter_and_count(bencher: Bencher<'_, '_>, count: u32) {
    let frames: Vec<_> = (0..PACKETS).map(|n| frame((n * 797) % FLOWS)).collect();
    let mut decoder = Decoder::new(&DecodeConfig::default()).expect("good settings");
    let mut table = Table::new(&Config::default()).expect("good settings");
    let mut filter = rules(count);
    let mut time_ns = 1;
    bencher
        .counter(ItemsCount::new(PACKETS))
        .bench_local(move || {
            for frames in frames.chunks(BATCH) {
                let mut batch = Vec::with_capacity(BATCH);
                for bytes in frames {
                    time_ns += 1000;
                    let frame = Frame {
                        time_ns,
                        link: Some(LinkType::Ethernet),
                        bytes,
                        wire_bytes: FRAME_BYTES as u32,
                    };
                    let mut packet = decoder.handle_frame(&frame).expect("a good frame");
                    if filter.is_empty() || filter.judge(&frame, &mut packet).passes {
                        batch.push(packet);
                    }
                }
                table.handle_packets(&batch, &mut |record| {
                    black_box(record);
                });
            }
        });
}
