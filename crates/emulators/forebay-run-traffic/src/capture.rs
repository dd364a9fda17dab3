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
