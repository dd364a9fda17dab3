//! JA3 and JA4 of the parts of a message.

use core::fmt::{self, Write};

use md5::{Digest, Md5};
use ring::digest::{Context, SHA256};

use super::{ALPN, Parts, Reader, SERVER_NAME, extensions, is_grease, numbers};

/// What a handshake is carried by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Carrier {
    Tcp,
    Quic,
}

/// Bytes of a hash in JA4, as text.
const HASH_TEXT_BYTES: usize = 12;
/// In place of the hash of nothing.
const NO_HASH: &[u8; HASH_TEXT_BYTES] = b"000000000000";
/// More are told as so many.
const COUNT_MAX: usize = 99;

/// A text that is hashed as it is written.
struct Hashed<H>(H);

impl Write for Hashed<Md5> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}

impl Write for Hashed<Context> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

/// Writes numbers with something between them. A hash takes any text.
fn join<T: fmt::Display>(to: &mut impl Write, between: char, all: impl Iterator<Item = T>) {
    for (n, one) in all.enumerate() {
        if n > 0 {
            let _ = to.write_char(between);
        }
        let _ = write!(to, "{one}");
    }
}

/// A number as JA4 lists it.
struct Hex(u16);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}", self.0)
    }
}

impl Parts<'_> {
    pub(super) fn ja3(&self) -> [u8; 16] {
        let mut to = Hashed(Md5::new());
        let kinds = extensions(self.extensions).map(|(number, _)| number);
        let kinds = kinds.filter(|number| !is_grease(*number));
        let _ = write!(to, "{},", self.version);
        join(&mut to, '-', numbers(self.ciphers));
        let _ = to.write_char(',');
        join(&mut to, '-', kinds);
        let _ = to.write_char(',');
        join(&mut to, '-', numbers(self.groups));
        let _ = to.write_char(',');
        join(&mut to, '-', self.point_formats.iter());
        to.0.finalize().into()
    }

    pub(super) fn ja4(&self, carrier: Carrier) -> [u8; 36] {
        let mut ciphers: Vec<u16> = numbers(self.ciphers).collect();
        let kinds = extensions(self.extensions).map(|(number, _)| number);
        let mut kinds: Vec<u16> = kinds.filter(|number| !is_grease(*number)).collect();
        let mut text = [b'_'; 36];
        text[0] = match carrier {
            Carrier::Tcp => b't',
            Carrier::Quic => b'q',
        };
        text[1..3].copy_from_slice(self.version_text());
        text[3] = match self.server_name {
            Some(_) => b'd',
            None => b'i',
        };
        text[4..6].copy_from_slice(&decimals(ciphers.len()));
        text[6..8].copy_from_slice(&decimals(kinds.len()));
        text[8..10].copy_from_slice(&self.alpn_text());
        ciphers.sort_unstable();
        kinds.retain(|kind| ![SERVER_NAME, ALPN].contains(kind));
        kinds.sort_unstable();
        text[11..23].copy_from_slice(&hash(&ciphers, &[]));
        let signatures: Vec<u16> = numbers(self.signatures).collect();
        text[24..36].copy_from_slice(&hash(&kinds, &signatures));
        text
    }

    const fn known_version(version: u16) -> &'static [u8; 2] {
        match version {
            0x0304 => b"13",
            0x0303 => b"12",
            0x0302 => b"11",
            0x0301 => b"10",
            0x0300 => b"s3",
            0x0002 => b"s2",
            0xfeff => b"d1",
            0xfefd => b"d2",
            0xfefc => b"d3",
            _ => b"00",
        }
    }

    fn version_text(&self) -> &'static [u8; 2] {
        Self::known_version(self.offered())
    }

    /// First and last character of the first protocol; of one that has others there than letters and figures, of its bytes in hexadecimal.
    fn alpn_text(&self) -> [u8; 2] {
        let first = Reader(self.alpn).part8();
        let Some((&[begin, ..], &[.., end])) = first.map(|protocol| (protocol.0, protocol.0))
        else {
            return *b"00";
        };
        if begin.is_ascii_alphanumeric() && end.is_ascii_alphanumeric() {
            return [begin, end];
        }
        [figure(begin >> 4), figure(end & 0x0f)]
    }
}

const fn figure(number: u8) -> u8 {
    b"0123456789abcdef"[number as usize & 0x0f]
}

fn decimals(count: usize) -> [u8; 2] {
    let count = count.min(COUNT_MAX) as u8;
    [b'0' + count / 10, b'0' + count % 10]
}

/// The begin of the SHA-256 of a list, and of another one behind it if there is one.
fn hash(list: &[u16], behind: &[u16]) -> [u8; HASH_TEXT_BYTES] {
    if list.is_empty() {
        return *NO_HASH;
    }
    let mut to = Hashed(Context::new(&SHA256));
    join(&mut to, ',', list.iter().map(|number| Hex(*number)));
    if !behind.is_empty() {
        let _ = to.write_char('_');
        join(&mut to, ',', behind.iter().map(|number| Hex(*number)));
    }
    let digest = to.0.finish();
    let mut text = *NO_HASH;
    for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(digest.as_ref()) {
        *pair = [figure(byte >> 4), figure(*byte)];
    }
    text
}
