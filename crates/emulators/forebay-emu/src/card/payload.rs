//! What chunks consist of, in pieces.

use forebay_wire::felix::{
    BLOCK_BYTES_MAX, Flags, GENERATED_HEAD_BYTES, Generated, Kind, Layout, Subchunk,
    TTC_MESSAGE_BYTES,
};

use super::config::ElinkConfig;
use super::loop_back::Messages;
use super::ttc::Trigger;

/// The ramp of generated data, so long that any piece of a block lies in it, wherever it begins.
static RAMP: [u8; BLOCK_BYTES_MAX + 256] = {
    let mut ramp = [0; BLOCK_BYTES_MAX + 256];
    let mut at = 0;
    while at < ramp.len() {
        ramp[at] = at as u8;
        at += 1;
    }
    ramp
};
/// What may be written behind a chunk, to be written over by what comes next: copies of a constant length are cheaper than exact ones.
pub(super) const SLACK_BYTES: usize = 64;

/// A chunk on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    pub(super) trigger: Trigger,
    /// Bytes that it was made with.
    pub(super) made_bytes: usize,
    /// Bytes that are left of it.
    pub(super) bytes: usize,
    pub(super) flags: Flags,
    pub(super) end: End,
    pub(super) flip: Option<Flip>,
    /// What befalls the block in which it ends.
    pub(super) spoil: Spoil,
    pub(super) random: u8,
}

/// How a chunk of several pieces ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Last,
    /// With the word of a time-out: the link was too slow.
    Timeout,
    /// It goes on for ever, and nothing comes.
    Never,
}

/// Bits of one byte of a chunk that are other ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flip {
    pub(super) at: u16,
    pub(super) mask: u8,
}

/// What is wrong with a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spoil {
    pub(super) lost: bool,
    pub(super) jumps: bool,
    pub(super) trailer: bool,
    pub(super) marker: bool,
}

impl Spoil {
    pub(super) fn add(&mut self, other: Self) {
        self.lost |= other.lost;
        self.jumps |= other.jumps;
        self.trailer |= other.trailer;
        self.marker |= other.marker;
    }
}

impl Chunk {
    /// As the front end makes it.
    #[inline]
    pub(super) fn new(trigger: Trigger, bytes: usize) -> Self {
        Self {
            trigger,
            made_bytes: bytes,
            bytes,
            flags: Flags::NONE,
            end: End::Last,
            flip: None,
            spoil: Spoil::default(),
            random: 0,
        }
    }
}

/// Makes the bytes of an E-link's chunks.
#[derive(Debug, Clone)]
pub(super) enum Payload {
    /// [`Generated`](forebay_wire::felix::Generated): first byte, E-link, width.
    Generated([u8; 3]),
    /// Messages about triggers, with this type.
    Ttc(u16),
    /// What the front end was sent.
    Looped(Messages),
}

impl Payload {
    pub(super) fn of(config: &ElinkConfig) -> Self {
        Self::Generated([
            config.stream.unwrap_or(0xaa),
            (config.elink.number() & 0x3f) as u8,
            config.speed.width_bits(),
        ])
    }

    /// The head of a generated chunk; that of a message is not asked for.
    #[inline]
    pub(super) fn head(&self, bytes: usize, l1id: u32) -> [u8; GENERATED_HEAD_BYTES] {
        let [first, elink, width] = match self {
            Self::Generated(constant) => *constant,
            Self::Ttc(_) | Self::Looped(_) => [0; 3],
        };
        let l1id = l1id as u8;
        let chunk = Generated {
            first,
            l1id,
            elink,
            width,
        };
        chunk.head((bytes - GENERATED_HEAD_BYTES) as u16)
    }

    /// Writes the piece of a chunk that begins with its byte `done`.
    pub(super) fn emit(&self, chunk: &Chunk, done: usize, to: &mut [u8]) {
        match self {
            Self::Generated(_) => {
                let head = self.head(chunk.made_bytes, chunk.trigger.l1id);
                let left = head.get(done..).unwrap_or_default();
                let (front, ramp) = to.split_at_mut(left.len().min(to.len()));
                front.copy_from_slice(&left[..front.len()]);
                let begin = done.saturating_sub(head.len()) % 256;
                ramp.copy_from_slice(&RAMP[begin..begin + ramp.len()]);
            }
            Self::Ttc(trigger_type) => {
                let message: [u8; TTC_MESSAGE_BYTES] = chunk.trigger.message(*trigger_type).emit();
                to.copy_from_slice(&message[done..done + to.len()]);
            }
            Self::Looped(messages) => messages.copy(chunk.trigger.number, done, to),
        }
        if let Some(flip) = chunk.flip
            && let Some(byte) = usize::from(flip.at)
                .checked_sub(done)
                .and_then(|at| to.get_mut(at))
        {
            *byte ^= flip.mask;
        }
    }
}

/// Where word and data of a subchunk lie, and how much of the block they take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) data: usize,
    pub(super) word: usize,
    pub(super) stride: usize,
}

impl Place {
    /// Of a subchunk that begins at 0.
    #[inline]
    pub(super) fn of(layout: Layout, bytes: usize) -> Self {
        let word_bytes = layout.word_bytes();
        // The size of a word is a power of two.
        let padded = (bytes + word_bytes - 1) & !(word_bytes - 1);
        let (data, word) = match layout {
            Layout::Headers32 => (word_bytes, 0),
            Layout::Trailers16 | Layout::Trailers32 => (0, padded),
        };
        Self {
            data,
            word,
            stride: padded + word_bytes,
        }
    }
}

/// Writes a whole generated chunk at the beginning of `to`, which has [`SLACK_BYTES`] more than it needs.
#[inline]
pub(super) fn emit_whole(layout: Layout, head: [u8; 8], bytes: usize, to: &mut [u8]) -> usize {
    let Place { data, word, stride } = Place::of(layout, bytes);
    to[data..data + 8].copy_from_slice(&head);
    let ramp = bytes - head.len();
    to[data + 8..data + bytes].copy_from_slice(&RAMP[..ramp]);
    to[data + bytes..data + bytes + 4].fill(0);
    let subchunk = Subchunk {
        kind: Kind::Both,
        flags: Flags::NONE,
        bytes: bytes as u16,
    };
    subchunk.emit(layout, &mut to[word..]);
    stride
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use forebay_wire::felix::{BlockFormat, BlockWriter, Elink};

    use super::*;

    const TRIGGER: Trigger = Trigger {
        number: 0,
        l1id: 0x1234_5678,
        at: 0,
    };

    fn payload() -> Payload {
        let mut config = ElinkConfig::full(3).unwrap();
        config.stream = Some(9);
        Payload::of(&config)
    }

    #[test]
    fn pieces_are_those_of_the_generator() {
        let made = Generated {
            first: 9,
            l1id: 0x78,
            elink: 0,
            width: 16,
        };
        for bytes in [8, 9, 16, 700, 16_000] {
            let mut expected = vec![0; bytes];
            assert!(made.emit(&mut expected));
            let chunk = Chunk::new(TRIGGER, bytes);
            for piece in [3, 8, 300, 16_384] {
                let mut found = vec![0; bytes];
                for (n, to) in found.chunks_mut(piece).enumerate() {
                    payload().emit(&chunk, n * piece, to);
                }
                assert_eq!(found, expected, "{bytes} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn a_whole_chunk_is_as_a_writer_of_blocks_has_it() {
        let formats = [
            BlockFormat::PHASE1,
            BlockFormat::PHASE1_WIDE,
            BlockFormat::PHASE1_WIDE.with_headers(),
        ];
        for format in formats {
            for bytes in [8, 9, 10, 11, 12, 500, 1000] {
                let chunk = Chunk::new(TRIGGER, bytes);
                let mut expected = vec![0; format.bytes()];
                let mut block =
                    BlockWriter::begin(format, Elink::default(), 0, &mut expected).unwrap();
                let to = block.reserve(Kind::Both, Flags::NONE, bytes).unwrap();
                payload().emit(&chunk, 0, to);
                let end = block.filled();
                let mut found = vec![0xff; format.bytes() + SLACK_BYTES];
                let head = payload().head(bytes, TRIGGER.l1id);
                let stride = emit_whole(format.layout(), head, bytes, &mut found[4..]);
                assert_eq!(stride, end - 4);
                assert_eq!(found[4..end], expected[4..end], "{format}, {bytes}");
            }
        }
    }
}
