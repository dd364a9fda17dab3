//! What clang made of the program: sections with instructions, and where the numbers of maps belong in them (the ELF of `elf(5)`, 64 bits, little endian).

use crate::error::XdpError;

/// Bytes of an instruction.
pub(crate) const INSTRUCTION_BYTES: usize = 8;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const RELOCATION_BYTES: usize = 16;
const SYMBOLS: u32 = 2;
const RELOCATIONS: u32 = 9;
/// A map in the two instructions that load 64 bits.
const TO_MAP: u32 = 1;

/// An instruction that loads a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MapLoad<'a> {
    /// Which instruction of the program.
    pub(crate) at: usize,
    pub(crate) map: &'a str,
}

/// An object file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object<'a> {
    bytes: &'a [u8],
    sections: &'a [u8],
    names: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
struct Section<'a> {
    name: &'a str,
    kind: u32,
    bytes: &'a [u8],
    link: usize,
    of: usize,
}

const SHORT: XdpError = XdpError::Object("ends within what it says to have");

fn bytes<const N: usize>(from: &[u8], at: usize) -> Result<[u8; N], XdpError> {
    let found = from.get(at..).and_then(|rest| rest.first_chunk::<N>());
    found.copied().ok_or(SHORT)
}

fn half(from: &[u8], at: usize) -> Result<usize, XdpError> {
    bytes(from, at).map(|bytes| u16::from_le_bytes(bytes).into())
}

fn word(from: &[u8], at: usize) -> Result<u32, XdpError> {
    bytes(from, at).map(u32::from_le_bytes)
}

fn long(from: &[u8], at: usize) -> Result<usize, XdpError> {
    let number = bytes(from, at).map(u64::from_le_bytes)?;
    usize::try_from(number).map_err(|_| SHORT)
}

fn part(from: &[u8], at: usize, length: usize) -> Result<&[u8], XdpError> {
    let end = at.checked_add(length).ok_or(SHORT)?;
    from.get(at..end).ok_or(SHORT)
}

/// A name in a table of names that end with 0.
fn name(names: &[u8], at: u32) -> Result<&str, XdpError> {
    let rest = names.get(at as usize..).ok_or(SHORT)?;
    let end = rest.iter().position(|byte| *byte == 0).ok_or(SHORT)?;
    std::str::from_utf8(&rest[..end]).map_err(|_| XdpError::Object("has a name that is no text"))
}

impl<'a> Object<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, XdpError> {
        if !bytes.starts_with(&[0x7f, b'E', b'L', b'F', 2, 1]) || half(bytes, 18)? != 247 {
            return Err(XdpError::Object("is no program for the kernel"));
        }
        let (at, count) = (long(bytes, 40)?, half(bytes, 60)?);
        let sections = part(bytes, at, count * SECTION_BYTES)?;
        let mut object = Self {
            bytes,
            sections,
            names: &[],
        };
        object.names = object.section(half(bytes, 62)?)?.bytes;
        Ok(object)
    }

    fn section(&self, number: usize) -> Result<Section<'a>, XdpError> {
        let at = number.checked_mul(SECTION_BYTES).ok_or(SHORT)?;
        let header = part(self.sections, at, SECTION_BYTES)?;
        let kind = word(header, 4)?;
        // A section of kind 8 has no bytes in the file.
        let length = if kind == 8 { 0 } else { long(header, 32)? };
        let name = if self.names.is_empty() {
            ""
        } else {
            name(self.names, word(header, 0)?)?
        };
        Ok(Section {
            name,
            kind,
            bytes: part(self.bytes, long(header, 24)?, length)?,
            link: word(header, 40)? as usize,
            of: word(header, 44)? as usize,
        })
    }

    fn all(&self) -> impl Iterator<Item = Result<Section<'a>, XdpError>> {
        let count = self.sections.len() / SECTION_BYTES;
        let object = *self;
        (0..count).map(move |number| object.section(number))
    }

    /// The instructions in a section, and which of them load maps.
    pub(crate) fn program(&self, called: &str) -> Result<(Vec<u8>, Vec<MapLoad<'a>>), XdpError> {
        let mut found = None;
        for (number, section) in self.all().enumerate() {
            let section = section?;
            if section.name == called {
                found = Some((number, section.bytes));
            }
        }
        let (number, code) = found.ok_or(XdpError::Object("lacks a program"))?;
        if code.is_empty() || code.len() % INSTRUCTION_BYTES != 0 {
            return Err(XdpError::Object("has a program of no whole instructions"));
        }
        let mut loads = Vec::new();
        for section in self.all() {
            let section = section?;
            if section.kind == RELOCATIONS && section.of == number {
                self.add_loads(&section, code, &mut loads)?;
            }
        }
        Ok((code.to_vec(), loads))
    }

    fn add_loads(
        &self,
        section: &Section<'a>,
        code: &[u8],
        loads: &mut Vec<MapLoad<'a>>,
    ) -> Result<(), XdpError> {
        let symbols = self.section(section.link)?;
        if symbols.kind != SYMBOLS {
            return Err(XdpError::Object("has relocations without symbols"));
        }
        let names = self.section(symbols.link)?.bytes;
        for relocation in section.bytes.chunks_exact(RELOCATION_BYTES) {
            let (place, kind) = (long(relocation, 0)?, word(relocation, 8)?);
            let symbol = (word(relocation, 12)? as usize)
                .checked_mul(SYMBOL_BYTES)
                .ok_or(SHORT)?;
            let symbol = part(symbols.bytes, symbol, SYMBOL_BYTES)?;
            // Two instructions, of which the first one loads.
            let pair = part(code, place, 2 * INSTRUCTION_BYTES)?;
            if kind != TO_MAP || place % INSTRUCTION_BYTES != 0 || pair[0] != 0x18 {
                return Err(XdpError::Object(
                    "has a relocation that is none of a map's number",
                ));
            }
            loads.push(MapLoad {
                at: place / INSTRUCTION_BYTES,
                map: name(names, word(symbol, 0)?)?,
            });
        }
        Ok(())
    }
}

/// Puts the number of a map's descriptor where it is loaded.
pub(crate) fn load_map(code: &mut [u8], at: usize, descriptor: i32) {
    let at = at * INSTRUCTION_BYTES;
    if let Some([_, registers, _, _, number @ ..]) = code.get_mut(at..at + INSTRUCTION_BYTES) {
        // The source register says that the number is a descriptor (BPF_PSEUDO_MAP_FD).
        *registers = *registers & 0x0f | 0x10;
        number.copy_from_slice(&descriptor.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/connections.bpf.o"));
    const FILTER_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/filter.bpf.o"));

    fn is_built() -> bool {
        if OBJECT.is_empty() {
            forebay_testing::skip!("clang was not there at the build (apt-get install clang)");
        }
        !OBJECT.is_empty()
    }

    #[test]
    fn programs_load_their_maps() {
        if !is_built() {
            return;
        }
        let maps = |object: &'static [u8], program: &str| {
            let object = Object::parse(object).unwrap();
            let (code, loads) = object.program(program).unwrap();
            assert!(code.len() > 100 * INSTRUCTION_BYTES);
            let mut maps: Vec<_> = loads.iter().map(|load| load.map).collect();
            maps.sort_unstable();
            maps.dedup();
            maps
        };
        let all = ["counters", "exports", "flows", "metadata", "settings"];
        assert_eq!(maps(OBJECT, "xdp/connections"), all);
        let all = ["counters", "flows", "settings"];
        assert_eq!(maps(OBJECT, "xdp/control"), all);
        let all = [
            "counters", "entries", "exports", "flows", "metadata", "settings",
        ];
        assert_eq!(maps(FILTER_OBJECT, "socket/connections"), all);
        let all = ["counters", "entries", "flows", "settings"];
        assert_eq!(maps(FILTER_OBJECT, "xdp/control"), all);
        let object = Object::parse(OBJECT).unwrap();
        assert!(object.program("xdp/other").is_err());
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for garbage in [&b""[..], b"\x7fELF", &[0; 64]] {
            assert!(Object::parse(garbage).is_err());
        }
    }

    proptest! {
        #[test]
        fn a_broken_object_is_an_error_and_no_panic(
            cut in 0..OBJECT.len().max(1), at in 0..OBJECT.len().max(1), byte: u8,
        ) {
            let mut broken = OBJECT.to_vec();
            if let Some(place) = broken.get_mut(at) {
                *place = byte;
            }
            for bytes in [&broken[..], OBJECT.get(..cut).unwrap_or_default()] {
                let read = Object::parse(bytes).and_then(|object| object.program("xdp/control"));
                if let Ok((code, _)) = read {
                    prop_assert!(!code.is_empty());
                }
            }
        }
    }
}
