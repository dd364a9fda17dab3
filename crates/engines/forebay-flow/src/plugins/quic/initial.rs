//! Initial packets of a client (RFC 9000, section 17.2.2) and the frames in them.

use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{DirectionalKeys, Version as TlsVersion};
use rustls::{Side, SupportedCipherSuite};

use super::super::reader::Reader;

/// Bytes of an identifier at most, in the versions that are known.
const CONNECTION_ID_BYTES_MAX: usize = 20;
const IS_LONG: u8 = 0x80;
/// Bytes behind the begin of the packet number at which the sample begins, and bytes of it (RFC 9001, section 5.4.2).
const SAMPLE_AT: usize = 4;
const SAMPLE_BYTES: usize = 16;

/// A version whose first packets can be read.
#[derive(Debug)]
struct Version {
    number: u32,
    /// Bits 5 and 4 of the first byte of an Initial packet, and of a Retry.
    initial: u8,
    retry: u8,
    keys: TlsVersion,
}

const VERSIONS: [Version; 2] = [
    // RFC 9000, section 17.2.
    Version {
        number: 1,
        initial: 0,
        retry: 3,
        keys: TlsVersion::V1,
    },
    // RFC 9369, section 3.
    Version {
        number: 0x6b33_43cf,
        initial: 1,
        retry: 0,
        keys: TlsVersion::V2,
    },
];

/// The identifier that a packet is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionId {
    length: u8,
    bytes: [u8; CONNECTION_ID_BYTES_MAX],
}

impl ConnectionId {
    pub(super) const EMPTY: Self = Self {
        length: 0,
        bytes: [0; CONNECTION_ID_BYTES_MAX],
    };

    fn of(bytes: &[u8]) -> Self {
        let mut id = Self::EMPTY;
        let length = bytes.len().min(CONNECTION_ID_BYTES_MAX);
        id.bytes[..length].copy_from_slice(&bytes[..length]);
        id.length = length as u8;
        id
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// Whether a datagram begins with a packet that has a long header.
pub(super) fn is_long(datagram: &[u8]) -> bool {
    datagram.len() > 6 && datagram[0] & IS_LONG != 0
}

/// What the first packet of a datagram is.
#[derive(Debug)]
pub(super) enum Opened<'a> {
    /// One that could be read, of so many bytes.
    Initial {
        version: u32,
        frames: &'a [u8],
        bytes: usize,
    },
    /// Another one, of so many bytes.
    Other { bytes: usize },
    /// One behind which nothing can be found, or of an unknown version.
    Unreadable,
}

/// The header of a packet that has a length.
#[derive(Debug)]
struct Header<'a> {
    version: &'static Version,
    is_initial: bool,
    destination: &'a [u8],
    /// Where the packet number begins, and where the packet ends.
    number_at: usize,
    end: usize,
}

fn header(datagram: &[u8]) -> Option<Header<'_>> {
    let mut reader = Reader(datagram);
    let first = reader.u8().filter(|first| first & IS_LONG != 0)?;
    let number = reader.u32()?;
    let version = VERSIONS.iter().find(|version| version.number == number)?;
    let destination = reader.part8()?.0;
    let source = reader.part8()?.0;
    if destination.len().max(source.len()) > CONNECTION_ID_BYTES_MAX {
        return None;
    }
    let kind = first >> 4 & 3;
    if kind == version.retry {
        return None;
    }
    let is_initial = kind == version.initial;
    if is_initial {
        let token = reader.var_length()?;
        reader.take(token)?;
    }
    let length = reader.var_length()?;
    let number_at = datagram.len() - reader.0.len();
    reader.take(length)?;
    Some(Header {
        version,
        is_initial,
        destination,
        number_at,
        end: number_at + length,
    })
}

/// Opens packets, in memory of its own.
#[derive(Debug, Default)]
pub(super) struct Opener {
    packet: Vec<u8>,
}

impl Opener {
    /// Reads the first packet of a datagram. Keys are those of the first packet that came, or, behind a Retry, of this one.
    pub(super) fn open(&mut self, datagram: &[u8], first: &mut ConnectionId) -> Opened<'_> {
        let Some(header) = header(datagram) else {
            return Opened::Unreadable;
        };
        let bytes = header.end;
        if !header.is_initial {
            return Opened::Other { bytes };
        }
        // Keys cost more than all else: none are made for a packet that is too short to be one.
        if header.number_at + SAMPLE_AT + SAMPLE_BYTES > bytes {
            return Opened::Other { bytes };
        }
        let own = ConnectionId::of(header.destination);
        if first.length == 0 {
            *first = own;
        }
        let mut range = None;
        let other = Some(own).filter(|own| own != first);
        for id in [Some(*first), other].into_iter().flatten() {
            range = self.try_with(&id, datagram, &header);
            if range.is_some() {
                *first = id;
                break;
            }
        }
        let version = header.version.number;
        match range.and_then(|(from, to)| self.packet.get(from..to)) {
            Some(frames) => Opened::Initial {
                version,
                frames,
                bytes,
            },
            None => Opened::Other { bytes },
        }
    }

    /// Where the frames are, if the keys fit.
    fn try_with(
        &mut self,
        id: &ConnectionId,
        datagram: &[u8],
        header: &Header<'_>,
    ) -> Option<(usize, usize)> {
        let keys = keys(header.version.keys, id)?;
        self.packet.clear();
        self.packet.extend_from_slice(&datagram[..header.end]);
        let sample_at = header.number_at + SAMPLE_AT;
        // The number is in front of the sample, and behind the first byte.
        let (head, behind) = self.packet.split_at_mut_checked(sample_at)?;
        let (first, head) = head.split_first_mut()?;
        let number = head.get_mut(header.number_at - 1..)?;
        let opened = keys
            .header
            .decrypt_in_place(behind.get(..SAMPLE_BYTES)?, first, number);
        opened.ok()?;
        let number_bytes = usize::from(*first & 3) + 1;
        // A client's first packets have small numbers, of which no byte is left out.
        let number = number.iter().take(number_bytes);
        let number = number.fold(0, |number, byte| number << 8 | u64::from(*byte));
        let body_at = header.number_at + number_bytes;
        let (head, body) = self.packet.split_at_mut(body_at);
        let opened = keys.packet.decrypt_in_place(number, head, body);
        let frames = opened.ok()?.len();
        Some((body_at, body_at + frames))
    }
}

/// The keys of a client's Initial packets, as a server has them (RFC 9001, section 5.2).
fn keys(version: TlsVersion, id: &ConnectionId) -> Option<DirectionalKeys> {
    let SupportedCipherSuite::Tls13(suite) = TLS13_AES_128_GCM_SHA256 else {
        return None;
    };
    let suite = suite.quic_suite()?;
    Some(suite.keys(id.bytes(), Side::Server, version).remote)
}

const PADDING: u64 = 0;
const PING: u64 = 1;
const ACK: u64 = 2;
const ACK_ECN: u64 = 3;
const CRYPTO: u64 = 6;

/// The pieces of the handshake in frames, each with its offset, to the first frame that is none of an Initial packet.
pub(super) fn pieces(frames: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut left = Reader(frames);
    core::iter::from_fn(move || {
        loop {
            match left.varint()? {
                PADDING | PING => {}
                kind @ (ACK | ACK_ECN) => acknowledgement(&mut left, kind == ACK_ECN)?,
                CRYPTO => {
                    let (offset, bytes) = (left.var_length()?, left.var_length()?);
                    return Some((offset, left.take(bytes)?));
                }
                _ => return None,
            }
        }
    })
}

/// Passes over one (RFC 9000, section 19.3).
fn acknowledgement(left: &mut Reader<'_>, with_ecn: bool) -> Option<()> {
    let (_largest, _delay) = (left.varint()?, left.varint()?);
    let ranges = left.varint()?;
    left.varint()?;
    for _ in 0..ranges {
        left.varint()?;
        left.varint()?;
    }
    for _ in 0..if with_ecn { 3 } else { 0 } {
        left.varint()?;
    }
    Some(())
}

#[cfg(test)]
pub(in super::super) mod tests;
