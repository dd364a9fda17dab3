//! Packets that are made here, of a profile that has a name: the same as `forebay emulate traffic` writes into a capture.

use std::fmt;
use std::str::FromStr;

use forebay_flow::{Frame, LinkType};
use forebay_traffic::{
    Config, FRAME_BYTES_MAX, NAMED, NamedProfile, NamedRows, PACKETS, ProfileError, Row, START_S,
    Traffic, named,
};

/// What stands before the name of a profile in the place of a capture's path.
const PREFIX: &str = "traffic:";

type Rows = std::iter::Map<NamedRows, fn(Row) -> Result<Row, ProfileError>>;

/// What is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    profile: &'static NamedProfile,
    packets: u64,
    seed: u64,
}

impl Said {
    /// The words behind the prefix.
    fn of(words: &str) -> Option<Self> {
        let mut words = words.split(':');
        let profile = named(words.next()?)?;
        let packets = number(words.next(), PACKETS)?;
        let seed = number(words.next(), Config::default().seed)?;
        let is_all = words.next().is_none() && packets >= NamedProfile::packets_min();
        is_all.then_some(Self {
            profile,
            packets,
            seed,
        })
    }
}

/// A number, or what is usual where none is said; nothing if it is none.
fn number<T: FromStr>(word: Option<&str>, usual: T) -> Option<T> {
    word.map_or(Some(usual), |word| word.parse().ok())
}

/// Words that name no traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTraffic(String);

impl std::error::Error for NotTraffic {}

impl fmt::Display for NotTraffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMED.map(|profile| profile.name).join(", ");
        let least = NamedProfile::packets_min();
        write!(
            f,
            "{PREFIX}{} names no traffic; give {PREFIX}PROFILE, {PREFIX}PROFILE:PACKETS or {PREFIX}PROFILE:PACKETS:SEED, {least} packets or more, in digits; the profiles are {names}; \
             a file of this name is ./{PREFIX}{}",
            self.0, self.0
        )
    }
}

/// The packets of a profile.
pub(super) struct Made {
    traffic: Traffic<Rows>,
    frame: Box<[u8]>,
}

impl Made {
    /// What a path names; nothing if it is that of a file.
    pub(super) fn of(path: &str) -> Option<Result<Self, NotTraffic>> {
        let words = path.strip_prefix(PREFIX)?;
        let said = Said::of(words).ok_or_else(|| NotTraffic(words.to_owned()));
        Some(said.map(Self::new))
    }

    fn new(said: Said) -> Self {
        let config = Config {
            seed: said.seed,
            timing: said.profile.timing,
            ..Config::default()
        };
        let rows = said.profile.rows(said.packets, said.seed);
        Self {
            traffic: Traffic::new(rows.map(Ok), &config),
            frame: vec![0; FRAME_BYTES_MAX].into(),
        }
    }

    /// The next one.
    pub(super) fn next(&mut self) -> Result<Option<Frame<'_>>, ProfileError> {
        let packet = self.traffic.poll_packet(&mut self.frame)?;
        Ok(packet.map(|packet| Frame {
            time_ns: packet.at_ns + u64::from(START_S) * 1_000_000_000,
            link: Some(LinkType::Ethernet),
            bytes: &self.frame[..packet.captured_bytes],
            wire_bytes: packet.wire_bytes as u32,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_profile_packets_and_a_seed() {
        let profile = named("nix-like-morning").unwrap();
        for (words, packets, seed) in [
            ("nix-like-morning", PACKETS, 1),
            ("nix-like-morning:5000", 5_000, 1),
            ("nix-like-morning:1000:7", 1_000, 7),
        ] {
            let said = Said {
                profile,
                packets,
                seed,
            };
            assert_eq!(Said::of(words), Some(said), "{words}");
        }
    }

    #[test]
    fn what_names_none_is_refused_with_the_names_there_are() {
        for words in [
            "",
            "night",
            "nix-like-morning:",
            "nix-like-morning:999",
            "nix-like-morning:1e6",
            "nix-like-morning:5000:1:2",
        ] {
            let Some(Err(error)) = Made::of(&format!("{PREFIX}{words}")) else {
                panic!("{words}");
            };
            let said = error.to_string();
            assert!(said.contains("nix-like-morning,"), "{said}");
            assert!(said.starts_with(&format!("traffic:{words} ")), "{said}");
        }
        assert!(Made::of("./traffic:night").is_none());
    }
}
