//! Control messages of received datagrams: the kernel's stamp and the segment size of a merged buffer.

/// Room for one stamp (32 bytes for `SCM_TIMESTAMPNS`, 64 for `SCM_TIMESTAMPING`; a socket has one of them on) and one segment
/// size (24 bytes), each with its header.
pub(crate) const CONTROL_BYTES: usize = 96;

const HEADER_BYTES: usize = 16;
const STAMP_BYTES: usize = 16;

/// What the control messages of one datagram said.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Control {
    pub(crate) stamp_ns: Option<u64>,
    pub(crate) gro_segment_bytes: Option<u16>,
}

/// One control message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) level: i32,
    pub(crate) kind: i32,
    pub(crate) data: &'a [u8],
}

/// The control messages of a datagram (`cmsghdr`: length u64, level i32, type i32, then data, padded to 8).
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let len = usize::try_from(word(bytes, 0)?).ok()?;
        let message = Message {
            level: half(bytes, 8)? as i32,
            kind: half(bytes, 12)? as i32,
            data: bytes.get(HEADER_BYTES..len)?,
        };
        bytes = bytes.get(len.next_multiple_of(8)..).unwrap_or_default();
        Some(message)
    })
}

/// Reads what is known of the control messages; others are skipped.
pub(crate) fn parse(bytes: &[u8]) -> Control {
    let mut control = Control::default();
    for Message { level, kind, data } in messages(bytes) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => control.stamp_ns = stamp_ns(data),
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                control.stamp_ns = software_stamp_ns(data);
            }
            (libc::SOL_UDP, libc::UDP_GRO) => {
                control.gro_segment_bytes = half(data, 0).and_then(|size| u16::try_from(size).ok());
            }
            _ => {}
        }
    }
    control
}

/// The software stamp of an `SCM_TIMESTAMPING`, the first of its three; 0 means that there is none.
pub(crate) fn software_stamp_ns(data: &[u8]) -> Option<u64> {
    stamp_ns(data).filter(|&ns| ns > 0)
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

pub(crate) fn half(bytes: &[u8], at: usize) -> Option<u32> {
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

    #[test]
    fn a_software_stamp_is_the_first_of_three_and_zero_is_none() {
        let mut out = [0_u8; 64];
        out[0..8].copy_from_slice(&64_u64.to_ne_bytes());
        out[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
        out[12..16].copy_from_slice(&libc::SCM_TIMESTAMPING.to_ne_bytes());
        out[48..56].copy_from_slice(&9_u64.to_ne_bytes());
        assert_eq!(parse(&out).stamp_ns, None, "a hardware stamp only");
        out[16..24].copy_from_slice(&2_u64.to_ne_bytes());
        out[24..32].copy_from_slice(&7_u64.to_ne_bytes());
        assert_eq!(parse(&out).stamp_ns, Some(2_000_000_007));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..CONTROL_BYTES)) {
            parse(&bytes);
            assert!(messages(&bytes).count() <= CONTROL_BYTES / HEADER_BYTES);
        }
    }
}
