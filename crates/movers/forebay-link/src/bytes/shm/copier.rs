//! The one copy on the way in.

use forebay_ring::View;

/// Copies each piece out of the memory that the peer can write: what is looked at afterwards does not change any more.
#[derive(Debug, Default)]
pub(super) struct PieceCopier {
    piece: Vec<u8>,
    from: usize,
    to: usize,
    copied_bytes: u64,
}

impl PieceCopier {
    /// With room for the longest piece.
    pub(super) fn new(piece_bytes_max: usize) -> Self {
        Self {
            piece: vec![0; piece_bytes_max],
            ..Self::default()
        }
    }

    /// Takes a piece in the place of the one before; false, and nothing, when it is too long.
    pub(super) fn take(&mut self, piece: View<'_>) -> bool {
        let bytes = piece.len();
        let Some(to) = self.piece.get_mut(..bytes) else {
            return false;
        };
        let copied = piece.copy_to(0, to);
        (self.from, self.to) = (0, bytes);
        self.copied_bytes += bytes as u64;
        copied
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.piece[self.from..self.to]
    }

    pub(super) fn used(&mut self, count: usize) {
        self.from = self.from.saturating_add(count).min(self.to);
    }

    pub(super) fn is_used_up(&self) -> bool {
        self.from == self.to
    }

    pub(super) fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }
}
