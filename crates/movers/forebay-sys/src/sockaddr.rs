//! Socket addresses in the kernel's layout, read and written as bytes.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Room for an IPv4 or IPv6 address: `sockaddr_in6` is 28 bytes.
pub(crate) const SOCKADDR_BYTES: usize = 28;

/// Writes `address` as `sockaddr_in` or `sockaddr_in6`; tells its length.
pub(crate) fn emit(address: SocketAddr, out: &mut [u8; SOCKADDR_BYTES]) -> usize {
    out.fill(0);
    out[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            out[0..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            out[4..8].copy_from_slice(&v4.ip().octets());
            16
        }
        SocketAddr::V6(v6) => {
            out[0..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            out[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
            out[8..24].copy_from_slice(&v6.ip().octets());
            out[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
            SOCKADDR_BYTES
        }
    }
}

/// Reads what the kernel wrote; `None` for another family or too few bytes.
pub(crate) fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(array(bytes, 0)?));
    let port = u16::from_be_bytes(array(bytes, 2)?);
    match family {
        libc::AF_INET => Some((Ipv4Addr::from(array::<4>(bytes, 4)?), port).into()),
        libc::AF_INET6 => {
            let flow = u32::from_ne_bytes(array(bytes, 4)?);
            let scope = u32::from_ne_bytes(array(bytes, 24)?);
            Some(
                SocketAddrV6::new(Ipv6Addr::from(array::<16>(bytes, 8)?), port, flow, scope).into(),
            )
        }
        _ => None,
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_ipv4() {
        let mut bytes = [0; SOCKADDR_BYTES];
        assert_eq!(emit("127.0.0.1:50000".parse().unwrap(), &mut bytes), 16);
        assert_eq!(bytes[2..8], [0xc3, 0x50, 127, 0, 0, 1]);
    }

    #[test]
    fn both_families_come_back() {
        for text in ["10.1.2.3:65535", "[fe80::1%3]:9", "[::1]:50000"] {
            let address: SocketAddr = text.parse().unwrap();
            let mut bytes = [0; SOCKADDR_BYTES];
            let used = emit(address, &mut bytes);
            assert_eq!(parse(&bytes[..used]), Some(address));
            assert_eq!(
                parse(&bytes[..used - 1]),
                if used == 16 { Some(address) } else { None }
            );
        }
    }

    #[test]
    fn other_families_and_short_bytes_are_none() {
        assert_eq!(parse(&[]), None);
        assert_eq!(parse(&[1, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
