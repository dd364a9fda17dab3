//! The keyed hash at the end of each datagram: HMAC-SHA256 (RFC 2104), its first 16 bytes.
//!
//! A peer that does not know the key can neither take part nor put data into a session. It hides nothing: the payload is sent as it is.

use std::fmt;

use forebay_wire::tdm::TAG_BYTES;
use ring::hmac;

/// Least bytes of a key.
pub const KEY_BYTES_MIN: usize = 16;

/// A key that senders and receiver share.
#[derive(Clone)]
pub struct Key(hmac::Key);

impl Key {
    /// A key of these bytes; `None` when they are fewer than [`KEY_BYTES_MIN`].
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let enough = bytes.len() >= KEY_BYTES_MIN;
        enough.then(|| Self(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// Writes the hash of a datagram into its last [`TAG_BYTES`].
    pub fn seal(&self, datagram: &mut [u8]) {
        if let Some((body, place)) = datagram.split_last_chunk_mut::<TAG_BYTES>() {
            let tag = hmac::sign(&self.0, body);
            for (to, from) in place.iter_mut().zip(tag.as_ref()) {
                *to = *from;
            }
        }
    }

    /// The hash of a datagram that lies in pieces.
    #[must_use]
    pub fn tag(&self, pieces: &[&[u8]]) -> [u8; TAG_BYTES] {
        let mut context = hmac::Context::with_key(&self.0);
        for piece in pieces {
            context.update(piece);
        }
        let tag = context.sign();
        tag.as_ref().first_chunk().copied().unwrap_or_default()
    }

    /// Is the hash at the end of a datagram the right one? Takes the same time wherever it differs.
    #[must_use]
    pub fn is_sealed(&self, datagram: &[u8]) -> bool {
        datagram
            .split_last_chunk::<TAG_BYTES>()
            .is_some_and(|(body, tag)| same(&self.tag(&[body]), tag))
    }
}

/// Compares in a time that does not depend on where the difference is.
fn same(one: &[u8; TAG_BYTES], other: &[u8; TAG_BYTES]) -> bool {
    let differ = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(differ) == 0
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_rfc() {
        // RFC 4231, test case 1 (a key of 20 bytes 0x0b over "Hi There"), its first half.
        let key = Key::new(&[0x0b; 20]).unwrap();
        let expected = [
            0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf, 0xce, 0xaf, 0x0b,
            0xf1, 0x2b,
        ];
        assert_eq!(key.tag(&[b"Hi", b" There"]), expected);
        let mut datagram = b"Hi There................".to_vec();
        key.seal(&mut datagram);
        assert_eq!(datagram[8..], expected);
        assert!(key.is_sealed(&datagram));
        for at in 0..datagram.len() {
            let mut damaged = datagram.clone();
            damaged[at] ^= 1;
            assert!(!key.is_sealed(&damaged), "byte {at}");
        }
        assert!(!key.is_sealed(b"short"));
    }

    #[test]
    fn a_short_key_is_none_and_none_is_shown() {
        assert!(Key::new(&[1; KEY_BYTES_MIN - 1]).is_none());
        assert_eq!(
            format!("{:?}", Key::new(b"sixteen bytes...").unwrap()),
            "Key(hidden)"
        );
    }
}
