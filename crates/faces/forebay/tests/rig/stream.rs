//! What came of a stream over time-division UDP, held against what went: a busy machine may lose packets, but none that is not listed and counted.

use std::path::Path;

use serde_json::Value;

/// Most payload of a packet where nothing else is asked for: 1472 bytes less the head.
pub(crate) const PAYLOAD_BYTES_MAX: u64 = 1416;

/// Packets of a sender, as a receiver names it, that were lost, of whatever cause.
pub(crate) fn lost_packets(sender: &Value) -> u64 {
    let lost = sender["lost"].as_object().unwrap().values();
    lost.map(|lost| lost.as_u64().unwrap()).sum()
}

/// The four numbers of a summary's books are 0.
pub(crate) fn assert_nothing_left(json: &Value) {
    for key in [
        "residual_items",
        "residual_bytes",
        "left_items",
        "left_bytes",
    ] {
        assert_eq!(json[key], 0, "{key}: {json}");
    }
}

/// Most datagrams that the kernel merges, and then drops as one.
const MERGED_MAX: u64 = 128;

/// On loopback nothing but a socket's buffer loses a packet, and the kernel counts what found no room there: what is lost of all senders that told what they sent is no
/// more than that, and what came too late. Where datagrams are merged the kernel counts a buffer once.
pub(crate) fn assert_lost_by_the_kernel_alone(received: &Value) {
    let senders = received["by_sender"].as_array().unwrap();
    let lost: u64 = senders.iter().map(lost_packets).sum();
    let refused: u64 = senders
        .iter()
        .map(|sender| sender["lost"]["sender_error"].as_u64().unwrap())
        .sum();
    let counted = |of: &Value, key: &str| of[key].as_u64().unwrap();
    let drops = counted(received, "socket_drops");
    let each = if received["socket_overflow_exact"] == true {
        1
    } else {
        MERGED_MAX
    };
    let late = counted(&received["datagrams"], "late");
    let known = drops * each + late + refused;
    assert!(
        lost <= known,
        "{lost} packets are lost, and the kernel dropped {drops}: {received}"
    );
}

/// Offset and length of each range that is listed as lost beside a file; in order of the stream, or the test fails.
pub(crate) fn lost_ranges(came: &Path) -> Vec<(u64, u64)> {
    let list = std::fs::read_to_string(format!("{}.lost.csv", came.display())).unwrap();
    let mut lines = list.lines();
    assert_eq!(lines.next(), Some("offset_bytes,length_bytes,why"));
    let range = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        assert!(
            ["lost", "not_written", "queue_full"].contains(&cells[2]),
            "{line}"
        );
        (cells[0].parse().unwrap(), cells[1].parse().unwrap())
    };
    let mut ranges: Vec<(u64, u64)> = lines.map(range).collect();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0, "listed twice: {list}");
    }
    ranges
}

/// The file holds what went, and zeroes in the ranges that are listed; it is shorter only by what is listed. Gives the bytes of these ranges.
pub(crate) fn assert_same_but_for_lost(came: &Path, went: &[u8]) -> u64 {
    let mut expected = went.to_vec();
    let ranges = lost_ranges(came);
    for (offset, length) in &ranges {
        expected[*offset as usize..(offset + length) as usize].fill(0);
    }
    let file = std::fs::read(came).unwrap();
    let (length, went) = (file.len() as u64, went.len() as u64);
    let short = went.checked_sub(length).unwrap();
    let behind =
        |(offset, bytes): &(u64, u64)| (offset + bytes).saturating_sub(length.max(*offset));
    assert_eq!(
        ranges.iter().map(behind).sum::<u64>(),
        short,
        "{} lacks its last {short} bytes: {ranges:?}",
        came.display()
    );
    let differs = file.iter().zip(&expected).position(|(is, was)| is != was);
    assert_eq!(differs, None, "{} lost {ranges:?}", came.display());
    ranges.iter().map(|(_, length)| length).sum()
}

/// The same, and what is listed is no more than what so many packets carry. Gives the bytes that are listed.
pub(crate) fn assert_stream(came: &Path, went: &[u8], lost_packets: u64) -> u64 {
    let lost_bytes = assert_same_but_for_lost(came, went);
    assert!(
        lost_bytes <= lost_packets * PAYLOAD_BYTES_MAX && (lost_packets == 0) == (lost_bytes == 0),
        "{}: {lost_bytes} bytes are listed, and {lost_packets} packets counted",
        came.display()
    );
    lost_bytes
}
