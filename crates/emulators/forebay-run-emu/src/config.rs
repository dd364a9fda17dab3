//! The files of cards and of batches of them: TOML in, plans out, or every mistake with its place and its remedy. It is the machinery of [configuration files](forebay_run::config) with
//! other sections.

mod batch;
mod queues;
pub mod sections;
mod words;

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_emu::card::{
    CardConfig, CardFault, CardFaultKind, CardFaultRule, ChunkSizes, ElinkConfig, Speed, Spread,
    Trains, TtcConfig,
};
use forebay_emu::{Limit, Pick};
use forebay_ledger::DropReason;
use forebay_run::config::block::Block;
use forebay_run::config::mistake::Mistakes;
use forebay_run::config::page::Page;
use forebay_run::config::{ConfigError, Source};
use forebay_run_felix::config::sections::{TOFLX, TOHOST_SECTIONS};
use forebay_wire::felix::{BlockFormat, Elink};

use crate::card::CardPlan;
pub use batch::{load_batch, parse_batch};
use sections::{BATCH, CARD, CARD_SECTIONS, CHUNKS, FAULTS, FROM_HOST, LINKS, QUEUES, TTC};
use words::{BlockWord, LinkWord, SizeWord, SpreadWord};

/// Which kind of file of link readout a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// That of a card.
    Card,
    /// That of to-host.
    ToHost,
    /// That of a batch of cards to validate.
    Batch,
    /// That of to-flx.
    ToFlx,
}

/// The kind of a text, by its sections; none when it has none that only these files have.
#[must_use]
pub fn kind_of(text: &str) -> Option<FileKind> {
    let (table, _) = toml::de::DeTable::parse_recoverable(text);
    let has = |sections: &[forebay_run::config::keys::Section]| {
        let mut keys = table.get_ref().keys();
        keys.any(|key| {
            sections
                .iter()
                .any(|section| section.name == &**key.get_ref())
        })
    };
    if has(&[BATCH]) {
        Some(FileKind::Batch)
    } else if has(&CARD_SECTIONS) {
        Some(FileKind::Card)
    } else if has(&[TOFLX]) {
        Some(FileKind::ToFlx)
    } else if has(&TOHOST_SECTIONS) {
        Some(FileKind::ToHost)
    } else {
        None
    }
}

/// Reads a card's file.
///
/// `said` are keys of the command line, see [`Source::read`].
///
/// # Errors
/// It cannot be read, or has mistakes: all of them are told.
pub fn load_card(path: &Path, said: &[String]) -> Result<CardPlan, ConfigError> {
    Ok(of_source(&Source::read(path, said)?)?)
}

/// Reads the text of a card's file called `file`.
///
/// # Errors
/// All mistakes in it.
pub fn parse_card(file: &str, text: &str) -> Result<CardPlan, Mistakes> {
    of_source(&Source::of_text(file, text))
}

fn of_source(source: &Source) -> Result<CardPlan, Mistakes> {
    let page = Page::new(source, &CARD_SECTIONS);
    let plan = card(&page);
    page.conclude(plan)
}

fn card(page: &Page<'_>) -> Option<CardPlan> {
    let table = page.parse()?;
    let root = table.get_ref();
    page.check_sections(root);
    let card = page.one(root, &CARD);
    let links = page.many(root, &LINKS);
    let buffers = card.integer("dma_buffers").unwrap_or(1) as usize;
    let mut elinks = Vec::new();
    for block in &links {
        read_links(block, buffers, &mut elinks);
    }
    if links.is_empty() {
        card.complain_whole(
            "no link is named",
            "one [[links]] block or more",
            "add [[links]] with links = [0, 1]",
        );
    }
    let from_host = page.one(root, &FROM_HOST);
    let format = format(&card)?;
    let dma_bytes = card.integer("dma_bytes").unwrap_or(64 << 20);
    let dma_blocks = dma_bytes / format.bytes() as u64;
    let queues = page.one(root, &QUEUES);
    let config = CardConfig {
        format,
        elinks,
        buffers,
        ttc: ttc(&page.one(root, &TTC), buffers),
        sizes: sizes(&page.one(root, &CHUNKS)),
        front_end: queues::front_end(&queues, &from_host, dma_blocks),
        fifo: queues::fifo(&queues),
        block_timeout_ns: card.integer("block_timeout_us").unwrap_or(1000) * 1000,
        seed: card.integer("seed").unwrap_or(1),
        faults: page.many(root, &FAULTS).iter().filter_map(fault).collect(),
    };
    if page.is_clean()
        && let Err(error) = config.validate()
    {
        card.complain_whole(
            &error.to_string(),
            "values that agree with each other",
            "change one of them",
        );
    }
    if config.ttc.ecr_period_ns.is_some() {
        card.idle(
            "trigger_times",
            "trigger numbers are reset, and chunks then do not say which trigger they are of",
        );
    }
    let name = card.name("name").unwrap_or_else(|| "card0".into());
    let defects = batch::of_card(page, root, &config);
    Some(CardPlan {
        defects,
        socket: card
            .path("socket")
            .unwrap_or_else(|| PathBuf::from(format!("{name}.sock"))),
        name,
        out: card.path("directory"),
        metrics: card.socket("metrics"),
        trigger_times: card.path("trigger_times"),
        dma_blocks,
        from_host_packets: queues::from_host_packets(
            &from_host,
            config.front_end.message_bytes_max,
        ),
        config,
        wait_for_readers: card.flag("wait_for_readers").unwrap_or(true),
        time_dilation: card.integer("time_dilation").unwrap_or(1),
        drain: Duration::from_secs(card.integer("drain_s").unwrap_or(60)),
        leak: forebay_ledger::Leak::off(),
    })
}

fn format(card: &Block<'_, '_>) -> Option<BlockFormat> {
    let kind = card.one_of("blocks").unwrap_or(BlockWord::Phase2);
    let format = match kind {
        BlockWord::Phase1 => BlockFormat::PHASE1,
        BlockWord::Phase1Wide => BlockFormat::PHASE1_WIDE,
        BlockWord::Phase2 => {
            let bytes = card.integer("block_bytes").unwrap_or(4096);
            BlockFormat::phase2(bytes as usize).ok()?
        }
    };
    if kind != BlockWord::Phase2 {
        card.idle("block_bytes", "blocks of phase 1 have 1024 bytes");
    }
    Some(if card.flag("subchunk_headers").unwrap_or(false) {
        format.with_headers()
    } else {
        format
    })
}

fn read_links(block: &Block<'_, '_>, buffers: usize, elinks: &mut Vec<ElinkConfig>) {
    let is_full = match block.one_of("kind") {
        Some(LinkWord::Full) | None => true,
        Some(LinkWord::Gbt) => false,
    };
    let buffer = block.integer("dma_buffer").unwrap_or(0) as usize;
    if buffer >= buffers {
        block.complain(
            "dma_buffer",
            &format!("there is no such buffer: the card has {buffers}, counted from 0"),
            &format!("an integer from 0 to {}", buffers - 1),
            "name another one, or give [card] more dma_buffers",
        );
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
    let width_bits = block.integer("width_bits").unwrap_or(8) as u8;
    let stream = block.integer("stream").map(|stream| stream as u8);
    let loop_back = block.flag("loop_back").unwrap_or(false);
    if loop_back {
        block.idle("stream", "what is sent back begins as it came");
    }
    for number in block.integers(of).unwrap_or_default() {
        let number = number as u16;
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
                Speed::Gbt { width_bits }
            },
            buffer,
            stream,
            loop_back,
        });
    }
}

fn fault(block: &Block<'_, '_>) -> Option<CardFaultRule> {
    if !block.has("kind") {
        block.complain_whole(
            "it does not say what goes wrong",
            "kind and, if you like, where and when",
            "add kind = \"lost_block\"",
        );
    }
    let kind = CardFaultKind::named(block.choice("kind")?)?;
    let for_us = block.integer("for_us").unwrap_or(1000);
    if kind != CardFaultKind::StuckLink {
        block.idle("for_us", "only a stuck_link lasts for a time");
    }
    let fault = match kind {
        CardFaultKind::LostBlock => CardFault::LostBlock,
        CardFaultKind::JumpedSequence => CardFault::JumpedSequence,
        CardFaultKind::BadTrailer => CardFault::BadTrailer,
        CardFaultKind::WrongMarker => CardFault::WrongMarker,
        CardFaultKind::CrcFlag => CardFault::CrcFlag,
        CardFaultKind::ErrorFlag => CardFault::ErrorFlag,
        CardFaultKind::BusyFlag => CardFault::BusyFlag,
        CardFaultKind::Truncated => CardFault::Truncated,
        CardFaultKind::BitFlip => CardFault::BitFlip,
        CardFaultKind::StoppedLink => CardFault::StoppedLink,
        CardFaultKind::XoffIgnored => CardFault::XoffIgnored,
        CardFaultKind::StuckLink => CardFault::StuckLink {
            for_ns: for_us * 1000,
        },
    };
    let first = block.integer("first").unwrap_or(0);
    let after = some(block, "count").map_or(u64::MAX, |count| first.saturating_add(count));
    let chance = block.integer("chance_ppm");
    if chance.is_some() {
        block.idle("every", "it has a chance");
    }
    Some(CardFaultRule {
        elink: block
            .integer("elink")
            .and_then(|number| Elink::new(number as u16)),
        fault,
        triggers: first..after,
        pick: match (chance, block.integer("every")) {
            (Some(ppm), _) => Pick::Chance(ppm as f64 / 1e6),
            (None, Some(every)) if every > 1 => Pick::Every(every),
            _ => Pick::Always,
        },
    })
}

/// 0 stands for none.
fn some(block: &Block<'_, '_>, name: &str) -> Option<u64> {
    block.integer(name).filter(|value| *value > 0)
}

fn ttc(block: &Block<'_, '_>, buffers: usize) -> TtcConfig {
    let of = |name, otherwise: u16| block.integer(name).map_or(otherwise, |value| value as u16);
    let usual = Trains::default();
    let spread = match block.one_of("spread") {
        Some(SpreadWord::Poisson) => Spread::Poisson,
        Some(SpreadWord::Trains) => Spread::Trains(Trains {
            trains: of("trains", usual.trains),
            bunches: of("train_bunches", usual.bunches),
            gap_bunches: of("gap_bunches", usual.gap_bunches),
        }),
        Some(SpreadWord::Fixed) | None => Spread::Fixed,
    };
    if !matches!(spread, Spread::Trains(_)) {
        for name in ["trains", "train_bunches", "gap_bunches"] {
            block.idle(name, "triggers are not spread over trains");
        }
    }
    let to_host = block.integer("messages_to").map(|buffer| buffer as usize);
    if to_host.is_some_and(|buffer| buffer >= buffers) {
        block.complain(
            "messages_to",
            &format!("there is no such buffer: the card has {buffers}, counted from 0"),
            &format!("an integer from 0 to {}", buffers - 1),
            "name another one, or give [card] more dma_buffers",
        );
    }
    let rate_hz = block.integer("rate_hz").unwrap_or(100_000);
    TtcConfig {
        spread,
        dead_time_bunches: block.integer("dead_time_bunches").unwrap_or(0),
        ecr_period_ns: some(block, "ecr_period_us").map(|us| us * 1000),
        to_host,
        trigger_type: of("trigger_type", 1),
        limit: Limit {
            events: some(block, "triggers"),
            duration_ns: some(block, "duration_ms").map(|ms| ms * 1_000_000),
        },
        ..TtcConfig::at_rate(rate_hz as f64)
    }
}

fn sizes(block: &Block<'_, '_>) -> ChunkSizes {
    let kind = block.one_of("sizes").unwrap_or(SizeWord::Fixed);
    let of = |name, otherwise: u32| block.integer(name).map_or(otherwise, |value| value as u32);
    let bytes = of("bytes", 64);
    let [min_bytes, max_bytes] = [of("min_bytes", 16), of("max_bytes", 2048)];
    let sigma = f64::from(of("sigma_percent", 30)) / 100.0;
    let unused: &[&str] = match kind {
        SizeWord::Uniform => &["bytes", "sigma_percent", "ramp_triggers"],
        SizeWord::Normal | SizeWord::LogNormal => &["ramp_triggers"],
        SizeWord::Ramp => &["bytes", "sigma_percent"],
        SizeWord::Fixed => &["min_bytes", "max_bytes", "sigma_percent", "ramp_triggers"],
    };
    for name in unused {
        block.idle(name, &format!("sizes are {}", kind.name()));
    }
    if kind != SizeWord::Fixed && min_bytes > max_bytes {
        block.complain(
            "min_bytes",
            &format!("it is more than max_bytes, {max_bytes}"),
            &format!("an integer from 8 to {max_bytes} bytes"),
            "make it smaller, or max_bytes larger",
        );
    }
    match kind {
        SizeWord::Uniform => ChunkSizes::Uniform {
            min_bytes,
            max_bytes,
        },
        SizeWord::Normal => ChunkSizes::Normal {
            mean_bytes: bytes.into(),
            sigma_bytes: f64::from(bytes) * sigma,
            min_bytes,
            max_bytes,
        },
        SizeWord::LogNormal => ChunkSizes::LogNormal {
            median_bytes: bytes.into(),
            sigma,
            min_bytes,
            max_bytes,
        },
        SizeWord::Ramp => ChunkSizes::Ramp {
            from_bytes: min_bytes,
            to_bytes: max_bytes,
            triggers: block.integer("ramp_triggers").unwrap_or(1_000_000),
        },
        SizeWord::Fixed => ChunkSizes::Fixed { bytes },
    }
}

#[cfg(test)]
mod tests {
    use forebay_run_felix::config::parse_tohost;

    use super::*;

    #[test]
    fn the_examples_are_as_they_say() {
        let card = parse_card("card.toml", include_str!("../../../../examples/card.toml")).unwrap();
        assert_eq!(card.config.elinks.len(), 12);
        assert_eq!(card.config.ttc.limit.duration_ns, Some(10_000_000_000));
        assert_eq!((card.dma_blocks, card.config.buffers), (16_384, 2));
        let text = include_str!("../../../../examples/tohost.toml");
        let tohost = parse_tohost("tohost.toml", text).unwrap();
        assert_eq!(tohost.devices[0].socket, card.socket);
        assert_eq!(tohost.devices[0].buffers, None);
        // What is commented out is the default: it changes nothing.
        let written = |text: &str| {
            let lines = text.lines().map(|line| match line.strip_prefix("# ") {
                Some(key) if key.contains(" = ") && !key.contains('`') => key,
                _ => line,
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        let same = parse_tohost("tohost.toml", &written(text)).unwrap();
        assert_eq!(
            same.devices[0].settings.messages,
            tohost.devices[0].settings.messages
        );
        assert_eq!((same.detector, same.subscribers_min), (0, 0));
    }

    #[test]
    fn every_fault_can_be_asked_for_by_its_name() {
        for name in CardFault::NAMES {
            let text = format!(
                "[[links]]\nlinks = [3]\n[[faults]]\nkind = \"{name}\"\nelink = 192\nfirst = 10\ncount = 5\nevery = 2\n"
            );
            let card = parse_card("card.toml", &text).unwrap();
            let rule = &card.config.faults[0];
            assert_eq!(rule.fault.name(), name);
            assert_eq!((rule.triggers.clone(), rule.pick), (10..15, Pick::Every(2)));
            assert_eq!(rule.elink, Elink::of_link(3));
        }
    }

    #[test]
    fn times_of_triggers_need_numbers_that_go_on() {
        let text = |ecr: &str| {
            format!("[card]\ntrigger_times = \"times\"\n[ttc]\n{ecr}\n[[links]]\nlinks = [0]\n")
        };
        let card = parse_card("card.toml", &text("")).unwrap();
        assert_eq!(card.trigger_times, Some("times".into()));
        let mistakes = parse_card("card.toml", &text("ecr_period_us = 1000000")).unwrap_err();
        let told = mistakes.to_string();
        assert!(
            told.contains("trigger_times") && told.contains("reset"),
            "{told}"
        );
    }

    #[test]
    fn a_declared_default_of_a_card_is_the_one_that_holds() {
        let shortest = "[[links]]\nlinks = [0]\n";
        let mut text = String::new();
        for section in &CARD_SECTIONS {
            let header = section.header();
            if section.many {
                continue;
            }
            text += &format!("{header}\n");
            let apart = [
                "trains",
                "train_bunches",
                "gap_bunches",
                "min_bytes",
                "max_bytes",
                "sigma_percent",
                "ramp_triggers",
            ];
            for key in section.keys.iter().filter(|key| !apart.contains(&key.name)) {
                if let forebay_run::config::keys::Default::Value(value) = key.default {
                    text += &format!("{} = {value}\n", key.name);
                }
            }
        }
        let written = parse_card("card.toml", &format!("{text}{shortest}")).unwrap();
        let usual = parse_card("card.toml", shortest).unwrap();
        assert_eq!(written.config, usual.config);
        assert_eq!(written.dma_blocks, usual.dma_blocks);
        assert_eq!(written.drain, usual.drain);
    }
}
