//! To-flx's file.

use std::net::SocketAddr;
use std::path::PathBuf;

use forebay_config::{Block, ConfigFile, Document, Sections};
use forebay_msg::Config;
use forebay_run::chain::{Joints, Member};
use forebay_run_net::section::SecuritySettings;
use forebay_run_net::{Address, Settings};
use forebay_settings::{Settings as _, settings};

use super::text_of;
use crate::toflx::{CardTarget, ToFlxPlan};

settings! {
    /// To-flx as a whole.
    pub struct ToFlxSettings in [toflx] {
        /// Where senders connect (`forebay net send`), over any backend. Tags are 64-bit fids, with the bit of the direction to the front end.
        address: Option<Address>,
        /// Where ledger and record lie, and below it those of the end point. Made if it is not there.
        directory: PathBuf = "forebay-toflx".into(),
        /// Serves Prometheus' text format at GET /metrics there.
        metrics: Option<SocketAddr> => "not served",
        /// Longest message; a longer one is lost by name. What a card takes is its limit, too.
        message_bytes_max: Option<usize> [1..=1 << 20] => "what each card takes",
        /// How long a card that is not there yet is waited for, and one that was lost.
        card_wait_s: u64 [0..=1_000_000] = 10,
        /// How long the end may take until the cards have taken everything.
        drain_s: u64 [0..=3600] = 10,
        /// Network buffers of each sender: the longest message that can come.
        buffer_bytes: u32 [64..=Config::BUFFER_BYTES_MOST] = Config::default().buffer_bytes,
        /// How many of them: so much is on its way when a full card holds a sender back.
        buffer_count: u32 [1..=Config::BUFFER_COUNT_MOST] = Config::default().buffer_count,
        /// Senders at a time.
        senders_max: usize [1..=4096] = 128,
        /// Ends the run after so long.
        duration_s: Option<u64> [1..=31_536_000] => "until the cards end, Ctrl-C or SIGTERM",
        ..security: SecuritySettings,
    }
}

settings! {
    /// Cards that are written. A fid names its card by detector and connector.
    pub struct CardSettings in [[devices]] {
        /// Where the card is opened.
        socket: Option<PathBuf>,
        /// Detector in the fids of its E-links.
        detector: u8 [0..=255] = 0,
        /// Connector in the fids of its E-links.
        connector: u16 [0..=65_535] = 0,
    }
}

impl ConfigFile for ToFlxPlan {
    const SECTIONS: Sections = &[ToFlxSettings::SECTION, CardSettings::SECTION];

    fn of(document: &Document<'_>) -> Option<Self> {
        let (said, whole) = document.one::<ToFlxSettings>();
        let blocks = document.many::<CardSettings>();
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
        for (card, block) in blocks {
            if let Some(card) = target(card, &block, &cards) {
                cards.push(card);
            }
        }
        Some(Self {
            cards,
            address: said.address.clone()?,
            settings: Settings {
                messages: Config {
                    buffer_bytes: said.buffer_bytes,
                    buffer_count: said.buffer_count,
                    ..Config::default()
                },
                connections_max: said.senders_max,
                security: said.security.with(said.security.certificates(&whole)),
                out: Some(said.directory.join("receiver")),
                ..Settings::default()
            },
            said,
        })
    }
}

fn target(card: CardSettings, block: &Block<'_, '_>, before: &[CardTarget]) -> Option<CardTarget> {
    if !block.has("socket") {
        block.complain_whole(
            "its socket is not named",
            "the socket of each card",
            "add socket = \"card0.sock\"",
        );
    }
    let card = CardTarget {
        detector: card.detector,
        connector: card.connector,
        socket: card.socket?,
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

impl Member for ToFlxPlan {
    const KIND: &'static str = "toflx";
    const DIRECTORY: &'static str = "toflx.directory";

    fn joints(&self) -> Joints {
        let cards = self.cards.iter();
        Joints {
            connects: cards.map(|card| text_of(&card.socket)).collect(),
            listens: vec![self.address.to_string()],
            ..Joints::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_config::parse;

    use super::*;

    #[test]
    fn the_example_is_as_it_says() {
        let text = include_str!("../../../../../examples/toflx.toml");
        let plan = parse::<ToFlxPlan>("toflx.toml", text).unwrap();
        assert_eq!(
            (plan.cards.len(), plan.address.to_string()),
            (1, "shm://toflx".into())
        );
        assert_eq!(
            (plan.cards[0].detector, plan.said.message_bytes_max),
            (0, None)
        );
        // What is commented out is the default: it changes nothing.
        let lines = text.lines().map(|line| match line.strip_prefix("# ") {
            Some(key) if key.contains(" = ") && !key.contains('`') => key,
            _ => line,
        });
        let written: Vec<&str> = lines.collect();
        let same = parse::<ToFlxPlan>("toflx.toml", &written.join("\n")).unwrap();
        let without_metrics = ToFlxSettings {
            metrics: None,
            ..same.said
        };
        assert_eq!(without_metrics, plan.said);
    }

    #[test]
    fn mistakes_are_told_with_what_would_be_right() {
        let told = |text: &str| {
            parse::<ToFlxPlan>("toflx.toml", text)
                .unwrap_err()
                .to_string()
        };
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
