//! Records to bytes and back.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{
    ADDRESS_BYTES, ADDRESSES_MAX, BELL, HEAD_BYTES, HELLO, MAGIC, MTU_BYTES, Message, MessageError,
    NAME_BYTES_MAX, Name, PoolShape, REFUSAL, Reason, Refusal, TEXT_BYTES_MAX, VERSION, WELCOME,
    WELCOME_BYTES, Welcome,
};

/// Largest number of a VLAN (IEEE 802.1Q, table 9-2).
const VLAN_MAX: u16 = 4094;

impl Message {
    /// What it is called in messages.
    #[must_use]
    pub const fn kind_name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "a hello",
            Self::Welcome(_) => "a welcome",
            Self::Refusal(_) => "a refusal",
            Self::Bell => "a bell",
        }
    }

    /// Its bytes, at most [`super::RECORD_BYTES_MAX`]. Of addresses beyond the most those that are too many are left out.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        match self {
            Self::Hello(name) => record(HELLO, name.0.len(), &[name.0.as_bytes()]),
            Self::Welcome(welcome) => welcome.emit(),
            Self::Bell => record(BELL, 0, &[]),
            Self::Refusal(Refusal { reason, text }) => {
                record(REFUSAL, text.len(), &[&[*reason as u8], text.as_bytes()])
            }
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// What is wrong with it first.
    pub fn parse(record: &[u8]) -> Result<Self, MessageError> {
        let head: &[u8; HEAD_BYTES] = record.first_chunk().ok_or(MessageError::Head)?;
        if !head.starts_with(MAGIC) {
            return Err(MessageError::Head);
        }
        let version = u16::from_le_bytes([head[4], head[5]]);
        if version != VERSION {
            return Err(MessageError::Version { found: version });
        }
        let count = usize::from(head[7]);
        match head[6] {
            HELLO => {
                let name = body(record, count, NAME_BYTES_MAX, HEAD_BYTES, 1)?;
                let name = core::str::from_utf8(name).map_err(|_| MessageError::Name)?;
                Name::new(name).map(Self::Hello)
            }
            WELCOME => {
                let addresses = body(record, count, ADDRESSES_MAX, WELCOME_BYTES, ADDRESS_BYTES)?;
                Welcome::parse(record, addresses).map(Self::Welcome)
            }
            REFUSAL => {
                let text = body(record, count, TEXT_BYTES_MAX, HEAD_BYTES + 1, 1)?;
                Refusal::parse(record[HEAD_BYTES], text).map(Self::Refusal)
            }
            BELL => body(record, count, 0, HEAD_BYTES, 1).map(|_| Self::Bell),
            found => Err(MessageError::Kind { found }),
        }
    }
}

/// What the count of a record is of, which begins at `from` with so many bytes each.
fn body(
    record: &[u8],
    count: usize,
    most: usize,
    from: usize,
    each_bytes: usize,
) -> Result<&[u8], MessageError> {
    if count > most {
        return Err(MessageError::Count { found: count, most });
    }
    let (expected, found) = (from + count * each_bytes, record.len());
    if expected != found {
        return Err(MessageError::Length { expected, found });
    }
    Ok(&record[from..])
}

fn record(kind: u8, count: usize, parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend([kind, count as u8]);
    parts.iter().for_each(|part| bytes.extend(*part));
    bytes
}

impl Refusal {
    fn parse(code: u8, text: &[u8]) -> Result<Self, MessageError> {
        let reason = Reason::ALL.into_iter().find(|of| *of as u8 == code);
        let reason = reason.ok_or(MessageError::Reason { found: code })?;
        let text = core::str::from_utf8(text).map_err(|_| MessageError::Text)?;
        if text.chars().any(char::is_control) {
            return Err(MessageError::Text);
        }
        Ok(Self {
            reason,
            text: text.to_owned(),
        })
    }
}

impl Welcome {
    fn emit(&self) -> Vec<u8> {
        let addresses = &self.addresses[..self.addresses.len().min(ADDRESSES_MAX)];
        let (receive, transmit) = (self.receive, self.transmit);
        let words = [
            self.mtu_bytes,
            receive.frames,
            receive.frame_bytes,
            transmit.frames,
            transmit.frame_bytes,
        ];
        let words = words.map(u32::to_le_bytes).concat();
        let addresses: Vec<u8> = addresses.iter().flat_map(|ip| address(*ip)).collect();
        let parts: [&[u8]; 5] = [
            &self.mac,
            &self.vlan.unwrap_or(0).to_le_bytes(),
            &words,
            &[self.client, 0, 0, 0],
            &addresses,
        ];
        record(WELCOME, addresses.len() / ADDRESS_BYTES, &parts)
    }

    /// Reads a record that is as long as it should be.
    fn parse(record: &[u8], addresses: &[u8]) -> Result<Self, MessageError> {
        let word = |at: usize| {
            record[at..]
                .first_chunk()
                .map_or(0, |it| u32::from_le_bytes(*it))
        };
        let pool = |field, at| {
            let (frames, frame_bytes) = (word(at), word(at + 4));
            let shape = PoolShape {
                frames,
                frame_bytes,
            };
            let found = u64::from(frames) | u64::from(frame_bytes) << 32;
            let wrong = MessageError::Field { field, found };
            shape.is_admitted().then_some(shape).ok_or(wrong)
        };
        let vlan = u16::from_le_bytes([record[14], record[15]]);
        let mtu_bytes = word(16);
        check("the VLAN", vlan.into(), vlan <= VLAN_MAX)?;
        check("the MTU", mtu_bytes.into(), MTU_BYTES.contains(&mtu_bytes))?;
        let reserved = word(36) >> 8;
        check("a reserved byte", reserved.into(), reserved == 0)?;
        let mac = record[8..].first_chunk().copied().unwrap_or_default();
        let is_station = mac[0] & 1 == 0;
        check(
            "the first byte of the Ethernet address",
            mac[0].into(),
            is_station,
        )?;
        let (addresses, _) = addresses.as_chunks();
        let addresses = addresses.iter().map(parse_address);
        Ok(Self {
            client: record[36],
            mac,
            vlan: Some(vlan).filter(|vlan| *vlan != 0),
            mtu_bytes,
            receive: pool("the receive pool", 20)?,
            transmit: pool("the transmit pool", 28)?,
            addresses: addresses.collect::<Result<_, _>>()?,
        })
    }
}

fn check(field: &'static str, found: u64, is_right: bool) -> Result<(), MessageError> {
    let wrong = MessageError::Field { field, found };
    is_right.then_some(()).ok_or(wrong)
}

fn address(ip: IpAddr) -> [u8; ADDRESS_BYTES] {
    let mut bytes = [0; ADDRESS_BYTES];
    match ip {
        IpAddr::V4(four) => {
            bytes[0] = 4;
            bytes[1..5].copy_from_slice(&four.octets());
        }
        IpAddr::V6(six) => {
            bytes[0] = 6;
            bytes[1..].copy_from_slice(&six.octets());
        }
    }
    bytes
}

fn parse_address(bytes: &[u8; ADDRESS_BYTES]) -> Result<IpAddr, MessageError> {
    let [version, octets @ ..] = *bytes;
    let [a, b, c, d, behind @ ..] = octets;
    match version {
        4 if behind == [0; 12] => Ok(Ipv4Addr::new(a, b, c, d).into()),
        6 => Ok(Ipv6Addr::from(octets).into()),
        found => Err(MessageError::Field {
            field: "the version of an address",
            found: found.into(),
        }),
    }
}
