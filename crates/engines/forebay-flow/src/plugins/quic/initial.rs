//! Initial packets of a client (RFC 9000, section 17.2.2) and the frames in them.

use ring::aead::quic::{AES_128, HeaderProtectionKey};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

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
    salt: [u8; 20],
    key: &'static [u8],
    iv: &'static [u8],
    header: &'static [u8],
}

const VERSIONS: [Version; 2] = [
    // RFC 9001, section 5.2.
    Version {
        number: 1,
        initial: 0,
        retry: 3,
        salt: [
            0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8,
            0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a,
        ],
        key: b"tls13 quic key",
        iv: b"tls13 quic iv",
        header: b"tls13 quic hp",
    },
    // RFC 9369, section 3.
    Version {
        number: 0x6b33_43cf,
        initial: 1,
        retry: 0,
        salt: [
            0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26,
            0x9d, 0xcb, 0xf9, 0xbd, 0x2e, 0xd9,
        ],
        key: b"tls13 quicv2 key",
        iv: b"tls13 quicv2 iv",
        header: b"tls13 quicv2 hp",
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
        let keys = Keys::of(header.version, id)?;
        self.packet.clear();
        self.packet.extend_from_slice(&datagram[..header.end]);
        let sample_at = header.number_at + SAMPLE_AT;
        let sample = self.packet.get(sample_at..sample_at + SAMPLE_BYTES)?;
        let [of_first, of_number @ ..] = keys.header.new_mask(sample).ok()?;
        self.packet[0] ^= of_first & 0x0f;
        let number_bytes = usize::from(self.packet[0] & 3) + 1;
        let body_at = header.number_at + number_bytes;
        let mut nonce = keys.iv;
        let number = &mut self.packet[header.number_at..body_at];
        number.iter_mut().zip(of_number).for_each(|(a, b)| *a ^= b);
        // A client's first packets have small numbers, of which no byte is left out.
        let low = &mut nonce[12 - number_bytes..];
        low.iter_mut().zip(&*number).for_each(|(a, b)| *a ^= b);
        let (head, body) = self.packet.split_at_mut(body_at);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = keys.packet.open_in_place(nonce, Aad::from(head), body);
        let frames = opened.ok()?.len();
        Some((body_at, body_at + frames))
    }
}

/// The keys of a client's Initial packets.
struct Keys {
    packet: LessSafeKey,
    iv: [u8; 12],
    header: HeaderProtectionKey,
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand-Label (RFC 8446, section 7.1) without a context; the label has its prefix.
fn expand<const N: usize>(secret: &Prk, label: &[u8]) -> Option<[u8; N]> {
    let (length, label_length) = ((N as u16).to_be_bytes(), [label.len() as u8]);
    let info = [&length[..], &label_length, label, &[0]];
    let mut bytes = [0; N];
    let okm = secret.expand(&info, Length(N)).ok()?;
    okm.fill(&mut bytes).ok()?;
    Some(bytes)
}

/// The bytes of keys.
struct KeyBytes {
    packet: [u8; 16],
    iv: [u8; 12],
    header: [u8; 16],
}

impl KeyBytes {
    fn of(version: &Version, id: &ConnectionId) -> Option<Self> {
        let initial = Salt::new(HKDF_SHA256, &version.salt).extract(id.bytes());
        let client: [u8; 32] = expand(&initial, b"tls13 client in")?;
        let client = Prk::new_less_safe(HKDF_SHA256, &client);
        Some(Self {
            packet: expand(&client, version.key)?,
            iv: expand(&client, version.iv)?,
            header: expand(&client, version.header)?,
        })
    }
}

impl Keys {
    fn of(version: &Version, id: &ConnectionId) -> Option<Self> {
        let KeyBytes { packet, iv, header } = KeyBytes::of(version, id)?;
        Some(Self {
            packet: LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &packet).ok()?),
            iv,
            header: HeaderProtectionKey::new(&AES_128, &header).ok()?,
        })
    }
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
