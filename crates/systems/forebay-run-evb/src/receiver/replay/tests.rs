//! A capture through the stage, and what stands in the books then.

use forebay_ledger::{Balance, LedgerReader, Snapshot};
use forebay_ring::{Consumers, RingSetMemory};
use forebay_sys::control::Control;

use super::*;
use crate::replay::Selection;
use forebay_testing::residuals::off;

/// What a capture came to.
struct Replayed {
    books: Books,
    snapshot: Snapshot,
    end: End,
}

/// Runs the stage over a capture; its supervisor is gone.
fn replayed(capture: &[u8], selection: &Selection) -> Replayed {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture.pcap");
    std::fs::write(&file, capture).unwrap();
    let plan = crate::replay::plan("run-1", folder.path(), &file, selection).unwrap();
    let books = Books::declare(&plan).unwrap();
    let words = Words::zeroed(books.schema.bytes_needed() / 8);
    forebay_ledger::RunWriter::format(&books.schema, &words, 1, 1).unwrap();
    let spec = plan.event_rings();
    let memory = RingSetMemory::create(&spec).unwrap();
    let mut consumers = Consumers::map(&spec, memory.consumer_fds().unwrap()).unwrap();
    let (supervisor, control) = Control::pair(Duration::from_secs(1)).unwrap();
    let control = StageControl::from(control);
    let rings = memory.producer_fds().unwrap();
    let replay = plan.replay.as_ref().unwrap();
    let stage = Stage::attach(&plan, replay, &words, rings, &control, Leak::off());
    let mut stage = stage.unwrap();
    drop(supervisor);
    let end = stage.serve().unwrap();
    stage.close(&end);
    for ring in &mut consumers.rings {
        while let Ok(Some(_)) = ring.next() {}
        assert!(ring.is_closed());
    }
    let snapshot = LedgerReader::open(&words).unwrap().snapshot().unwrap();
    Replayed {
        books,
        snapshot,
        end,
    }
}

/// No account misses anything, nor does the link to the receivers.
fn assert_closed(balance: &Balance) {
    assert_eq!(off(balance), []);
    let link = balance.links.iter().find(|line| line.place == "capture");
    assert!(link.unwrap().residual.unwrap().is_zero(), "{link:?}");
}

#[test]
fn the_builder_hears_the_end_although_the_supervisor_is_gone() {
    let recorded = "crates/ground/forebay-wire/tests/data/six_sources.pcap";
    let bytes = std::fs::read(forebay_testing::root().join(recorded)).unwrap();
    let replayed = replayed(&bytes[..40_000], &Selection::default());
    assert!(matches!(replayed.end, End::Broken(_)));
    // The packet in which the file ends came, and is lost by its name.
    let capture = replayed.books.capture.as_ref().unwrap();
    let lost = capture.packets.lost(CaptureDrop::FileBroken);
    assert_eq!(replayed.snapshot.tally(lost), (1, 0));
    assert_closed(&replayed.snapshot.balance());
}

/// An Ethernet frame with a part of an IPv4 packet; `place` is its word of flags and offset.
fn frame(id: u16, place: u16, part: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([0x08, 0x00, 0x45, 0]);
    frame.extend((part.len() as u16 + 20).to_be_bytes());
    frame.extend(id.to_be_bytes());
    frame.extend(place.to_be_bytes());
    frame.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(part);
    frame
}

/// A UDP datagram of zeroes to `port`.
fn udp(port: u16, bytes: u16) -> Vec<u8> {
    let mut udp = 4_000_u16.to_be_bytes().to_vec();
    udp.extend(port.to_be_bytes());
    udp.extend((bytes + 8).to_be_bytes());
    udp.resize(usize::from(bytes) + 8, 0);
    udp
}

fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0]);
    let mut words = vec![0, 0, 262_144, 1];
    for frame in frames {
        words.extend([1_700_000_000, 0, frame.len() as u32, frame.len() as u32]);
        file.extend(words.drain(..).flat_map(u32::to_le_bytes));
        file.extend(frame);
    }
    file
}

#[test]
fn what_a_capture_holds_what_becomes_whole_and_what_goes_on_are_counts_of_their_own() {
    const MORE: u16 = 0x2000;
    let long = udp(50_000, 2_000);
    let frames = [
        frame(1, 0, &udp(50_000, 100)),
        frame(2, 0, &udp(60_000, 200)),
        frame(3, MORE, &long[..1_480]),
        frame(4, MORE, &long[..1_480]),
        frame(3, 185, &long[1_480..]),
    ];
    let selection = Selection {
        base_port: Some(50_000),
        sources: Some(1),
        ..Selection::default()
    };
    let replayed = replayed(&pcap(&frames), &selection);
    assert!(matches!(replayed.end, End::File));
    let tally = |term| replayed.snapshot.tally(term);
    let capture = replayed.books.capture.as_ref().unwrap();
    assert_eq!(tally(capture.packets.incoming).0, 5);
    assert_eq!(tally(capture.packets.outgoing).0, 5);
    let datagrams = &capture.datagrams;
    assert_eq!(tally(datagrams.incoming), (4, 2_300));
    assert_eq!(tally(datagrams.outgoing), (3, 2_300));
    assert_eq!(
        tally(datagrams.lost(ReassemblyDrop::FragmentMissing)),
        (1, 0),
        "the rest of the fourth"
    );
    assert_eq!(tally(datagrams.held), (0, 0));
    assert_eq!(tally(capture.not_selected), (1, 200));
    let receiver = &replayed.books.ports[0].sources[0].receiver;
    assert_eq!(tally(receiver.incoming), (2, 2_100));
    assert_closed(&replayed.snapshot.balance());
}
