//! Packets agree with their profile, with their truth, and with what a decoder reads in their frames.
#![allow(clippy::unwrap_used, clippy::panic)]

mod capture;

use capture::{Read, decode, fnv};
use forebay_traffic::{
    Config, Direction, FRAME_BYTES_MAX, FlowTruth, Packet, Profile, Row, Sizes, Totals, Traffic,
};
use forebay_wire::packet::tcp::{ACK, FIN, SYN};
use proptest::prelude::*;
use std::collections::HashMap;

/// Rows of a stand-in for a research network, and of an exchange's: the first ones of each, and some that are rare.
const PROFILE: &str = include_str!("profile.csv");

struct Sent {
    packets: Vec<Packet>,
    frames: Vec<Vec<u8>>,
    truths: Vec<FlowTruth>,
    totals: Totals,
}

fn rows(text: &str) -> Vec<Row> {
    let rows: Result<_, _> = Profile::new(text.as_bytes()).unwrap().collect();
    rows.unwrap()
}

fn send(rows: &[Row], config: &Config, frame_bytes: usize) -> Sent {
    let mut traffic = Traffic::new(rows.iter().copied().map(Ok), config);
    let mut frame = vec![0xee; frame_bytes];
    let (mut packets, mut frames, mut truths) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(packet) = traffic.poll_packet(&mut frame).unwrap() {
        packets.push(packet);
        frames.push(frame[..packet.captured_bytes].to_vec());
        truths.extend(traffic.ended());
    }
    let totals = *traffic.totals();
    Sent {
        packets,
        frames,
        truths,
        totals,
    }
}

fn octets(rows: &[Row]) -> u64 {
    rows.iter().map(|row| row.bytes + row.bytes_reverse).sum()
}

fn packets(rows: &[Row]) -> u64 {
    let both = rows.iter().map(|row| row.packets + row.packets_reverse);
    both.sum()
}

/// All that must hold of what was sent for these rows.
fn hold(rows: &[Row], sent: &Sent) {
    assert_eq!(sent.totals.packets, packets(rows));
    assert_eq!(sent.packets.len() as u64, packets(rows));
    assert_eq!(sent.totals.rows, rows.len() as u64);
    let ordered = |pair: &[Packet]| (pair[0].at_ns, pair[0].row) <= (pair[1].at_ns, pair[1].row);
    assert!(sent.packets.windows(2).all(ordered));
    let mut of_rows: HashMap<u64, Vec<(&Packet, Read)>> = HashMap::new();
    for (packet, frame) in sent.packets.iter().zip(&sent.frames) {
        assert_eq!(frame.len(), packet.wire_bytes);
        assert_eq!(packet.wire_bytes, 60.max(packet.ip_bytes as usize + 14));
        let read = decode(frame);
        assert_eq!(read.ip_bytes, packet.ip_bytes);
        of_rows.entry(packet.row).or_default().push((packet, read));
    }
    let wire: usize = sent.packets.iter().map(|packet| packet.wire_bytes).sum();
    assert_eq!(sent.totals.wire_bytes, wire as u64);
    assert_eq!(sent.truths.len(), of_rows.len());
    for truth in &sent.truths {
        let row = &rows[truth.row as usize];
        let packets = &of_rows[&truth.row];
        flow_holds(row, truth, packets);
    }
}

fn flow_holds(row: &Row, truth: &FlowTruth, packets: &[(&Packet, Read)]) {
    let (first, last) = (packets[0].0.at_ns, packets[packets.len() - 1].0.at_ns);
    assert_eq!(first, row.start_ms * 1_000_000);
    let only = row.packets + row.packets_reverse == 1;
    assert_eq!(
        last,
        if only { row.start_ms } else { row.end_ms } * 1_000_000
    );
    let same = |(_, read): &(_, Read)| read.identifier == packets[0].1.identifier;
    assert!(packets.iter().all(same));
    let adjusted = truth.is_adjusted;
    for (direction, side, count, bytes) in [
        (Direction::Forward, &truth.forward, row.packets, row.bytes),
        (
            Direction::Reverse,
            &truth.reverse,
            row.packets_reverse,
            row.bytes_reverse,
        ),
    ] {
        let of_side = || {
            packets
                .iter()
                .filter(|(packet, _)| packet.direction == direction)
        };
        assert_eq!((side.packets, of_side().count() as u64), (count, count));
        let sum: u64 = of_side().map(|(_, read)| u64::from(read.ip_bytes)).sum();
        assert_eq!(side.octets, sum);
        assert!(
            adjusted || sum == bytes,
            "row {}: {sum} of {bytes}",
            truth.row
        );
        let times: Vec<u64> = of_side().map(|(packet, _)| packet.at_ns).collect();
        assert_eq!(side.first_ns, times.first().copied().unwrap_or(0));
        assert_eq!(side.last_ns, times.last().copied().unwrap_or(0));
        let flags = of_side().fold(0, |all, (_, read)| all | read.tcp_flags);
        assert_eq!(side.tcp_flags, flags);
        for (_, read) in of_side() {
            let (key, ports) = (
                &truth.key,
                (truth.key.source_port, truth.key.destination_port),
            );
            let hosts = (key.source, key.destination);
            let (hosts, ports) = match direction {
                Direction::Forward => (hosts, ports),
                Direction::Reverse => ((hosts.1, hosts.0), (ports.1, ports.0)),
            };
            assert_eq!((read.source, read.destination), hosts);
            assert_eq!(read.protocol, key.protocol);
            assert!(read.ports.is_none_or(|of| of == ports));
        }
        stream_holds(
            &of_side().map(|(_, read)| *read).collect::<Vec<_>>(),
            row.protocol,
        );
    }
    assert_eq!(
        (truth.key.protocol, truth.key.source_port),
        (row.protocol, row.source_port)
    );
    assert!(
        row.addresses
            .is_none_or(|of| of == (truth.key.source, truth.key.destination))
    );
}

/// The segments of a side follow each other without a gap, from SYN to FIN.
fn stream_holds(side: &[Read], protocol: u8) {
    if protocol != 6 || side.len() < 2 {
        return;
    }
    assert_eq!(side[0].tcp_flags & SYN, SYN);
    assert_eq!(side[side.len() - 1].tcp_flags & (FIN | ACK), FIN | ACK);
    for pair in side.windows(2) {
        let syn = u32::from(pair[0].tcp_flags & SYN != 0);
        let next = pair[0].sequence.wrapping_add(pair[0].payload_bytes + syn);
        assert_eq!(pair[1].sequence, next);
        assert_eq!(pair[1].tcp_flags & SYN, 0);
        assert_eq!(pair[0].tcp_flags & FIN, 0);
    }
}

#[test]
fn a_profile_is_sent_as_it_says() {
    let rows = rows(PROFILE);
    let sent = send(&rows, &Config::default(), FRAME_BYTES_MAX);
    hold(&rows, &sent);
    assert_eq!(sent.totals.octets, octets(&rows));
    assert_eq!((sent.totals.adjusted_flows, sent.totals.empty_rows), (0, 0));
    assert_eq!(sent.totals.flows, rows.len() as u64);
    assert!(sent.totals.alive_max < rows.len() && sent.totals.alive_max > 1);
}

#[test]
fn a_handshake_is_one() {
    let text = format!(
        "{}\n0,9,4,6,40000,443,4,4000,3,3000",
        PROFILE.lines().next().unwrap()
    );
    let sent = send(&rows(&text), &Config::default(), FRAME_BYTES_MAX);
    let reads: Vec<Read> = sent.frames.iter().map(|frame| decode(frame)).collect();
    assert_eq!((reads[0].tcp_flags, reads[0].ip_bytes), (SYN, 40));
    assert_eq!((reads[1].tcp_flags, reads[1].ip_bytes), (SYN | ACK, 40));
    assert_eq!(reads[1].acknowledgement, reads[0].sequence.wrapping_add(1));
    assert_ne!(reads[1].sequence, reads[0].sequence);
    assert_eq!(sent.packets[1].direction, Direction::Reverse);
}

/// The same bytes wherever this runs: a change of them is a change of every figure made with them.
#[test]
fn a_seed_makes_the_same_bytes() {
    let rows = rows(PROFILE);
    let sum = |seed| {
        let config = Config {
            seed,
            ..Config::default()
        };
        let sent = send(&rows, &config, FRAME_BYTES_MAX);
        let times = sent.packets.iter().map(|packet| packet.at_ns.to_be_bytes());
        fnv(times.flatten().chain(sent.frames.into_iter().flatten()))
    };
    assert_eq!(sum(1), sum(1));
    assert_ne!(sum(1), sum(2));
    assert_eq!(sum(1), GOLDEN_SUM);
}

const GOLDEN_SUM: u64 = 11_565_299_351_823_954_163;

#[test]
fn cut_frames_are_the_begin_of_whole_ones() {
    let rows = rows(PROFILE);
    let whole = send(&rows, &Config::default(), FRAME_BYTES_MAX);
    for cut in [0, 10, 33, 54, 60, 128, 1514] {
        let short = send(&rows, &Config::default(), cut);
        assert_eq!(short.totals, whole.totals);
        assert_eq!(short.truths, whole.truths);
        for (packet, (short, whole)) in short
            .packets
            .iter()
            .zip(short.frames.iter().zip(&whole.frames))
        {
            assert_eq!(short[..], whole[..cut.min(whole.len())]);
            assert_eq!(packet.wire_bytes, whole.len());
        }
    }
}

#[test]
fn small_packets_keep_their_number() {
    let rows = rows(PROFILE);
    let config = Config {
        sizes: Sizes::Small,
        ..Config::default()
    };
    let sent = send(&rows, &config, FRAME_BYTES_MAX);
    assert_eq!(sent.totals.packets, packets(&rows));
    assert_eq!(sent.totals.adjusted_flows, 0);
    let mean = sent.totals.octets / sent.totals.packets;
    assert!((120..160).contains(&mean), "{mean}");
    assert!(sent.packets.iter().all(|packet| packet.ip_bytes <= 512));
}

#[test]
fn packets_above_a_limit_are_made_that_large_and_counted() {
    let rows = rows(PROFILE);
    let whole = send(&rows, &Config::default(), FRAME_BYTES_MAX);
    for ip_bytes_max in [0, 114, 576, 1_500, 9_020] {
        let config = Config {
            ip_bytes_max,
            ..Config::default()
        };
        let sent = send(&rows, &config, FRAME_BYTES_MAX);
        let (mut shortened, mut lacking, mut octets) = (0, 0, 0);
        for (at, (packet, before)) in sent.packets.iter().zip(&whole.packets).enumerate() {
            // Headers are whole: what is read of the frame is a packet, with the check sums of what is in it.
            let read = decode(&sent.frames[at]);
            assert_eq!(read.ip_bytes, packet.ip_bytes);
            assert_eq!(read.tcp_flags, packet.tcp_flags);
            let is_in_limit = packet.ip_bytes <= ip_bytes_max.max(60);
            assert!(is_in_limit && packet.ip_bytes <= before.ip_bytes);
            assert_eq!(
                (packet.at_ns, packet.row, packet.direction, packet.is_last),
                (before.at_ns, before.row, before.direction, before.is_last)
            );
            if packet.ip_bytes < before.ip_bytes {
                assert!(packet.ip_bytes >= ip_bytes_max);
                shortened += 1;
            }
            lacking += u64::from(before.ip_bytes - packet.ip_bytes);
            octets += u64::from(packet.ip_bytes);
        }
        let totals = sent.totals;
        assert_eq!(
            (totals.shortened_packets, totals.shortened_octets),
            (shortened, lacking)
        );
        assert_eq!(
            (totals.packets, totals.octets),
            (whole.totals.packets, octets)
        );
        assert_eq!(shortened > 0, ip_bytes_max < 1_500, "{ip_bytes_max}");
        let of_truths = sent.truths.iter();
        let told: u64 = of_truths
            .map(|truth| truth.forward.octets + truth.reverse.octets)
            .sum();
        assert_eq!(told, octets);
    }
}

#[test]
fn the_flow_of_each_packet_is_known_when_it_is_made() {
    let rows = rows(PROFILE);
    let mut traffic = Traffic::new(rows.iter().copied().map(Ok), &Config::default());
    assert_eq!(traffic.key(), None);
    let (mut keys, mut last) = (HashMap::new(), 0);
    let mut frame = vec![0; FRAME_BYTES_MAX];
    while let Some(packet) = traffic.poll_packet(&mut frame).unwrap() {
        let key = *traffic.key().unwrap();
        assert_eq!(*keys.entry(packet.row).or_insert(key), key);
        let ended = traffic.ended().map(|truth| (truth.row, truth.key));
        let is_last = packet.is_last.then_some((packet.row, key));
        assert_eq!(ended, is_last);
        last += u64::from(packet.is_last);
    }
    assert_eq!(last, traffic.totals().flows);
}

#[test]
fn what_cannot_be_sent_is_counted() {
    let header = PROFILE.lines().next().unwrap();
    // Too few octets for their headers, more than the largest packets have, none at all, octets without packets.
    let text = format!(
        "{header}\n0,5,4,6,1,2,3,119,0,0\n0,5,6,17,1,2,0,0,2,18041\n1,5,4,17,1,2,0,0,0,0\n1,5,4,17,1,2,0,7,1,28\n"
    );
    let rows = rows(&text);
    let sent = send(&rows, &Config::default(), FRAME_BYTES_MAX);
    hold(&rows, &sent);
    assert_eq!((sent.totals.adjusted_flows, sent.totals.empty_rows), (3, 1));
    let octets: Vec<(u64, u64)> = sent
        .truths
        .iter()
        .map(|truth| (truth.row, truth.forward.octets + truth.reverse.octets))
        .collect();
    assert_eq!(octets.len(), 3);
    assert!(
        octets.contains(&(0, 120)) && octets.contains(&(1, 18_040)) && octets.contains(&(3, 28))
    );
}

#[test]
fn flows_before_a_bad_row_are_sent_all_the_same() {
    let header = PROFILE.lines().next().unwrap();
    let text = format!("{header}\n0,5,4,17,1,2,3,300,0,0\n2,9,4,17,1,2,x,300,0,0\n");
    let mut traffic = Traffic::new(Profile::new(text.as_bytes()).unwrap(), &Config::default());
    let mut frame = [0; 60];
    let error = traffic.poll_packet(&mut frame).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("line 3 of the profile, column PACKETS: \"x\""),
        "{error}"
    );
    while traffic.poll_packet(&mut frame).unwrap().is_some() {}
    assert_eq!((traffic.totals().packets, traffic.totals().flows), (3, 1));
}

fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    let side = || {
        (0..40_u64, 0..9_200_u64, 0..40_u64)
            .prop_map(|(packets, mean, more)| (packets, packets * mean + more))
    };
    let protocol = prop_oneof![Just(6), Just(17), Just(1), Just(58), Just(47)];
    let row = (
        0..50_u64,
        0..200_u64,
        any::<bool>(),
        protocol,
        any::<[u16; 2]>(),
        side(),
        side(),
    );
    prop::collection::vec(row, 0..12).prop_map(|rows| {
        let mut start_ms = 0;
        let row = |(gap, lasts, is_ipv6, protocol, ports, forward, reverse): (
            _,
            _,
            _,
            _,
            [u16; 2],
            (u64, u64),
            (u64, u64),
        )| {
            start_ms += gap;
            Row {
                start_ms,
                end_ms: start_ms + lasts,
                is_ipv6,
                protocol,
                source_port: ports[0],
                destination_port: ports[1],
                packets: forward.0,
                bytes: forward.1,
                packets_reverse: reverse.0,
                bytes_reverse: reverse.1,
                addresses: None,
            }
        };
        rows.into_iter().map(row).collect()
    })
}

/// Whether packets of a side can have the sum.
fn can_be(row: &Row, packets: u64, bytes: u64) -> bool {
    let carried = match row.protocol {
        6 => 20,
        17 | 1 | 58 => 8,
        _ => 4,
    };
    let least = if row.is_ipv6 { 40 } else { 20 } + carried;
    (packets * least..=packets * 9_020).contains(&bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_rows_are_sent_as_they_say(rows in any_rows(), seed: u64) {
        let config = Config { seed, ..Config::default() };
        let sent = send(&rows, &config, FRAME_BYTES_MAX);
        hold(&rows, &sent);
        let possible = |row: &Row| can_be(row, row.packets, row.bytes) && can_be(row, row.packets_reverse, row.bytes_reverse);
        let adjusted = rows.iter().filter(|row| !possible(row)).count();
        prop_assert_eq!(sent.totals.adjusted_flows, adjusted as u64);
        for truth in &sent.truths {
            prop_assert_eq!(truth.is_adjusted, !possible(&rows[truth.row as usize]));
        }
    }
}
