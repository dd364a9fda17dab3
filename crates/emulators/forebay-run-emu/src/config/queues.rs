//! What is in front of links and behind them.

use forebay_config::Block;
use forebay_emu::card::{FrontEnd, LinkFifo};
use forebay_settings::settings;
use forebay_wire::felix::{PACKET_BYTES, PacketFormat, packets_of};

use super::words::PacketWord;

/// Most free blocks at which BUSY comes when that is not said: twice as many is the most at which it goes.
const FREE_BLOCKS_USUAL_MAX: u64 = 1 << 19;

settings! {
    /// What raises BUSY: the queues in front of each link, and the free blocks of DMA buffers; and the queue behind each link.
    pub struct QueueSettings in [queues] {
        /// The queue of a front end: chunks at which BUSY goes up and triggers stop.
        busy_on_chunks: u64 [1..=4096] = FrontEnd::default().busy_on_chunks,
        /// Chunks at which BUSY goes down.
        busy_off_chunks: Option<u64> [0..=4095] => "half of `busy_on_chunks`",
        /// BUSY goes up too when a DMA buffer has fewer free blocks: before anything waits behind a link. 0: only when the queues in front of links are full.
        busy_on_free_blocks: Option<u64> [zero or 1..=1_048_575] => "a sixteenth of the blocks of a DMA buffer, 524288 at most",
        /// It goes down when all DMA buffers have so many again.
        busy_off_free_blocks: Option<u64> [1..=1_048_576] => "twice `busy_on_free_blocks`",
        /// What a link's FIFO takes while the DMA buffer is full.
        fifo_bytes: usize [1 << 10..=16 << 20] = LinkFifo::default().bytes,
        /// How full the FIFO is when the front end is told to stop (XOFF).
        xoff_sixteenths: u8 [1..=15] = LinkFifo::default().xoff_sixteenths,
        /// How full it is when it may go on.
        xon_sixteenths: u8 [0..=14] = LinkFifo::default().xon_sixteenths,
    }
}

settings! {
    /// The way to the front ends: a buffer of packets that `forebay toflx` writes.
    pub struct FromHostSettings in [from_host] {
        /// Size of the from-host buffer. A packet of 32 bytes carries up to 30 of a message, and a message goes in whole.
        ring_bytes: u64 [pow2 1 << 16..=1 << 26] = 1 << 20,
        /// How packets say their length: in bytes, as firmware of Phase II, or in words of 16 bits, as that of Phase I; messages of odd length are then refused.
        packets: PacketWord = PacketWord::Rm5,
        /// Longest message; a longer one is lost by name. One that is sent back has to fit between XOFF and the end of the queue behind its link (`fifo_bytes`), or it is cut off there when the DMA buffer is full.
        message_bytes_max: u32 [1..=1 << 20] = FrontEnd::default().message_bytes_max,
    }
}

impl QueueSettings {
    /// What raises BUSY, and what front ends are sent, of a card whose DMA buffers have so many blocks.
    pub(super) fn front_end(
        &self,
        block: &Block<'_, '_>,
        from_host: &FromHostSettings,
        dma_blocks: u64,
    ) -> FrontEnd {
        let on = self.busy_on_chunks;
        let off = self.busy_off_chunks.unwrap_or(on / 2);
        if off >= on {
            block.complain(
                "busy_off_chunks",
                &format!("it is not below busy_on_chunks, {on}"),
                &format!("an integer from 0 to {}", on - 1),
                "make it smaller",
            );
        }
        let [busy_on_free_blocks, busy_off_free_blocks] = self.free_blocks(block, dma_blocks);
        FrontEnd {
            busy_on_chunks: on,
            busy_off_chunks: off,
            busy_on_free_blocks,
            busy_off_free_blocks,
            packets: match from_host.packets {
                PacketWord::Rm5 => PacketFormat::Rm5,
                PacketWord::Rm4 => PacketFormat::Rm4,
            },
            message_bytes_max: from_host.message_bytes_max,
        }
    }

    /// Free blocks of a DMA buffer below which BUSY goes up, and from which on it goes down.
    fn free_blocks(&self, block: &Block<'_, '_>, dma_blocks: u64) -> [u64; 2] {
        let sixteenth = (dma_blocks / 16).min(FREE_BLOCKS_USUAL_MAX);
        let on = self.busy_on_free_blocks.unwrap_or(sixteenth);
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
        let off = self.busy_off_free_blocks;
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
    pub(super) fn fifo(&self, block: &Block<'_, '_>) -> LinkFifo {
        let (off, on) = (self.xoff_sixteenths, self.xon_sixteenths);
        if on >= off {
            block.complain(
                "xon_sixteenths",
                &format!("it is not below xoff_sixteenths, {off}"),
                &format!("an integer from 0 to {}", off - 1),
                "make it smaller",
            );
        }
        LinkFifo {
            bytes: self.fifo_bytes,
            xoff_sixteenths: off,
            xon_sixteenths: on,
        }
    }
}

impl FromHostSettings {
    /// Packets of the from-host buffer. The longest message goes into half of it: the other half is what the card reads meanwhile.
    pub(super) fn packets(&self, block: &Block<'_, '_>) -> u64 {
        let ring_bytes = self.ring_bytes;
        let packets = ring_bytes / PACKET_BYTES as u64;
        let longest = packets_of(self.message_bytes_max as usize) as u64;
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
}

#[cfg(test)]
mod tests {
    use forebay_config::parse;

    use crate::card::CardPlan;

    #[test]
    fn marks_of_free_blocks_follow_the_size_of_the_buffer() {
        let parse = |keys: &str| {
            // 256 blocks.
            let text =
                format!("[card]\ndma_bytes = 1048576\n[queues]\n{keys}\n[[links]]\nlinks = [0]\n");
            parse::<CardPlan>("card.toml", &text).map_err(|mistakes| mistakes.to_string())
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
