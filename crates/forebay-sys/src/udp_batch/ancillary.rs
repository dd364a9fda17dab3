//! Control messages of received datagrams: the kernel's stamp and the segment size of a merged buffer.

/// Room for one stamp (32 bytes) and one segment size (24 bytes), each with its header.
pub(crate) const CONTROL_BYTES: usize = 64;

const HEADER_BYTES: usize = 16;
const STAMP_BYTES: usize = 16;

/// What the control messages of one datagram said.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Control {
    pub(crate) stamp_ns: Option<u64>,
    pub(crate) gro_segment_bytes: Option<u16>,
}

/// Reads the control messages (`cmsghdr`: length u64, level i32, type i32, then data, padded to 8); others are skipped.
pub(crate) fn parse(mut bytes: &[u8]) -> Control {
    let mut control = Control::default();
    while let (Some(len), Some(level), Some(kind)) =
        (word(bytes, 0), half(bytes, 8), half(bytes, 12))
    {
        let Some(data) = usize::try_from(len)
            .ok()
            .and_then(|len| bytes.get(HEADER_BYTES..len))
        else {
            break;
        };
        match (level as i32, kind as i32) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => control.stamp_ns = stamp_ns(data),
            (libc::SOL_UDP, libc::UDP_GRO) => {
                control.gro_segment_bytes = half(data, 0).and_then(|size| u16::try_from(size).ok());
            }
            _ => {}
        }
        let next = (HEADER_BYTES + data.len()).next_multiple_of(8);
        bytes = bytes.get(next..).unwrap_or_default();
    }
    control
}

/// Writes a stamp as the kernel would; tells the bytes used.
pub(crate) fn emit_stamp(stamp_ns: u64, out: &mut [u8]) -> usize {
    let len = HEADER_BYTES + STAMP_BYTES;
    out[0..8].copy_from_slice(&(len as u64).to_ne_bytes());
    out[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
    out[12..16].copy_from_slice(&libc::SCM_TIMESTAMPNS.to_ne_bytes());
    out[16..24].copy_from_slice(&(stamp_ns / 1_000_000_000).to_ne_bytes());
    out[24..32].copy_from_slice(&(stamp_ns % 1_000_000_000).to_ne_bytes());
    len
}

fn stamp_ns(data: &[u8]) -> Option<u64> {
    word(data, 0)?
        .checked_mul(1_000_000_000)?
        .checked_add(word(data, 8)?)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..at + 8)?
        .try_into()
        .ok()
        .map(u64::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..at + 4)?
        .try_into()
        .ok()
        .map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stamp_comes_back() {
        let mut out = [0; CONTROL_BYTES];
        let used = emit_stamp(1_700_000_000_123_456_789, &mut out);
        assert_eq!(
            parse(&out[..used]).stamp_ns,
            Some(1_700_000_000_123_456_789)
        );
    }

    #[test]
    fn a_segment_size_after_a_stamp() {
        let mut out = [0; CONTROL_BYTES];
        let used = emit_stamp(5, &mut out);
        out[used..used + 8].copy_from_slice(&20_u64.to_ne_bytes());
        out[used + 8..used + 12].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
        out[used + 12..used + 16].copy_from_slice(&libc::UDP_GRO.to_ne_bytes());
        out[used + 16..used + 20].copy_from_slice(&1400_u32.to_ne_bytes());
        let control = parse(&out[..used + 24]);
        assert_eq!(
            control,
            Control {
                stamp_ns: Some(5),
                gro_segment_bytes: Some(1400)
            }
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..CONTROL_BYTES)) {
            parse(&bytes);
        }
    }
}
