//! The header of IPv6 and its extension headers (RFC 8200).
//!
//! ```text
//! +0   version (4 bits), traffic class (8), flow label (20)
//! +4   bytes behind this header
//! +6   what is behind this header
//! +7   hop limit
//! +8   source, +24 destination
//! +40  extension headers: +0 what follows, +1 length in units of 8 bytes, the first not counted
//!      of a fragment (44): +0 what follows, +2 place in units of 8 bytes (13 bits), reserved (2), more follow (1), +4 id
//! ```

use core::net::{IpAddr, Ipv6Addr};

use super::{FragmentPlace, IPV6_FRAGMENT, Ip, PacketError};

/// Extension headers that are skipped: for each hop, for routers, for the receiver.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
/// Nothing follows, where a protocol number stands.
const NOTHING: u8 = 59;
/// More are an attack.
const EXTENSIONS_MAX: usize = 8;
const HEADER_BYTES: usize = 40;
const MORE_FRAGMENTS: u16 = 0x0001;
const FRAGMENT_PLACE: u16 = 0xfff8;

/// Reads a packet whose version was seen.
#[inline]
pub(super) fn parse(packet: &[u8]) -> Result<Ip<'_>, PacketError> {
    let (&[c0, c1, _, _, l0, l1, next, hop_limit], rest) = take(packet)?;
    let (source, rest) = take::<16>(rest)?;
    let (destination, rest) = take::<16>(rest)?;
    let said = match usize::from(u16::from_be_bytes([l0, l1])) {
        // A jumbogram, or a sender that leaves the cutting to its network card.
        0 if next != NOTHING => None,
        said => Some(said),
    };
    let body = rest.get(..said.unwrap_or(rest.len()));
    let missing = |error| match error {
        // Nothing says that the rest of it is not behind what is there.
        PacketError::Ipv6Extension if said.is_none() => PacketError::Ipv6Body,
        error if body.is_some() => error,
        _ => PacketError::Ipv6Body,
    };
    let carried = past_extensions(next, body.unwrap_or(rest)).map_err(missing)?;
    Ok(Ip {
        source: IpAddr::V6(Ipv6Addr::from(*source)),
        destination: IpAddr::V6(Ipv6Addr::from(*destination)),
        protocol: carried.protocol,
        fragment: carried.fragment,
        length: said.map(|said| HEADER_BYTES + said),
        hop_limit,
        traffic_class: c0 << 4 | c1 >> 4,
        captured: carried.payload,
        lacking: body.is_none().then_some(PacketError::Ipv6Body),
    })
}

/// The next `N` bytes of the header, and the rest.
fn take<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), PacketError> {
    bytes.split_first_chunk().ok_or(PacketError::Ipv6Header)
}

/// What is behind the extension headers.
struct Carried<'a> {
    protocol: u8,
    fragment: Option<FragmentPlace>,
    payload: &'a [u8],
}

#[inline]
fn past_extensions(mut next: u8, mut body: &[u8]) -> Result<Carried<'_>, PacketError> {
    let mut fragment = None;
    for _ in 0..EXTENSIONS_MAX {
        if next == IPV6_FRAGMENT {
            let (&[following, _, p0, p1, i0, i1, i2, i3], rest) =
                body.split_first_chunk().ok_or(PacketError::Ipv6Extension)?;
            let place = u16::from_be_bytes([p0, p1]);
            let part = FragmentPlace {
                id: u32::from_be_bytes([i0, i1, i2, i3]),
                start: usize::from(place & FRAGMENT_PLACE),
                is_last: place & MORE_FRAGMENTS == 0,
            };
            (next, body) = (following, rest);
            if !part.is_last || part.start > 0 {
                fragment = Some(part);
            }
            if part.start > 0 {
                // What it carries begins amid the packet: no header is here.
                break;
            }
        } else if EXTENSIONS.contains(&next) {
            let &[following, units, ..] = body else {
                return Err(PacketError::Ipv6Extension);
            };
            next = following;
            body = body
                .get((usize::from(units) + 1) * 8..)
                .ok_or(PacketError::Ipv6Extension)?;
        } else {
            break;
        }
    }
    let is_later = fragment.is_some_and(|part| part.start > 0);
    if !is_later && (EXTENSIONS.contains(&next) || next == IPV6_FRAGMENT) {
        return Err(PacketError::Ipv6Extensions);
    }
    Ok(Carried {
        protocol: next,
        fragment,
        payload: body,
    })
}

#[cfg(test)]
mod tests {
    use super::super::UDP;
    use super::super::tests::{GOLDEN, error_of, ipv6};
    use super::*;

    #[test]
    fn golden_ipv6_with_an_extension() {
        let packet = ipv6(0, &[UDP, 0, 0, 0, 0, 0, 0, 0]);
        let ip = Ip::parse(&packet).unwrap();
        let addresses = (ip.source, ip.destination);
        assert_eq!(addresses, ("::1".parse().unwrap(), "::2".parse().unwrap()));
        assert_eq!((ip.protocol, ip.payload()), (UDP, Ok(&GOLDEN[20..])));
        assert_eq!(
            (ip.length, ip.hop_limit, ip.traffic_class),
            (Some(58), 64, 0)
        );
        let mut marked = packet;
        (marked[0], marked[1], marked[7]) = (0x6b, 0x8f, 3);
        let ip = Ip::parse(&marked).unwrap();
        assert_eq!((ip.hop_limit, ip.traffic_class), (3, 0xb8));
    }

    #[test]
    fn golden_extensions_of_16_bytes() {
        let long = [&[UDP, 1][..], &[0; 14]].concat();
        assert_eq!(
            Ip::parse(&ipv6(60, &long)).unwrap().payload(),
            Ok(&GOLDEN[20..])
        );
    }

    #[test]
    fn golden_fragments() {
        let of = |header: [u8; 8]| {
            let packet = ipv6(IPV6_FRAGMENT, &header);
            let ip = Ip::parse(&packet).unwrap();
            assert_eq!(ip.payload(), Ok(&GOLDEN[20..]));
            (ip.protocol, ip.fragment)
        };
        let mut place = FragmentPlace {
            id: 0x0100_0007,
            start: 0,
            is_last: false,
        };
        assert_eq!(of([UDP, 0, 0, 1, 1, 0, 0, 7]), (UDP, Some(place)));
        place.start = 1448;
        assert_eq!(of([UDP, 0, 5, 0xa9, 1, 0, 0, 7]), (UDP, Some(place)));
        place.is_last = true;
        assert_eq!(of([UDP, 0, 5, 0xa8, 1, 0, 0, 7]), (UDP, Some(place)));
        // Bits 1 and 2 of the place are reserved; a packet in one fragment is whole.
        assert_eq!(of([UDP, 0, 0, 6, 1, 0, 0, 7]), (UDP, None));
        // No extension header is where a later fragment goes on.
        assert_eq!(of([60, 0, 5, 0xa8, 1, 0, 0, 7]), (60, Some(place)));
        // In front of it, and behind it in the first one, there may be.
        let both = [44, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 1, 1, 0, 0, 7];
        let both = [&both[..], &[UDP, 0, 0, 0, 0, 0, 0, 0]].concat();
        let packet = ipv6(0, &both);
        let ip = Ip::parse(&packet).unwrap();
        assert_eq!((ip.protocol, ip.payload()), (UDP, Ok(&GOLDEN[20..])));
        place = FragmentPlace {
            start: 0,
            is_last: false,
            ..place
        };
        assert_eq!(ip.fragment, Some(place));
    }

    #[test]
    fn extensions_end() {
        let again = [0_u8; 8].repeat(8);
        assert_eq!(
            error_of(&ipv6(0, &again)),
            Some(PacketError::Ipv6Extensions)
        );
        let beyond = [UDP, 9, 0, 0, 0, 0, 0, 0];
        assert_eq!(
            error_of(&ipv6(0, &beyond)),
            Some(PacketError::Ipv6Extension)
        );
        // The same, cut: what is lacking may be the rest of it.
        let cut = ipv6(0, &beyond);
        assert_eq!(error_of(&cut[..cut.len() - 1]), Some(PacketError::Ipv6Body));
    }

    #[test]
    fn a_length_of_0_is_all_there_is() {
        let mut packet = ipv6(UDP, &[]);
        packet[5] = 0;
        let ip = Ip::parse(&packet).unwrap();
        assert_eq!((ip.length, ip.payload()), (None, Ok(&GOLDEN[20..])));
        // Where nothing follows, 0 is its length, and the rest fills up a short frame.
        packet[6] = NOTHING;
        let ip = Ip::parse(&packet).unwrap();
        assert_eq!((ip.length, ip.payload()), (Some(40), Ok(&[][..])));
        // Cut within an extension.
        let mut packet = ipv6(0, &[UDP, 9, 0, 0, 0, 0, 0, 0]);
        packet[5] = 0;
        assert_eq!(error_of(&packet), Some(PacketError::Ipv6Body));
    }
}
