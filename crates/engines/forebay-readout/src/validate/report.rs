//! What a campaign says of a card.

use serde::Serialize;

use super::diagnosis::{Diagnosis, Remedy};
use super::symptom::Symptom;

/// A test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Constants, and that registers hold what is written.
    Registers,
    /// Alignment, and which link hears which.
    Links,
    /// Bit errors.
    Prbs,
    /// Patterns through DMA buffers, interrupts, speed.
    Dma,
    /// Counters of triggers and resets.
    Ttc,
    /// Marks of the queues behind links.
    Fifo,
}

impl Test {
    /// All, in the order in which they are carried out.
    pub const ALL: [Self; 6] = [
        Self::Registers,
        Self::Links,
        Self::Prbs,
        Self::Dma,
        Self::Ttc,
        Self::Fifo,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Registers => "registers",
            Self::Links => "links",
            Self::Prbs => "prbs",
            Self::Dma => "dma",
            Self::Ttc => "ttc",
            Self::Fifo => "fifo",
        }
    }
}

/// How a test ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All within its limits.
    Pass,
    /// Something was not.
    Fail,
    /// It was not carried out, and why.
    Skipped(String),
}

/// What a measured value must be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// As much as that.
    Is(f64),
    /// That and more.
    Least(f64),
    /// That and less.
    Most(f64),
    /// Anything: it is only told.
    None,
}

impl Bound {
    const fn holds(self, value: f64) -> bool {
        match self {
            Self::Is(is) => value == is,
            Self::Least(least) => value >= least,
            Self::Most(most) => value <= most,
            Self::None => true,
        }
    }
}

/// A value, its unit and its limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measurement {
    /// What was measured.
    pub name: String,
    /// How much it is.
    pub value: f64,
    /// In what.
    pub unit: &'static str,
    /// What it must be.
    pub limit: Bound,
    /// Whether it is.
    pub good: bool,
}

/// A test and what it found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TestReport {
    /// The test.
    pub test: Test,
    /// How it ended.
    pub outcome: Outcome,
    /// What was measured.
    pub measurements: Vec<Measurement>,
    /// What was wrong.
    pub symptoms: Vec<Symptom>,
    /// What was left out of it, and why.
    pub left_out: Vec<String>,
}

impl TestReport {
    pub(super) fn new(test: Test) -> Self {
        Self {
            test,
            outcome: Outcome::Pass,
            measurements: Vec::new(),
            symptoms: Vec::new(),
            left_out: Vec::new(),
        }
    }

    pub(super) fn skipped(test: Test, why: &str) -> Self {
        Self {
            outcome: Outcome::Skipped(why.to_owned()),
            ..Self::new(test)
        }
    }

    /// Notes a value: whether it is within its limit.
    pub(super) fn measure(
        &mut self,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        limit: Bound,
    ) -> bool {
        let good = limit.holds(value);
        self.measurements.push(Measurement {
            name: name.into(),
            value,
            unit,
            limit,
            good,
        });
        good
    }

    /// What is wrong is a symptom, and the test has failed.
    pub(super) fn concluded(mut self) -> Self {
        let bad = self.measurements.iter().any(|one| !one.good);
        if bad || !self.symptoms.is_empty() {
            self.outcome = Outcome::Fail;
        }
        self
    }
}

/// All tests once, and what they point at.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Round {
    /// The tests.
    pub tests: Vec<TestReport>,
    /// What may be broken, the likeliest first.
    pub diagnosis: Vec<Diagnosis>,
    /// What was done then.
    pub repair: Option<Remedy>,
}

impl Round {
    /// Whether no test has failed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.tests.iter().all(|test| test.outcome != Outcome::Fail)
    }

    /// All symptoms.
    pub fn symptoms(&self) -> impl Iterator<Item = &Symptom> {
        self.tests.iter().flat_map(|test| &test.symptoms)
    }
}

/// What became of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Good at once.
    Passed,
    /// Good after a repair.
    Recovered,
    /// Not good, with nothing left to try.
    Rejected,
}

impl Verdict {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Recovered => "recovered",
            Self::Rejected => "rejected",
        }
    }
}

/// A card's way through the campaign.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CardReport {
    /// The first test, and one after each repair.
    pub rounds: Vec<Round>,
    /// What became of it.
    pub verdict: Verdict,
}
