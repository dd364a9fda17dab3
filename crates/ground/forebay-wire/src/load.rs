//! The head of a packet of generated load, which its receiver sends back as it came: whose it is, which one, and how long. In the network's byte order.
//!
//! ```text
//! +0   magic, "FL"                  +16  bytes of the whole packet
//! +2   number of the target         +20  CRC-32C of all before it
//! +4   number of the run            +24  filling, which the sender knows
//! +8   number of the packet, from 0
//! ```
//!
//! In a frame of Ethernet the packet is all that is behind the frame's header: at least 46 bytes, so that nobody has to fill the frame up.

use core::fmt;

/// Type of frames of Ethernet that carry such packets where nothing else is said: the first one for local experiments (IEEE Std 802, section 9.2.3).
pub const ETHERTYPE: u16 = 0x88b5;
/// Bytes of the head, and so the least of a packet.
pub const HEAD_BYTES: usize = 24;
const MAGIC: [u8; 2] = *b"FL";
const CHECKED_BYTES: usize = 20;

/// Why a head was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// It ends too early.
    #[error("a packet of {0} bytes, {HEAD_BYTES} expected at least")]
    Short(usize),
    /// It is something else.
    #[error("a packet that begins with {0:02x?}, \"FL\" expected")]
    Magic([u8; 2]),
    /// Its checksum is wrong.
    #[error("a checksum of {said:#010x}, {computed:#010x} expected")]
    Checksum {
        /// The one in the packet.
        said: u32,
        /// That of its bytes.
        computed: u32,
    },
}

/// What a head says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadHead {
    /// Number of the target, from 0.
    pub target: u16,
    /// Number of the run, which tells packets of another one apart.
    pub run: u32,
    /// Number of the packet of its target, from 0.
    pub sequence: u64,
    /// Bytes of the packet with its head.
    pub bytes: u32,
}

impl LoadHead {
    /// Reads the head of a packet.
    ///
    /// # Errors
    /// It is too short, or no head, or damaged.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Self, LoadError> {
        let head: &[u8; HEAD_BYTES] = packet.first_chunk().ok_or(LoadError::Short(packet.len()))?;
        let &[m0, m1, t0, t1, r0, r1, r2, r3, ref rest @ ..] = head;
        let &[ref sequence @ .., b0, b1, b2, b3, c0, c1, c2, c3] = rest;
        if [m0, m1] != MAGIC {
            return Err(LoadError::Magic([m0, m1]));
        }
        let said = u32::from_be_bytes([c0, c1, c2, c3]);
        let computed = crc32c::crc32c(&head[..CHECKED_BYTES]);
        if said != computed {
            return Err(LoadError::Checksum { said, computed });
        }
        Ok(Self {
            target: u16::from_be_bytes([t0, t1]),
            run: u32::from_be_bytes([r0, r1, r2, r3]),
            sequence: u64::from_be_bytes(*sequence),
            bytes: u32::from_be_bytes([b0, b1, b2, b3]),
        })
    }

    /// Its bytes.
    #[inline]
    #[must_use]
    pub fn emit(&self) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[..2].copy_from_slice(&MAGIC);
        head[2..4].copy_from_slice(&self.target.to_be_bytes());
        head[4..8].copy_from_slice(&self.run.to_be_bytes());
        head[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        head[16..20].copy_from_slice(&self.bytes.to_be_bytes());
        let check = crc32c::crc32c(&head[..CHECKED_BYTES]);
        head[20..].copy_from_slice(&check.to_be_bytes());
        head
    }
}

impl fmt::Display for LoadHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            target,
            run,
            sequence,
            bytes,
        } = self;
        write!(
            f,
            "packet {sequence} of run {run:08x} for target {target}, {bytes} bytes"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString as _;

    const HEAD: LoadHead = LoadHead {
        target: 3,
        run: 0xdead_beef,
        sequence: 0x0102_0304_0506_0708,
        bytes: 1472,
    };
    /// The checksum is by a few lines of Python, bit by bit.
    const GOLDEN: [u8; HEAD_BYTES] = [
        b'F', b'L', 0, 3, 0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0x05, 0xc0, 0xef,
        0x51, 0xaa, 0x8f,
    ];

    #[test]
    fn golden_head() {
        assert_eq!(HEAD.emit(), GOLDEN);
        assert_eq!(LoadHead::parse(&GOLDEN), Ok(HEAD));
        let text = "packet 72623859790382856 of run deadbeef for target 3, 1472 bytes";
        assert_eq!(HEAD.to_string(), text);
    }

    #[test]
    fn each_damage_has_its_name() {
        for end in 0..HEAD_BYTES {
            assert_eq!(LoadHead::parse(&GOLDEN[..end]), Err(LoadError::Short(end)));
        }
        for at in 0..HEAD_BYTES {
            let mut damaged = GOLDEN;
            damaged[at] ^= 0x40;
            let error = LoadHead::parse(&damaged).unwrap_err();
            let is_magic = matches!(error, LoadError::Magic(_));
            assert_eq!(is_magic, at < 2, "{at}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed_and_garbage_is_refused(
            target: u16, run: u32, sequence: u64, bytes: u32,
            garbage in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let head = LoadHead { target, run, sequence, bytes };
            prop_assert_eq!(LoadHead::parse(&head.emit()), Ok(head));
            if let Ok(head) = LoadHead::parse(&garbage) {
                prop_assert_eq!(&head.emit()[..], &garbage[..HEAD_BYTES]);
            }
        }
    }
}
