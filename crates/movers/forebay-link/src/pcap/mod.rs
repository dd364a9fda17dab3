//! UDP datagrams out of a capture file.
//!
//! Reads classic pcap (µs and ns, both byte orders) and pcapng, compressed by gzip or Zstandard or not, with Ethernet (VLAN tags too), Linux cooked, raw IP and
//! loopback frames. IPv4 fragments are put together, within limits. Whatever else is in a capture is skipped and
//! counted by reason; broken packets are also named with their number and offset.

mod blocks;
mod classic;
mod compressed;
mod fragments;
mod frames;
mod pace;
mod packet;

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;

use forebay_wire::packet::PacketError;
use fragments::Fragments;
pub use fragments::{FRAGMENT_LIFE_NS, FRAGMENTED_MAX};
pub use frames::{FRAME_MAX_BYTES, Frame, Frames};
pub use pace::Pace;
use packet::{Content, FrameError, Udp};

/// The most broken packets that are named; all are counted.
pub const DEFECTS_MAX: usize = 100;

/// Why a capture cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be opened.
    #[error("{path}: {source}")]
    Open {
        /// Its path.
        path: String,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// Its first bytes cannot be read, or what compresses them is broken.
    #[error("its begin cannot be read: {0}")]
    Begin(String),
    /// There is nothing in it.
    #[error("{what} is empty (0 bytes): what writes it failed, or has written nothing yet")]
    Empty {
        /// It, or what is compressed in it.
        what: &'static str,
    },
    /// Neither pcap nor pcapng.
    #[error("not a capture: the first bytes are neither pcap nor pcapng")]
    NotACapture,
    /// Reading failed, or what compresses the file is broken.
    #[error("reading failed after packet {packet} at offset {offset}: {why}")]
    Read {
        /// The last packet that was read.
        packet: u64,
        /// Where the next one starts in the file, or in what is compressed in it.
        offset: u64,
        /// What the system says, or what is wrong.
        why: String,
    },
    /// What compresses the file breaks off: it was cut, or is still being written.
    #[error(
        "its {form} stream ends early, after packet {packet}, at offset {offset} of what it holds: \
         the file was cut, or is still being written; all before was read"
    )]
    CutStream {
        /// How it is compressed: gzip or Zstandard.
        form: &'static str,
        /// The last packet that was read.
        packet: u64,
        /// Where the next one starts in what is compressed.
        offset: u64,
    },
    /// The file ends within a packet: it was cut, or is still being written.
    #[error("the file ends within packet {packet} at offset {offset}; all before it was read")]
    Cut {
        /// The packet that is not whole.
        packet: u64,
        /// Where it starts in the file.
        offset: u64,
    },
    /// A packet's header says nonsense.
    #[error("packet {packet} at offset {offset} is broken: {what}")]
    Broken {
        /// Its number, the first is 1.
        packet: u64,
        /// Where it starts in the file.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// Frames of a kind that is not read here.
    #[error(
        "packet {packet} at offset {offset} has link type {link_type}; Ethernet (1), raw IP, Linux cooked and loopback are read"
    )]
    LinkType {
        /// Its number.
        packet: u64,
        /// Where it starts in the file.
        offset: u64,
        /// The number of the link type (see tcpdump.org/linktypes.html).
        link_type: i32,
    },
}

/// One UDP datagram from a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// Number of the packet (the last one, if fragmented), the first is 1; as in other programs.
    pub packet: u64,
    /// When it was captured, ns since 1970.
    pub timestamp_ns: u64,
    /// Its sender.
    pub from: SocketAddr,
    /// Where it went.
    pub to: SocketAddr,
    /// Its bytes.
    pub payload: Vec<u8>,
}

/// What was in the capture, in packets unless said otherwise.
///
/// Each is counted where it happens, none from the others, so that these must hold:
/// `packets = whole + fragments + not_udp + truncated + malformed` (and so for their frames' bytes),
/// `datagrams = whole + reassembled`, `begun = reassembled + reassembly_failed + unfinished`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CaptureCounters {
    /// All packets.
    pub packets: u64,
    /// Bytes of their frames, as captured.
    pub packet_bytes: u64,
    /// Datagrams that came in one packet.
    pub whole: u64,
    /// Bytes of these packets' frames.
    pub whole_frame_bytes: u64,
    /// Payload bytes of all datagrams that were whole in the end, counted when they became so.
    pub whole_payload_bytes: u64,
    /// UDP datagrams handed out.
    pub datagrams: u64,
    /// Payload bytes of these.
    pub payload_bytes: u64,
    /// Not IP, or not UDP.
    pub not_udp: u64,
    /// Bytes of their frames.
    pub not_udp_bytes: u64,
    /// Cut by the capture's snap length, so that the datagram is lost.
    pub truncated: u64,
    /// What the capture holds of their frames, in bytes.
    pub truncated_bytes: u64,
    /// Headers that contradict themselves or their packet.
    pub malformed: u64,
    /// Bytes of their frames.
    pub malformed_bytes: u64,
    /// IP fragments of UDP datagrams.
    pub fragments: u64,
    /// Bytes of their frames.
    pub fragment_bytes: u64,
    /// Datagrams of which a first fragment came.
    pub begun: u64,
    /// Datagrams put together from fragments.
    pub reassembled: u64,
    /// Datagrams given up, in datagrams: a fragment missing, too old, overlapping or too many at once.
    pub reassembly_failed: u64,
}

/// A broken packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defect {
    /// Its number, the first is 1.
    pub packet: u64,
    /// Where it starts in the file.
    pub offset: u64,
    /// What is wrong.
    pub reason: Skip,
}

impl std::fmt::Display for Defect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "packet {} at offset {}: {}",
            self.packet, self.offset, self.reason
        )
    }
}

/// Why a packet gave no datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Skip {
    /// Another protocol.
    #[error("not UDP over IP")]
    NotUdp,
    /// The capture holds less than the packet had.
    #[error("cut by the capture's snap length")]
    Truncated,
    /// The headers are wrong.
    #[error("{0}")]
    Malformed(PacketError),
    /// A part of an IPv6 packet.
    #[error("IPv6 fragments are not put together")]
    Ipv6Fragment,
}

/// A capture, read packet by packet.
pub struct Capture {
    frames: Frames,
    fragments: Fragments,
    counters: CaptureCounters,
    defects: Vec<Defect>,
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capture")
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl Capture {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be opened or is no capture.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let file = File::open(path).map_err(|source| CaptureError::Open {
            path: path.display().to_string(),
            source,
        })?;
        Self::new(file)
    }

    /// Reads from `source`.
    ///
    /// # Errors
    /// When it is no capture.
    pub fn new(source: impl Read + Send + 'static) -> Result<Self, CaptureError> {
        Ok(Self {
            frames: Frames::new(source)?,
            fragments: Fragments::default(),
            counters: CaptureCounters::default(),
            defects: Vec::new(),
        })
    }

    /// The next UDP datagram; `None` at the end. After an error there is no more.
    ///
    /// # Errors
    /// When the file itself is broken; packets that are merely of no use are skipped and counted.
    pub fn next_datagram(&mut self) -> Result<Option<Captured>, CaptureError> {
        while self.frames.advance()? {
            self.counters.packets += 1;
            self.counters.packet_bytes += self.frames.frame().bytes.len() as u64;
            match self.read_packet() {
                Ok(Some(captured)) => {
                    self.counters.datagrams += 1;
                    self.counters.payload_bytes += captured.payload.len() as u64;
                    return Ok(Some(captured));
                }
                Ok(None) => {}
                Err(skip) => self.note(skip)?,
            }
        }
        Ok(None)
    }

    /// What was read so far.
    #[must_use]
    pub fn counters(&self) -> CaptureCounters {
        CaptureCounters {
            begun: self.fragments.begun(),
            reassembly_failed: self.fragments.failed(),
            ..self.counters
        }
    }

    /// Datagrams of which fragments are still missing.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.fragments.open()
    }

    /// The first [`DEFECTS_MAX`] broken packets.
    #[must_use]
    pub fn defects(&self) -> &[Defect] {
        &self.defects
    }

    fn read_packet(&mut self) -> Result<Option<Captured>, FrameError> {
        let frame = self.frames.frame();
        let packet = packet::network_layer(frame.link_type, frame.bytes, frame.is_cut())?;
        let captured = |udp: &Udp<'_>| Captured {
            packet: frame.number,
            timestamp_ns: frame.timestamp_ns,
            from: udp.from,
            to: udp.to,
            payload: udp.payload.to_vec(),
        };
        match packet::content(packet, frame.is_cut()).map_err(FrameError::Skip)? {
            Content::Datagram(udp) => {
                self.counters.whole += 1;
                self.counters.whole_frame_bytes += frame.bytes.len() as u64;
                self.counters.whole_payload_bytes += udp.payload.len() as u64;
                Ok(Some(captured(&udp)))
            }
            Content::Fragment(fragment) => {
                self.counters.fragments += 1;
                self.counters.fragment_bytes += frame.bytes.len() as u64;
                let Some(whole) = self.fragments.insert(frame.timestamp_ns, &fragment) else {
                    return Ok(None);
                };
                match Udp::new(fragment.source, fragment.destination, &whole) {
                    Ok(udp) => {
                        self.counters.reassembled += 1;
                        self.counters.whole_payload_bytes += udp.payload.len() as u64;
                        Ok(Some(captured(&udp)))
                    }
                    Err(_) => {
                        self.fragments.fail();
                        Ok(None)
                    }
                }
            }
        }
    }

    fn note(&mut self, reject: FrameError) -> Result<(), CaptureError> {
        let frame = self.frames.frame();
        let (packet, offset, bytes) = (frame.number, frame.offset, frame.bytes.len() as u64);
        let reason = match reject {
            FrameError::Skip(skip) => skip,
            FrameError::LinkType(link_type) => {
                self.counters.malformed += 1;
                self.counters.malformed_bytes += bytes;
                return Err(CaptureError::LinkType {
                    packet,
                    offset,
                    link_type,
                });
            }
        };
        match reason {
            Skip::NotUdp => {
                self.counters.not_udp += 1;
                self.counters.not_udp_bytes += bytes;
                return Ok(());
            }
            Skip::Truncated => {
                self.counters.truncated += 1;
                self.counters.truncated_bytes += bytes;
            }
            Skip::Malformed(_) | Skip::Ipv6Fragment => {
                self.counters.malformed += 1;
                self.counters.malformed_bytes += bytes;
            }
        }
        if self.defects.len() < DEFECTS_MAX {
            self.defects.push(Defect {
                packet,
                offset,
                reason,
            });
        }
        Ok(())
    }
}
