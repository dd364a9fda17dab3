//! Check sums of TCP and UDP that a sender on the same host has begun and left to a card (RFC 1071, RFC 9293, RFC 768, RFC 8200).
//!
//! A virtual cable carries such frames as they are: in the place of the check sum stands the sum of the pseudo-header alone. A client that looks at it would throw the frame
//! away.

use forebay_wire::packet::checksum::{checksum, fold, sum};
use forebay_wire::packet::{TCP, UDP};

const VLAN_TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const TAGS_MAX: usize = 2;
/// Headers of IPv6 that have their length in their second byte, in units of 8 bytes without the first: options, routes, and options for the end.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
const EXTENSIONS_MAX: usize = 8;

/// A segment of TCP or UDP in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    /// Where it begins in the frame, and where it ends.
    start: usize,
    end: usize,
    /// Where its check sum is.
    field: usize,
    is_udp: bool,
    /// Sum of its pseudo-header.
    pseudo: u64,
}

/// Makes the check sum of a frame's TCP or UDP segment anew, and says whether there was one to make. Fragments and all other frames stay as they are.
pub fn complete(frame: &mut [u8]) -> bool {
    let Some(segment) = find(frame) else {
        return false;
    };
    segment.complete(frame);
    true
}

/// The same where the check sum was begun and not made, by what stands in its place: for frames of which nobody says so. One in 65,536 that are right has that, too, and stays as it is.
pub fn complete_begun(frame: &mut [u8]) -> bool {
    let Some(segment) = find(frame) else {
        return false;
    };
    let begun = fold(segment.pseudo);
    if number(frame, segment.field) != Some(begun) {
        return false;
    }
    segment.complete(frame);
    number(frame, segment.field) != Some(begun)
}

impl Segment {
    fn complete(self, frame: &mut [u8]) {
        let Some(bytes) = frame.get_mut(self.start..self.end) else {
            return;
        };
        let field = self.field - self.start;
        bytes[field..field + 2].fill(0);
        let made = checksum(self.pseudo + sum(bytes));
        // Of UDP, 0 says that there is none.
        let made = if self.is_udp && made == 0 {
            0xffff
        } else {
            made
        };
        bytes[field..field + 2].copy_from_slice(&made.to_be_bytes());
    }
}

fn find(frame: &[u8]) -> Option<Segment> {
    let mut at = 12;
    let mut kind = pair(frame, at)?;
    for _ in 0..TAGS_MAX {
        if !VLAN_TAGS.contains(&kind) {
            break;
        }
        at += 4;
        kind = pair(frame, at)?;
    }
    let packet = at + 2;
    match kind {
        IPV4 => of_ipv4(frame, packet),
        IPV6 => of_ipv6(frame, packet),
        _ => None,
    }
}

fn of_ipv4(frame: &[u8], at: usize) -> Option<Segment> {
    let header = frame.get(at..at + 20)?;
    let header_bytes = usize::from(header[0] & 0xf) * 4;
    let is_fragment = number(header, 6)? & 0x3fff != 0;
    if header[0] >> 4 != 4 || header_bytes < 20 || is_fragment {
        return None;
    }
    let end = at + usize::from(number(header, 2)?);
    segment(frame, at + header_bytes, end, header[9], &header[12..20])
}

fn of_ipv6(frame: &[u8], at: usize) -> Option<Segment> {
    let header = frame.get(at..at + 40)?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let end = at + 40 + usize::from(number(header, 4)?);
    let (mut next, mut start) = (header[6], at + 40);
    for _ in 0..EXTENSIONS_MAX {
        if !EXTENSIONS.contains(&next) {
            break;
        }
        let [following, units] = pair(frame, start)?;
        next = following;
        start += 8 + usize::from(units) * 8;
    }
    segment(frame, start, end, next, &header[8..40])
}

fn segment(
    frame: &[u8],
    start: usize,
    end: usize,
    protocol: u8,
    addresses: &[u8],
) -> Option<Segment> {
    let (field, header_bytes) = match protocol {
        TCP => (16, 20),
        UDP => (6, 8),
        _ => return None,
    };
    if end > frame.len() || start + header_bytes > end {
        return None;
    }
    Some(Segment {
        start,
        end,
        field: start + field,
        is_udp: protocol == UDP,
        pseudo: sum(addresses) + u64::from(protocol) + (end - start) as u64,
    })
}

fn pair(bytes: &[u8], at: usize) -> Option<[u8; 2]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    pair(bytes, at).map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// From 10.0.0.1:1 to 10.0.0.2:2 with the payload `hi`: its check sum was made by hand.
    fn udp() -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0, 0, 30, 0, 0, 0x40, 0, 64, 17, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        // 0a00 + 0001 + 0a00 + 0002 + 0011 + 000a = 141e, begun.
        frame.extend([0, 1, 0, 2, 0, 10, 0x14, 0x1e, b'h', b'i']);
        frame
    }

    /// 141e + 0001 + 0002 + 000a + 6869 = 7c94, and its complement.
    const MADE: [u8; 2] = [0x83, 0x6b];

    #[test]
    fn a_sum_that_was_begun_is_made() {
        let mut frame = udp();
        assert!(complete_begun(&mut frame));
        assert_eq!(frame[40..42], MADE);
        // Made once, it is not begun.
        let whole = frame.clone();
        assert!(!complete_begun(&mut frame));
        assert!(complete(&mut frame));
        assert_eq!(frame, whole);
        // One that is wrong is not healed.
        frame[43] ^= 1;
        let wrong = frame.clone();
        assert!(!complete_begun(&mut frame));
        assert_eq!(frame, wrong);
    }

    #[test]
    fn tags_options_and_padding_do_not_matter() {
        let mut frame = udp();
        frame.splice(12..12, [0x88, 0xa8, 0, 7, 0x81, 0, 0x20, 5]);
        frame.splice(42..42, [1, 1, 1, 0]);
        frame[22] = 0x46;
        frame[25] = 34;
        frame.extend([0xff; 20]);
        let mut wanted = frame.clone();
        wanted[52..54].copy_from_slice(&MADE);
        assert!(complete_begun(&mut frame));
        assert_eq!(frame, wanted);
    }

    #[test]
    fn fragments_and_what_is_cut_stay() {
        let kept = |change: fn(&mut Vec<u8>)| {
            let mut frame = udp();
            change(&mut frame);
            let before = frame.clone();
            assert!(!complete(&mut frame));
            assert_eq!(frame, before);
        };
        kept(|frame| frame[20] = 0x20);
        kept(|frame| frame[21] = 1);
        kept(|frame| frame[14] = 0x65);
        kept(|frame| frame[14] = 0x44);
        kept(|frame| frame[23] = 1);
        kept(|frame| frame[17] = 31);
        kept(|frame| frame[17] = 27);
        kept(|frame| frame.truncate(43));
        kept(|frame| frame[12] = 9);
    }

    #[test]
    fn a_sum_of_udp_that_is_0_is_sent_as_its_complement() {
        let mut frame = udp();
        // What is missing to ffff.
        frame[42..44].copy_from_slice(&[0xeb, 0xd4]);
        assert!(complete(&mut frame));
        assert_eq!(frame[40..42], [0xff, 0xff]);
    }

    /// The sum over everything with the check sum in its place is ffff (RFC 1071), by another way to add.
    fn adds_up(frame: &[u8], addresses: std::ops::Range<usize>, segment: usize, kind: u8) -> bool {
        let mut sum = u32::from(kind) + (frame.len() - segment) as u32;
        for part in [&frame[addresses], &frame[segment..]] {
            for (at, byte) in part.iter().enumerate() {
                sum += u32::from(*byte) << (8 * (1 - at % 2));
                sum = (sum & 0xffff) + (sum >> 16);
            }
        }
        sum == 0xffff
    }

    proptest! {
        #[test]
        fn whatever_is_made_adds_up(is_v6 in any::<bool>(), is_tcp in any::<bool>(), content in proptest::collection::vec(any::<u8>(), 52..1_500)) {
            let mut frame = vec![2; 12];
            let (kind, field) = if is_tcp { (6, 16) } else { (17, 6) };
            let (addresses, segment) = if is_v6 {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend(((content.len() - 32) as u16).to_be_bytes());
                frame.extend([kind, 64]);
                (22..54, 54)
            } else {
                frame.extend([8, 0, 0x45, 0]);
                frame.extend(((content.len() + 12) as u16).to_be_bytes());
                frame.extend([0, 0, 0x40, 0, 64, kind, 0, 0]);
                (26..34, 34)
            };
            frame.extend(&content);
            let mut made = frame.clone();
            prop_assert!(complete(&mut made));
            prop_assert!(adds_up(&made, addresses, segment, kind));
            let field = segment + field;
            made[field..field + 2].copy_from_slice(&frame[field..field + 2]);
            prop_assert_eq!(made, frame);
        }

        #[test]
        fn any_bytes_are_borne(mut frame in proptest::collection::vec(any::<u8>(), 0..120), kind in 0..3_usize, version in any::<u8>()) {
            if frame.len() > 14 {
                frame[12..14].copy_from_slice(&[IPV4, IPV6, [0x81, 0]][kind]);
                frame[14] = version;
            }
            let bytes = frame.len();
            complete(&mut frame);
            complete_begun(&mut frame);
            prop_assert_eq!(frame.len(), bytes);
        }
    }
}
