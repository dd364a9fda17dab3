//! A text of bounded length.

/// The first bytes of a text that came from the wire, up to `N`; N is at most 255. What is cut is cut before a whole character.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<const N: usize> {
    length: u8,
    bytes: [u8; N],
}

impl<const N: usize> Text<N> {
    pub(super) const EMPTY: Self = Self {
        length: 0,
        bytes: [0; N],
    };

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    pub(super) fn set(&mut self, bytes: &[u8]) {
        self.clear();
        self.add(bytes);
    }

    /// Adds what has room.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let at = usize::from(self.length);
        let room = N.min(u8::MAX.into()) - at;
        let fits = bytes.len().min(room);
        self.bytes[at..at + fits].copy_from_slice(&bytes[..fits]);
        self.length = (at + fits) as u8;
        if let Some(b'\x80'..=b'\xbf') = bytes.get(fits) {
            self.cut_character();
        }
    }

    /// Takes out the last character, of which the rest is missing.
    fn cut_character(&mut self) {
        let bytes = self.bytes();
        let begin = bytes.iter().rposition(|byte| byte & 0xc0 != 0x80);
        // No character is longer than four bytes.
        if let Some(begin) = begin.filter(|at| at + 4 > bytes.len() && bytes[*at] >= 0xc0) {
            self.length = begin as u8;
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.length == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_cut_between_characters() {
        let mut text = Text::<8>::EMPTY;
        text.set(b"abc");
        text.add(b"defghij");
        assert_eq!(text.bytes(), b"abcdefgh");
        text.set("abcdefg\u{e9}".as_bytes());
        assert_eq!(text.bytes(), b"abcdefg");
        text.set("abcdef\u{e9}x".as_bytes());
        assert_eq!(text.bytes(), "abcdef\u{e9}".as_bytes());
        text.set("abcde\u{1f600}".as_bytes());
        assert_eq!(text.bytes(), b"abcde");
        text.set(&[0x80; 20]);
        assert_eq!(text.bytes(), [0x80; 8]);
        text.set(b"");
        assert!(text.is_empty());
    }
}
