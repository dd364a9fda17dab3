//! What is in front of links and behind them.

use forebay_emu::card::{FrontEnd, LinkFifo};
use forebay_wire::felix::{PACKET_BYTES, PacketFormat, packets_of};

use crate::config::block::Block;

/// Longest message to a front end, if the file does not say another one.
const MESSAGE_BYTES_MAX: u64 = 1 << 14;

/// Queue in front of each link, and what its front end is sent.
pub(super) fn front_end(block: &Block<'_, '_>, from_host: &Block<'_, '_>) -> FrontEnd {
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
    FrontEnd {
        busy_on_chunks: on,
        busy_off_chunks: off,
        packets: from_host
            .choice("packets")
            .and_then(PacketFormat::of_name)
            .unwrap_or_default(),
        message_bytes_max: from_host
            .integer("message_bytes_max")
            .unwrap_or(MESSAGE_BYTES_MAX) as u32,
    }
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
