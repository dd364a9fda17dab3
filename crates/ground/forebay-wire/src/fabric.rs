//! What both ends of a connection over libfabric say about themselves while they connect.
//!
//! 16 bytes, little-endian: the letters `FBFB`, version u16, zero u16, page bytes u32, receive pages u32. They go with the provider's own connection
//! request and its answer, which have room for 56 bytes with every provider.

const MAGIC: [u8; 4] = *b"FBFB";
const VERSION: u16 = 1;
/// Longest page, in bytes.
pub const PAGE_BYTES_MAX: u32 = 65 << 20;
/// Most pages of one kind.
pub const PAGES_MAX: u32 = 65_536;
/// Length of a hello.
pub const HELLO_BYTES: usize = 16;

/// What an end says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Length of its pages, in bytes.
    pub page_bytes: u32,
    /// Pages that it receives into.
    pub receive_pages: u32,
}

impl Hello {
    /// Its bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.page_bytes.to_le_bytes());
        bytes[12..].copy_from_slice(&self.receive_pages.to_le_bytes());
        bytes
    }

    /// Reads one; providers may pad what they carry, so more bytes are not looked at.
    ///
    /// # Errors
    /// Says of the peer what is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
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
        let fits = |value: u32, most: u32| (1..=most).contains(&value);
        if !fits(hello.page_bytes, PAGE_BYTES_MAX) || !fits(hello.receive_pages, PAGES_MAX) {
            return Err("its pages are out of range");
        }
        Ok(hello)
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

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

    /// The right bytes, damaged somewhere, cut or lengthened; or any.
    fn said() -> impl Strategy<Value = Vec<u8>> {
        let most = [PAGE_BYTES_MAX, PAGES_MAX];
        let near = |most: u32| prop_oneof![0..3_u32, most - 1..most + 2, any::<u32>(), 1..=most];
        let behind = proptest::collection::vec(any::<u8>(), 0..140);
        let damaged = prop_oneof![2 => Just(None), 1 => (0..16_usize, any::<u8>()).prop_map(Some)];
        let nearly = (near(most[0]), near(most[1]), behind, damaged, 0..200_usize);
        let nearly = nearly.prop_map(|(page_bytes, receive_pages, behind, damaged, cut)| {
            let hello = Hello {
                page_bytes,
                receive_pages,
            };
            let mut said = hello.emit().to_vec();
            said.extend(behind);
            if let Some((at, byte)) = damaged {
                said[at] = byte;
            }
            // Most are not cut.
            said.truncate(if cut < 40 { cut } else { said.len() });
            said
        });
        prop_oneof![8 => nearly, 1 => proptest::collection::vec(any::<u8>(), 0..60)]
    }

    /// What is in it, by the words of the description above.
    fn expected(said: &[u8]) -> Option<[u32; 2]> {
        let word = |at: usize| u32::from_le_bytes(said[at..at + 4].try_into().unwrap());
        let is_ours = said.len() >= 16 && said.starts_with(b"FBFB\x01\0\0\0");
        let words = is_ours.then(|| [word(8), word(12)])?;
        let fits = words[0] <= 65 << 20 && words[1] <= 65_536;
        (fits && words[0] > 0 && words[1] > 0).then_some(words)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn whatever_is_said_is_read_as_described_or_refused(said in said()) {
            let right = expected(&said);
            let words = |hello: Hello| [hello.page_bytes, hello.receive_pages];
            prop_assert_eq!(Hello::parse(&said).ok().map(words), right);
        }
    }
}
