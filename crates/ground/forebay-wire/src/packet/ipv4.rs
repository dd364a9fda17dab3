//! The header of IPv4 (RFC 791).
//!
//! ```text
//! +0   version (4 bits), header length in words of 4 bytes (4 bits)
//! +1   type of service
//! +2   total length, bytes
//! +4   id of the packet that this is a fragment of
//! +6   bit 13 more fragments follow; bits 12..0 place of this one in units of 8 bytes
//! +8   time to live
//! +9   protocol
//! +12  source, +16 destination
//! +20  options, up to the header's length
//! ```

use core::net::{IpAddr, Ipv4Addr};

use super::{FragmentPlace, Ip, PacketError};

/// Bytes of a header without options.
const HEADER_BYTES: usize = 20;
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_UNITS: u16 = 0x1fff;

/// Reads a packet whose version was seen.
#[inline]
pub(super) fn parse(packet: &[u8]) -> Result<Ip<'_>, PacketError> {
    let header = packet
        .first_chunk::<HEADER_BYTES>()
        .ok_or(PacketError::Ipv4Header)?;
    let &[
        version,
        traffic_class,
        t0,
        t1,
        i0,
        i1,
        f0,
        f1,
        hop_limit,
        protocol,
        _,
        _,
        ..,
    ] = header;
    let &[.., s0, s1, s2, s3, d0, d1, d2, d3] = header;
    let header_bytes = usize::from(version & 0x0f) * 4;
    // 0 stands in captures of a sender that leaves the cutting to its network card.
    let length = match usize::from(u16::from_be_bytes([t0, t1])) {
        0 => None,
        total => Some(total),
    };
    if header_bytes < HEADER_BYTES || length.is_some_and(|total| total < header_bytes) {
        return Err(PacketError::Ipv4Lengths);
    }
    let there = packet.get(header_bytes..).ok_or(PacketError::Ipv4Header)?;
    let body = length.map_or(there.len(), |total| total - header_bytes);
    let whole = there.get(..body);
    let place = u16::from_be_bytes([f0, f1]);
    let (has_more, start) = (
        place & MORE_FRAGMENTS != 0,
        usize::from(place & FRAGMENT_UNITS) * 8,
    );
    let fragment = FragmentPlace {
        id: u32::from(u16::from_be_bytes([i0, i1])),
        start,
        is_last: !has_more,
    };
    Ok(Ip {
        source: IpAddr::V4(Ipv4Addr::new(s0, s1, s2, s3)),
        destination: IpAddr::V4(Ipv4Addr::new(d0, d1, d2, d3)),
        protocol,
        fragment: (has_more || start > 0).then_some(fragment),
        length,
        hop_limit,
        traffic_class,
        captured: whole.unwrap_or(there),
        lacking: whole.is_none().then_some(PacketError::Ipv4Body),
    })
}

#[cfg(test)]
mod tests {
    use super::super::UDP;
    use super::super::tests::GOLDEN;
    use super::*;

    #[test]
    fn golden_ipv4() {
        let ip = Ip::parse(&GOLDEN).unwrap();
        let (source, destination) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        assert_eq!((ip.source, ip.destination), (source, destination));
        assert_eq!((ip.protocol, ip.fragment), (UDP, None));
        assert_eq!(ip.payload(), Ok(&GOLDEN[20..]));
        assert_eq!(
            (ip.length, ip.hop_limit, ip.traffic_class),
            (Some(30), 64, 0)
        );
        let mut marked = GOLDEN;
        (marked[1], marked[8]) = (0xb8, 3);
        let ip = Ip::parse(&marked).unwrap();
        assert_eq!((ip.hop_limit, ip.traffic_class), (3, 0xb8));
    }

    #[test]
    fn lengths_that_contradict_each_other_are_refused() {
        let with = |at: usize, byte: u8| {
            let mut packet = GOLDEN;
            packet[at] = byte;
            Ip::parse(&packet).err()
        };
        assert_eq!(with(0, 0x44), Some(PacketError::Ipv4Lengths));
        assert_eq!(with(3, 19), Some(PacketError::Ipv4Lengths));
    }

    #[test]
    fn a_length_of_0_is_all_there_is() {
        let mut packet = GOLDEN;
        packet[3] = 0;
        let ip = Ip::parse(&packet).unwrap();
        assert_eq!((ip.length, ip.payload()), (None, Ok(&GOLDEN[20..])));
        assert_eq!(ip.captured_payload(), &GOLDEN[20..]);
    }

    #[test]
    fn options_are_no_payload() {
        let mut packet = [&GOLDEN[..20], &[1; 4], &GOLDEN[20..]].concat();
        (packet[0], packet[3]) = (0x46, 34);
        assert_eq!(Ip::parse(&packet).unwrap().payload(), Ok(&GOLDEN[20..]));
    }

    #[test]
    fn a_fragment_says_where_it_belongs() {
        let mut packet = GOLDEN;
        packet[6..8].copy_from_slice(&0x2003_u16.to_be_bytes());
        let mut place = FragmentPlace {
            id: 7,
            start: 24,
            is_last: false,
        };
        assert_eq!(Ip::parse(&packet).unwrap().fragment, Some(place));
        packet[6..8].copy_from_slice(&3_u16.to_be_bytes());
        place.is_last = true;
        assert_eq!(Ip::parse(&packet).unwrap().fragment, Some(place));
        // The first one has place 0.
        packet[6..8].copy_from_slice(&0x2000_u16.to_be_bytes());
        (place.start, place.is_last) = (0, false);
        assert_eq!(Ip::parse(&packet).unwrap().fragment, Some(place));
    }
}
