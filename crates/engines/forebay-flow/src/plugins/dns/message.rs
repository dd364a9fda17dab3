//! Messages of DNS: header, names with pointers, questions, and records (RFC 1035, section 4).

use core::net::{Ipv4Addr, Ipv6Addr};
use std::io::Write as _;

use super::super::reader::Reader;
use super::super::text::Text;

pub(super) const HEADER_BYTES: usize = 12;
/// Questions and answers of a message that is one, at most: others only look like one.
const RECORDS_MAX: u16 = 1024;
/// Bytes of a label, and of a name on the wire, at most.
const LABEL_BYTES_MAX: u8 = 63;
const NAME_BYTES_MAX: usize = 255;

const A: u16 = 1;
const NS: u16 = 2;
const CNAME: u16 = 5;
const PTR: u16 = 12;
const MX: u16 = 15;
const TXT: u16 = 16;
const AAAA: u16 = 28;
const SRV: u16 = 33;

/// A name as people write it, without the dot at its end; the root is a dot. Bytes that are neither letter, figure, hyphen nor underscore are `\DDD` (section 5.1).
pub(super) type Name = Text<255>;

/// A message whose header is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    bytes: &'a [u8],
    pub(super) id: u16,
    pub(super) is_response: bool,
    pub(super) rcode: u8,
    pub(super) questions: u16,
    pub(super) answers: u16,
}

/// A record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) kind: u16,
    pub(super) ttl_s: u32,
    /// Where its data are.
    at: usize,
    end: usize,
}

impl<'a> Message<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let (id, flags) = (reader.u16()?, reader.u16()?);
        let (questions, answers) = (reader.u16()?, reader.u16()?);
        let _others: [u8; 4] = reader.chunk()?;
        // Queries, and what is about a zone; bit 6 is always 0.
        let is_known = flags >> 11 & 15 <= 6 && flags & 0x40 == 0;
        let is_any = questions > 0 || answers > 0 || flags & 0x8000 != 0;
        let is_small = questions.max(answers) <= RECORDS_MAX;
        (is_known && is_any && is_small).then_some(Self {
            bytes,
            id,
            is_response: flags & 0x8000 != 0,
            rcode: (flags & 15) as u8,
            questions,
            answers,
        })
    }

    /// Type and class of the question at a place, which moves behind it; its name goes to `name` if it is wanted.
    pub(super) fn question(
        &self,
        at: &mut usize,
        name: &mut Name,
        is_wanted: bool,
    ) -> Option<(u16, u16)> {
        let mut unwanted = Name::EMPTY;
        let to = if is_wanted { name } else { &mut unwanted };
        let behind = self.name(*at, to)?;
        let mut reader = Reader(self.bytes.get(behind..)?);
        let question = (reader.u16()?, reader.u16()?);
        *at = behind + 4;
        Some(question)
    }

    /// The record at a place; its name goes to `name`.
    pub(super) fn record(&self, at: usize, name: &mut Name) -> Option<Record> {
        let behind = self.name(at, name)?;
        let mut reader = Reader(self.bytes.get(behind..)?);
        let (kind, _class) = (reader.u16()?, reader.u16()?);
        let (ttl_s, length) = (reader.u32()?, usize::from(reader.u16()?));
        let at = behind + 10;
        Some(Record {
            kind,
            ttl_s,
            at,
            end: at + length,
        })
    }

    /// The data of a record as a text; none of kinds that are not known, and of what contradicts its kind.
    pub(super) fn data(&self, record: &Record, to: &mut Text<127>) {
        to.clear();
        let Some(data) = self.bytes.get(record.at..record.end) else {
            return;
        };
        let before_name = match record.kind {
            A => {
                if let Ok(address) = <[u8; 4]>::try_from(data) {
                    to.set(Ipv4Addr::from(address).to_string().as_bytes());
                }
                return;
            }
            AAAA => {
                if let Ok(address) = <[u8; 16]>::try_from(data) {
                    to.set(Ipv6Addr::from(address).to_string().as_bytes());
                }
                return;
            }
            TXT => {
                to.set(Reader(data).part8().map_or(&[], |text| text.0));
                return;
            }
            NS | CNAME | PTR => 0,
            MX => 2,
            SRV => 6,
            _ => return,
        };
        let mut name = Name::EMPTY;
        if self.name(record.at + before_name, &mut name).is_some() {
            to.set(name.bytes());
        }
    }

    /// Reads the name at a place, and says what is behind it.
    ///
    /// A pointer leads further to the front than all before it, so that no name has a loop; and no name is longer than the standard lets it be.
    fn name(&self, at: usize, to: &mut Name) -> Option<usize> {
        to.clear();
        let (mut at, mut earliest) = (at, at);
        let mut behind = None;
        let mut bytes = 0;
        loop {
            match *self.bytes.get(at)? {
                0 => {
                    if to.is_empty() {
                        to.set(b".");
                    }
                    return behind.or(Some(at + 1));
                }
                length @ 1..=LABEL_BYTES_MAX => {
                    let label = self.bytes.get(at + 1..)?.get(..length.into())?;
                    bytes += label.len() + 1;
                    if bytes > NAME_BYTES_MAX {
                        return None;
                    }
                    add_label(to, label);
                    at += label.len() + 1;
                }
                high @ 0xc0.. => {
                    let low = *self.bytes.get(at + 1)?;
                    let target = usize::from(high & 0x3f) << 8 | usize::from(low);
                    behind = behind.or(Some(at + 2));
                    if target >= earliest {
                        return None;
                    }
                    (at, earliest) = (target, target);
                }
                // Kinds of labels that were given up.
                _ => return None,
            }
        }
    }
}

fn add_label(to: &mut Name, label: &[u8]) {
    if !to.is_empty() {
        to.add(b".");
    }
    for byte in label {
        if byte.is_ascii_alphanumeric() || b"-_".contains(byte) {
            to.add(&[*byte]);
        } else {
            let mut text = [0; 4];
            // It has room for three figures.
            let _ = write!(&mut text[..], "\\{byte:03}");
            to.add(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A response with a question for `www.example.org`, and the answers behind it.
    fn response(answers: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![
            0x12,
            0x34,
            0x81,
            0x80,
            0,
            1,
            0,
            answers.len() as u8,
            0,
            0,
            0,
            0,
        ];
        bytes.extend(b"\x03www\x07example\x03org\0\0\x01\0\x01");
        bytes.extend(answers.concat());
        bytes
    }

    fn name_at(bytes: &[u8], at: usize) -> Option<(String, usize)> {
        let message = Message::of(bytes).unwrap();
        let mut name = Name::EMPTY;
        let behind = message.name(at, &mut name)?;
        Some((String::from_utf8(name.bytes().to_vec()).unwrap(), behind))
    }

    #[test]
    fn names_follow_pointers_to_the_front() {
        let bytes = response(&[b"\xc0\x0c", b"\x01a\xc0\x10", b"\x03x.\xff\0", b"\0"]);
        let at = 12 + 17 + 4;
        let www = "www.example.org".to_owned();
        assert_eq!(name_at(&bytes, 12), Some((www.clone(), 29)));
        assert_eq!(name_at(&bytes, at), Some((www, at + 2)));
        let expected = ("a.example.org".to_owned(), at + 6);
        assert_eq!(name_at(&bytes, at + 2), Some(expected));
        let expected = (r"x\046\255".to_owned(), at + 11);
        assert_eq!(name_at(&bytes, at + 6), Some(expected));
        assert_eq!(name_at(&bytes, at + 11), Some((".".to_owned(), at + 12)));
    }

    #[test]
    fn loops_and_endless_names_are_refused() {
        let at = 33;
        // To itself, forward, and two that lead to each other.
        for pointer in [
            &b"\xc0\x21"[..],
            b"\xc0\x30",
            b"\xc0\x23\xc0\x21",
            b"\x01a\xc0\x21",
        ] {
            let mut bytes = response(&[pointer]);
            bytes.resize(80, 0);
            assert_eq!(name_at(&bytes, at), None, "{pointer:x?}");
        }
        // Four labels of 63 bytes and one more.
        let label = [&[63][..], &[b'a'; 63]].concat();
        let long = [&label.repeat(4)[..], b"\0"].concat();
        assert_eq!(name_at(&response(&[&long]), at), None);
        let fits = [&label.repeat(3)[..], &label[..1], b"\0"].concat();
        let cut = &fits[..fits.len() - 2];
        let whole = [cut, &[62], &[b'b'; 62], &[0]].concat();
        let (name, _) = name_at(&response(&[&whole]), at).unwrap();
        assert_eq!(name.len(), 3 * 64 + 62);
        // Reserved kinds of labels, and a name that ends behind the message.
        assert_eq!(name_at(&response(&[b"\x40\0"]), at), None);
        assert_eq!(name_at(&response(&[b"\x05abc"]), at), None);
    }

    #[test]
    fn data_are_told_by_their_kind() {
        let record = |kind: u8, data: &[u8]| {
            let head = [0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, data.len() as u8];
            let bytes = response(&[&head, data]);
            let message = Message::of(&bytes).unwrap();
            let mut name = Name::EMPTY;
            let record = message.record(33, &mut name).unwrap();
            assert_eq!((record.ttl_s, name.bytes()), (60, &b"www.example.org"[..]));
            let mut text = Text::EMPTY;
            message.data(&record, &mut text);
            String::from_utf8(text.bytes().to_vec()).unwrap()
        };
        assert_eq!(record(1, &[192, 0, 2, 7]), "192.0.2.7");
        assert_eq!(record(1, &[192, 0, 2]), "");
        let six = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
        assert_eq!(record(28, &six), "2001:db8::9");
        assert_eq!(record(5, b"\x03cdn\xc0\x10"), "cdn.example.org");
        assert_eq!(record(15, b"\0\x0a\x02mx\xc0\x10"), "mx.example.org");
        assert_eq!(
            record(33, b"\0\0\0\0\x01\xbb\x01s\xc0\x10"),
            "s.example.org"
        );
        assert_eq!(record(16, b"\x05v=abc"), "v=abc");
        assert_eq!(record(99, b"abc"), "");
    }
}
