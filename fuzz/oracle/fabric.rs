//! What must hold for any bytes taken as the hello of a peer over libfabric. Shared by the fuzz target and by the test that replays its corpus.

use forebay_wire::fabric::Hello;

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    // By the words of the format's description.
    let word = |at: usize| {
        let word = bytes.get(at..at + 4)?.first_chunk()?;
        Some(u32::from_le_bytes(*word))
    };
    let is_ours = bytes.starts_with(b"FBFB\x01\0\0\0");
    let pages = word(8).filter(|bytes| is_ours && (1..=65 << 20).contains(bytes));
    let hello = pages.zip(word(12).filter(|pages| (1..=65_536).contains(pages)));
    match Hello::parse(bytes) {
        Ok(found) => {
            assert_eq!(Some((found.page_bytes, found.receive_pages)), hello);
            assert_eq!(found.emit()[..], bytes[..16]);
        }
        Err(why) => assert!(hello.is_none() && !why.is_empty()),
    }
}
