//! The wire formats against a recording that others made: datagrams, the file an independent builder made of them,
//! and what an independent reader prints of that file.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::HashMap;
use std::path::PathBuf;

use forebay_wire::hadtu::Queue;
use forebay_wire::hld_scan::{Ending, Item, Scanner};
use forebay_wire::subevent::TriggerBits;

const PCAP_HEADER_BYTES: usize = 24;
const PCAP_RECORD_BYTES: usize = 16;
const ETHERNET_IP_UDP_BYTES: usize = 14 + 20 + 8;

/// One sub-event as it lies in a container: address and trigger find it, the bytes identify it.
type Parts = HashMap<(u32, u32), Vec<u8>>;

fn cut(name: &str) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/data", name]
        .iter()
        .collect();
    std::fs::read(path).unwrap()
}

/// The payloads of a capture's UDP datagrams (little-endian pcap, Ethernet, no IP options).
fn datagrams(pcap: &[u8]) -> Vec<&[u8]> {
    let mut rest = &pcap[PCAP_HEADER_BYTES..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let bytes = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let (record, next) = rest.split_at(PCAP_RECORD_BYTES + bytes);
        found.push(&record[PCAP_RECORD_BYTES + ETHERNET_IP_UDP_BYTES..]);
        rest = next;
    }
    found
}

fn parts_of_capture(pcap: &[u8]) -> Parts {
    let mut parts = Parts::new();
    for datagram in datagrams(pcap) {
        for sub in Queue::new_checked(datagram).unwrap().sub_events() {
            let sub = sub.unwrap();
            let key = (
                sub.header().address(),
                sub.header().trigger(TriggerBits::TwentyFour),
            );
            assert!(parts.insert(key, sub.as_bytes().to_vec()).is_none());
        }
    }
    parts
}

/// Every sub-event of the file must be one of the capture's, byte by byte; returns events and sub-events.
fn check_file(hld: &[u8], mut parts: Parts) -> (u32, u32) {
    let mut scanner = Scanner::new();
    scanner.feed(hld);
    scanner.finish();
    let (mut events, mut subs) = (0, 0);
    while let Some(item) = scanner.poll_item() {
        let found = match item {
            Item::Event(found) => found,
            Item::Broken(broken) => panic!("{broken}"),
            Item::Start { .. } | Item::Stop { .. } => continue,
        };
        events += 1;
        for sub in found.event.sub_events() {
            let sub = sub.unwrap();
            let key = (
                sub.header().address(),
                sub.header().trigger(TriggerBits::TwentyFour),
            );
            assert_eq!(parts.remove(&key).as_deref(), Some(sub.as_bytes()), "{sub}");
            subs += 1;
        }
    }
    assert_eq!(scanner.ending(), Some(Ending::Clean));
    assert_eq!(scanner.complete_end(), hld.len() as u64);
    (events, subs)
}

#[test]
fn golden_cut_of_a_file_matches_its_capture() {
    let parts = parts_of_capture(&cut("six_sources.pcap"));
    assert_eq!(parts.len(), 106);
    assert_eq!(check_file(&cut("six_sources.hld"), parts), (16, 96));
}

#[test]
fn golden_cut_headers_agree_with_the_independent_reader() {
    let text = String::from_utf8(cut("six_sources.events.txt")).unwrap();
    let mut scanner = Scanner::new();
    scanner.feed(&cut("six_sources.hld"));
    scanner.finish();
    let mut lines = text.lines();
    while let Some(item) = scanner.poll_item() {
        let Item::Event(found) = item else { continue };
        let header = found.event.header();
        let line = lines.next().unwrap();
        assert!(
            line.contains(&format!("Event #0x{:06x} ", header.sequence)),
            "{line}"
        );
        assert!(line.contains(&format!(
            "fullid={:#06x} runid={:#010x}",
            header.id.0, header.run
        )));
        for sub in found.event.sub_events() {
            let head = sub.unwrap().header();
            let line = lines.next().unwrap();
            let (decoding, id, trigger) = (head.decoding, head.id, head.trigger_word);
            let facts = format!("decoding {decoding:#08x} id {id:#06x} trig {trigger:#010x} typ d");
            assert!(line.contains(&facts), "{line}");
        }
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn whole_recording_when_it_is_there() {
    let Some(folder) = std::env::var_os("FOREBAY_VECTORS").map(PathBuf::from) else {
        forebay_testing::skip!("FOREBAY_VECTORS names no folder with the whole recording");
        return;
    };
    let read = |name| std::fs::read(folder.join("hades").join(name)).unwrap();
    let parts = parts_of_capture(&read("mixed_6src.pcap"));
    assert_eq!(parts.len(), 2_400);
    assert_eq!(check_file(&read("mixed_6src.hld"), parts), (400, 2_400));
}
