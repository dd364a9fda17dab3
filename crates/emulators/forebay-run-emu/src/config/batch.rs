//! The file of a batch of cards, and what is broken in a card.

use std::path::Path;

use forebay_emu::card::CardConfig;
use forebay_emu::card::board::{
    BOARD_FIRMWARE, BOARD_LINKS, BoardConfig, Defect, DefectKind, Fault, Firmware, Repair,
};
use forebay_readout::validate::Limits;
use forebay_run::config::block::Block;
use forebay_run::config::page::Page;
use forebay_run::config::{ConfigError, Mistakes, Source};
use forebay_wire::felix::BlockFormat;

use super::sections::{BATCH, BATCH_SECTIONS, DEFECTS};
use crate::validate::BatchPlan;

/// Reads the file of a batch.
///
/// `said` are keys of the command line, see [`Source::read`].
///
/// # Errors
/// It cannot be read, or has mistakes: all of them are told.
pub fn load_batch(path: &Path, said: &[String]) -> Result<BatchPlan, ConfigError> {
    Ok(of_source(&Source::read(path, said)?)?)
}

/// Reads the text of a batch's file called `file`.
///
/// # Errors
/// All mistakes in it.
pub fn parse_batch(file: &str, text: &str) -> Result<BatchPlan, Mistakes> {
    of_source(&Source::of_text(file, text))
}

fn of_source(source: &Source) -> Result<BatchPlan, Mistakes> {
    let page = Page::new(source, &BATCH_SECTIONS);
    let plan = batch(&page);
    page.conclude(plan)
}

fn batch(page: &Page<'_>) -> Option<BatchPlan> {
    let table = page.parse()?;
    let root = table.get_ref();
    page.check_sections(root);
    let batch = page.one(root, &BATCH);
    let of = |name, otherwise: u64| batch.integer(name).unwrap_or(otherwise);
    let blocks = page.many(root, &DEFECTS);
    let cards = of("cards", 40) as usize;
    let faulty = if blocks.is_empty() {
        of("faulty", 10.min(cards as u64 / 4)) as usize
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
    let [links, buffers] = [of("links", 12), of("dma_buffers", 4)].map(|count| count as usize);
    let plan = BatchPlan::drawn(cards, faulty, of("seed", 1), links, buffers);
    // It is refused above, with its line.
    let mut plan = plan.ok()?;
    plan.format = BlockFormat::phase2(of("block_bytes", 4096) as usize).ok()?;
    let usual = Limits::default();
    plan.limits.repairs_most = of("repairs_most", 4) as usize;
    plan.limits.links.align_tries = of("align_tries", usual.links.align_tries.into()) as u32;
    plan.limits.links.error_rate = of("wrong_per_1e15_bits", 1000) as f64 * 1e-15;
    for block in &blocks {
        let card = block.integer("card");
        if card.is_none() {
            block.complain_whole(
                "it does not say which card",
                "card and kind",
                "add card = 0",
            );
        }
        let fault = defect(block, &BoardConfig::new(links, buffers));
        let (Some(card), Some(fault)) = (card, fault) else {
            continue;
        };
        match plan.cards.get_mut(card as usize) {
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

/// What is broken in the board of one card.
pub(super) fn of_card(
    page: &Page<'_>,
    root: &toml::de::DeTable<'_>,
    config: &CardConfig,
) -> Vec<Fault> {
    let links = config
        .elinks
        .iter()
        .map(|one| usize::from(one.elink.link()));
    let links = links.filter(|link| *link < BOARD_LINKS.1).max();
    let board = BoardConfig {
        format: config.format,
        ..BoardConfig::new(1 + links.unwrap_or(0), config.buffers)
    };
    let one = |block: &Block<'_, '_>| {
        block.idle("card", "this is the file of one card");
        defect(block, &board)
    };
    page.many(root, &DEFECTS).iter().filter_map(one).collect()
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

/// What is broken; none when the block does not say, or the board has no such part.
pub(super) fn defect(block: &Block<'_, '_>, board: &BoardConfig) -> Option<Fault> {
    if !block.has("kind") {
        block.complain_whole(
            "it does not say what is broken",
            "kind and, if you like, where",
            "add kind = \"dead_link\"",
        );
    }
    let kind: DefectKind = block.one_of("kind")?;
    let own = keys_of(kind);
    for key in DEFECTS.keys {
        let is_own = own.contains(&key.name) || ["kind", "card", "cure"].contains(&key.name);
        if !is_own {
            block.idle(key.name, &format!("it is no part of {}", kind.name()));
        }
    }
    let of = |name, otherwise: u64| block.integer(name).unwrap_or(otherwise);
    let byte = |name, otherwise| of(name, otherwise) as u8;
    let (link, buffer) = (byte("link", 0), byte("dma_buffer", 0));
    let (bit, line, every) = (byte("bit", 0), byte("line", 4), of("every", 100));
    let high = block.flag("high").unwrap_or(false);
    let chance = of("chance_ppm", 100_000) as f64 * 1e-6;
    let defect = match kind {
        DefectKind::NoAnswer => Defect::NoAnswer,
        DefectKind::StuckRegisterBit => Defect::StuckRegisterBit {
            address: of("address", 0x100) as u32,
            bit,
            high,
        },
        DefectKind::StuckAddressLine => Defect::StuckAddressLine { line, high },
        DefectKind::WrongFirmware => Defect::WrongFirmware(Firmware {
            version: of("version", 0x0501_0000) as u32,
            commit: !BOARD_FIRMWARE.commit,
            mode: BOARD_FIRMWARE.mode,
        }),
        DefectKind::DeadLink => Defect::DeadLink { link },
        DefectKind::UnsteadyLink => Defect::UnsteadyLink {
            link,
            fails: chance,
        },
        DefectKind::SwappedLinks => Defect::SwappedLinks {
            links: [link, byte("other_link", 1)],
        },
        DefectKind::BitErrors => Defect::BitErrors {
            link,
            rate: of("wrong_per_1e15_bits", 1_000_000_000) as f64 * 1e-15,
        },
        DefectKind::StuckDataBit => Defect::StuckDataBit { buffer, bit, high },
        DefectKind::StuckDmaLine => Defect::StuckDmaLine { buffer, line, high },
        DefectKind::LostBlocks => Defect::LostBlocks { buffer, every },
        DefectKind::NoInterrupt => Defect::NoInterrupt { buffer },
        DefectKind::SlowMemory => Defect::SlowMemory {
            share: of("percent", 50) as f64 / 100.0,
        },
        DefectKind::TtcUnlocked => Defect::TtcUnlocked,
        DefectKind::TriggersSkipped => Defect::TriggersSkipped { every },
        DefectKind::BcrLost => Defect::BcrLost { chance },
        DefectKind::MarkIgnored => Defect::MarkIgnored { link },
        DefectKind::XoffStuck => Defect::XoffStuck { link, high },
    };
    let cure = block.choice("cure").unwrap_or("none");
    let cure = Repair::ALL.into_iter().find(|repair| repair.name() == cure);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(text: &str) -> String {
        parse_batch("batch.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn a_batch_has_the_published_numbers_unless_it_says_otherwise() {
        let plan = parse_batch("batch.toml", "[batch]\n").unwrap();
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
            let plan = parse_batch("batch.toml", &text).unwrap();
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
