//! What both ends say about themselves while they connect.
//!
//! 16 bytes, little-endian: the letters `FBFB`, version u16, zero u16, page bytes u32, receive pages u32. They go with the provider's own connection
//! request and its answer, which have room for 56 bytes with every provider.

use crate::config::Config;

const MAGIC: [u8; 4] = *b"FBFB";
const VERSION: u16 = 1;
/// Length of a hello.
pub(crate) const HELLO_BYTES: usize = 16;

/// What an end says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) page_bytes: u32,
    pub(crate) receive_pages: u32,
}

impl Hello {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            page_bytes: u32::try_from(config.page_bytes).unwrap_or(u32::MAX),
            receive_pages: u32::try_from(config.receive_pages).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn emit(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.page_bytes.to_le_bytes());
        bytes[12..].copy_from_slice(&self.receive_pages.to_le_bytes());
        bytes
    }

    /// Reads one; providers may pad what they carry, so more bytes are not looked at.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let bytes: &[u8; HELLO_BYTES] = bytes
            .first_chunk()
            .ok_or("its first words are too short for one of us")?;
        let word = |at: usize| {
            let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            u32::from_le_bytes(word)
        };
        if bytes[..4] != MAGIC {
            return Err("it does not speak this protocol");
        }
        if u16::from_le_bytes([bytes[4], bytes[5]]) != VERSION || bytes[6..8] != [0, 0] {
            return Err("it speaks another version of the protocol");
        }
        let hello = Self {
            page_bytes: word(8),
            receive_pages: word(12),
        };
        let fits = |value: u32, most: usize| (1..=most).contains(&(value as usize));
        if !fits(hello.page_bytes, Config::PAGE_BYTES_MAX)
            || !fits(hello.receive_pages, Config::PAGES_MAX)
        {
            return Err("its pages are out of range");
        }
        Ok(hello)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Hello = Hello {
        page_bytes: 66_000,
        receive_pages: 64,
    };
    const GOLDEN: [u8; HELLO_BYTES] = *b"FBFB\x01\0\0\0\xd0\x01\x01\0\x40\0\0\0";

    #[test]
    fn golden_bytes() {
        assert_eq!(HELLO.emit(), GOLDEN);
        assert_eq!(Hello::parse(&GOLDEN), Ok(HELLO));
        let padded = [&GOLDEN[..], &[0; 40]].concat();
        assert_eq!(Hello::parse(&padded), Ok(HELLO));
    }

    #[test]
    fn what_is_none_is_refused() {
        for (at, value) in [(0, b'X'), (4, 2), (6, 1), (11, 0xff), (15, 1)] {
            let mut bytes = GOLDEN;
            bytes[at] = value;
            assert!(Hello::parse(&bytes).is_err(), "byte {at}");
        }
        assert!(Hello::parse(&GOLDEN[..15]).is_err());
    }
}
