//! What is in front of links and behind them.

use forebay_emu::card::{FrontEnd, LinkFifo};
use forebay_wire::felix::{PACKET_BYTES, PacketFormat, packets_of};

use forebay_run::config::block::Block;

/// Longest message to a front end, if the file does not say another one.
const MESSAGE_BYTES_MAX: u64 = 1 << 14;

/// What raises BUSY, and what front ends are sent, of a card whose DMA buffers have so many blocks.
pub(super) fn front_end(
    block: &Block<'_, '_>,
    from_host: &Block<'_, '_>,
    dma_blocks: u64,
) -> FrontEnd {
    let usual = FrontEnd::default();
    let on = block
        .integer("busy_on_chunks")
        .unwrap_or(usual.busy_on_chunks);
    let off = block.integer("busy_off_chunks").unwrap_or(on / 2);
    if off >= on {
        block.complain(
            "busy_off_chunks",
            &format!("it is not below busy_on_chunks, {on}"),
            &format!("an integer from 0 to {}", on - 1),
            "make it smaller",
        );
    }
    let [busy_on_free_blocks, busy_off_free_blocks] = free_blocks(block, dma_blocks);
    FrontEnd {
        busy_on_chunks: on,
        busy_off_chunks: off,
        busy_on_free_blocks,
        busy_off_free_blocks,
        packets: from_host
            .choice("packets")
            .and_then(PacketFormat::of_name)
            .unwrap_or_default(),
        message_bytes_max: from_host
            .integer("message_bytes_max")
            .unwrap_or(MESSAGE_BYTES_MAX) as u32,
    }
}

/// Free blocks of a DMA buffer below which BUSY goes up, and from which on it goes down.
fn free_blocks(block: &Block<'_, '_>, dma_blocks: u64) -> [u64; 2] {
    let on = block.integer("busy_on_free_blocks");
    let on = on.unwrap_or(dma_blocks / 16);
    if on == 0 {
        block.idle(
            "busy_off_free_blocks",
            "free blocks raise no BUSY: busy_on_free_blocks is 0",
        );
        return [0, 0];
    }
    if on >= dma_blocks {
        block.complain(
            "busy_on_free_blocks",
            &format!("a DMA buffer has {dma_blocks} blocks: BUSY would never be down"),
            &format!("0, or an integer from 1 to {}", dma_blocks - 1),
            "make it smaller, or dma_bytes larger",
        );
    }
    let off = block.integer("busy_off_free_blocks");
    let off = off.unwrap_or_else(|| (2 * on).min(dma_blocks));
    if off <= on || off > dma_blocks {
        block.complain(
            "busy_off_free_blocks",
            &format!("it is not above busy_on_free_blocks, {on}, and at most the {dma_blocks} blocks of a DMA buffer"),
            &format!("an integer from {} to {dma_blocks}", on + 1),
            "choose one of these, or change busy_on_free_blocks",
        );
    }
    [on, off]
}

/// Queue behind each link.
pub(super) fn fifo(block: &Block<'_, '_>) -> LinkFifo {
    let usual = LinkFifo::default();
    let of = |name, otherwise: u8| block.integer(name).map_or(otherwise, |value| value as u8);
    let off = of("xoff_sixteenths", usual.xoff_sixteenths);
    let on = of("xon_sixteenths", usual.xon_sixteenths);
    if on >= off {
        block.complain(
            "xon_sixteenths",
            &format!("it is not below xoff_sixteenths, {off}"),
            &format!("an integer from 0 to {}", off - 1),
            "make it smaller",
        );
    }
    LinkFifo {
        bytes: block
            .integer("fifo_bytes")
            .map_or(usual.bytes, |bytes| bytes as usize),
        xoff_sixteenths: off,
        xon_sixteenths: on,
    }
}

/// Packets of the from-host buffer. The longest message goes into half of it: the other half is what the card reads meanwhile.
pub(super) fn from_host_packets(block: &Block<'_, '_>, message_bytes_max: u32) -> u64 {
    let ring_bytes = block.integer("ring_bytes").unwrap_or(1 << 20);
    let packets = ring_bytes / PACKET_BYTES as u64;
    let longest = packets_of(message_bytes_max as usize) as u64;
    if 2 * longest > packets {
        block.complain(
            "message_bytes_max",
            &format!(
                "{longest} packets of such a message are more than half of ring_bytes, {ring_bytes}"
            ),
            "a message that goes into half of the buffer",
            &format!(
                "make it smaller, or ring_bytes at least {}",
                (2 * longest * PACKET_BYTES as u64).next_power_of_two()
            ),
        );
    }
    packets
}

#[cfg(test)]
mod tests {
    use super::super::parse_card;

    #[test]
    fn marks_of_free_blocks_follow_the_size_of_the_buffer() {
        let parse = |keys: &str| {
            // 256 blocks.
            let text =
                format!("[card]\ndma_bytes = 1048576\n[queues]\n{keys}\n[[links]]\nlinks = [0]\n");
            parse_card("card.toml", &text).map_err(|mistakes| mistakes.to_string())
        };
        let marks = |keys: &str| {
            let front_end = parse(keys).unwrap().config.front_end;
            (
                front_end.busy_on_free_blocks,
                front_end.busy_off_free_blocks,
            )
        };
        assert_eq!(marks(""), (16, 32));
        assert_eq!(marks("busy_on_free_blocks = 200"), (200, 256));
        assert_eq!(marks("busy_on_free_blocks = 0"), (0, 0));
        for (keys, says) in [
            ("busy_on_free_blocks = 256", "1 to 255"),
            ("busy_off_free_blocks = 16", "17 to 256"),
            ("busy_off_free_blocks = 257", "17 to 256"),
            (
                "busy_on_free_blocks = 0\nbusy_off_free_blocks = 9",
                "raise no BUSY",
            ),
        ] {
            let told = parse(keys).unwrap_err();
            assert!(told.contains(says), "{keys}: {told}");
        }
    }
}
