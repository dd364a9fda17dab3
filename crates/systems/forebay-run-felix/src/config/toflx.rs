//! To-flx's file.

use std::path::Path;
use std::time::Duration;

use forebay_msg::Config;
use forebay_run::config::block::Block;
use forebay_run::config::mistake::Mistakes;
use forebay_run::config::page::Page;
use forebay_run::config::{ConfigError, Source};
use forebay_run_net::Settings;
use forebay_run_net::section::security;

use super::sections::{TOFLX, TOFLX_DEVICES, TOFLX_SECTIONS};
use crate::toflx::{CardTarget, ToFlxPlan};

/// Reads to-flx's file.
///
/// `said` are keys of the command line, see [`Source::read`].
///
/// # Errors
/// It cannot be read, or has mistakes: all of them are told.
pub fn load_toflx(path: &Path, said: &[String]) -> Result<ToFlxPlan, ConfigError> {
    Ok(of_source(&Source::read(path, said)?)?)
}

/// Reads the text of to-flx's file called `file`.
///
/// # Errors
/// All mistakes in it.
pub fn parse_toflx(file: &str, text: &str) -> Result<ToFlxPlan, Mistakes> {
    of_source(&Source::of_text(file, text))
}

fn of_source(source: &Source) -> Result<ToFlxPlan, Mistakes> {
    let page = Page::new(source, &TOFLX_SECTIONS);
    let plan = toflx(&page);
    page.conclude(plan)
}

fn toflx(page: &Page<'_>) -> Option<ToFlxPlan> {
    let table = page.parse()?;
    let root = table.get_ref();
    page.check_sections(root);
    let whole = page.one(root, &TOFLX);
    let blocks = page.many(root, &TOFLX_DEVICES);
    if blocks.is_empty() {
        whole.complain_whole(
            "no card is named",
            "one [[devices]] block or more",
            "add [[devices]] with socket = \"card0.sock\"",
        );
    }
    if !whole.has("address") {
        whole.complain_whole(
            "its address is not named",
            "the address at which senders connect",
            "add address = \"shm://toflx\"",
        );
    }
    let mut cards: Vec<CardTarget> = Vec::new();
    for block in &blocks {
        if let Some(card) = device(block, &cards) {
            cards.push(card);
        }
    }
    let usual = Config::default();
    let of = |name, otherwise: u32| whole.integer(name).map_or(otherwise, |value| value as u32);
    let messages = Config {
        buffer_bytes: of("buffer_bytes", usual.buffer_bytes),
        buffer_count: of("buffer_count", usual.buffer_count),
        ..usual
    };
    let seconds = |name| whole.integer(name).map(Duration::from_secs);
    let usual_wait = Duration::from_secs(10);
    let out = whole
        .path("directory")
        .unwrap_or_else(|| "forebay-toflx".into());
    Some(ToFlxPlan {
        cards,
        address: whole.link("address")?,
        settings: Settings {
            messages,
            connections_max: of("senders_max", 128) as usize,
            security: security(&whole),
            out: Some(out.join("receiver")),
            ..Settings::default()
        },
        out: Some(out),
        metrics: whole.socket("metrics"),
        message_bytes_max: whole
            .integer("message_bytes_max")
            .map(|bytes| bytes as usize),
        card_wait: seconds("card_wait_s").unwrap_or(usual_wait),
        drain: seconds("drain_s").unwrap_or(usual_wait),
        duration: seconds("duration_s"),
    })
}

fn device(block: &Block<'_, '_>, before: &[CardTarget]) -> Option<CardTarget> {
    if !block.has("socket") {
        block.complain_whole(
            "its socket is not named",
            "the socket of each card",
            "add socket = \"card0.sock\"",
        );
    }
    let card = CardTarget {
        detector: block.integer("detector").unwrap_or(0) as u8,
        connector: block.integer("connector").unwrap_or(0) as u16,
        socket: block.path("socket")?,
    };
    let same = |one: &&CardTarget| {
        [u16::from(one.detector), one.connector] == [u16::from(card.detector), card.connector]
    };
    if before.iter().any(|one| same(&one)) {
        block.complain_whole(
            "another card has the same detector and connector",
            "a pair of its own for each card: a fid names its card by them",
            &format!("add connector = {}", card.connector.wrapping_add(1)),
        );
    }
    Some(card)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_as_it_says() {
        let text = include_str!("../../../../../examples/toflx.toml");
        let plan = parse_toflx("toflx.toml", text).unwrap();
        assert_eq!(
            (plan.cards.len(), plan.address.to_string()),
            (1, "shm://toflx".into())
        );
        assert_eq!((plan.cards[0].detector, plan.message_bytes_max), (0, None));
        // What is commented out is the default: it changes nothing.
        let lines = text.lines().map(|line| match line.strip_prefix("# ") {
            Some(key) if key.contains(" = ") && !key.contains('`') => key,
            _ => line,
        });
        let written: Vec<&str> = lines.collect();
        let same = parse_toflx("toflx.toml", &written.join("\n")).unwrap();
        assert_eq!(same.settings.messages, plan.settings.messages);
        assert_eq!(
            (same.card_wait, same.drain, same.out),
            (plan.card_wait, plan.drain, plan.out)
        );
    }

    #[test]
    fn mistakes_are_told_with_what_would_be_right() {
        let told = |text: &str| parse_toflx("toflx.toml", text).unwrap_err().to_string();
        let empty = told("[toflx]\n");
        assert!(empty.contains("no card is named"), "{empty}");
        assert!(empty.contains("its address is not named"), "{empty}");
        let card = "[[devices]]\nsocket = \"a\"\n";
        let twice = told(&format!("[toflx]\naddress = \"shm://a\"\n{card}{card}"));
        assert!(twice.contains("same detector and connector"), "{twice}");
        assert!(twice.contains("connector = 1"), "{twice}");
        let wrong = told("[toflx]\naddress = \"shm://a\"\nmessage_bytes_max = 0\n[[devices]]\n");
        assert!(
            wrong.contains("1048576") && wrong.contains("socket"),
            "{wrong}"
        );
    }
}
