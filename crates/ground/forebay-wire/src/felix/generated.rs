//! Chunks that check themselves, as the data generator of FELIX firmware makes them.

use thiserror::Error;

/// Bytes in front of the ramp.
pub const GENERATED_HEAD_BYTES: usize = 8;

/// The ramp twice, so that any 256 bytes of it are in one piece.
const RAMP: [u8; 512] = {
    let mut ramp = [0; 512];
    let mut at = 0;
    while at < ramp.len() {
        ramp[at] = at as u8;
        at += 1;
    }
    ramp
};

/// What a generated chunk says of itself.
///
/// ```text
/// 0xAA or stream | u16 bytes behind this head, big-endian | low 8 bits of the trigger number | low 6 bits of the E-link | 0xBB | 0xAA | width in bits | 0 1 2 …
/// ```
/// Source: `EmuDataGenerator::createChunk` of ftools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generated {
    /// The first byte: 0xAA, or the stream.
    pub first: u8,
    /// Low 8 bits of the trigger number.
    pub l1id: u8,
    /// Low 6 bits of the E-link.
    pub elink: u8,
    /// Width of the E-link in bits; 16 in FULL mode.
    pub width: u8,
}

/// Why a chunk is none that the generator makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GeneratedError {
    /// It ends within its head.
    #[error("{bytes} bytes; a head has 8")]
    Short {
        /// Bytes that there are.
        bytes: usize,
    },
    /// A byte of its head that is always the same is another one.
    #[error("byte {at} of the head is {found:#04x}, not {expected:#04x}")]
    Head {
        /// Where.
        at: usize,
        /// What is there.
        found: u8,
        /// What belongs there.
        expected: u8,
    },
    /// It has another length than its head says.
    #[error("{found} bytes behind the head, which says {said}")]
    Length {
        /// Bytes that there are.
        found: usize,
        /// Bytes that the head says.
        said: u16,
    },
    /// A byte of the ramp is another one.
    #[error("byte {at} behind the head is {found:#04x}, not {expected:#04x}")]
    Ramp {
        /// Where.
        at: usize,
        /// What is there.
        found: u8,
        /// What belongs there.
        expected: u8,
    },
}

impl GeneratedError {
    /// The name of this reason, fit for a counter.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Short { .. } => "short",
            Self::Head { .. } => "head",
            Self::Length { .. } => "length",
            Self::Ramp { .. } => "ramp",
        }
    }
}

impl Generated {
    /// The head in front of so many bytes of the ramp.
    #[inline]
    #[must_use]
    pub const fn head(&self, ramp_bytes: u16) -> [u8; GENERATED_HEAD_BYTES] {
        let [high, low] = ramp_bytes.to_be_bytes();
        let (l1id, elink) = (self.l1id, self.elink & 0x3f);
        [self.first, high, low, l1id, elink, 0xbb, 0xaa, self.width]
    }

    /// Writes a chunk that fills its place; false, and nothing done, when that has less than 8 bytes or more than the head can say.
    pub fn emit(&self, chunk: &mut [u8]) -> bool {
        let Some((head, ramp)) = chunk.split_first_chunk_mut::<GENERATED_HEAD_BYTES>() else {
            return false;
        };
        let Ok(bytes) = u16::try_from(ramp.len()) else {
            return false;
        };
        *head = self.head(bytes);
        for piece in ramp.chunks_mut(256) {
            piece.copy_from_slice(&RAMP[..piece.len()]);
        }
        true
    }

    /// What a chunk says of itself, if all of it is as the generator makes it.
    ///
    /// # Errors
    /// Says what is not.
    pub fn parse(chunk: &[u8]) -> Result<Self, GeneratedError> {
        let bytes = chunk.len();
        let (head, ramp) = chunk
            .split_first_chunk::<GENERATED_HEAD_BYTES>()
            .ok_or(GeneratedError::Short { bytes })?;
        let [first, high, low, l1id, elink, five, six, width] = *head;
        for (at, found, expected) in [(5, five, 0xbb), (6, six, 0xaa)] {
            if found != expected {
                return Err(GeneratedError::Head {
                    at,
                    found,
                    expected,
                });
            }
        }
        let said = u16::from_be_bytes([high, low]);
        if usize::from(said) != ramp.len() {
            return Err(GeneratedError::Length {
                found: ramp.len(),
                said,
            });
        }
        Self::check_ramp(ramp, 0)?;
        Ok(Self {
            first,
            l1id,
            elink,
            width,
        })
    }

    /// Whether these are the bytes of the ramp from `at` on: for chunks that come in pieces.
    ///
    /// # Errors
    /// The first byte that is not.
    pub fn check_ramp(bytes: &[u8], at: usize) -> Result<(), GeneratedError> {
        let begin = at % 256;
        for (number, piece) in bytes.chunks(256).enumerate() {
            let expected = &RAMP[begin..begin + piece.len()];
            if piece != expected {
                let wrong = piece.iter().zip(expected).position(|(a, b)| a != b);
                let wrong = wrong.unwrap_or(0);
                return Err(GeneratedError::Ramp {
                    at: at + number * 256 + wrong,
                    found: piece[wrong],
                    expected: expected[wrong],
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::vec;

    use super::*;

    const CHUNK: Generated = Generated {
        first: 0xaa,
        l1id: 0x42,
        elink: 0x21,
        width: 16,
    };

    #[test]
    fn a_golden_chunk_is_as_the_generator_of_the_firmware_makes_it() {
        let mut chunk = [0xff; 12];
        assert!(CHUNK.emit(&mut chunk));
        assert_eq!(chunk, [0xaa, 0, 4, 0x42, 0x21, 0xbb, 0xaa, 16, 0, 1, 2, 3]);
        assert_eq!(Generated::parse(&chunk), Ok(CHUNK));
        assert!(!CHUNK.emit(&mut [0; 7]));
        assert!(!CHUNK.emit(&mut vec![0; 65_536 + 8]));
    }

    #[test]
    fn every_wrong_byte_is_found_and_named() {
        let mut good = vec![0; 1000];
        assert!(CHUNK.emit(&mut good));
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x80;
            let found = Generated::parse(&bad);
            match at {
                // They say something, and anything can be said.
                0 | 3 | 4 | 7 => assert_ne!(found, Ok(CHUNK)),
                1 | 2 => assert_eq!(found.unwrap_err().reason(), "length"),
                5 | 6 => assert_eq!(found.unwrap_err().reason(), "head"),
                _ => {
                    let expected = (at - 8) as u8;
                    let ramp = GeneratedError::Ramp {
                        at: at - 8,
                        found: expected ^ 0x80,
                        expected,
                    };
                    assert_eq!(found, Err(ramp));
                }
            }
        }
        assert_eq!(
            Generated::parse(&good[..7]),
            Err(GeneratedError::Short { bytes: 7 })
        );
        let (front, back) = good[8..].split_at(301);
        assert_eq!(Generated::check_ramp(front, 0), Ok(()));
        assert_eq!(Generated::check_ramp(back, 301), Ok(()));
        assert!(Generated::check_ramp(back, 300).is_err());
    }
}
