//! What must hold for any bytes taken as a record on the socket beside shared memory, and as a piece with references. Shared by the fuzz target and by the test
//! that replays its corpus.

use forebay_wire::shm::{Greeting, Reference, Refusal};

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8]
        .iter()
        .rev()
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// What a record says, by the words of docs/wire/shm.md: kind, reason, and its two words.
fn described(record: &[u8]) -> Result<(u8, u8, [u64; 2]), Refusal> {
    if record.len() != 24 || !record.starts_with(b"FBSM") {
        return Err(Refusal::Malformed);
    }
    if record[4..6] != [1, 0] {
        return Err(Refusal::Version);
    }
    let (kind, reason, words) = (record[6], record[7], [word(record, 8), word(record, 16)]);
    let is_room = (1..=65 << 20).contains(&words[0]) && (1..=65_536).contains(&words[1]);
    let is_right = match kind {
        1 | 2 => reason == 0 && is_room,
        3 => (1..=4).contains(&reason),
        4 => reason == 0,
        _ => false,
    };
    is_right
        .then_some((kind, reason, words))
        .ok_or(Refusal::Malformed)
}

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let found = Greeting::parse(bytes);
    match described(bytes) {
        Err(refusal) => assert_eq!(found, Err(refusal)),
        Ok((kind, reason, words)) => {
            let greeting = found.expect("it is as described");
            let again = greeting.emit();
            assert_eq!(Greeting::parse(&again), Ok(greeting));
            assert_eq!((again[6], again[7]), (kind, reason));
            match greeting {
                Greeting::Hello(_) | Greeting::Welcome(_) => assert_eq!(again[..], *bytes),
                Greeting::Region(number) => assert_eq!(number, words[0]),
                Greeting::Refusal(why) => assert!(!why.to_string().is_empty()),
            }
        }
    }
    let count = usize::from(bytes.first().copied().unwrap_or(0) % 8);
    let piece = bytes.get(1..).unwrap_or_default();
    let Some(references) = Reference::all(count, piece) else {
        assert!(piece.len() < 24 * count);
        return;
    };
    let mut found = 0;
    for (reference, at) in references.zip((0..).step_by(24)) {
        let words = [reference.region, reference.offset, reference.bytes];
        assert_eq!(words, [0, 8, 16].map(|of| word(piece, at + of)));
        assert_eq!(reference.emit()[..], piece[at..at + 24]);
        found += 1;
    }
    assert_eq!(found, count);
}
