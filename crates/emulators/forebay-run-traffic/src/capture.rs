//! The capture that packets go into.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use forebay_run::whole_file::WholeFile;
use forebay_traffic::{FRAME_BYTES_MAX, Packet};
use forebay_wire::pcap::{file_header, packet_header};

use crate::{TrafficError, writing};

/// What is written at once, in bytes.
const BUFFER_BYTES: usize = 1 << 20;
/// Times of this form of captures end in 2106, in ns since 1970.
const END_NS: u64 = (1 << 32) * 1_000_000_000;
/// Link type of Ethernet.
const ETHERNET: u32 = 1;

/// Packets, and octets of IP in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) packets: u64,
    pub(crate) octets: u64,
}

/// A file that has its name when it is whole.
pub(crate) struct Capture {
    file: WholeFile,
    to: File,
    path: PathBuf,
    buffer: Vec<u8>,
    pub(crate) buffered: Amount,
    pub(crate) written: Amount,
    /// What could not be written.
    pub(crate) unwritten: Amount,
}

impl Capture {
    pub(crate) fn create(path: &Path, snap_bytes: Option<u32>) -> Result<Self, TrafficError> {
        let path = path.to_path_buf();
        let file = WholeFile::create(&path, "--pcap")?;
        let to = file.handle().map_err(writing(&path))?;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + FRAME_BYTES_MAX);
        let snap = snap_bytes.unwrap_or(FRAME_BYTES_MAX as u32);
        buffer.extend(file_header(ETHERNET, snap));
        Ok(Self {
            file,
            to,
            path,
            buffer,
            buffered: Amount::default(),
            written: Amount::default(),
            unwritten: Amount::default(),
        })
    }

    /// Takes a packet into the buffer.
    #[inline]
    pub(crate) fn take(
        &mut self,
        at_ns: u64,
        packet: &Packet,
        frame: &[u8],
    ) -> Result<(), TrafficError> {
        if at_ns >= END_NS {
            self.unwritten.packets += 1;
            self.unwritten.octets += u64::from(packet.ip_bytes);
            return Err(TrafficError::Late { row: packet.row });
        }
        let header = packet_header(at_ns, frame.len() as u32, packet.wire_bytes as u32);
        self.buffer.extend_from_slice(&header);
        self.buffer.extend_from_slice(frame);
        self.buffered.packets += 1;
        self.buffered.octets += u64::from(packet.ip_bytes);
        if self.buffer.len() < BUFFER_BYTES {
            return Ok(());
        }
        self.write()
    }

    /// Writes the buffer.
    pub(crate) fn write(&mut self) -> Result<(), TrafficError> {
        let done = self.to.write_all(&self.buffer);
        self.buffer.clear();
        let buffered = std::mem::take(&mut self.buffered);
        let to = if done.is_ok() {
            &mut self.written
        } else {
            &mut self.unwritten
        };
        to.packets += buffered.packets;
        to.octets += buffered.octets;
        done.map_err(writing(&self.path))
    }

    /// Gives it its name.
    pub(crate) fn finish(self) -> Result<(), TrafficError> {
        let Self { file, path, .. } = self;
        file.finish().map_err(writing(&path))
    }
}

#[cfg(test)]
mod tests {
    use forebay_traffic::Direction;

    use super::*;

    fn packet(ip_bytes: u32) -> Packet {
        Packet {
            at_ns: 0,
            row: 7,
            direction: Direction::Forward,
            ip_bytes,
            wire_bytes: 1_500,
            captured_bytes: 60,
            tcp_flags: 0,
            is_last: false,
        }
    }

    fn amount(packets: u64, octets: u64) -> Amount {
        Amount { packets, octets }
    }

    fn terms(capture: &Capture) -> [Amount; 3] {
        [capture.buffered, capture.written, capture.unwritten]
    }

    #[test]
    fn each_packet_is_buffered_written_or_not_and_the_file_has_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcap");
        let mut capture = Capture::create(&path, None).unwrap();
        let none = Amount::default();
        // Seconds have 32 bits.
        assert_eq!(END_NS / 1_000_000_000, u64::from(u32::MAX) + 1);
        capture.take(1, &packet(40), &[1; 60]).unwrap();
        capture.take(END_NS - 1, &packet(50), &[2; 64]).unwrap();
        assert_eq!(terms(&capture), [amount(2, 90), none, none]);
        let late = capture.take(END_NS, &packet(1_000), &[3; 60]);
        assert!(matches!(late, Err(TrafficError::Late { row: 7 })));
        assert_eq!(terms(&capture), [amount(2, 90), none, amount(1, 1_000)]);
        capture.write().unwrap();
        assert_eq!(terms(&capture), [none, amount(2, 90), amount(1, 1_000)]);
        capture.take(2, &packet(60), &[4; 60]).unwrap();
        capture.write().unwrap();
        assert_eq!(terms(&capture), [none, amount(3, 150), amount(1, 1_000)]);
        // A disk that is full.
        let full = File::options().write(true).open("/dev/full").unwrap();
        let disk = std::mem::replace(&mut capture.to, full);
        capture.take(3, &packet(70), &[5; 60]).unwrap();
        capture.take(3, &packet(7), &[5; 60]).unwrap();
        assert!(capture.write().is_err());
        assert_eq!(
            terms(&capture),
            [none, amount(3, 150), amount(3, 1_000 + 77)]
        );
        capture.to = disk;
        capture.finish().unwrap();
        // The header of the file, those of three packets, and what was captured of them.
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 24 + 3 * 16 + 60 + 64 + 60);
    }

    #[test]
    fn a_buffer_that_is_full_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut capture = Capture::create(&folder.path().join("a.pcap"), None).unwrap();
        let frame = [0; 408];
        let packets = (BUFFER_BYTES - 24) / (16 + frame.len());
        assert_eq!(24 + packets * (16 + frame.len()), BUFFER_BYTES);
        for at in 1..=packets as u64 {
            let before = terms(&capture);
            assert_eq!(
                before,
                [amount(at - 1, 9 * (at - 1)), amount(0, 0), amount(0, 0)]
            );
            capture.take(at, &packet(9), &frame).unwrap();
        }
        let all = amount(packets as u64, 9 * packets as u64);
        assert_eq!(terms(&capture), [amount(0, 0), all, amount(0, 0)]);
    }
}
