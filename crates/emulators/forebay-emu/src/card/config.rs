//! What an emulated card is to do: plain fields with their units in the names.

use forebay_wire::felix::{BlockFormat, DMA_BUFFERS_MAX, Elink, PacketFormat};
use thiserror::Error;

use super::fault::CardFaultRule;
use super::sizes::ChunkSizes;
use super::ttc::TtcConfig;
use crate::config::{ConfigError, in_range};

/// Least and most DMA buffers of a device.
pub const DMA_BUFFERS: (usize, usize) = (1, DMA_BUFFERS_MAX);
/// Least and most bytes of a chunk: the head of its payload, and what 16 bits can say.
pub const CHUNK_BYTES: (u32, u32) = (8, 65_535);
/// Least and most E-links of a card.
pub const CARD_ELINKS: (usize, usize) = (1, 512);
/// Words of a link in FULL mode in one second: 9.6 Gb/s, of which 8b10b leaves 7.68.
pub const FULL_WORDS_HZ: u64 = 240_000_000;

/// An emulated FELIX card.
///
/// [`CardConfig::full_mode`] has the defaults, field by field.
#[derive(Debug, Clone, PartialEq)]
pub struct CardConfig {
    /// Size, marker and layout of blocks. Default Phase II, 4 KiB: what published measurements use.
    pub format: BlockFormat,
    /// The E-links; 1 to 512, no number twice.
    pub elinks: Vec<ElinkConfig>,
    /// DMA buffers, 1 to 8. Default 1.
    pub buffers: usize,
    /// When triggers come, and how many.
    pub ttc: TtcConfig,
    /// How long chunks are.
    pub sizes: ChunkSizes,
    /// The queue in front of each link.
    pub front_end: FrontEnd,
    /// The queue behind each link.
    pub fifo: LinkFifo,
    /// A block that is not full goes out so long after the first byte came into it, in nanoseconds, 1,000 to 1,000,000,000. Default 1 ms: at low rates it is the
    /// latency, at high ones it should be longer than a block takes to be filled.
    pub block_timeout_ns: u64,
    /// All that is random follows from it. Default 1.
    pub seed: u64,
    /// What goes wrong. Default nothing.
    pub faults: Vec<CardFaultRule>,
}

/// One E-link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElinkConfig {
    /// Its number.
    pub elink: Elink,
    /// How fast it is.
    pub speed: Speed,
    /// The DMA buffer that its blocks go into, counted from 0.
    pub buffer: usize,
    /// First byte of each chunk: the stream. Default none, which is 0xAA.
    pub stream: Option<u8>,
    /// Whether its front end sends back each message that it is sent, as a chunk, and answers no trigger. Default no: messages are counted, and forgotten.
    pub loop_back: bool,
}

/// What a chunk costs on an E-link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speed {
    /// A whole link: 240 million words of 4 bytes in a second. A chunk costs its words, one before, one behind, and one idle.
    Full,
    /// A part of a GBT or lpGBT link: so many bits each 25 ns, of which 8b10b leaves 4 in 5. A chunk costs its bytes and two symbols around it.
    Gbt {
        /// 2, 4, 8, 16 or 32.
        width_bits: u8,
    },
}

/// What is in front of a link: a queue of chunks, and where messages go. When the queue is full to the high mark, the front end is BUSY and no triggers come, until it is
/// down to the low mark. One that sends messages back takes none meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrontEnd {
    /// Chunks at which BUSY goes up, which is also the most that there can be: 1 to 4,096. Default 256: as deep as a batch that is made at once.
    pub busy_on_chunks: u64,
    /// Chunks at which BUSY goes down; less than the above. Default 128.
    pub busy_off_chunks: u64,
    /// BUSY goes up too when a DMA buffer has fewer free blocks than this; 0 to 1,048,576. Default 0: not before the queues are full. What is on its way when it
    /// goes up should fit into them: about a batch, which is 128 triggers or 2 MiB of chunks at most, and is smaller close to this mark.
    pub busy_on_free_blocks: u64,
    /// It goes down when all of them have so many again, or are empty; more than the above, to 1,048,576. Default 0: there is no such mark.
    pub busy_off_free_blocks: u64,
    /// Format of the packets in which messages to front ends come. Default that of Phase II.
    pub packets: PacketFormat,
    /// Longest message to a front end, 1 to 1,048,576 bytes; a longer one is lost by name. Default 16,384: what fits between XOFF and the end of the queue
    /// behind a link, so that nothing that is sent back is cut off.
    pub message_bytes_max: u32,
}

/// The queue of bytes behind a link, which fills while the DMA buffer is full. From the high mark on the front end is told to stop (XOFF), from the low mark on it may go on
/// (XON). What does not fit is cut off or dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkFifo {
    /// Its size, 1,024 to 16,777,216 bytes. Default 64 KiB.
    pub bytes: usize,
    /// XOFF, in sixteenths of the size: 1 to 15. Default 12.
    pub xoff_sixteenths: u8,
    /// XON, in sixteenths: 0 to 14, below XOFF. Default 4.
    pub xon_sixteenths: u8,
}

impl Default for FrontEnd {
    fn default() -> Self {
        Self {
            busy_on_chunks: 256,
            busy_off_chunks: 128,
            busy_on_free_blocks: 0,
            busy_off_free_blocks: 0,
            packets: PacketFormat::default(),
            message_bytes_max: 1 << 14,
        }
    }
}

impl Default for LinkFifo {
    fn default() -> Self {
        Self {
            bytes: 64 << 10,
            xoff_sixteenths: 12,
            xon_sixteenths: 4,
        }
    }
}

impl ElinkConfig {
    /// A whole link, into the first DMA buffer; none above link 23.
    #[must_use]
    pub fn full(link: u16) -> Option<Self> {
        Some(Self {
            elink: Elink::of_link(link).filter(|_| link < 24)?,
            speed: Speed::Full,
            buffer: 0,
            stream: None,
            loop_back: false,
        })
    }
}

impl Speed {
    /// Bits that the head of a payload names; 16 in FULL mode.
    #[must_use]
    pub const fn width_bits(self) -> u8 {
        match self {
            Self::Full => 16,
            Self::Gbt { width_bits } => width_bits,
        }
    }
}

impl CardConfig {
    /// So many links in FULL mode (at most 24), chunks of one size, triggers at a fixed rate, all into one DMA buffer.
    #[must_use]
    pub fn full_mode(links: u16, rate_hz: f64, chunk_bytes: u32) -> Self {
        Self {
            // Each number is below 2^16, and the card has a format of 4 KiB.
            format: BlockFormat::phase2(4096).unwrap_or(BlockFormat::PHASE1_WIDE),
            elinks: (0..links).filter_map(ElinkConfig::full).collect(),
            buffers: 1,
            ttc: TtcConfig::at_rate(rate_hz),
            sizes: ChunkSizes::Fixed { bytes: chunk_bytes },
            front_end: FrontEnd::default(),
            fifo: LinkFifo::default(),
            block_timeout_ns: 1_000_000,
            seed: 1,
            faults: Vec::new(),
        }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the field, the value and what would be right.
    pub fn validate(&self) -> Result<(), CardConfigError> {
        let (low, high) = DMA_BUFFERS;
        in_range("buffers", self.buffers, low, high)?;
        let (low, high) = CARD_ELINKS;
        in_range("number of elinks", self.elinks.len(), low, high)?;
        self.sizes.validate()?;
        self.ttc.validate(self.buffers)?;
        let queue = self.front_end;
        in_range("front_end.busy_on_chunks", queue.busy_on_chunks, 1, 4096)?;
        let below = queue.busy_on_chunks - 1;
        in_range("front_end.busy_off_chunks", queue.busy_off_chunks, 0, below)?;
        let (on, off) = (queue.busy_on_free_blocks, queue.busy_off_free_blocks);
        let most = 1 << 20;
        in_range("front_end.busy_on_free_blocks", on, 0, most - 1)?;
        let above = if on > 0 { on + 1 } else { 0 };
        in_range("front_end.busy_off_free_blocks", off, above, most)?;
        let longest = queue.message_bytes_max;
        in_range("front_end.message_bytes_max", longest, 1, 1 << 20)?;
        let fifo = self.fifo;
        in_range("fifo.bytes", fifo.bytes, 1 << 10, 16 << 20)?;
        in_range("fifo.xoff_sixteenths", fifo.xoff_sixteenths, 1, 15)?;
        let below = fifo.xoff_sixteenths - 1;
        in_range("fifo.xon_sixteenths", fifo.xon_sixteenths, 0, below)?;
        let longest = 1_000_000_000;
        in_range("block_timeout_ns", self.block_timeout_ns, 1000, longest)?;
        self.validate_elinks()?;
        // What is sent back is as it came: nothing befalls it on the link.
        let answering = self.elinks.iter().filter(|one| !one.loop_back);
        let mut elinks: Vec<Elink> = answering.map(|one| one.elink).collect();
        elinks.extend(self.ttc.to_host.map(|_| Elink::TTC_TO_HOST));
        let layout = self.format.layout();
        let mut faults = self.faults.iter();
        faults.try_for_each(|rule| rule.validate(&elinks, layout))
    }

    fn validate_elinks(&self) -> Result<(), CardConfigError> {
        let mut seen = std::collections::BTreeSet::new();
        if self.ttc.to_host.is_some() {
            seen.insert(Elink::TTC_TO_HOST);
        }
        for one in &self.elinks {
            let elink = one.elink;
            if !seen.insert(elink) {
                return Err(CardConfigError::Twice { elink });
            }
            if one.buffer >= self.buffers {
                let (buffer, buffers) = (one.buffer, self.buffers);
                return Err(CardConfigError::Buffer {
                    elink,
                    buffer,
                    buffers,
                });
            }
            match one.speed {
                Speed::Full if !elink.number().is_multiple_of(64) => {
                    return Err(CardConfigError::FullNumber { elink });
                }
                Speed::Gbt { width_bits } if ![2, 4, 8, 16, 32].contains(&width_bits) => {
                    return Err(CardConfigError::Width { elink, width_bits });
                }
                Speed::Full | Speed::Gbt { .. } => {}
            }
        }
        Ok(())
    }
}

/// A card that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CardConfigError {
    /// A value outside its range.
    #[error(transparent)]
    Range(#[from] ConfigError),
    /// An E-link that is there twice; the one for messages about triggers is 0x600.
    #[error("elinks has E-link {elink} twice; each number may be there once")]
    Twice {
        /// The E-link.
        elink: Elink,
    },
    /// A DMA buffer that is not there.
    #[error("elinks: {elink} goes into DMA buffer {buffer}; there are {buffers}, counted from 0")]
    Buffer {
        /// Whose.
        elink: Elink,
        /// Which it names.
        buffer: usize,
        /// How many there are.
        buffers: usize,
    },
    /// A link in FULL mode has one E-link only.
    #[error("elinks: {elink} is a link in FULL mode; its number must be a multiple of 64")]
    FullNumber {
        /// The E-link.
        elink: Elink,
    },
    /// A fault on an E-link that is not there, or answers no trigger.
    #[error(
        "faults: there is no E-link {elink} that answers triggers; name one of elinks, or none for all"
    )]
    FaultElink {
        /// The E-link.
        elink: Elink,
    },
    /// A flag that the format does not have.
    #[error("faults: 16-bit trailers have no flag for busy; take a format with 32-bit ones")]
    BusyFlag,
    /// No width of an E-link.
    #[error("elinks: {elink} has {width_bits} bits; it must be 2, 4, 8, 16 or 32")]
    Width {
        /// Whose.
        elink: Elink,
        /// What it is.
        width_bits: u8,
    },
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::super::fault::CardFault;
    use super::*;

    #[test]
    fn what_cannot_be_is_named() {
        type Spoil = fn(&mut CardConfig);
        let cases: [(&str, Spoil); 21] = [
            ("buffers is 9", |c| c.buffers = 9),
            ("number of elinks is 0", |c| c.elinks.clear()),
            ("sizes.bytes is 7", |c| {
                c.sizes = ChunkSizes::Fixed { bytes: 7 };
            }),
            ("sizes.max_bytes is 65536", |c| {
                c.sizes = ChunkSizes::Uniform {
                    min_bytes: 8,
                    max_bytes: 65_536,
                };
            }),
            ("ttc.rate_hz is NaN", |c| c.ttc.rate_hz = f64::NAN),
            ("ttc.to_host is 1", |c| c.ttc.to_host = Some(1)),
            ("front_end.busy_on_chunks is 0", |c| {
                c.front_end.busy_on_chunks = 0;
            }),
            ("front_end.busy_off_chunks is 256", |c| {
                c.front_end.busy_off_chunks = 256;
            }),
            ("front_end.busy_off_free_blocks is 8", |c| {
                c.front_end.busy_on_free_blocks = 8;
                c.front_end.busy_off_free_blocks = 8;
            }),
            ("front_end.message_bytes_max is 0", |c| {
                c.front_end.message_bytes_max = 0;
            }),
            ("no E-link 0x040 that answers", |c| {
                c.elinks[1].loop_back = true;
                let fault = CardFaultRule::new(CardFault::CrcFlag);
                c.faults = vec![fault.on(c.elinks[1].elink)];
            }),
            ("fifo.bytes is 1023", |c| c.fifo.bytes = 1023),
            ("fifo.xon_sixteenths is 12", |c| c.fifo.xon_sixteenths = 12),
            ("block_timeout_ns is 999", |c| c.block_timeout_ns = 999),
            ("0x000 twice", |c| c.elinks.push(c.elinks[0])),
            ("DMA buffer 3; there are 1", |c| c.elinks[1].buffer = 3),
            ("0x041 is a link in FULL", |c| {
                c.elinks[1].elink = Elink::new(65).unwrap();
            }),
            ("no E-link 0x600", |c| {
                let fault = CardFaultRule::new(CardFault::CrcFlag);
                c.faults = vec![fault.on(Elink::TTC_TO_HOST)];
            }),
            ("no flag for busy", |c| {
                c.format = BlockFormat::PHASE1;
                c.faults = vec![CardFaultRule::new(CardFault::BusyFlag)];
            }),
            ("faults.for_ns is 0", |c| {
                c.faults = vec![CardFaultRule::new(CardFault::StuckLink { for_ns: 0 })];
            }),
            ("has 3 bits", |c| {
                c.elinks[0].speed = Speed::Gbt { width_bits: 3 };
            }),
        ];
        assert_eq!(CardConfig::full_mode(24, 1e6, 16).validate(), Ok(()));
        for (words, spoil) in cases {
            let mut config = CardConfig::full_mode(2, 1e6, 16);
            spoil(&mut config);
            let error = config.validate().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
