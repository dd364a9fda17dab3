//! Memory that a piece is written into before it is sent, and goes out from.

use std::ops::Range;

use forebay_fabric::Region as Registered;
use forebay_ring::Region;

use super::ByteLinkError;

/// A link that sends from memory of its own, which its user writes: nothing is copied on the way.
pub trait Lending {
    /// Memory for so many pieces of so many bytes each.
    ///
    /// # Errors
    /// There is not so much memory of that kind.
    fn pieces(&mut self, count: usize, bytes: usize) -> Result<Vec<Piece>, ByteLinkError>;

    /// Hands over the first `len` bytes of one of the link's [`pieces`](Self::pieces), and behind them ranges of a region, at most
    /// [`PARTS_MAX`](super::PARTS_MAX); says how many bytes were taken: all, or 0 as [`send`](super::ByteLink::send) does. What was taken is the link's, and
    /// `piece` empty, until it [comes back](Self::returned) with this number; so long the ranges must not change either. Without a piece nothing is sent.
    ///
    /// # Errors
    /// As [`send_from`](super::ByteLink::send_from); the piece stays where it is.
    fn send_piece(
        &mut self,
        piece: &mut Option<Piece>,
        len: usize,
        behind: Option<(&Region, &[Range<usize>])>,
        number: u64,
    ) -> Result<usize, ByteLinkError>;

    /// The next piece that nobody reads any more, by its number. What has not come back when the link is dropped, stays the link's.
    fn returned(&mut self) -> Option<(u64, Piece)>;
}

/// Memory for a piece: written by its holder, and then given to the link that it is sent over.
#[derive(Debug)]
pub struct Piece(Kind);

#[derive(Debug)]
enum Kind {
    /// Of this process alone.
    Own(Box<[u8]>),
    /// Known to a link's provider, which sends from it.
    Registered(Registered),
}

impl Piece {
    /// Plain memory, which a link copies from.
    #[must_use]
    pub fn plain(bytes: usize) -> Self {
        Self(Kind::Own(vec![0; bytes].into()))
    }

    pub(super) fn of_region(region: Registered) -> Self {
        Self(Kind::Registered(region))
    }

    /// The provider's memory, if it is that.
    pub(super) fn into_region(self) -> Result<Registered, Self> {
        match self.0 {
            Kind::Registered(region) => Ok(region),
            Kind::Own(_) => Err(self),
        }
    }
}

impl AsRef<[u8]> for Piece {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Kind::Own(bytes) => bytes,
            Kind::Registered(region) => region.bytes(),
        }
    }
}

impl AsMut<[u8]> for Piece {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Kind::Own(bytes) => bytes,
            Kind::Registered(region) => region.bytes_mut(),
        }
    }
}
