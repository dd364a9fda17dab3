//! What must hold for any bytes taken as a file. Shared by the fuzz target and by the test that replays its corpus.

use forebay_wire::hld_scan::{Ending, Item, Scanner};

const EVENT_LIMIT_BYTES: usize = 1 << 20;

/// What one item says: kind, offset, bytes.
type Said = (&'static str, u64, u64);

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let piece = bytes.first().map_or(1, |&byte| usize::from(byte) + 1);
    let (whole, ending, complete_end) = scan(bytes, bytes.len().max(1));
    let pieces = scan(bytes, piece);
    assert_eq!(
        pieces,
        (whole.clone(), ending, complete_end),
        "pieces of {piece}"
    );
    check_order(&whole, bytes.len() as u64);
    assert!(complete_end <= bytes.len() as u64);
    let broken = whole
        .iter()
        .any(|(kind, ..)| !matches!(*kind, "start" | "event" | "stop"));
    assert!(
        broken || ending == Ending::Clean,
        "a sound file ends cleanly"
    );
    let sound = &bytes[..complete_end as usize];
    assert_ne!(scan(sound, piece).1, Ending::Cut, "complete up to there");
}

fn scan(bytes: &[u8], piece: usize) -> (Vec<Said>, Ending, u64) {
    let mut scanner = Scanner::with_limit(EVENT_LIMIT_BYTES);
    let mut all = Vec::new();
    for piece in bytes.chunks(piece) {
        scanner.feed(piece);
        drain(&mut scanner, &mut all);
    }
    scanner.finish();
    drain(&mut scanner, &mut all);
    let ending = scanner.ending().expect("an ending is known after the end");
    (all, ending, scanner.complete_end())
}

fn drain(scanner: &mut Scanner, all: &mut Vec<Said>) {
    while let Some(item) = scanner.poll_item() {
        all.push(match item {
            Item::Start { offset, header } => ("start", offset, u64::from(header.size)),
            Item::Stop { offset, header } => ("stop", offset, u64::from(header.size)),
            Item::Broken(broken) => (broken.reason.name(), broken.offset, broken.bytes),
            Item::Event(found) => {
                let subs = found.event.sub_events();
                let sound = subs.inspect(|sub| assert!(sub.is_ok())).count();
                assert_eq!(sound, found.sub_events as usize);
                let size = u64::from(found.event.header().size);
                ("event", found.offset, size)
            }
        });
    }
}

/// Items follow one another without overlap, and nothing but padding lies between them and at the end.
fn check_order(all: &[Said], len: u64) {
    let mut last = 0;
    for &(kind, offset, bytes) in all {
        assert!(
            offset >= last,
            "{kind} at {offset} overlaps what ends at {last}"
        );
        assert!(
            offset - last < 8,
            "{} bytes unsaid before {kind} at {offset}",
            offset - last
        );
        last = offset + bytes;
    }
    assert!(last <= len && len - last < 8, "said up to {last} of {len}");
}
