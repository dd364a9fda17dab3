//! Over shared memory: two rings per connection, one for each direction, and a Unix socket on which both ends meet.
//!
//! The hand-shake is described in `docs/wire/shm.md`. Afterwards the socket says that the peer is gone, and carries regions of memory that the peer may read:
//! what lies in them is sent by reference.

mod copier;
mod door;
mod ends;
mod link;
mod place;
mod regions;

use std::io;

use forebay_ring::{CAPACITY_BYTES_MIN, RingError, RingSetSpec, record_bytes};
use forebay_sys::SysError;

pub use door::ShmDoor;
pub use link::ShmLink;

use super::Room;

/// A ring is not made larger than this for the sake of more pieces than [`PIECES_MIN`].
const CAPACITY_BYTES_SOFT: u64 = 64 << 20;
/// So many pieces have room at the least, where so many were asked for.
const PIECES_MIN: u64 = 4;

/// The ring of each direction, which both ends work out for themselves.
fn ring_spec(name: &str, room: Room) -> RingSetSpec {
    RingSetSpec::new(
        name,
        vec![capacity_bytes(room)],
        room.piece_bytes_max as u32,
    )
}

fn capacity_bytes(room: Room) -> u64 {
    let piece = record_bytes(room.piece_bytes_max as u64);
    let of = |pieces: u64| (pieces * piece).next_power_of_two();
    let least = of(PIECES_MIN.min(room.pieces as u64));
    of(room.pieces as u64)
        .min(CAPACITY_BYTES_SOFT.max(least))
        .max(CAPACITY_BYTES_MIN)
}

/// Refuses what [`Room`] does not admit.
fn checked(room: Room) -> io::Result<Room> {
    room.is_admitted().then_some(room).ok_or_else(|| {
        let Room {
            piece_bytes_max,
            pieces,
        } = room;
        let text = format!(
            "a room of {pieces} pieces of {piece_bytes_max} bytes; 1 to {} of 1 to {} can be",
            Room::PIECES_MAX,
            Room::PIECE_BYTES_MAX
        );
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

/// Whether that is what a socket says of a peer that is not there any more.
fn is_gone(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

/// The host's fault, as this crate names it.
fn resource(error: RingError) -> SysError {
    match error {
        RingError::System { call, what, errno } => SysError::new(call, what, errno),
        other => SysError::new("mmap", "ring", io::Error::other(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(piece_bytes_max: usize, pieces: usize) -> u64 {
        let room = Room {
            piece_bytes_max,
            pieces,
        };
        let spec = ring_spec("test", checked(room).unwrap());
        spec.validate().unwrap();
        spec.data_bytes()
    }

    #[test]
    fn a_ring_holds_its_pieces_up_to_a_limit() {
        assert_eq!(capacity(1, 1), 64 << 10);
        assert_eq!(capacity(66_000, 64), 8 << 20);
        assert_eq!(capacity(66_000, 65_536), 64 << 20);
        assert_eq!(capacity(20 << 20, 3), 64 << 20);
        assert_eq!(capacity(20 << 20, 64), 128 << 20);
        assert_eq!(capacity(65 << 20, 1), 128 << 20);
        assert_eq!(capacity(65 << 20, 65_536), 512 << 20);
    }

    #[test]
    fn rooms_out_of_range_are_refused() {
        for (piece_bytes_max, pieces) in [(0, 1), (1, 0), (1, 65_537), ((65 << 20) + 1, 1)] {
            let room = Room {
                piece_bytes_max,
                pieces,
            };
            assert_eq!(
                checked(room).unwrap_err().kind(),
                io::ErrorKind::InvalidInput
            );
        }
    }
}
