//! The header of IPv6 and its extension headers (RFC 8200).
//!
//! ```text
//! +0   version (4 bits)
//! +4   bytes behind this header
//! +6   what is behind this header
//! +8   source, +24 destination
//! +40  extension headers: +0 what follows, +1 length in units of 8 bytes, the first not counted
//! ```

use core::net::{IpAddr, Ipv6Addr};

use super::{Ip, PacketError};

/// Extension headers that are skipped: for each hop, for routers, for the receiver.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
/// More are an attack.
const EXTENSIONS_MAX: usize = 8;

/// Reads a packet whose version was seen.
#[inline]
pub(super) fn parse(packet: &[u8]) -> Result<Ip<'_>, PacketError> {
    let (&[_, _, _, _, l0, l1, next, _], rest) = take(packet)?;
    let (source, rest) = take::<16>(rest)?;
    let (destination, rest) = take::<16>(rest)?;
    // 0 stands in captures of a sender that leaves the cutting to its network card.
    let said = usize::from(u16::from_be_bytes([l0, l1]));
    let length = if said == 0 { rest.len() } else { said };
    let body = rest.get(..length);
    let is_whole = body.is_some();
    let missing = |error| match error {
        // Nothing says that the rest of it is not behind what is there.
        PacketError::Ipv6Extension if said == 0 => PacketError::Ipv6Body,
        error if is_whole => error,
        _ => PacketError::Ipv6Body,
    };
    let (protocol, payload) = past_extensions(next, body.unwrap_or(rest)).map_err(missing)?;
    Ok(Ip {
        source: IpAddr::V6(Ipv6Addr::from(*source)),
        destination: IpAddr::V6(Ipv6Addr::from(*destination)),
        protocol,
        fragment: None,
        payload: if is_whole {
            Ok(payload)
        } else {
            Err(PacketError::Ipv6Body)
        },
    })
}

/// The next `N` bytes of the header, and the rest.
fn take<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), PacketError> {
    bytes.split_first_chunk().ok_or(PacketError::Ipv6Header)
}

fn past_extensions(mut next: u8, mut body: &[u8]) -> Result<(u8, &[u8]), PacketError> {
    for _ in 0..EXTENSIONS_MAX {
        if !EXTENSIONS.contains(&next) {
            return Ok((next, body));
        }
        let &[following, units, ..] = body else {
            return Err(PacketError::Ipv6Extension);
        };
        next = following;
        body = body
            .get((usize::from(units) + 1) * 8..)
            .ok_or(PacketError::Ipv6Extension)?;
    }
    Err(PacketError::Ipv6Extensions)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{GOLDEN, error_of, ipv6};
    use super::super::{IPV6_FRAGMENT, UDP};
    use super::*;

    #[test]
    fn golden_ipv6_with_an_extension() {
        let packet = ipv6(0, &[UDP, 0, 0, 0, 0, 0, 0, 0]);
        let ip = Ip::parse(&packet).unwrap();
        let addresses = (ip.source, ip.destination);
        assert_eq!(addresses, ("::1".parse().unwrap(), "::2".parse().unwrap()));
        assert_eq!((ip.protocol, ip.payload()), (UDP, Ok(&GOLDEN[20..])));
    }

    #[test]
    fn golden_extensions_of_16_bytes_and_a_fragment() {
        let long = [&[UDP, 1][..], &[0; 14]].concat();
        assert_eq!(
            Ip::parse(&ipv6(60, &long)).unwrap().payload(),
            Ok(&GOLDEN[20..])
        );
        let fragment = ipv6(IPV6_FRAGMENT, &[UDP, 0, 0, 1, 0, 0, 0, 7]);
        assert_eq!(Ip::parse(&fragment).unwrap().protocol, IPV6_FRAGMENT);
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
        assert_eq!(Ip::parse(&packet).unwrap().payload(), Ok(&GOLDEN[20..]));
        // Cut within an extension.
        let mut packet = ipv6(0, &[UDP, 9, 0, 0, 0, 0, 0, 0]);
        packet[5] = 0;
        assert_eq!(error_of(&packet), Some(PacketError::Ipv6Body));
    }
}
