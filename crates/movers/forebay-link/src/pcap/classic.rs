//! The packets of a capture in pcap's first form, read where they lie in the buffer: what a packet costs here, each packet of a capture costs.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use forebay_wire::pcap::{FILE_HEADER_BYTES, FileHeader, PACKET_HEADER_BYTES, PacketHeader};

use super::CaptureError;
use super::compressed::Source;
use super::frames::{FRAME_MAX_BYTES, Frame, Place, TOO_LARGE};

/// As much as the second level of a CPU's cache has room for, with what else is needed.
const BUFFER_BYTES: usize = 256 << 10;

pub(super) struct Classic {
    source: Source,
    header: FileHeader,
    buffer: Vec<u8>,
    /// Where in the buffer the file goes on, …
    from: usize,
    /// … and where what was read of it ends.
    to: usize,
    place: Place,
    packet: PacketHeader,
    /// Where the current packet is in the buffer.
    bytes: Range<usize>,
}

impl Classic {
    /// Of a file with this header, which begins with `start`.
    pub(super) fn new(header: FileHeader, start: &[u8], source: Source) -> Self {
        let mut buffer = vec![0; BUFFER_BYTES.max(start.len())];
        buffer[..start.len()].copy_from_slice(start);
        Self {
            source,
            header,
            buffer,
            from: FILE_HEADER_BYTES,
            to: start.len(),
            place: Place {
                number: 0,
                offset: FILE_HEADER_BYTES as u64,
            },
            packet: PacketHeader::default(),
            bytes: 0..0,
        }
    }

    #[inline]
    pub(super) fn frame(&self) -> Frame<'_> {
        Frame {
            number: self.place.number,
            offset: self.place.offset,
            timestamp_ns: self.packet.time_ns,
            link_type: self.header.link_type,
            wire_bytes: self.packet.wire_bytes,
            bytes: self.buffer.get(self.bytes.clone()).unwrap_or_default(),
        }
    }

    /// Goes to the next packet; tells whether there is one.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<bool, CaptureError> {
        // Behind the current packet, if there is one.
        if self.bytes.end > self.from {
            self.place.offset += (self.bytes.end - self.from) as u64;
            self.from = self.bytes.end;
        }
        loop {
            let data = &self.buffer[self.from..self.to];
            let wanted = match data.first_chunk() {
                Some(bytes) => {
                    self.packet = self.header.packet(bytes);
                    if self.packet.captured_bytes == 0 && FileHeader::begins_at(bytes) {
                        self.begin_anew()?;
                        continue;
                    }
                    PACKET_HEADER_BYTES + self.packet.captured_bytes as usize
                }
                None => PACKET_HEADER_BYTES,
            };
            if wanted > PACKET_HEADER_BYTES + FRAME_MAX_BYTES {
                return Err(self.place.broken(TOO_LARGE));
            }
            if wanted <= data.len() {
                self.bytes = self.from + PACKET_HEADER_BYTES..self.from + wanted;
                self.place.number += 1;
                return Ok(true);
            }
            let is_border = data.is_empty();
            if !self.read(wanted)? {
                return match is_border {
                    true => Ok(false),
                    false => Err(self.place.cut()),
                };
            }
        }
    }

    /// Goes past the header of another file behind this one, which says how its packets are written.
    #[cold]
    fn begin_anew(&mut self) -> Result<(), CaptureError> {
        loop {
            if let Some(header) = FileHeader::parse(&self.buffer[self.from..self.to]) {
                self.header = header;
                self.from += FILE_HEADER_BYTES;
                self.place.offset += FILE_HEADER_BYTES as u64;
                return Ok(());
            }
            if !self.read(FILE_HEADER_BYTES)? {
                return Err(self.place.cut());
            }
        }
    }

    /// Reads on, with room for so many bytes in one piece; tells whether something came.
    #[cold]
    fn read(&mut self, wanted: usize) -> Result<bool, CaptureError> {
        self.buffer.copy_within(self.from..self.to, 0);
        (self.from, self.to, self.bytes) = (0, self.to - self.from, 0..0);
        if wanted > self.buffer.len() {
            self.buffer.resize(wanted.next_power_of_two(), 0);
        }
        loop {
            match self.source.read(&mut self.buffer[self.to..]) {
                Ok(bytes) => {
                    self.to += bytes;
                    return Ok(bytes > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(self.place.unreadable()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Cursor};

    use proptest::prelude::*;

    use super::super::blocks::Blocks;
    use super::*;

    /// Bytes that come in pieces of so many.
    struct Pieces {
        bytes: Cursor<Vec<u8>>,
        most: usize,
    }

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = self.most.min(buffer.len());
            self.bytes.read(&mut buffer[..most])
        }
    }

    /// A packet as it was read: number, place, time, link, length on the wire, bytes.
    type Told = (u64, u64, u64, i32, u32, Vec<u8>);

    fn told(frame: &Frame<'_>) -> Told {
        let bytes = frame.bytes.to_vec();
        let place = (frame.number, frame.offset, frame.timestamp_ns);
        let kind = (frame.link_type, frame.wire_bytes);
        (place.0, place.1, place.2, kind.0, kind.1, bytes)
    }

    /// All packets, and how it ended: the error's place in words, or nothing.
    fn all(mut next: impl FnMut() -> Result<Option<Told>, CaptureError>) -> (Vec<Told>, String) {
        let mut packets = Vec::new();
        loop {
            match next() {
                Ok(Some(packet)) => packets.push(packet),
                Ok(None) => return (packets, String::new()),
                Err(error) => return (packets, error.to_string()),
            }
        }
    }

    fn file(magic: [u8; 4], packets: &[(u32, u32, Vec<u8>)], is_big: bool) -> Vec<u8> {
        let word = |value: u32| match is_big {
            true => value.to_be_bytes(),
            false => value.to_le_bytes(),
        };
        let mut file = magic.to_vec();
        file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
        file.extend(word(1));
        for (time, wire_bytes, bytes) in packets {
            for value in [*time, time ^ 0x0f0f, bytes.len() as u32, *wire_bytes] {
                file.extend(word(value));
            }
            file.extend(bytes);
        }
        file
    }

    proptest! {
        /// The library reads the same packets, whatever the pieces in which they come and wherever the file ends.
        #[test]
        fn packets_are_those_that_the_library_reads(
            packets in proptest::collection::vec((any::<u32>(), 0_u32..3_000, proptest::collection::vec(any::<u8>(), 0..2_000)), 0..200),
            (is_big, is_ns) in any::<(bool, bool)>(),
            cut in 0_usize..50,
            most in 1_usize..20_000,
        ) {
            let magic: u32 = if is_ns { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
            let magic = if is_big { magic.to_be_bytes() } else { magic.to_le_bytes() };
            let mut file = file(magic, &packets, is_big);
            file.truncate(file.len().saturating_sub(cut).max(FILE_HEADER_BYTES));
            let header = FileHeader::parse(&file).unwrap();
            let start = file[..file.len().min(4_096)].to_vec();
            let rest = Pieces { bytes: Cursor::new(file[start.len()..].to_vec()), most };
            let mut classic = Classic::new(header, &start, Box::new(rest));
            let own = all(|| Ok(classic.advance()?.then(|| told(&classic.frame()))));
            let mut blocks = Blocks::new(Cursor::new(file), false).unwrap();
            let library = all(|| Ok(blocks.advance()?.then(|| told(&blocks.frame()))));
            prop_assert_eq!(own, library);
        }
    }
}
