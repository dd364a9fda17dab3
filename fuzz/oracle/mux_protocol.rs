//! What must hold for any bytes taken as a record between a client of the multiplexer and the daemon. Shared by the fuzz target and by the test that replays
//! its corpus.

use forebay_client::protocol::{Message, MessageError};

/// Bytes of a record by its kind and count, or of which kind there is none.
fn length(kind: u8, count: usize) -> Option<usize> {
    match kind {
        1 if count <= 32 => Some(8 + count),
        2 if count <= 8 => Some(40 + 17 * count),
        3 if count <= 200 => Some(9 + count),
        4 if count == 0 => Some(8),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    (0..4).fold(0, |word, byte| {
        word | u32::from(bytes[at + byte]) << (8 * byte)
    })
}

/// What each kind says, read anew by the description of the protocol.
fn is_right(bytes: &[u8]) -> bool {
    match bytes[6] {
        1 => {
            let name = &bytes[8..];
            let letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
            !name.is_empty() && name.iter().all(|byte| letters.contains(byte))
        }
        2 => {
            let vlan = u16::from(bytes[14]) | u16::from(bytes[15]) << 8;
            let is_pool = |at| {
                let (frames, frame_bytes) = (word(bytes, at), word(bytes, at + 4));
                (1..=1 << 20).contains(&frames)
                    && frame_bytes & 63 == 0
                    && (64..=1 << 20).contains(&frame_bytes)
            };
            let is_address =
                |ip: &[u8]| ip[0] == 6 || ip[0] == 4 && ip[5..].iter().all(|byte| *byte == 0);
            bytes[8] & 1 == 0
                && vlan <= 4094
                && (68..=65_536).contains(&word(bytes, 16))
                && is_pool(20)
                && is_pool(28)
                && bytes[37..40] == [0; 3]
                && bytes[40..].chunks(17).all(is_address)
        }
        4 => true,
        _ => {
            let text = std::str::from_utf8(&bytes[9..]);
            let is_text = text.is_ok_and(|text| text.chars().all(|letter| !letter.is_control()));
            (1..=6).contains(&bytes[8]) && is_text
        }
    }
}

/// Panics when something does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let found = Message::parse(bytes);
    if bytes.len() < 8 || !bytes.starts_with(b"FBMX") {
        assert_eq!(found, Err(MessageError::Head));
        return;
    }
    let is_known = bytes[4..6] == [1, 0];
    let is_whole = length(bytes[6], bytes[7].into()) == Some(bytes.len());
    let is_message = is_known && is_whole && is_right(bytes);
    assert_eq!(found.is_ok(), is_message, "{found:?}");
    match found {
        Ok(message) => assert_eq!(message.emit(), bytes),
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}
