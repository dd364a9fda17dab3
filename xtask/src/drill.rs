//! `cargo xtask drill BINARY`: random `kill -9` over every kind of process, and the accounts of the dead and of the survivors held against the data that
//! arrived. What it looks for: losses that nobody names, data that is there twice, and data of healthy parties that is lost.
//!
//! It works in rounds. A round is one session of one kind in a directory of its own, with one or more kills at random moments; all that is random in it
//! follows from the seed and its number. The state lies below the target directory after each round: a drill that was interrupted goes on. What
//! was found keeps its directory.

mod check;
mod event_builder;
mod messages;
mod mover;
mod process;
mod random;
mod readout;
mod readout_back;
mod state;
mod windows;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use random::Random;
use state::{Finding, State};

/// Kills of a whole drill.
const KILLS: u64 = 1000;

/// What a round works with.
pub(crate) struct Round {
    /// The program.
    pub(crate) binary: PathBuf,
    /// Its own directory.
    pub(crate) directory: PathBuf,
    /// Its number, for names and ports that no other round has.
    pub(crate) number: u64,
    pub(crate) random: Random,
    /// Processes killed so far.
    pub(crate) kills: u64,
    /// What was chosen at random that changes what is tested, in words.
    pub(crate) chosen: Vec<String>,
    /// What is wrong, in words.
    pub(crate) wrong: Vec<String>,
}

impl Round {
    /// How files of events are written in this round: `direct` or `buffered`. It is said with the round.
    pub(crate) fn choose_io(&mut self) -> &'static str {
        let io = ["direct", "buffered"][self.random.below(2) as usize];
        self.chosen.push(format!("io = {io}"));
        io
    }

    /// Notes what is wrong, unless it is as it should be.
    pub(crate) fn expect(&mut self, fine: bool, wrong: impl FnOnce() -> String) {
        if !fine {
            self.wrong.push(wrong());
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The first of ten ports of this round, below those that the kernel gives by itself.
    pub(crate) fn ports(&self) -> u16 {
        20_000 + (self.number % 1000) as u16 * 10
    }
}

/// One session of a kind. An error means that it could not be carried out, which is a finding, too.
type Session = fn(&mut Round) -> Result<()>;

/// Every kind of process, by the name of what is killed.
const KINDS: [(&str, Session); 18] = [
    ("evb-stages", event_builder::stages),
    ("evb-overflow", event_builder::overflow),
    ("evb-supervisor", event_builder::supervisor),
    ("evb-generator", event_builder::generator),
    ("emulator", event_builder::emulator),
    ("mover", mover::mover),
    ("net-recv-shm", messages::receiver_shm),
    ("net-recv-tcp", messages::receiver_tcp),
    ("net-send-shm", messages::sender_shm),
    ("net-send-tcp", messages::sender_tcp),
    ("net-sub", messages::subscriber),
    ("net-pub", messages::publisher),
    ("registry", messages::registry),
    ("tohost", readout::to_host),
    ("card", readout::card),
    ("toflx", readout_back::to_flx),
    ("tdm-send", windows::sender),
    ("tdm-receive", windows::receiver),
];

/// What was asked for.
struct Asked {
    binary: PathBuf,
    kills: u64,
    seed: Option<u64>,
    only: Option<String>,
    round: Option<u64>,
    json: bool,
}

const USAGE: &str = "usage: drill [--kills N] [--seed S] [--only KIND] [--round N] [--format json]";

impl Asked {
    fn parse(binary: &str, words: &[&str]) -> Result<Self> {
        let mut asked = Self {
            binary: fs::canonicalize(binary).with_context(|| format!("finding {binary}"))?,
            kills: KILLS,
            seed: None,
            only: None,
            round: None,
            json: false,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word}: {USAGE}"));
            match *word {
                "--kills" => asked.kills = number(word, value()?)?,
                "--seed" => asked.seed = Some(number(word, value()?)?),
                "--round" => asked.round = Some(number(word, value()?)?),
                "--only" => asked.only = Some((*value()?).to_owned()),
                "--format" => match *value()? {
                    "json" => asked.json = true,
                    "text" => asked.json = false,
                    other => bail!("--format {other}: write text or json"),
                },
                other => bail!("{other} is no option; {USAGE}"),
            }
        }
        Ok(asked)
    }

    /// The kinds that take part.
    fn kinds(&self) -> Result<Vec<(&'static str, Session)>> {
        let Some(only) = &self.only else {
            return Ok(KINDS.to_vec());
        };
        let kinds = KINDS
            .iter()
            .filter(|(name, _)| name.starts_with(only.as_str()));
        let kinds: Vec<_> = kinds.copied().collect();
        if kinds.is_empty() {
            let names: Vec<_> = KINDS.iter().map(|(name, _)| *name).collect();
            bail!("--only {only}: the kinds are {}", names.join(", "));
        }
        Ok(kinds)
    }
}

fn number(option: &str, text: &str) -> Result<u64> {
    text.parse()
        .with_context(|| format!("{option} {text}: write a whole number"))
}

/// Runs the drill; whether nothing was found.
///
/// # Errors
/// A mistake in the words, or a directory that cannot be written.
pub(crate) fn run(root: &Path, binary: &str, words: &[&str]) -> Result<bool> {
    let asked = Asked::parse(binary, words)?;
    let kinds = asked.kinds()?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let place = target.join("drill");
    let mut state = State::begin(&place, asked.seed, asked.only.as_deref(), asked.kills)?;
    if let Some(round) = asked.round {
        state.only_round(round);
    }
    eprintln!(
        "drill: seed {}, {} of {} kills done, state in {}",
        state.seed,
        state.kills,
        state.kills_wanted,
        place.display()
    );
    while !state.is_done() {
        let (kind, session) = kinds[state.round as usize % kinds.len()];
        one(&mut state, &place, &asked, kind, session)?;
        if asked.round.is_some() {
            break;
        }
    }
    println!(
        "{}",
        if asked.json {
            state.json()
        } else {
            state.text()
        }
    );
    Ok(state.findings.is_empty())
}

/// One round, and what it came to.
fn one(state: &mut State, place: &Path, asked: &Asked, kind: &str, session: Session) -> Result<()> {
    let number = state.round;
    let directory = place.join(format!("{}-{number}-{kind}", state.seed));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).context("making a round's directory")?;
    let mut round = Round {
        binary: asked.binary.clone(),
        directory: directory.clone(),
        number,
        random: Random::of(state.seed, number),
        kills: 0,
        chosen: Vec::new(),
        wrong: Vec::new(),
    };
    let begin = Instant::now();
    if let Err(error) = session(&mut round) {
        round
            .wrong
            .push(format!("the session could not be carried out: {error:#}"));
    }
    let findings: Vec<_> = round
        .wrong
        .iter()
        .map(|text| Finding {
            seed: state.seed,
            round: number,
            kind: kind.to_owned(),
            text: round
                .chosen
                .iter()
                .fold(text.clone(), |text, chosen| format!("{text} ({chosen})")),
            directory: directory.display().to_string(),
        })
        .collect();
    if findings.is_empty() {
        let _ = fs::remove_dir_all(&directory);
    }
    eprintln!(
        "drill: {:4} of {} kills, round {number} {kind}{}: {} in {:.1} s{}",
        state.kills + round.kills,
        state.kills_wanted,
        match round.chosen.as_slice() {
            [] => String::new(),
            chosen => format!(" ({})", chosen.join(", ")),
        },
        round.kills,
        begin.elapsed().as_secs_f64(),
        findings
            .iter()
            .map(|finding| format!("\n   FOUND: {}", finding.text))
            .collect::<String>()
    );
    state.add(kind, round.kills, findings, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(number: u64) -> Round {
        Round {
            binary: PathBuf::new(),
            directory: PathBuf::new(),
            number,
            random: Random::of(7, number),
            kills: 0,
            chosen: Vec::new(),
            wrong: Vec::new(),
        }
    }

    #[test]
    fn both_ways_of_writing_files_come_up_and_a_round_repeats_its_own() {
        let choose = |number| round(number).choose_io();
        let chosen: Vec<_> = (0..20).map(choose).collect();
        assert!(chosen.contains(&"direct") && chosen.contains(&"buffered"));
        assert_eq!(chosen, (0..20).map(choose).collect::<Vec<_>>());
        let mut said = round(3);
        let io = said.choose_io();
        assert_eq!(said.chosen, [format!("io = {io}")]);
    }
}
