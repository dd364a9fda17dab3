//! What must hold for any bytes taken as a profile of network flows. Shared by the fuzz target and by the test that replays its corpus.
//!
//! No panic; rows come in order of their start, and are the same when they are written and read again; after an error there is none. Packets that are made of them are in order of
//! time and within their flow's, and truths and totals are what packets add up to, whichever limit they have.

use std::collections::BTreeMap;

use forebay_traffic::{Config, FRAME_BYTES_MAX, Profile, Row, Sizes, Traffic};

/// A row may have 2^40 packets.
const PACKETS_MAX: u64 = 2_000;
/// Bytes of the longest headers behind Ethernet's.
const HEADERS_BYTES: u32 = 60;

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(profile) = Profile::new(bytes) else {
        return;
    };
    let (mut rows, mut failed) = (Vec::new(), 0);
    for row in profile {
        assert_eq!(failed, 0, "something comes behind an error");
        match row {
            Ok(row) => rows.push(row),
            Err(error) => {
                failed += 1;
                assert!(error.to_string().contains("line"), "{error}");
            }
        }
    }
    assert!(rows.is_sorted_by_key(|row| row.start_ms));
    assert!(rows.iter().all(|row| row.start_ms <= row.end_ms));
    written_again(&rows);
    let seed = bytes.len() as u64;
    for (sizes, ip_bytes_max) in [
        (Sizes::Profile, u32::MAX),
        (Sizes::Small, 0),
        (Sizes::Profile, 576),
    ] {
        let config = Config {
            seed,
            sizes,
            ip_bytes_max,
            ..Config::default()
        };
        made(&rows, &config);
    }
}

fn written_again(rows: &[Row]) {
    let lines: Vec<String> = rows.iter().map(ToString::to_string).collect();
    let text = format!("{}\n{}\n", Row::HEADER, lines.join("\n"));
    let read = Profile::new(text.as_bytes()).map(Iterator::collect::<Result<Vec<Row>, _>>);
    match read {
        Ok(Ok(read)) => assert_eq!(read, rows),
        Ok(Err(error)) | Err(error) => panic!("{error} in {text}"),
    }
}

/// Makes packets, and adds them up.
fn made(rows: &[Row], config: &Config) {
    let mut traffic = Traffic::new(rows.iter().copied().map(Ok), config);
    let mut frame = vec![0; FRAME_BYTES_MAX];
    let (mut sums, mut octets, mut last_ns) = (BTreeMap::<u64, [u64; 2]>::new(), 0, 0);
    for _ in 0..PACKETS_MAX {
        let Ok(Some(packet)) = traffic.poll_packet(&mut frame) else {
            break;
        };
        let row = &rows[packet.row as usize];
        let within = row.start_ms * 1_000_000..=row.end_ms * 1_000_000;
        assert!(within.contains(&packet.at_ns) && packet.at_ns >= last_ns);
        assert!(packet.ip_bytes <= config.ip_bytes_max.max(HEADERS_BYTES));
        assert!(packet.captured_bytes == packet.wire_bytes && packet.wire_bytes >= 60);
        last_ns = packet.at_ns;
        octets += u64::from(packet.ip_bytes);
        let sum = sums.entry(packet.row).or_default();
        *sum = [sum[0] + 1, sum[1] + u64::from(packet.ip_bytes)];
        assert_eq!(traffic.ended().is_some(), packet.is_last);
        if let Some(truth) = traffic.ended() {
            let told = [
                truth.forward.packets + truth.reverse.packets,
                truth.forward.octets + truth.reverse.octets,
            ];
            assert_eq!(sums.remove(&packet.row), Some(told));
            assert_eq!(told[0], row.packets + row.packets_reverse);
        }
    }
    let totals = traffic.totals();
    assert_eq!(totals.octets, octets);
    for truth in traffic.alive() {
        let told = [
            truth.forward.packets + truth.reverse.packets,
            truth.forward.octets + truth.reverse.octets,
        ];
        assert_eq!(sums.remove(&truth.row), Some(told));
    }
    assert!(sums.is_empty());
}
