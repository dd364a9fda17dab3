//! The header of TCP (RFC 9293, section 3.1) and its options.
//!
//! ```text
//! +0   source port
//! +2   destination port
//! +4   sequence number
//! +8   acknowledgement number
//! +12  header length in units of 4 bytes (4 bits), reserved (4), flags (8)
//! +14  window
//! +16  checksum, +18 urgent pointer
//! +20  options: +0 kind, +1 length with kind and length; kinds 0 (end) and 1 (nothing) are one byte
//! ```

use super::PacketError;

/// Bytes of the header without options.
pub const TCP_HEADER_BYTES: usize = 20;

/// No more comes from this side.
pub const FIN: u8 = 0x01;
/// The first segment of this side.
pub const SYN: u8 = 0x02;
/// The connection is broken off.
pub const RST: u8 = 0x04;
/// What has come is to be handed over at once.
pub const PSH: u8 = 0x08;
/// The acknowledgement number holds.
pub const ACK: u8 = 0x10;

/// A checked view of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    header: &'a [u8; TCP_HEADER_BYTES],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Takes what an IP packet carries.
    ///
    /// # Errors
    /// It ends within its header, or the length of the header is below 20 bytes.
    #[inline]
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let (header, rest) = bytes
            .split_first_chunk::<TCP_HEADER_BYTES>()
            .ok_or(PacketError::TcpHeader)?;
        let options_bytes = (usize::from(header[12] >> 4) * 4)
            .checked_sub(TCP_HEADER_BYTES)
            .ok_or(PacketError::TcpOffset)?;
        let (options, payload) = rest
            .split_at_checked(options_bytes)
            .ok_or(PacketError::TcpHeader)?;
        Ok(Self {
            header,
            options,
            payload,
        })
    }

    /// Port of its sender.
    #[inline]
    pub const fn source_port(&self) -> u16 {
        let &[s0, s1, ..] = self.header;
        u16::from_be_bytes([s0, s1])
    }

    /// Port of its receiver.
    #[inline]
    pub const fn destination_port(&self) -> u16 {
        let &[_, _, d0, d1, ..] = self.header;
        u16::from_be_bytes([d0, d1])
    }

    /// Number of its first byte in the stream of its side.
    #[inline]
    pub const fn sequence(&self) -> u32 {
        let &[_, _, _, _, s0, s1, s2, s3, ..] = self.header;
        u32::from_be_bytes([s0, s1, s2, s3])
    }

    /// Number of the byte that is expected from the other side; holds with [`ACK`].
    #[inline]
    pub const fn acknowledgement(&self) -> u32 {
        let &[_, _, _, _, _, _, _, _, a0, a1, a2, a3, ..] = self.header;
        u32::from_be_bytes([a0, a1, a2, a3])
    }

    /// The eight flags, as [`SYN`].
    #[inline]
    pub const fn flags(&self) -> u8 {
        self.header[13]
    }

    /// Bytes that its sender takes beyond what it acknowledges, before scaling.
    #[inline]
    pub const fn window(&self) -> u16 {
        u16::from_be_bytes([self.header[14], self.header[15]])
    }

    /// Its options, to the first that contradicts itself.
    pub const fn options(&self) -> Options<'a> {
        Options(self.options)
    }

    /// Its bytes; with them the padding of a short frame, unless the IP packet was cut to its length.
    #[inline]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// An option of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Largest segment that its sender takes, in bytes (kind 2).
    MaximumSegmentSize(u16),
    /// The window is to be shifted by so many bits (kind 3; RFC 7323).
    WindowScale(u8),
    /// Selective acknowledgements are understood (kind 4; RFC 2018).
    SelectivePermitted,
    /// Clock of its sender, and the last one seen of the other side (kind 8; RFC 7323).
    Timestamps {
        /// Of its sender.
        value: u32,
        /// Of the other side.
        echo: u32,
    },
    /// Another kind, with what it carries.
    Other(u8, &'a [u8]),
}

/// Options one by one.
#[derive(Clone, Debug)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = TcpOption<'a>;

    fn next(&mut self) -> Option<TcpOption<'a>> {
        loop {
            match *self.0 {
                [] | [0, ..] => return None,
                [1, ref rest @ ..] => self.0 = rest,
                [kind, length, ref rest @ ..] => {
                    let bytes = usize::from(length).checked_sub(2);
                    let parts = bytes.and_then(|bytes| rest.split_at_checked(bytes));
                    let Some((data, rest)) = parts else {
                        self.0 = &[];
                        return None;
                    };
                    self.0 = rest;
                    return Some(option(kind, data));
                }
                [_] => {
                    self.0 = &[];
                    return None;
                }
            }
        }
    }
}

fn option(kind: u8, data: &[u8]) -> TcpOption<'_> {
    match (kind, data) {
        (2, &[m0, m1]) => TcpOption::MaximumSegmentSize(u16::from_be_bytes([m0, m1])),
        (3, &[shift]) => TcpOption::WindowScale(shift),
        (4, &[]) => TcpOption::SelectivePermitted,
        (8, &[v0, v1, v2, v3, e0, e1, e2, e3]) => TcpOption::Timestamps {
            value: u32::from_be_bytes([v0, v1, v2, v3]),
            echo: u32::from_be_bytes([e0, e1, e2, e3]),
        },
        (kind, data) => TcpOption::Other(kind, data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Port 49152 → port 443, SYN, as Linux sends it: MSS 1460, selective acknowledgements, time stamps, nothing, scale 7; "hi".
    const GOLDEN: [u8; 42] = [
        0xc0, 0x00, 0x01, 0xbb, 1, 2, 3, 4, 5, 6, 7, 8, 0xa0, 0x02, 0xfa, 0xf0, 0, 0, 0, 0, //
        2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 1, 0, 0, 0, 0, 7, 1, 3, 3, 7, b'h', b'i',
    ];

    #[test]
    fn golden_segment() {
        let segment = Segment::new_checked(&GOLDEN).unwrap();
        let ports = (segment.source_port(), segment.destination_port());
        assert_eq!(ports, (49_152, 443));
        let numbers = (segment.sequence(), segment.acknowledgement());
        assert_eq!(numbers, (0x0102_0304, 0x0506_0708));
        assert_eq!((segment.flags(), segment.window()), (SYN, 64_240));
        assert_eq!(segment.payload(), b"hi");
        let options: Vec<TcpOption<'_>> = segment.options().collect();
        assert_eq!(
            options,
            [
                TcpOption::MaximumSegmentSize(1460),
                TcpOption::SelectivePermitted,
                TcpOption::Timestamps {
                    value: 256,
                    echo: 7
                },
                TcpOption::WindowScale(7),
            ]
        );
    }

    #[test]
    fn a_header_that_ends_early_is_short_and_one_below_20_bytes_is_wrong() {
        for end in 0..40 {
            let error = Segment::new_checked(&GOLDEN[..end]).unwrap_err();
            assert_eq!(error, PacketError::TcpHeader, "{end}");
        }
        let mut segment = GOLDEN;
        segment[12] = 0x40;
        let error = Segment::new_checked(&segment).unwrap_err();
        assert_eq!(error, PacketError::TcpOffset);
        assert!(!error.is_short() && PacketError::TcpHeader.is_short());
    }

    #[test]
    fn options_end_where_they_contradict_themselves() {
        let of = |options: &[u8]| {
            let options = [options, &[0; 20][..20 - options.len()]].concat();
            let mut segment = GOLDEN;
            segment[20..40].copy_from_slice(&options);
            let segment = Segment::new_checked(&segment).unwrap();
            segment.options().count()
        };
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[1, 1, 4, 2]), 1);
        // A length below 2, one that goes beyond the header, and a kind without one.
        assert_eq!(of(&[4, 2, 8, 1, 4, 2]), 1);
        assert_eq!(of(&[4, 2, 8, 19, 4, 2]), 1);
        let mut segment = GOLDEN;
        segment[20..40].copy_from_slice(&[1; 20]);
        segment[39] = 8;
        let segment = Segment::new_checked(&segment).unwrap();
        assert_eq!(segment.options().count(), 0);
        // A known kind of another length is none that is known.
        let mut segment = GOLDEN;
        segment[20..24].copy_from_slice(&[3, 4, 0, 0]);
        let segment = Segment::new_checked(&segment).unwrap();
        let first = segment.options().next();
        assert_eq!(first, Some(TcpOption::Other(3, &[0, 0])));
    }
}
