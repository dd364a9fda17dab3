//! The scanner on sound, cut and damaged files.
#![allow(clippy::unwrap_used, clippy::panic)]

use forebay_wire::hadtu::ByteOrder;
use forebay_wire::hld::{EventHeader, EventId};
use forebay_wire::hld_scan::{Ending, Item, Reason, Scanner};
use forebay_wire::subevent::SubEventRepr;
use proptest::prelude::*;

const UNIX_S: i64 = 1_795_289_046;
const RUN: u32 = 595_289_046;

/// What an item says, without its borrowed bytes.
#[derive(Clone, Debug, PartialEq)]
enum Said {
    Start(u64),
    Event(u64, u32, u32),
    Stop(u64),
    Broken(u64, &'static str, u64),
}

fn said(item: &Item<'_>) -> Said {
    match item {
        Item::Start { offset, .. } => Said::Start(*offset),
        Item::Stop { offset, .. } => Said::Stop(*offset),
        Item::Event(f) => Said::Event(f.offset, f.event.header().sequence, f.sub_events),
        Item::Broken(b) => Said::Broken(b.offset, b.reason.name(), b.bytes),
    }
}

fn scan_in(file: &[u8], chunk: usize, limit: usize) -> (Vec<Said>, Scanner) {
    let mut scanner = Scanner::with_limit(limit);
    let mut all = Vec::new();
    for piece in file.chunks(chunk.max(1)) {
        scanner.feed(piece);
        while let Some(item) = scanner.poll_item() {
            all.push(said(&item));
        }
    }
    scanner.finish();
    while let Some(item) = scanner.poll_item() {
        all.push(said(&item));
    }
    (all, scanner)
}

fn scan(file: &[u8]) -> (Vec<Said>, Scanner) {
    scan_in(file, file.len(), 1 << 30)
}

fn header(id: EventId) -> EventHeader {
    EventHeader {
        order: ByteOrder::Little,
        ..EventHeader::new(id, UNIX_S, RUN)
    }
}

/// An event of sub-events with these payload sizes, padded.
fn event(sequence: u32, payloads: &[usize]) -> Vec<u8> {
    let mut body = Vec::new();
    for (id, &bytes) in payloads.iter().enumerate() {
        let sub = SubEventRepr {
            id: 0x8000 + id as u32,
            trigger_word: sequence << 8,
            ..SubEventRepr::default()
        };
        body.extend(sub.header_bytes(bytes as u32));
        body.extend(vec![sequence as u8 | 0x80; bytes]);
        body.resize(body.len().next_multiple_of(8), 0xaa);
    }
    let header = EventHeader {
        sequence,
        size: 32 + body.len() as u32,
        ..header(EventId::data(1))
    };
    [&header.to_bytes()[..], &body].concat()
}

/// Start, four events, stop; with the offsets where units start, and the end.
fn small_file() -> (Vec<u8>, Vec<usize>) {
    let mut file = header(EventId::START).to_bytes().to_vec();
    let mut starts = vec![0, 32];
    for (sequence, payloads) in [(1, &[8, 20][..]), (2, &[0]), (3, &[4, 4, 4]), (4, &[])] {
        file.extend(event(sequence, payloads));
        starts.push(file.len());
    }
    file.extend(header(EventId::STOP).to_bytes());
    starts.push(file.len());
    (file, starts)
}

#[test]
fn a_sound_file_has_no_broken_place() {
    let (file, starts) = small_file();
    let (all, scanner) = scan(&file);
    let at = |i: usize| starts[i] as u64;
    let expected = [
        Said::Start(0),
        Said::Event(at(1), 1, 2),
        Said::Event(at(2), 2, 1),
        Said::Event(at(3), 3, 3),
        Said::Event(at(4), 4, 0),
        Said::Stop(at(5)),
    ];
    assert_eq!(all, expected);
    assert_eq!(scanner.ending(), Some(Ending::Clean));
}

#[test]
fn a_file_cut_at_any_byte_is_known_up_to_its_last_complete_event() {
    let (file, starts) = small_file();
    for cut in 0..file.len() {
        let (all, scanner) = scan(&file[..cut]);
        let complete = *starts.iter().rfind(|&&start| start <= cut).unwrap();
        assert_eq!(scanner.complete_end(), complete as u64, "cut at {cut}");
        let Some(Said::Broken(offset, reason, bytes)) = all.last() else {
            panic!("cut at {cut} is not reported: {all:?}");
        };
        assert_eq!(
            (*offset, *bytes),
            (complete as u64, (cut - complete) as u64)
        );
        if cut == complete {
            assert_eq!(scanner.ending(), Some(Ending::Boundary));
            let missing = if cut == 0 {
                "no_start_event"
            } else {
                "no_stop_event"
            };
            assert_eq!(*reason, missing);
        } else {
            assert_eq!(scanner.ending(), Some(Ending::Cut));
            let header_cut = cut - complete < 32;
            assert_eq!(
                *reason,
                if header_cut {
                    "truncated"
                } else {
                    "cut_inside_event"
                }
            );
        }
        let broken = all.iter().filter(|s| matches!(s, Said::Broken(..))).count();
        assert_eq!(broken, 1, "cut at {cut}: {all:?}");
    }
}

#[test]
fn damage_costs_the_damaged_event_alone() {
    let (file, starts) = small_file();
    // Sizes of the first event and of its second sub-event, made too small, too large, huge.
    for (at, value, reason) in [
        (starts[1], 40, "leftover_bytes"),
        (starts[1], 200, "event_inside_event"),
        (starts[1], 0x7fff_ffff, "event_inside_event"),
        (starts[1], 31, "size_below_header"),
        (starts[1] + 4, 0x0003_0062, "not_an_event"),
        (starts[1] + 32, 15_u32.swap_bytes(), "size_below_header"),
        (
            starts[1] + 56,
            0x7fff_ffff_u32.swap_bytes(),
            "subevent_overrun",
        ),
    ] {
        let mut file = file.clone();
        file[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let (all, scanner) = scan_in(&file, 50, 1 << 31);
        let lost = (starts[2] - starts[1]) as u64;
        assert_eq!(all[1], Said::Broken(32, reason, lost), "{value:#x} at {at}");
        assert_eq!(all[2], Said::Event(starts[2] as u64, 2, 1));
        assert_eq!(all.len(), 6);
        assert_eq!(scanner.ending(), Some(Ending::Clean));
    }
}

#[test]
fn a_wrong_size_does_not_swallow_what_follows() {
    let mut file = header(EventId::START).to_bytes().to_vec();
    let mut bad = event(1, &[8]);
    bad[..4].copy_from_slice(&50_000_u32.to_le_bytes());
    bad[32..36].copy_from_slice(&40_000_u32.to_be_bytes());
    let lost = bad.len() as u64;
    file.extend(bad);
    file.extend(event(2, &[8]));
    file.extend(header(EventId::STOP).to_bytes());
    let (all, scanner) = scan(&file);
    assert_eq!(all[1], Said::Broken(32, "cut_inside_event", lost));
    assert_eq!(all[2], Said::Event(32 + lost, 2, 1));
    assert_eq!((all.len(), scanner.ending()), (4, Some(Ending::Clean)));
}

#[test]
fn an_event_beyond_the_limit_is_broken_and_the_next_is_found() {
    let mut file = header(EventId::START).to_bytes().to_vec();
    file.extend(event(1, &[5_000]));
    file.extend(event(2, &[100]));
    file.extend(header(EventId::STOP).to_bytes());
    let (all, _) = scan_in(&file, 64, 4_096);
    assert_eq!(all[1], Said::Broken(32, "beyond_limit", 5_048));
    assert_eq!(all[2], Said::Event(32 + 5_048, 2, 1));
}

#[test]
fn unpadded_last_sub_events_are_read_with_and_without_padding_behind() {
    for padding in [4, 0] {
        let mut file = header(EventId::START).to_bytes().to_vec();
        for sequence in 1..=2 {
            let mut unpadded = event(sequence, &[4]);
            let size = unpadded.len() - 4;
            unpadded[..4].copy_from_slice(&(size as u32).to_le_bytes());
            unpadded.truncate(size + padding);
            file.extend(unpadded);
        }
        file.extend(header(EventId::STOP).to_bytes());
        let (all, scanner) = scan(&file);
        let second = (32 + 52 + padding) as u64;
        assert_eq!(
            all[1..3],
            [Said::Event(32, 1, 1), Said::Event(second, 2, 1)]
        );
        assert_eq!(scanner.ending(), Some(Ending::Clean));
    }
}

#[test]
fn several_files_in_one_and_missing_borders() {
    let (file, starts) = small_file();
    let (all, _) = scan(&[&file[..], &file[..]].concat());
    assert_eq!(all.len(), 12);
    let (all, _) = scan(&file[32..]);
    assert_eq!(all[0], Said::Broken(0, "no_start_event", 0));
    let (all, _) = scan(&[&file[..starts[5]], &file[..]].concat());
    assert_eq!(all[5], Said::Broken(starts[5] as u64, "no_stop_event", 0));
    let (all, scanner) = scan(&[&file[..], b"rubbish"].concat());
    assert_eq!(all[6], Said::Broken(file.len() as u64, "truncated", 7));
    assert_eq!(scanner.ending(), Some(Ending::Cut));
}

#[test]
fn an_event_of_90_huge_sub_events() {
    let mut file = header(EventId::START).to_bytes().to_vec();
    file.extend(event(1, &[100_000; 90]));
    file.extend(event(2, &[100; 90]));
    file.extend(header(EventId::STOP).to_bytes());
    let (all, _) = scan_in(&file, 1 << 16, 16 << 20);
    assert_eq!(all[1], Said::Event(32, 1, 90));
    assert_eq!(all.len(), 4);
}

#[test]
fn a_reason_says_what_was_there() {
    let mut scanner = Scanner::new();
    scanner.feed(&event(1, &[8])[..40]);
    scanner.finish();
    let mut reasons = Vec::new();
    while let Some(item) = scanner.poll_item() {
        if let Item::Broken(broken) = item {
            reasons.push(broken.reason);
        }
    }
    assert_eq!(reasons, [Reason::CutInside { size: 56, have: 40 }]);
}

#[test]
fn a_file_made_to_be_searched_for_ever_is_not() {
    // Each 64 bytes look like an event that goes on to the end, where none of them does.
    const NESTS: u32 = 100_000;
    let mut file = Vec::new();
    for nest in 0..NESTS {
        let size = (NESTS - nest) * 64 + 8;
        file.extend(
            EventHeader {
                size,
                ..header(EventId::data(1))
            }
            .to_bytes(),
        );
        let sub = SubEventRepr {
            id: nest,
            ..SubEventRepr::default()
        };
        file.extend(sub.header_bytes(48));
        file.extend([0; 16]);
    }
    let (all, scanner) = scan(&file);
    let total = file.len() as u64;
    assert_eq!(all, [Said::Broken(0, "subevent_overrun", total)]);
    assert_eq!(scanner.ending(), Some(Ending::Cut));
}

/// Everything is accounted for: items follow each other without gap or overlap.
fn check_cover(all: &[Said], complete_end: u64, len: u64) {
    let mut last = 0;
    for item in all {
        let (offset, bytes) = match item {
            Said::Start(offset) | Said::Stop(offset) => (*offset, 32),
            Said::Event(offset, ..) => (*offset, 32),
            Said::Broken(offset, _, bytes) => (*offset, *bytes),
        };
        assert!(offset >= last, "{item:?} starts before {last}");
        last = offset + bytes;
    }
    assert!(last <= len && complete_end <= len);
}

proptest! {
    #[test]
    fn chunks_do_not_matter(chunk in 1_usize..200, hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)) {
        let (mut file, _) = small_file();
        for (index, byte) in hits {
            let at = index.index(file.len());
            file[at] = byte;
        }
        let (whole, _) = scan(&file);
        let (pieces, scanner) = scan_in(&file, chunk, 1 << 30);
        prop_assert_eq!(&whole, &pieces);
        check_cover(&pieces, scanner.complete_end(), file.len() as u64);
    }

    #[test]
    fn rubbish_ends_and_is_covered(bytes in prop::collection::vec(any::<u8>(), 0..600), chunk in 1_usize..64, limit in 32_usize..1_000) {
        let (all, scanner) = scan_in(&bytes, chunk, limit);
        prop_assert!(!all.is_empty());
        prop_assert!(scanner.ending().is_some());
        check_cover(&all, scanner.complete_end(), bytes.len() as u64);
    }

    #[test]
    fn written_events_are_found_again(payloads in prop::collection::vec(prop::collection::vec(0_usize..300, 0..6), 0..8), junk in 0_usize..100, order in any::<bool>()) {
        let mut file = header(EventId::START).to_bytes().to_vec();
        let mut expected = vec![Said::Start(0)];
        for (i, payloads) in payloads.iter().enumerate() {
            expected.push(Said::Event(file.len() as u64, i as u32 + 1, payloads.len() as u32));
            file.extend(event(i as u32 + 1, payloads));
        }
        if junk > 0 {
            expected.push(Said::Broken(file.len() as u64, "junk", junk as u64));
            file.extend(vec![0; junk]);
        }
        expected.push(Said::Stop(file.len() as u64));
        let order = if order { ByteOrder::Big } else { ByteOrder::Little };
        file.extend(EventHeader { order, ..header(EventId::STOP) }.to_bytes());
        let (mut all, _) = scan(&file);
        for item in &mut all {
            if let Said::Broken(_, reason, _) = item {
                *reason = "junk";
            }
        }
        prop_assert_eq!(all, expected);
    }
}
