//! Where the buffers of connections lie.

use forebay_link::bytes::{ByteLink, ByteLinkError, Piece};
use forebay_msg::Config;
use forebay_msg::session::Agreed;

/// The sending end of a connection, whose buffers a link may send from where they lie.
pub(super) type Outbound = forebay_msg::Outbound<Piece>;

/// Memory for the buffers of a connection: the link's own, where it sends from that without a copy.
#[derive(Debug, Default)]
pub(super) struct Buffers(Vec<Piece>);

impl Buffers {
    /// Memory for all buffers that were agreed on.
    pub(super) fn of(link: &mut dyn ByteLink, agreed: &Agreed) -> Result<Self, ByteLinkError> {
        let Some(lending) = link.lending().filter(|_| agreed.sends) else {
            return Ok(Self::default());
        };
        let config = Config {
            buffer_bytes: agreed.buffer_bytes,
            ..Config::default()
        };
        let count = agreed.buffer_count as usize;
        Ok(Self(lending.pieces(count, config.frame_bytes())?))
    }

    /// Memory of one buffer, of so many bytes.
    pub(super) fn next(&mut self, bytes: usize) -> Piece {
        self.0.pop().unwrap_or_else(|| Piece::plain(bytes))
    }
}
