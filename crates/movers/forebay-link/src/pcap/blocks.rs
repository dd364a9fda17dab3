//! The packets of a pcapng file, block by block, and of one in pcap's first form that was changed.

use std::io::Read;

use forebay_wire::pcapng::{BLOCK_BYTES_MIN, block_length, section_order};
use forebay_wire::unit::ByteOrder;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

use super::CaptureError;
use super::frames::{FRAME_MAX_BYTES, Frame, Place, TOO_LARGE};

const BUFFER_BYTES: usize = 1 << 20;
/// More interfaces than that are not a capture but an attack.
const INTERFACES_MAX: usize = 4_096;

/// How the packets of one interface are to be read.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link_type: i32,
    /// Units of the time stamp per second.
    units_per_s: u64,
    offset_s: i64,
}

/// The blocks of a capture file, one after the other.
pub(super) struct Blocks {
    reader: Box<dyn PcapReaderIterator + Send>,
    /// How pcapng writes its numbers, from the last section header on.
    order: Option<ByteOrder>,
    /// Whether the file is pcapng.
    is_ng: bool,
    interfaces: Vec<Interface>,
    /// Bytes of the reader that the current block takes.
    pending_bytes: usize,
    capacity_bytes: usize,
    /// Of the current packet, or of the next block.
    place: Place,
    timestamp_ns: u64,
    link_type: i32,
    wire_bytes: u32,
    bytes: Vec<u8>,
}

/// What a block was.
enum Step {
    Packet,
    Other,
}

impl Blocks {
    /// Of what comes from `source`; pcapng, if it begins so.
    pub(super) fn new(
        source: impl Read + Send + 'static,
        is_ng: bool,
    ) -> Result<Self, CaptureError> {
        let reader = create_reader(BUFFER_BYTES, source).map_err(|_| CaptureError::NotACapture)?;
        Ok(Self {
            reader,
            order: None,
            is_ng,
            interfaces: Vec::new(),
            pending_bytes: 0,
            capacity_bytes: BUFFER_BYTES,
            place: Place::default(),
            timestamp_ns: 0,
            link_type: 0,
            wire_bytes: 0,
            bytes: Vec::new(),
        })
    }

    /// The current packet.
    pub(super) fn frame(&self) -> Frame<'_> {
        Frame {
            number: self.place.number,
            offset: self.place.offset,
            timestamp_ns: self.timestamp_ns,
            link_type: self.link_type,
            wire_bytes: self.wire_bytes,
            bytes: &self.bytes,
        }
    }

    /// Goes to the next packet; tells whether there is one.
    pub(super) fn advance(&mut self) -> Result<bool, CaptureError> {
        loop {
            self.reader.consume(self.pending_bytes);
            self.place.offset += self.pending_bytes as u64;
            self.pending_bytes = 0;
            match self.read_block()? {
                Some(Step::Packet) => return Ok(true),
                Some(Step::Other) => {}
                None => return Ok(false),
            }
        }
    }

    /// Reads one block; `None` at the end.
    fn read_block(&mut self) -> Result<Option<Step>, CaptureError> {
        loop {
            if self.is_ng {
                // The parser subtracts from the length of some kinds of blocks before it looks at it.
                let data = self.reader.data();
                self.order = section_order(data).or(self.order);
                let length = self.order.and_then(|order| block_length(data, order));
                if length.is_some_and(|length| length < BLOCK_BYTES_MIN) {
                    return Err(self
                        .place
                        .broken("its length is less than that of an empty block"));
                }
            }
            let problem = match self.reader.next() {
                Ok((bytes, block)) => {
                    self.pending_bytes = bytes;
                    let current = Current {
                        interfaces: &mut self.interfaces,
                        timestamp_ns: &mut self.timestamp_ns,
                        link_type: &mut self.link_type,
                        wire_bytes: &mut self.wire_bytes,
                        bytes: &mut self.bytes,
                    };
                    let step = current.take(&block).map_err(Problem::Broken);
                    match step {
                        Ok(Step::Other) => return Ok(Some(Step::Other)),
                        Ok(Step::Packet) => {
                            self.place.number += 1;
                            return Ok(Some(Step::Packet));
                        }
                        Err(problem) => problem,
                    }
                }
                Err(error) => Problem::of(&error),
            };
            match problem {
                Problem::End => return Ok(None),
                Problem::NeedsMore if self.refill()? => {}
                Problem::NeedsMore => return Ok(None),
                Problem::Cut => return Err(self.place.cut()),
                Problem::Broken(what) => return Err(self.place.broken(what)),
                Problem::Read => return Err(self.place.unreadable()),
            }
        }
    }

    /// Reads on; tells whether there is anything to go on with, or the file ends at a border.
    fn refill(&mut self) -> Result<bool, CaptureError> {
        let before = self.reader.data().len();
        if let Err(Problem::Read) = self.reader.refill().map_err(|error| Problem::of(&error)) {
            return Err(self.place.unreadable());
        }
        match self.reader.data().len() {
            0 => Ok(false),
            now if now > before => Ok(true),
            // Nothing came: the buffer is full, or the file ends within this block.
            _ if self.reader.reader_exhausted() => Err(self.place.cut()),
            _ if self.grow() => Ok(true),
            _ => Err(self.place.broken(TOO_LARGE)),
        }
    }

    fn grow(&mut self) -> bool {
        self.capacity_bytes = self.capacity_bytes.saturating_mul(2);
        self.capacity_bytes <= 2 * FRAME_MAX_BYTES && self.reader.grow(self.capacity_bytes)
    }
}

/// What the parser complains of.
enum Problem {
    End,
    NeedsMore,
    Cut,
    Read,
    Broken(&'static str),
}

impl Problem {
    fn of(error: &PcapError<&[u8]>) -> Self {
        match error {
            PcapError::Eof => Self::End,
            PcapError::Incomplete(_) | PcapError::BufferTooSmall => Self::NeedsMore,
            PcapError::UnexpectedEof => Self::Cut,
            PcapError::ReadError => Self::Read,
            PcapError::HeaderNotRecognized => Self::Broken("its header is not recognised"),
            PcapError::NomError(..) | PcapError::OwnedNomError(..) => {
                Self::Broken("its header contradicts itself")
            }
        }
    }
}

/// What a block fills, while the parser's buffer is borrowed.
struct Current<'a> {
    interfaces: &'a mut Vec<Interface>,
    timestamp_ns: &'a mut u64,
    link_type: &'a mut i32,
    wire_bytes: &'a mut u32,
    bytes: &'a mut Vec<u8>,
}

impl Current<'_> {
    fn take(self, block: &PcapBlockOwned<'_>) -> Result<Step, &'static str> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let units_per_s = if header.is_nanosecond_precision() {
                    1_000_000_000
                } else {
                    1_000_000
                };
                // The upper bits hold the length of the frame check sequence.
                let link_type = header.network.0 & 0x0fff_ffff;
                self.interfaces.push(Interface {
                    link_type,
                    units_per_s,
                    offset_s: 0,
                });
                Ok(Step::Other)
            }
            PcapBlockOwned::Legacy(packet) => {
                let interface = *self
                    .interfaces
                    .first()
                    .ok_or("it comes before the file's header")?;
                let units =
                    u64::from(packet.ts_sec) * interface.units_per_s + u64::from(packet.ts_usec);
                self.packet(interface, units, packet.data, packet.caplen, packet.origlen)
            }
            PcapBlockOwned::NG(block) => self.take_ng(block),
        }
    }

    fn take_ng(self, block: &Block<'_>) -> Result<Step, &'static str> {
        match block {
            Block::SectionHeader(_) => self.interfaces.clear(),
            Block::InterfaceDescription(description) => {
                if self.interfaces.len() >= INTERFACES_MAX {
                    return Err("it describes more than 4096 interfaces");
                }
                self.interfaces.push(Interface {
                    link_type: description.linktype.0,
                    units_per_s: units_per_s(description.if_tsresol)
                        .ok_or("its time resolution is unusable")?,
                    offset_s: description.if_tsoffset,
                });
            }
            Block::EnhancedPacket(packet) => {
                let interface = self.interface(packet.if_id)?;
                let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                return self.packet(interface, units, packet.data, packet.caplen, packet.origlen);
            }
            Block::SimplePacket(packet) => {
                let interface = self.interface(0)?;
                let captured = packet.origlen.min(packet.data.len() as u32);
                return self.packet(interface, 0, packet.data, captured, packet.origlen);
            }
            _ => {}
        }
        Ok(Step::Other)
    }

    fn interface(&self, index: u32) -> Result<Interface, &'static str> {
        self.interfaces
            .get(index as usize)
            .copied()
            .ok_or("its interface was never described")
    }

    fn packet(
        self,
        interface: Interface,
        units: u64,
        data: &[u8],
        captured: u32,
        original: u32,
    ) -> Result<Step, &'static str> {
        // pcapng pads the data; a captured length beyond the block was refused by the parser, and is checked again.
        let bytes = data
            .get(..captured as usize)
            .ok_or("it captured more than it holds")?;
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        // Some writers leave the length on the wire out.
        *self.wire_bytes = original.max(captured);
        *self.link_type = interface.link_type;
        *self.timestamp_ns = nanoseconds(units, interface);
        Ok(Step::Packet)
    }
}

/// pcapng's resolution: the exponent of 10, or of 2 if the highest bit is set.
fn units_per_s(resolution: u8) -> Option<u64> {
    let exponent = u32::from(resolution & 0x7f);
    if resolution & 0x80 == 0 {
        10_u64.checked_pow(exponent)
    } else {
        2_u64.checked_pow(exponent)
    }
}

fn nanoseconds(units: u64, interface: Interface) -> u64 {
    let since = u128::from(units) * 1_000_000_000 / u128::from(interface.units_per_s.max(1));
    let offset = i128::from(interface.offset_s) * 1_000_000_000;
    let total = i128::try_from(since)
        .unwrap_or(i128::MAX)
        .saturating_add(offset);
    u64::try_from(total.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolutions_of_pcapng() {
        assert_eq!(
            [6, 9, 0x80 | 10, 0].map(units_per_s),
            [Some(1_000_000), Some(1_000_000_000), Some(1_024), Some(1)]
        );
        assert_eq!([20, 0xff].map(units_per_s), [None, None]);
        let interface = Interface {
            link_type: 1,
            units_per_s: 1_024,
            offset_s: 2,
        };
        assert_eq!(nanoseconds(512, interface), 2_500_000_000);
        assert_eq!(
            nanoseconds(
                u64::MAX,
                Interface {
                    offset_s: i64::MIN,
                    ..interface
                }
            ),
            0
        );
    }
}
