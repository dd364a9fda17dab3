//! Links and E-links.

use forebay_config::Block;
use forebay_emu::card::{ElinkConfig, Speed};
use forebay_settings::settings;
use forebay_wire::felix::Elink;

use super::ttc::no_such_buffer;
use super::words::LinkWord;

settings! {
    /// Links and E-links, and the DMA buffer that they go into.
    pub struct LinkSettings in [[links]] {
        /// Whole links of 9.6 Gb/s (FULL mode), or E-links of GBT links.
        kind: LinkWord = LinkWord::Full,
        /// For full: the links; link n is E-link 64 n.
        links: Vec<u16> [0..=23] = Vec::new() => "required for full",
        /// For gbt: numbers of the E-links: 64 times the link and 8 times the group and the path.
        elinks: Vec<u16> [0..=2047] = Vec::new() => "required for gbt",
        /// For gbt: bits of each 25 ns; 40 Mb/s a bit, of which 8b10b leaves 4 in 5.
        width_bits: u8 [pow2 2..=32] = 8,
        /// Where their blocks go.
        dma_buffer: usize [0..=7] = 0,
        /// First byte of each chunk.
        stream: Option<u8> [0..=255] => "0xAA, which is none",
        /// Whether their front ends send back each message that they are sent (`forebay toflx`), as a chunk of the same E-link, and answer no trigger. Those of other E-links take messages and forget them.
        loop_back: bool = false,
    }
}

impl LinkSettings {
    /// Adds the E-links of the block, of a card with so many DMA buffers.
    pub(super) fn add(&self, block: &Block<'_, '_>, buffers: usize, elinks: &mut Vec<ElinkConfig>) {
        let is_full = self.kind == LinkWord::Full;
        if self.dma_buffer >= buffers {
            no_such_buffer(block, "dma_buffer", buffers);
        }
        let (of, other, missing) = if is_full {
            ("links", "elinks", "links = [0, 1]")
        } else {
            ("elinks", "links", "elinks = [0, 8]")
        };
        block.idle(other, &format!("this block has {of}"));
        if is_full {
            block.idle("width_bits", "a link in FULL mode has its whole width");
        }
        if !block.has(of) {
            block.complain_whole(
                &format!("{of} are not named"),
                &format!("{of} of this block"),
                &format!("add {missing}"),
            );
        }
        if self.loop_back {
            block.idle("stream", "what is sent back begins as it came");
        }
        let numbers = if is_full { &self.links } else { &self.elinks };
        for number in numbers.iter().copied() {
            let elink = if is_full {
                Elink::of_link(number)
            } else {
                Elink::new(number)
            };
            let Some(elink) = elink else { continue };
            if elinks.iter().any(|one| one.elink == elink) {
                block.complain(
                    of,
                    &format!("E-link {elink} ({number}) is in another block already"),
                    "each E-link once",
                    "take it out of one of them",
                );
                continue;
            }
            elinks.push(ElinkConfig {
                elink,
                speed: if is_full {
                    Speed::Full
                } else {
                    Speed::Gbt {
                        width_bits: self.width_bits,
                    }
                },
                buffer: self.dma_buffer,
                stream: self.stream,
                loop_back: self.loop_back,
            });
        }
    }
}
