//! What must hold for any bytes taken as pieces of heaps. Shared by the fuzz target and by the test that replays its corpus.

use forebay_wire::heap::{HEAP_BYTES_MAX, HeapError, PIECE_HEAD_BYTES, Piece};

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        if let Err(HeapError::Check { found, .. }) = Piece::parse(&bytes[at..]) {
            // Nobody guesses a CRC: what lies behind it is looked at, too.
            bytes[at + 32..at + PIECE_HEAD_BYTES].copy_from_slice(&found.to_be_bytes());
        }
        match Piece::parse(&bytes[at..]) {
            Ok((piece, rest)) => {
                assert!(!piece.to_string().is_empty());
                assert!(piece.heap_bytes <= HEAP_BYTES_MAX);
                assert!(piece.offset as usize + piece.bytes.len() <= piece.heap_bytes as usize);
                let mut again = piece.head().to_vec();
                again.extend_from_slice(piece.bytes);
                assert_eq!(again.len() + rest.len() + at, bytes.len());
                assert_eq!(again[..], bytes[at..at + again.len()]);
                at += again.len();
            }
            Err(error) => {
                assert!(!error.reason().is_empty() && !error.to_string().is_empty());
                return;
            }
        }
    }
}
