//! The subscriber's file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use forebay_config::{ConfigFile, Document, Sections};
use forebay_msg::Config;
use forebay_run::chain::{Joints, Member};
use forebay_run_net::section::{SecuritySettings, SlowReader};
use forebay_run_net::{Address, Settings};
use forebay_settings::{Settings as _, choices, settings};
use forebay_wire::felix::Elink;

use crate::swrod::{Payload, Publishers, Selection, SwrodPlan};

choices! {
    /// What a subscriber holds chunks against.
    pub enum PayloadCheck {
        /// What the firmware's data generator makes, and on E-link 0x600 messages about triggers.
        Generated = "generated",
        /// Nothing: they are counted.
        None = "none",
    }
}

impl From<PayloadCheck> for Payload {
    fn from(check: PayloadCheck) -> Self {
        match check {
            PayloadCheck::Generated => Self::Generated,
            PayloadCheck::None => Self::None,
        }
    }
}

settings! {
    /// The subscriber: it takes the chunks of E-links, looks at every byte of them, and writes nothing.
    pub struct SwrodSettings in [swrod] {
        /// Where publishers listen: every DMA buffer of to-host has an address of its own.
        addresses: Vec<Address> = Vec::new() => "required",
        /// Where ledger and record lie. Made if it is not there.
        directory: PathBuf = "forebay-swrod".into(),
        /// Serves Prometheus' text format at GET /metrics there.
        metrics: Option<SocketAddr> => "not served",
        /// Numbers of E-links that are subscribed to, as `--elink` of `forebay swrod` names them (its `--elinks` are links: link n in FULL mode has E-link 64 n).
        elinks: Vec<u16> [0..=2047] = Vec::new() => "all of the detector and connector",
        /// Detector in the fids of the E-links.
        detector: Option<u8> [0..=255] => "0 with elinks, any without",
        /// Connector in the fids of the E-links.
        connector: Option<u16> [0..=65_535] => "0 with elinks, any without",
        /// What chunks are held against: what the firmware's data generator makes (and on E-link 0x600 messages about triggers), or nothing.
        payload: PayloadCheck = PayloadCheck::Generated,
        /// Joins the chunks of each trigger of all `elinks`, and counts complete fragments: so many triggers may be under way at a time.
        fragments_window: Option<u32> [256..=1_048_576] => "they are not joined",
        /// The file that `trigger_times` of an emulated card names: measures how long chunks took from their trigger to here.
        trigger_times: Option<PathBuf> => "not measured",
        /// What becomes of chunks for which this side is too slow: the publisher waits, or what is new, or oldest, is dropped by name, or the connection ends.
        slow: SlowReader = SlowReader::Block,
        /// Network buffers of a connection: how much of it is on its way.
        buffer_bytes: u32 [64..=Config::BUFFER_BYTES_MOST] = Config::default().buffer_bytes,
        /// How many of them.
        buffer_count: u32 [1..=Config::BUFFER_COUNT_MOST] = Config::default().buffer_count,
        /// How long a publisher that is not there, or silent, is waited for.
        block_ms: u64 [1..=3_600_000] = Config::default().block_ns / 1_000_000,
        /// Ends when so many chunks have come; those that are on their way then are checked too.
        chunks_max: Option<u64> [1..=u64::MAX >> 1] => "no end by number",
        /// Ends so long after the first chunk.
        duration_s: Option<u64> [1..=31_536_000] => "until the publishers end, Ctrl-C or SIGTERM",
        ..security: SecuritySettings,
    }
}

/// The file of a subscriber.
#[derive(Clone, Debug)]
pub struct SwrodFile {
    /// What is subscribed to, and what is done with it.
    pub plan: SwrodPlan,
    /// Where Prometheus is answered.
    pub metrics: Option<SocketAddr>,
}

impl ConfigFile for SwrodFile {
    const SECTIONS: Sections = &[SwrodSettings::SECTION];

    fn of(document: &Document<'_>) -> Option<Self> {
        let (said, block) = document.one::<SwrodSettings>();
        if !block.has("addresses") {
            block.complain_whole(
                "no publisher is named",
                "the addresses at which chunks are published",
                "add addresses = [\"shm://felix\"]",
            );
        }
        if said.fragments_window.is_some() && !block.has("elinks") {
            block.complain(
                "fragments_window",
                "the E-links of a fragment are not known",
                "elinks beside it",
                "name all E-links of a fragment, as elinks = [0, 64]",
            );
        }
        if said.payload == PayloadCheck::None {
            for key in ["fragments_window", "trigger_times"] {
                block.idle(
                    key,
                    "it needs trigger numbers, which payload = \"none\" does not read",
                );
            }
        }
        let selection = Selection {
            elinks: said
                .elinks
                .iter()
                .filter_map(|at| Elink::new(*at))
                .collect(),
            fids: Vec::new(),
            detector: said.detector,
            connector: said.connector,
        };
        let (tags, patterns) = selection.entries();
        Some(Self {
            plan: SwrodPlan {
                publishers: Publishers::At(said.addresses),
                tags,
                patterns,
                payload: said.payload.into(),
                fragments_window: said.fragments_window.map(|window| window as usize),
                duration: said.duration_s.map(Duration::from_secs),
                count: said.chunks_max,
                trigger_times: said.trigger_times,
                settings: Settings {
                    messages: Config {
                        buffer_bytes: said.buffer_bytes,
                        buffer_count: said.buffer_count,
                        block_ns: said.block_ms * 1_000_000,
                        slow: said.slow.into(),
                        ..Config::default()
                    },
                    security: said.security.with(said.security.certificates(&block)),
                    out: Some(said.directory),
                    ..Settings::default()
                },
            },
            metrics: said.metrics,
        })
    }
}

impl Member for SwrodFile {
    const KIND: &'static str = "swrod";
    const DIRECTORY: &'static str = "swrod.directory";

    fn joints(&self) -> Joints {
        let connects = match &self.plan.publishers {
            Publishers::At(all) => all.iter().map(Address::to_string).collect(),
            Publishers::On(_) => Vec::new(),
        };
        Joints {
            connects,
            ..Joints::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_config::parse;
    use forebay_run_net::Slow;
    use forebay_wire::felix::Fid;

    use super::*;

    fn read(text: &str) -> Result<SwrodFile, String> {
        let text = format!("[swrod]\n{text}");
        parse::<SwrodFile>("swrod.toml", &text).map_err(|mistakes| mistakes.to_string())
    }

    #[test]
    fn a_file_comes_to_the_plan_that_it_says() {
        let file = read(
            "addresses = [\"shm://a\", \"shm://a-1\"]\nelinks = [64, 0]\nconnector = 7\nfragments_window = 512\nslow = \"drop-oldest\"\nblock_ms = 20\n",
        )
        .unwrap();
        let fid = |number| Fid::to_host(0, 7, Elink::new(number).unwrap()).0;
        assert_eq!(file.plan.tags, [fid(0), fid(64)]);
        assert!(file.plan.patterns.is_empty());
        assert_eq!(file.plan.fragments_window, Some(512));
        let messages = &file.plan.settings.messages;
        assert_eq!(
            (messages.slow, messages.block_ns),
            (Slow::DropOldest, 20_000_000)
        );
        assert_eq!(file.joints().connects, ["shm://a", "shm://a-1"]);
    }

    #[test]
    fn what_lacks_and_what_says_nothing_is_told() {
        for (text, wrong) in [
            ("", "no publisher is named"),
            (
                "addresses = [\"shm://a\"]\nfragments_window = 512\n",
                "the E-links of a fragment are not known",
            ),
            (
                "addresses = [\"shm://a\"]\npayload = \"none\"\ntrigger_times = \"t\"\n",
                "needs trigger numbers",
            ),
        ] {
            let told = read(text).unwrap_err();
            assert!(told.contains(wrong), "{text}: {told}");
        }
    }
}
