//! What a packet costs: whole, and cut to 128 bytes; many flows at one time, or few.
#![allow(missing_docs)]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use forebay_emu::rng::hash;
use forebay_traffic::{Config, FRAME_BYTES_MAX, Row, Sizes, Traffic};

const PACKETS: u64 = 1_000_000;

fn main() {
    divan::main();
}

/// So many flows, all alive at one time, with a million packets of 1,150 bytes in the mean.
fn rows(flows: u64) -> Vec<Row> {
    let packets = PACKETS / flows / 2;
    let row = |at| Row {
        start_ms: 0,
        end_ms: 10_000 + hash(1, at) % 20_000,
        is_ipv6: at % 7 == 0,
        protocol: if at % 12 == 0 { 17 } else { 6 },
        source_port: hash(2, at) as u16,
        destination_port: 443,
        packets,
        bytes: packets * 1_150,
        packets_reverse: packets,
        bytes_reverse: packets * 1_150,
        addresses: None,
    };
    (0..flows).map(row).collect()
}

fn measure(bencher: Bencher<'_, '_>, flows: u64, frame_bytes: usize, sizes: Sizes) {
    let rows = rows(flows);
    let config = Config {
        seed: 1,
        sizes,
        ..Config::default()
    };
    let mut frame = vec![0; frame_bytes];
    bencher.counter(ItemsCount::new(PACKETS)).bench_local(|| {
        let mut traffic = Traffic::new(rows.iter().copied().map(Ok), &config);
        let mut packets = 0;
        while let Ok(Some(packet)) = traffic.poll_packet(&mut frame) {
            black_box((&frame, packet));
            packets += 1;
        }
        assert!(packets > PACKETS * 9 / 10);
    });
}

#[divan::bench(args = [10, 1_000, 20_000], sample_count = 5)]
fn cut_to_128_bytes(bencher: Bencher<'_, '_>, flows: u64) {
    measure(bencher, flows, 128, Sizes::Profile);
}

#[divan::bench(args = [10, 1_000, 20_000], sample_count = 5)]
fn whole(bencher: Bencher<'_, '_>, flows: u64) {
    measure(bencher, flows, FRAME_BYTES_MAX, Sizes::Profile);
}

#[divan::bench(args = [1_000, 20_000], sample_count = 5)]
fn small_packets_whole(bencher: Bencher<'_, '_>, flows: u64) {
    measure(bencher, flows, FRAME_BYTES_MAX, Sizes::Small);
}
