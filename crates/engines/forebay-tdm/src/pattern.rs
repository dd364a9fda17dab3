//! The bytes of a test stream: known everywhere, so that a receiver can check them.

/// Bytes after which it repeats.
const PERIOD_BYTES: usize = 1 << 20;
/// What its bytes are longer by, so that each payload lies in one piece.
const PAYLOAD_BYTES_MAX: usize = 1 << 16;

/// One period, and the begin of the next.
#[must_use]
pub fn bytes() -> Vec<u8> {
    let words = (0..PERIOD_BYTES as u64 / 8).map(word);
    let mut bytes = Vec::with_capacity(PERIOD_BYTES + PAYLOAD_BYTES_MAX);
    bytes.extend(words.flat_map(u64::to_be_bytes));
    bytes.extend_from_within(..PAYLOAD_BYTES_MAX);
    bytes
}

/// The numbers of SplitMix64 (Steele, Lea, Flood 2014; constants of D. Stafford's mix 13) from its second one on.
fn word(number: u64) -> u64 {
    let z = number.wrapping_add(2).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// So many bytes of the stream at `offset`.
#[must_use]
pub fn at(bytes: &[u8], offset: u64, most: usize) -> &[u8] {
    let at = (offset % PERIOD_BYTES as u64) as usize;
    bytes
        .get(at..at + most.min(PAYLOAD_BYTES_MAX))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_its_bytes_also_where_it_repeats() {
        let bytes = bytes();
        let first = at(&bytes, 0, 64);
        assert_eq!(at(&bytes, 3 * PERIOD_BYTES as u64, 64), first);
        let across = at(&bytes, PERIOD_BYTES as u64 - 8, 24);
        assert_eq!(across[8..], first[..16]);
        assert_ne!(at(&bytes, 64, 64), first);
        assert_eq!(first[..8], 0x6e78_9e6a_a1b9_65f4_u64.to_be_bytes());
    }
}
