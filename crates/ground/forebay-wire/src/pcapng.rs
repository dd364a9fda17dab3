//! Blocks of a pcapng file: their beginning, as far as it tells how long one is, and those that are written (draft-ietf-opsawg-pcapng, section 3.1).
//!
//! ```text
//! +0  type         0x0a0d0d0a for the header of a section, in either byte order
//! +4  length       bytes of the whole block, in the section's order
//! +8  byte order   of a section's header alone: 0x1a2b3c4d in the order of the section
//! ```

mod emit;

use crate::unit::ByteOrder;

pub use emit::{INTERFACE_BYTES, PacketRepr, SECTION_BYTES, interface, section};

/// Type of a section's header, the same in both byte orders: what a file begins with.
pub const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Bytes of an empty block: its type, and its length twice.
pub const BLOCK_BYTES_MIN: u32 = 12;

/// The byte order of the section that `block` is the header of; none if it is another block, or names no order.
pub fn section_order(block: &[u8]) -> Option<ByteOrder> {
    let &[a, b, c, d, _, _, _, _, magic @ ..] = block.first_chunk::<12>()?;
    if [a, b, c, d] != SECTION_HEADER {
        return None;
    }
    let orders = [ByteOrder::Little, ByteOrder::Big];
    orders
        .into_iter()
        .find(|order| order.u32(magic) == 0x1a2b_3c4d)
}

/// Bytes of a block, as it says itself; none if it does not come so far.
pub fn block_length(block: &[u8], order: ByteOrder) -> Option<u32> {
    let &[_, _, _, _, length @ ..] = block.first_chunk::<8>()?;
    Some(order.u32(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIG: [u8; 12] = [0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 28, 0x1a, 0x2b, 0x3c, 0x4d];
    const LITTLE: [u8; 12] = [0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a];

    #[test]
    fn golden_sections_of_both_orders() {
        for (block, order) in [(BIG, ByteOrder::Big), (LITTLE, ByteOrder::Little)] {
            assert_eq!(section_order(&block), Some(order));
            assert_eq!(block_length(&block, order), Some(28));
            assert_eq!(section_order(&block[..11]), None);
            assert_eq!(block_length(&block[..7], order), None);
        }
    }

    #[test]
    fn other_blocks_and_orders_are_no_section() {
        let mut block = BIG;
        block[8] = 0x1b;
        assert_eq!(section_order(&block), None);
        block = BIG;
        block[0] = 6;
        assert_eq!(section_order(&block), None);
    }
}
