//! Shared memory between two processes: the records on the socket beside it, and references to memory that stays where it is.
//!
//! Records are the hand-shake, one each way, and afterwards regions of memory that the peer may read. The layout is described in
//! `docs/wire/shm.md`.

use core::fmt;

/// Bytes of each record.
pub const GREETING_BYTES: usize = 24;
const MAGIC: &[u8; 4] = b"FBSM";
const VERSION: u16 = 1;

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const REFUSAL: u8 = 3;
const REGION: u8 = 4;

/// How much a backend with memory of its own, such as shared memory or registered pages, takes of it per connection and direction. Others take
/// what they need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Most bytes that are handed over at once. 1 to 65 MiB; default 66,000: a buffer of 64 KiB and its head.
    pub piece_bytes_max: usize,
    /// Pieces that are on their way at the same time. 1 to 65,536; default 64.
    pub pieces: usize,
}

impl Room {
    /// Most bytes of a piece.
    pub const PIECE_BYTES_MAX: usize = 65 << 20;
    /// Most pieces.
    pub const PIECES_MAX: usize = 65_536;

    /// Whether it is within its limits.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        (1..=Self::PIECE_BYTES_MAX).contains(&self.piece_bytes_max)
            && (1..=Self::PIECES_MAX).contains(&self.pieces)
    }
}

impl Default for Room {
    fn default() -> Self {
        Self {
            piece_bytes_max: 66_000,
            pieces: 64,
        }
    }
}

/// What one end says to the other before there is a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    /// The side that connects, with the room that it wants.
    Hello(Room),
    /// The listener, with the room that is agreed; ten descriptors come with it.
    Welcome(Room),
    /// The listener; the connection ends.
    Refusal(Refusal),
    /// Either, once connected: a region of this number; its descriptor comes with it.
    Region(u64),
}

/// Why a listener refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It speaks another version.
    Version,
    /// What it was told is no hello.
    Malformed,
    /// Too many others have connected and said nothing.
    Crowded,
    /// It lacks memory or descriptors.
    Resource,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Version,
        Self::Malformed,
        Self::Crowded,
        Self::Resource,
    ];

    fn code(self) -> u8 {
        self as u8 + 1
    }

    fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "the listener speaks another version of the hand-shake",
            Self::Malformed => "the listener took the hello for none",
            Self::Crowded => "too many others stand in the listener's door and say nothing",
            Self::Resource => "the listener lacks memory or descriptors",
        })
    }
}

impl Greeting {
    /// Its bytes.
    #[must_use]
    pub fn emit(self) -> [u8; GREETING_BYTES] {
        let words = |room: Room| [room.piece_bytes_max as u64, room.pieces as u64];
        let (kind, reason, words) = match self {
            Self::Hello(room) => (HELLO, 0, words(room)),
            Self::Welcome(room) => (WELCOME, 0, words(room)),
            Self::Refusal(reason) => (REFUSAL, reason.code(), [0; 2]),
            Self::Region(number) => (REGION, 0, [number, 0]),
        };
        let mut record = [0; GREETING_BYTES];
        record[..4].copy_from_slice(MAGIC);
        record[4..6].copy_from_slice(&VERSION.to_le_bytes());
        (record[6], record[7]) = (kind, reason);
        record[8..16].copy_from_slice(&words[0].to_le_bytes());
        record[16..24].copy_from_slice(&words[1].to_le_bytes());
        record
    }

    /// Reads a record, which has exactly its length.
    ///
    /// # Errors
    /// With what a listener answers to it.
    pub fn parse(record: &[u8]) -> Result<Self, Refusal> {
        let record: &[u8; GREETING_BYTES] = record.try_into().map_err(|_| Refusal::Malformed)?;
        if &record[..4] != MAGIC {
            return Err(Refusal::Malformed);
        }
        if record[4..6] != VERSION.to_le_bytes() {
            return Err(Refusal::Version);
        }
        match (record[6], record[7]) {
            (HELLO, 0) => room(record).map(Self::Hello),
            (WELCOME, 0) => room(record).map(Self::Welcome),
            (REGION, 0) => Ok(Self::Region(word(record, 8))),
            (REFUSAL, code) => Refusal::of_code(code)
                .map(Self::Refusal)
                .ok_or(Refusal::Malformed),
            _ => Err(Refusal::Malformed),
        }
    }
}

/// The eight bytes at `at`, which is one of the words' places.
fn word(record: &[u8; GREETING_BYTES], at: usize) -> u64 {
    let bytes = record[at..].first_chunk().copied();
    u64::from_le_bytes(bytes.unwrap_or_default())
}

fn room(record: &[u8; GREETING_BYTES]) -> Result<Room, Refusal> {
    let size = |at| usize::try_from(word(record, at));
    let (Ok(piece_bytes_max), Ok(pieces)) = (size(8), size(16)) else {
        return Err(Refusal::Malformed);
    };
    let room = Room {
        piece_bytes_max,
        pieces,
    };
    room.is_admitted().then_some(room).ok_or(Refusal::Malformed)
}

/// Bytes of a reference.
pub const REFERENCE_BYTES: usize = 24;

/// What a piece refers to: a range of a region that its peer has shown. Three words of eight bytes, little-endian, at the front of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// Number of the region.
    pub region: u64,
    /// Where the range begins, in bytes.
    pub offset: u64,
    /// How long it is, in bytes.
    pub bytes: u64,
}

impl Reference {
    /// Its bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; REFERENCE_BYTES] {
        let mut bytes = [0; REFERENCE_BYTES];
        let words = [self.region, self.offset, self.bytes];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads one; any words are a reference.
    #[must_use]
    pub fn parse(bytes: &[u8; REFERENCE_BYTES]) -> Self {
        Self {
            region: word(bytes, 0),
            offset: word(bytes, 8),
            bytes: word(bytes, 16),
        }
    }

    /// The references at the front of a piece, so many; none where it is too short for them.
    #[must_use]
    pub fn all(count: usize, piece: &[u8]) -> Option<impl Iterator<Item = Self>> {
        let bytes = piece.get(..count.checked_mul(REFERENCE_BYTES)?)?;
        let (chunks, _) = bytes.as_chunks();
        Some(chunks.iter().map(Self::parse))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: [u8; GREETING_BYTES] = [
        b'F', b'B', b'S', b'M', 1, 0, 1, 0, 0xd0, 1, 1, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0,
    ];

    #[test]
    fn golden_hello() {
        let room = Room::default();
        assert_eq!(Greeting::Hello(room).emit(), GOLDEN);
        assert_eq!(Greeting::parse(&GOLDEN), Ok(Greeting::Hello(room)));
    }

    #[test]
    fn answers_come_back() {
        let refusals = Refusal::ALL.map(Greeting::Refusal);
        for greeting in refusals.into_iter().chain([
            Greeting::Welcome(Room::default()),
            Greeting::Region(1 << 40),
        ]) {
            assert_eq!(Greeting::parse(&greeting.emit()), Ok(greeting));
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let with = |at: usize, byte: u8| {
            let mut record = GOLDEN;
            record[at] = byte;
            Greeting::parse(&record)
        };
        assert_eq!(with(4, 2), Err(Refusal::Version));
        // Magic, kind, reason, a piece too long, too many pieces, no pieces.
        for (at, byte) in [(0, 0), (6, 5), (7, 1), (12, 1), (18, 255), (16, 0)] {
            assert_eq!(with(at, byte), Err(Refusal::Malformed), "{at}");
        }
        for length in [0, 23] {
            assert_eq!(Greeting::parse(&GOLDEN[..length]), Err(Refusal::Malformed));
        }
        assert_eq!(Greeting::parse(&[0; 25]), Err(Refusal::Malformed));
    }

    #[test]
    fn golden_references() {
        let piece = [
            7, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 1, //
            8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0xff,
        ];
        let [first, second] =
            [[7, 0x1000, 1 << 56 | 3], [8, 9, 10]].map(|[region, offset, bytes]| Reference {
                region,
                offset,
                bytes,
            });
        let all = |count, bytes| {
            Reference::all(count, bytes).map(|all| all.collect::<std::vec::Vec<_>>())
        };
        assert_eq!(all(2, &piece[..]), Some(std::vec![first, second]));
        assert_eq!(all(2, &piece[..48]), Some(std::vec![first, second]));
        assert_eq!(all(0, &piece[..0]), Some(std::vec![]));
        assert_eq!(all(2, &piece[..47]), None);
        assert_eq!(all(usize::MAX, &piece[..]), None);
        assert_eq!(
            (first.emit(), second.emit()),
            (
                *piece.first_chunk().unwrap(),
                *piece[24..].first_chunk().unwrap()
            )
        );
    }
}
