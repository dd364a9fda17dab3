//! What a client of TLS says first (RFC 8446, section 4.1.2), and its fingerprints JA3 and JA4.
//!
//! JA3 is the MD5 of version, cipher suites, extensions, groups and point formats in their order. JA4 counts and sorts them, and tells TCP from QUIC; values that are
//! there to be ignored (GREASE, RFC 8701) are left out of both.

mod fingerprint;
#[cfg(test)]
pub(super) mod tests;

use super::fields::Writer;
use super::pieces::PIECES_BYTES;
use super::reader::Reader;
use super::text::Text;
pub(super) use fingerprint::Carrier;

const CLIENT_HELLO: u8 = 1;
const RANDOM_BYTES: usize = 32;
const SERVER_NAME: u16 = 0;
const GROUPS: u16 = 10;
const POINT_FORMATS: u16 = 11;
const SIGNATURE_ALGORITHMS: u16 = 13;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;

/// What is kept of it.
#[derive(Clone, Debug)]
pub(super) struct Hello {
    /// The highest version that is offered.
    pub(super) version: u16,
    /// The name of the server that it asks for, without the check that it is one.
    pub(super) server_name: Text<255>,
    /// The protocols that it offers, with commas between them.
    pub(super) alpn: Text<63>,
    pub(super) ja3: [u8; 16],
    pub(super) ja4: [u8; 36],
}

impl Hello {
    pub(super) const EMPTY: Self = Self {
        version: 0,
        server_name: Text::EMPTY,
        alpn: Text::EMPTY,
        ja3: [0; 16],
        ja4: [0; 36],
    };

    /// Five columns.
    pub(super) fn write(&self, to: &mut Writer<'_>) {
        to.u16(self.version);
        to.text(self.server_name.bytes());
        to.text(self.alpn.bytes());
        to.octets(&self.ja3);
        to.text(&self.ja4);
    }
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoHello {
    /// Bytes are missing at its end.
    Incomplete,
    /// It is another message, one that contradicts itself, or longer than what is looked at.
    Other,
}

/// The parts of a message that fingerprints are made of, as they stand there.
#[derive(Clone, Copy, Debug)]
struct Parts<'a> {
    version: u16,
    ciphers: &'a [u8],
    extensions: &'a [u8],
    groups: &'a [u8],
    point_formats: &'a [u8],
    signatures: &'a [u8],
    versions: &'a [u8],
    server_name: Option<&'a [u8]>,
    /// Each behind its length of one byte.
    alpn: &'a [u8],
}

/// Numbers of two bytes without those that are there to be ignored.
fn numbers(bytes: &[u8]) -> impl Iterator<Item = u16> + Clone + '_ {
    let pairs = bytes.as_chunks().0.iter();
    let all = pairs.map(|pair| u16::from_be_bytes(*pair));
    all.filter(|number| !is_grease(*number))
}

/// 0x0a0a, 0x1a1a, … (RFC 8701).
const fn is_grease(number: u16) -> bool {
    number & 0x0f0f == 0x0a0a && number >> 8 == number & 0xff
}

/// Extensions, each with its number and its body, to the first that contradicts its length.
fn extensions(bytes: &[u8]) -> impl Iterator<Item = (u16, Reader<'_>)> {
    let mut left = Reader(bytes);
    core::iter::from_fn(move || Some((left.u16()?, left.part16()?)))
}

/// Reads the message of a handshake, with its header.
///
/// # Errors
/// It is not all there, or something else.
pub(super) fn read(message: &[u8], carrier: Carrier, to: &mut Hello) -> Result<(), NoHello> {
    let parts = parts(message)?;
    to.version = parts.offered();
    to.server_name.set(parts.server_name.unwrap_or_default());
    to.alpn.clear();
    let mut protocols = Reader(parts.alpn);
    while let Some(protocol) = protocols.part8() {
        if !to.alpn.is_empty() {
            to.alpn.add(b",");
        }
        to.alpn.add(protocol.0);
    }
    to.ja3 = parts.ja3();
    to.ja4 = parts.ja4(carrier);
    Ok(())
}

fn parts(message: &[u8]) -> Result<Parts<'_>, NoHello> {
    let mut reader = Reader(message);
    match reader.u8() {
        None => return Err(NoHello::Incomplete),
        Some(CLIENT_HELLO) => {}
        Some(_) => return Err(NoHello::Other),
    }
    let bytes = reader.u24().ok_or(NoHello::Incomplete)?;
    if bytes + 4 > PIECES_BYTES {
        return Err(NoHello::Other);
    }
    let body = reader.take(bytes).ok_or(NoHello::Incomplete)?;
    Parts::of(Reader(body)).ok_or(NoHello::Other)
}

impl<'a> Parts<'a> {
    fn of(mut body: Reader<'a>) -> Option<Self> {
        let version = body.u16()?;
        body.take(RANDOM_BYTES)?;
        body.part8()?;
        let ciphers = body.part16()?.0;
        body.part8()?;
        // Before TLS 1.2 there may be none.
        let extensions_bytes = body.part16().map_or(&[][..], |part| part.0);
        let mut parts = Self {
            version,
            ciphers,
            extensions: extensions_bytes,
            groups: &[],
            point_formats: &[],
            signatures: &[],
            versions: &[],
            server_name: None,
            alpn: &[],
        };
        for (number, body) in extensions(extensions_bytes) {
            parts.extension(number, body);
        }
        Some(parts)
    }

    fn extension(&mut self, number: u16, mut body: Reader<'a>) {
        let mut part16 = || body.part16().map_or(&[][..], |part| part.0);
        match number {
            SERVER_NAME => self.server_name = Some(host(part16())),
            GROUPS => self.groups = part16(),
            SIGNATURE_ALGORITHMS => self.signatures = part16(),
            ALPN => self.alpn = part16(),
            POINT_FORMATS => self.point_formats = body.part8().map_or(&[], |part| part.0),
            SUPPORTED_VERSIONS => self.versions = body.part8().map_or(&[], |part| part.0),
            _ => {}
        }
    }

    /// The highest version that is offered.
    fn offered(&self) -> u16 {
        numbers(self.versions).max().unwrap_or(self.version)
    }
}

/// The first name of a host in a list of names (RFC 6066, section 3).
fn host(list: &[u8]) -> &[u8] {
    let mut list = Reader(list);
    while let (Some(kind), Some(name)) = (list.u8(), list.part16()) {
        if kind == 0 {
            return name.0;
        }
    }
    &[]
}
