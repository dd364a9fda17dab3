//! How far a drill is, in a file, so that one that was interrupted goes on.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) seed: u64,
    pub(crate) round: u64,
    pub(crate) kind: String,
    pub(crate) text: String,
    pub(crate) directory: String,
}

pub(crate) struct State {
    pub(crate) seed: u64,
    /// What was asked for with `--only`.
    only: String,
    /// The next round.
    pub(crate) round: u64,
    pub(crate) kills: u64,
    pub(crate) kills_wanted: u64,
    by_kind: BTreeMap<String, u64>,
    pub(crate) findings: Vec<Finding>,
}

fn file(place: &Path) -> PathBuf {
    place.join("state.json")
}

impl State {
    /// That of the drill that was interrupted in `place`, if it is the one asked for; else a new one.
    pub(crate) fn begin(
        place: &Path,
        seed: Option<u64>,
        only: Option<&str>,
        kills: u64,
    ) -> Result<Self> {
        let left = fs::read_to_string(file(place)).ok();
        let left = left.and_then(|text| Self::read(&serde_json::from_str(&text).ok()?));
        let same = |state: &Self| {
            seed.is_none_or(|seed| seed == state.seed) && state.only == only.unwrap_or_default()
        };
        if let Some(mut state) = left.filter(|state| same(state) && !state.is_done()) {
            state.kills_wanted = kills;
            return Ok(state);
        }
        fs::create_dir_all(place).context("making the drill's directory")?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(1, |since| since.as_secs());
        Ok(Self {
            seed: seed.unwrap_or(now),
            only: only.unwrap_or_default().to_owned(),
            round: 0,
            kills: 0,
            kills_wanted: kills,
            by_kind: BTreeMap::new(),
            findings: Vec::new(),
        })
    }

    /// One round alone, whatever was done before.
    pub(crate) fn only_round(&mut self, round: u64) {
        (self.round, self.kills) = (round, 0);
        self.findings.clear();
        self.by_kind.clear();
    }

    pub(crate) fn is_done(&self) -> bool {
        self.kills >= self.kills_wanted
    }

    /// Takes in a round and keeps the state.
    pub(crate) fn add(
        &mut self,
        kind: &str,
        kills: u64,
        findings: Vec<Finding>,
        place: &Path,
    ) -> Result<()> {
        self.round += 1;
        // A round that could not kill anybody counts as one, or a drill would never end.
        self.kills += kills.max(1);
        *self.by_kind.entry(kind.to_owned()).or_default() += kills;
        self.findings.extend(findings);
        let (new, path) = (place.join("state.json.new"), file(place));
        fs::write(&new, self.json()).context("writing the drill's state")?;
        fs::rename(&new, &path).context("renaming the drill's state")
    }

    pub(crate) fn json(&self) -> String {
        let findings = self.findings.iter().map(|finding| {
            json!({"seed": finding.seed, "round": finding.round, "kind": finding.kind, "text": finding.text, "directory": finding.directory})
        });
        json!({
            "seed": self.seed, "only": self.only, "round": self.round, "kills": self.kills, "kills_wanted": self.kills_wanted,
            "kills_by_kind": self.by_kind, "findings": findings.collect::<Vec<_>>(),
        })
        .to_string()
    }

    fn read(text: &Value) -> Option<Self> {
        let number = |of: &Value, key: &str| of[key].as_u64();
        let word = |of: &Value, key: &str| Some(of[key].as_str()?.to_owned());
        let findings = text["findings"].as_array()?.iter().map(|one| {
            Some(Finding {
                seed: number(one, "seed")?,
                round: number(one, "round")?,
                kind: word(one, "kind")?,
                text: word(one, "text")?,
                directory: word(one, "directory")?,
            })
        });
        let kinds = text["kills_by_kind"].as_object()?.iter();
        Some(Self {
            seed: number(text, "seed")?,
            only: word(text, "only")?,
            round: number(text, "round")?,
            kills: number(text, "kills")?,
            kills_wanted: number(text, "kills_wanted")?,
            by_kind: kinds
                .filter_map(|(kind, kills)| Some((kind.clone(), kills.as_u64()?)))
                .collect(),
            findings: findings.collect::<Option<_>>()?,
        })
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("{} kills, seed {}:\n", self.kills, self.seed);
        for (kind, kills) in &self.by_kind {
            text += &format!("  {kills:5} {kind}\n");
        }
        for finding in &self.findings {
            text += &format!(
                "FOUND in round {} ({}): {}\n  again: ./x drill --seed {} --round {}{}; kept: {}\n",
                finding.round,
                finding.kind,
                finding.text,
                finding.seed,
                finding.round,
                if self.only.is_empty() {
                    String::new()
                } else {
                    format!(" --only {}", self.only)
                },
                finding.directory
            );
        }
        text + if self.findings.is_empty() {
            "Nothing was lost without a name, nothing was there twice, nobody healthy lost anything."
        } else {
            "There are findings."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drill_that_was_interrupted_goes_on_and_another_one_begins_anew() {
        let place = std::env::temp_dir().join(format!("forebay-drill-{}", std::process::id()));
        let mut state = State::begin(&place, Some(7), None, 10).unwrap();
        let finding = Finding {
            seed: 7,
            round: 0,
            kind: "mover".to_owned(),
            text: "3 events twice".to_owned(),
            directory: "somewhere".to_owned(),
        };
        state
            .add("mover", 4, vec![finding.clone()], &place)
            .unwrap();
        let again = State::begin(&place, None, None, 20).unwrap();
        assert_eq!((again.seed, again.round, again.kills), (7, 1, 4));
        assert_eq!(again.findings, [finding]);
        assert!(again.text().contains("--seed 7 --round 0"));
        let other = State::begin(&place, Some(8), None, 10).unwrap();
        assert_eq!((other.seed, other.round), (8, 0));
        let other = State::begin(&place, Some(7), Some("mover"), 10).unwrap();
        assert_eq!(other.round, 0);
        fs::remove_dir_all(&place).unwrap();
    }
}
