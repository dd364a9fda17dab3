//! The records on the socket: the hand-shake, one each way, and afterwards regions of memory that the peer may read. The layout is described in
//! `docs/wire/shm.md`.

use std::fmt;

use super::{Room, checked};

/// Bytes of each record.
pub(super) const GREETING_BYTES: usize = 24;
const MAGIC: &[u8; 4] = b"FBSM";
const VERSION: u16 = 1;

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const REFUSAL: u8 = 3;
const REGION: u8 = 4;

/// What one end says to the other before there is a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Greeting {
    /// Who connects, with the room that it wants.
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
pub(super) enum Refusal {
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
    const ALL: [Self; 4] = [
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
    pub(super) fn emit(self) -> [u8; GREETING_BYTES] {
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

    /// # Errors
    /// With what a listener answers to it.
    pub(super) fn parse(record: &[u8]) -> Result<Self, Refusal> {
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

/// The eight bytes at `at`, which is one of the two words' places.
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
    checked(room).map_err(|_| Refusal::Malformed)
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
}
