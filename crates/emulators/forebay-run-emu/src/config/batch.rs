//! The file of a batch of cards, and what is broken in a card.

use forebay_config::{Block, ConfigFile, Document, Sections};
use forebay_emu::card::CardConfig;
use forebay_emu::card::board::{
    BOARD_FIRMWARE, BOARD_LINKS, BoardConfig, Defect, DefectKind, Fault, Firmware, Repair,
};
use forebay_readout::validate::Limits;
use forebay_settings::{Settings, settings};
use forebay_wire::felix::BlockFormat;

use super::words::CureWord;
use crate::validate::BatchPlan;

settings! {
    /// Emulated cards that are validated one after the other.
    pub struct BatchSettings in [batch] {
        /// How many cards.
        cards: usize [1..=4096] = 40,
        /// How many of them get a fault at random, as long as no `[[defects]]` are named.
        faulty: Option<usize> [0..=4096] => "10, or a quarter of the cards",
        /// Which cards and which faults, and all noise, follow from it.
        seed: u64 [0..=1 << 60] = 1,
        /// Links of each card.
        links: usize [1..=24] = 12,
        /// DMA buffers of each card.
        dma_buffers: usize [1..=8] = 4,
        /// Blocks of their DMA buffers.
        block_bytes: usize [pow2 1024..=16_384] = 4096,
        /// Repairs of a card, after each of which it is tested again.
        repairs_most: usize [0..=16] = Limits::default().repairs_most,
        /// Resets after each of which every link must align. More find links that seldom fail.
        align_tries: u32 [1..=10_000] = Limits::default().links.align_tries,
        /// Limit of bit errors that every link must be shown to be below, at 95 % confidence; 1000 is a rate of 1e-12.
        wrong_per_1e15_bits: u64 [1..=1_000_000_000_000] = 1000,
    }
}

settings! {
    /// What is broken in the board of a card, below what its diagnostics see.
    pub struct DefectSettings in [[defects]] {
        /// What: which of the keys below belong to it, stands with them.
        kind: Option<DefectKind>,
        /// In a batch: which card, from 0.
        card: Option<usize> [0..=4095] => "required in a batch",
        /// For dead_link, unsteady_link, swapped_links, bit_errors, mark_ignored and xoff_stuck.
        link: u8 [0..=23] = 0,
        /// For swapped_links: the other one.
        other_link: u8 [0..=23] = 1,
        /// For stuck_data_bit, stuck_dma_line, lost_blocks and no_interrupt.
        dma_buffer: u8 [0..=7] = 0,
        /// For stuck_register_bit: that of the register.
        address: u32 [0..=0xfff] = 0x100 => "`0x100`",
        /// For stuck_register_bit and stuck_data_bit.
        bit: u8 [0..=63] = 0,
        /// For stuck_address_line (4 to 11) and stuck_dma_line (2 to 9): which line of the address of a byte.
        line: u8 [2..=11] = 4,
        /// For what is stuck: whether at 1.
        high: bool = false,
        /// For lost_blocks and triggers_skipped: each so-many-th.
        every: u64 [2..=1 << 40] = 100,
        /// For unsteady_link (resets that fail) and bcr_lost: in millionths.
        chance_ppm: u32 [1..=1_000_000] = 100_000,
        /// For bit_errors: how many.
        wrong_per_1e15_bits: u64 [1..=100_000_000_000_000] = 1_000_000_000,
        /// For slow_memory: the speed that is left.
        percent: u32 [1..=100] = 50,
        /// For wrong_firmware: what it says it is.
        version: u32 [0..=0xffff_ffff] = BOARD_FIRMWARE.version => "`0x05010000`",
        /// The repair that helps.
        cure: CureWord = CureWord::None,
    }
}

impl ConfigFile for BatchPlan {
    const SECTIONS: Sections = &[BatchSettings::SECTION, DefectSettings::SECTION];

    fn of(document: &Document<'_>) -> Option<Self> {
        let (said, batch) = document.one::<BatchSettings>();
        let defects = document.many::<DefectSettings>();
        let cards = said.cards;
        let faulty = if defects.is_empty() {
            said.faulty.unwrap_or_else(|| 10.min(cards / 4))
        } else {
            batch.idle("faulty", "the faults are named, in [[defects]]");
            0
        };
        if faulty > cards {
            batch.complain(
                "faulty",
                &format!("there are {cards} cards"),
                &format!("an integer from 0 to {cards}"),
                "make it smaller, or cards larger",
            );
            return None;
        }
        let (links, buffers) = (said.links, said.dma_buffers);
        let plan = Self::drawn(cards, faulty, said.seed, links, buffers);
        // It is refused above, with its line.
        let mut plan = plan.ok()?;
        plan.format = BlockFormat::phase2(said.block_bytes).ok()?;
        plan.limits.repairs_most = said.repairs_most;
        plan.limits.links.align_tries = said.align_tries;
        plan.limits.links.error_rate = said.wrong_per_1e15_bits as f64 * 1e-15;
        for (defect, block) in &defects {
            if !block.has("card") {
                block.complain_whole(
                    "it does not say which card",
                    "card and kind",
                    "add card = 0",
                );
            }
            let fault = defect.fault(block, &BoardConfig::new(links, buffers));
            let (Some(card), Some(fault)) = (defect.card, fault) else {
                continue;
            };
            match plan.cards.get_mut(card) {
                Some(card) => card.faults.push(fault),
                None => block.complain(
                    "card",
                    &format!("there is no such card: {cards} are, counted from 0"),
                    &format!("an integer from 0 to {}", cards - 1),
                    "name another one, or give [batch] more cards",
                ),
            }
        }
        Some(plan)
    }
}

/// What is broken in the board of one card.
pub(super) fn of_card(document: &Document<'_>, config: &CardConfig) -> Vec<Fault> {
    let links = config
        .elinks
        .iter()
        .map(|one| usize::from(one.elink.link()));
    let links = links.filter(|link| *link < BOARD_LINKS.1).max();
    let board = BoardConfig {
        format: config.format,
        ..BoardConfig::new(1 + links.unwrap_or(0), config.buffers)
    };
    let defects = document.many::<DefectSettings>().into_iter();
    let faults = defects.filter_map(|(defect, block)| {
        block.idle("card", "this is the file of one card");
        defect.fault(&block, &board)
    });
    faults.collect()
}

/// Which keys belong to a kind.
fn keys_of(kind: DefectKind) -> &'static [&'static str] {
    match kind {
        DefectKind::StuckRegisterBit => &["address", "bit", "high"],
        DefectKind::StuckAddressLine => &["line", "high"],
        DefectKind::WrongFirmware => &["version"],
        DefectKind::DeadLink | DefectKind::MarkIgnored => &["link"],
        DefectKind::UnsteadyLink => &["link", "chance_ppm"],
        DefectKind::SwappedLinks => &["link", "other_link"],
        DefectKind::BitErrors => &["link", "wrong_per_1e15_bits"],
        DefectKind::StuckDataBit => &["dma_buffer", "bit", "high"],
        DefectKind::StuckDmaLine => &["dma_buffer", "line", "high"],
        DefectKind::LostBlocks => &["dma_buffer", "every"],
        DefectKind::NoInterrupt => &["dma_buffer"],
        DefectKind::SlowMemory => &["percent"],
        DefectKind::TriggersSkipped => &["every"],
        DefectKind::BcrLost => &["chance_ppm"],
        DefectKind::XoffStuck => &["link", "high"],
        DefectKind::NoAnswer | DefectKind::TtcUnlocked => &[],
    }
}

impl DefectSettings {
    /// What is broken; none when the block does not say, or the board has no such part.
    fn fault(&self, block: &Block<'_, '_>, board: &BoardConfig) -> Option<Fault> {
        if !block.has("kind") {
            block.complain_whole(
                "it does not say what is broken",
                "kind and, if you like, where",
                "add kind = \"dead_link\"",
            );
        }
        let kind = self.kind?;
        let own = keys_of(kind);
        for key in Self::SECTION.keys {
            let is_own = own.contains(&key.name) || ["kind", "card", "cure"].contains(&key.name);
            if !is_own {
                block.idle(key.name, &format!("it is no part of {}", kind.name()));
            }
        }
        let Self {
            link,
            dma_buffer: buffer,
            bit,
            line,
            every,
            high,
            ..
        } = *self;
        let chance = f64::from(self.chance_ppm) * 1e-6;
        let defect = match kind {
            DefectKind::NoAnswer => Defect::NoAnswer,
            DefectKind::StuckRegisterBit => Defect::StuckRegisterBit {
                address: self.address,
                bit,
                high,
            },
            DefectKind::StuckAddressLine => Defect::StuckAddressLine { line, high },
            DefectKind::WrongFirmware => Defect::WrongFirmware(Firmware {
                version: self.version,
                commit: !BOARD_FIRMWARE.commit,
                mode: BOARD_FIRMWARE.mode,
            }),
            DefectKind::DeadLink => Defect::DeadLink { link },
            DefectKind::UnsteadyLink => Defect::UnsteadyLink {
                link,
                fails: chance,
            },
            DefectKind::SwappedLinks => Defect::SwappedLinks {
                links: [link, self.other_link],
            },
            DefectKind::BitErrors => Defect::BitErrors {
                link,
                rate: self.wrong_per_1e15_bits as f64 * 1e-15,
            },
            DefectKind::StuckDataBit => Defect::StuckDataBit { buffer, bit, high },
            DefectKind::StuckDmaLine => Defect::StuckDmaLine { buffer, line, high },
            DefectKind::LostBlocks => Defect::LostBlocks { buffer, every },
            DefectKind::NoInterrupt => Defect::NoInterrupt { buffer },
            DefectKind::SlowMemory => Defect::SlowMemory {
                share: f64::from(self.percent) / 100.0,
            },
            DefectKind::TtcUnlocked => Defect::TtcUnlocked,
            DefectKind::TriggersSkipped => Defect::TriggersSkipped { every },
            DefectKind::BcrLost => Defect::BcrLost { chance },
            DefectKind::MarkIgnored => Defect::MarkIgnored { link },
            DefectKind::XoffStuck => Defect::XoffStuck { link, high },
        };
        let cure = match self.cure {
            CureWord::None => None,
            CureWord::Reseat => Some(Repair::Reseat),
            CureWord::Reprogram => Some(Repair::Reprogram),
            CureWord::CleanFibre => Some(Repair::CleanFibre),
            CureWord::Replug => Some(Repair::Replug),
            CureWord::Transceiver => Some(Repair::Transceiver),
            CureWord::Resolder => Some(Repair::Resolder),
        };
        let fault = Fault { defect, cure };
        if let Err(wrong) = board.bears(&fault) {
            block.complain_whole(
                &wrong.to_string(),
                "a part that the card has",
                "name another one",
            );
            return None;
        }
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use forebay_config::parse;

    use super::*;

    fn mistakes(text: &str) -> String {
        parse::<BatchPlan>("batch.toml", text)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_batch_has_the_published_numbers_unless_it_says_otherwise() {
        let plan = parse::<BatchPlan>("batch.toml", "[batch]\n").unwrap();
        let faulty = plan.cards.iter().filter(|card| !card.faults.is_empty());
        assert_eq!((plan.cards.len(), faulty.count()), (40, 10));
        assert_eq!(plan, BatchPlan::drawn(40, 10, 1, 12, 4).unwrap());
    }

    #[test]
    fn every_kind_can_be_written() {
        for kind in DefectKind::NAMES.iter().copied() {
            let text = format!(
                "[batch]\ncards = 2\n[[defects]]\ncard = 1\nkind = \"{kind}\"\ncure = \"reseat\"\n"
            );
            let plan = parse::<BatchPlan>("batch.toml", &text).unwrap();
            let [fault] = plan.cards[1].faults.as_slice() else {
                panic!("{kind}")
            };
            assert_eq!(
                (fault.defect.name(), fault.cure),
                (kind, Some(Repair::Reseat))
            );
            assert!(plan.cards[0].faults.is_empty());
        }
    }

    #[test]
    fn mistakes_are_told_with_their_places() {
        let cases = [
            ("[batch]\ncards = 2\nfaulty = 3\n", "there are 2 cards"),
            ("[[defects]]\nkind = \"dead_link\"\n", "which card"),
            ("[[defects]]\ncard = 0\n", "what is broken"),
            (
                "[batch]\ncards = 2\n[[defects]]\ncard = 2\nkind = \"no_answer\"\n",
                "no such card",
            ),
            (
                "[batch]\nlinks = 2\n[[defects]]\ncard = 0\nkind = \"dead_link\"\nlink = 2\n",
                "faults.link",
            ),
            (
                "[[defects]]\ncard = 0\nkind = \"no_answer\"\nlink = 2\n",
                "no part of no_answer",
            ),
            (
                "[[defects]]\ncard = 0\nkind = \"stuck_register_bit\"\naddress = 0x71\n",
                "register",
            ),
            (
                "[batch]\nfaulty = 2\n[[defects]]\ncard = 0\nkind = \"no_answer\"\n",
                "[[defects]]",
            ),
        ];
        for (text, expected) in cases {
            let told = mistakes(text);
            assert!(
                told.contains(expected) && told.contains("batch.toml:"),
                "{told}"
            );
        }
    }
}
