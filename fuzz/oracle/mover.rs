//! What must hold for any bytes taken as the stream of a mover. Shared by the fuzz target and by the test that replays
//! its corpus.

use forebay_wire::mover::{Frame, HEAD_BYTES};

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let mut rest = bytes;
    // A stream is read frame by frame; what is no frame ends it.
    while let Ok(Some((frame, taken))) = Frame::parse(rest) {
        assert!((HEAD_BYTES..=rest.len()).contains(&taken));
        let again = frame.emit();
        let (same, length) = Frame::parse(&again)
            .expect("what is written is a frame")
            .expect("and a whole one");
        assert_eq!((same, length), (frame, again.len()));
        for cut in [0, 1, HEAD_BYTES, taken / 2, taken - 1] {
            assert_eq!(
                Frame::parse(&rest[..cut.min(taken - 1)]),
                Ok(None),
                "a good frame is good from its first byte on"
            );
        }
        rest = &rest[taken..];
    }
}
