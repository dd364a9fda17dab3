//! What must hold for any bytes taken as a capture. Shared by the fuzz target and by the test that replays its corpus.

use std::io::Cursor;

use forebay_link::pcap::Capture;

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(mut capture) = Capture::new(Cursor::new(bytes.to_vec())) else {
        return;
    };
    let (mut datagrams, mut payload, mut packet) = (0, 0, 0);
    while let Ok(Some(captured)) = capture.next_datagram() {
        assert!(captured.packet > packet, "packets are numbered upwards");
        packet = captured.packet;
        datagrams += 1;
        payload += captured.payload.len() as u64;
    }
    let books = capture.counters();
    assert_eq!((books.datagrams, books.payload_bytes), (datagrams, payload));
    assert_eq!(
        books.packets,
        books.whole + books.fragments + books.not_udp + books.truncated + books.malformed
    );
    assert_eq!(books.datagrams, books.whole + books.reassembled);
    assert_eq!(
        books.begun,
        books.reassembled + books.reassembly_failed + capture.unfinished() as u64
    );
}
