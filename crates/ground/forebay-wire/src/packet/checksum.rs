//! The checksum of the Internet protocols (RFC 1071): the complement of the sum of all 16-bit words in ones' complement.
//!
//! Sums can be taken of parts and added up: all but the last part must have an even number of bytes. A message that has its own checksum in it gives 0.
//!
//! ```
//! use forebay_wire::packet::checksum::{checksum, sum};
//!
//! // The example of RFC 1071, section 3.
//! let words = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
//! assert_eq!(checksum(sum(&words)), !0xddf2);
//! assert_eq!(checksum(sum(&words[..4]) + sum(&words[4..])), !0xddf2);
//! ```

use core::net::Ipv6Addr;

/// The sum of the 16-bit words of `bytes`, not folded; a last odd byte counts as if a zero followed.
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let odd = words.remainder().first();
    let odd = odd.map_or(0, |byte| u64::from(*byte) << 8);
    let words = words.map(|word| u64::from(u16::from_be_bytes([word[0], word[1]])));
    words.sum::<u64>() + odd
}

/// Adds the carries of a sum into its lower 16 bits.
#[inline]
pub const fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The checksum of what was summed up.
#[inline]
pub const fn checksum(sum: u64) -> u16 {
    !fold(sum)
}

/// The sum of the pseudo header that stands in front of what IPv6 carries (RFC 8200, section 8.1).
#[inline]
pub fn pseudo_ipv6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, bytes: usize) -> u64 {
    sum(&source.octets()) + sum(&destination.octets()) + u64::from(protocol) + bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// Each word is added, and its carry, before the next one.
    fn word_by_word(bytes: &[u8]) -> u16 {
        bytes.chunks(2).fold(0_u16, |sum, word| {
            let low = word.get(1).copied().unwrap_or(0);
            let (sum, carry) = sum.overflowing_add(u16::from_be_bytes([word[0], low]));
            sum + u16::from(carry)
        })
    }

    #[test]
    fn golden_sums() {
        // A header of IPv4 with its checksum, b861, from the documentation of the protocol's field.
        let mut header = [
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 192, 168, 0, 1, 192, 168, 0,
            199,
        ];
        assert_eq!(checksum(sum(&header)), 0);
        header[10..12].fill(0);
        assert_eq!(checksum(sum(&header)), 0xb861);
        assert_eq!((sum(&[]), sum(&[7])), (0, 0x0700));
        assert_eq!(
            (fold(0xffff), fold(0x1_0000), fold(u64::MAX)),
            (0xffff, 1, 0xffff)
        );
    }

    proptest! {
        #[test]
        fn any_bytes_sum_up_as_word_by_word(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut: usize) {
            prop_assert_eq!(fold(sum(&bytes)), word_by_word(&bytes));
            let cut = (cut % (bytes.len() + 1)) & !1;
            let (front, back) = bytes.split_at(cut);
            prop_assert_eq!(fold(sum(front) + sum(back)), word_by_word(&bytes));
        }

        #[test]
        fn a_message_with_its_checksum_gives_0(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let check = checksum(sum(&bytes)).to_be_bytes();
            let padding: &[u8] = if bytes.len() % 2 == 0 { &[] } else { &[0] };
            let whole: Vec<u8> = [&bytes, padding, &check].concat();
            prop_assert_eq!(checksum(sum(&whole)), 0);
        }
    }
}
