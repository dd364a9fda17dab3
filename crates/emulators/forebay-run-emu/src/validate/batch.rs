//! A batch of emulated cards, one after the other, and what came of it.

use std::collections::BTreeMap;

use forebay_emu::card::board::{BoardConfig, Fault, draw};
use forebay_emu::rng::{Xoshiro256, hash};
use forebay_readout::validate::{Campaign, CardReport, Expected, Limits, Test, Verdict};
use forebay_wire::felix::BlockFormat;
use serde::Serialize;

use super::ValidateError;
use super::bench::Bench;
use super::truth::{ByFault, Judged, Truth, judge};

/// A card of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct CardPlan {
    /// What it is called.
    pub name: String,
    /// What is wrong with it.
    pub faults: Vec<Fault>,
}

/// A batch.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchPlan {
    /// Its cards.
    pub cards: Vec<CardPlan>,
    /// Links of each card, 1 to 24.
    pub links: usize,
    /// DMA buffers of each card, 1 to 8.
    pub buffers: usize,
    /// The blocks of their DMA buffers. Default Phase II, 4 KiB.
    pub format: BlockFormat,
    /// All that is random in the cards follows from it.
    pub seed: u64,
    /// Limits of the tests.
    pub limits: Limits,
}

impl BatchPlan {
    /// So many cards, of which some have a fault each: which ones, and which faults, follows from the seed.
    ///
    /// # Errors
    /// More of them should be faulty than there are.
    pub fn drawn(
        cards: usize,
        faulty: usize,
        seed: u64,
        links: usize,
        buffers: usize,
    ) -> Result<Self, ValidateError> {
        if faulty > cards {
            return Err(ValidateError::Faulty { cards, faulty });
        }
        let mut rng = Xoshiro256::new(hash(seed, 0));
        let config = BoardConfig::new(links, buffers);
        let mut left = faulty;
        let each = |number: usize| {
            // The next of those that are left, as likely as any other one.
            let is_faulty = (rng.below((cards - number) as u64) as usize) < left;
            left -= usize::from(is_faulty);
            let fault = is_faulty.then(|| draw(None, &config, &mut rng));
            CardPlan {
                name: name(number),
                faults: fault.into_iter().collect(),
            }
        };
        Ok(Self {
            cards: (0..cards).map(each).collect(),
            links,
            buffers,
            format: config.format,
            seed,
            limits: Limits::default(),
        })
    }
}

/// What the n-th card is called.
pub(super) fn name(number: usize) -> String {
    format!("card{number:03}")
}

/// Where a campaign is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The card, from 0.
    pub card: usize,
    /// Of so many.
    pub cards: usize,
    /// Repairs that it has had.
    pub repairs: usize,
    /// What begins.
    pub test: Test,
}

/// A card and what the campaign says of it.
#[derive(Clone, Debug, Serialize)]
pub struct ValidatedCard {
    /// What it is called.
    pub name: String,
    /// What its board is: always true in a batch.
    pub emulated: bool,
    /// What follows its noise.
    pub seed: u64,
    /// So long did its tests take, in seconds of the card's time.
    pub card_seconds: f64,
    /// The campaign's.
    #[serde(flatten)]
    pub report: CardReport,
    /// The emulator's.
    pub truth: Truth,
}

/// A batch in numbers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Cards that were tested.
    pub cards: u64,
    /// Of them had faults.
    pub faulty: u64,
    /// Passed at once.
    pub passed: u64,
    /// Good after a repair.
    pub recovered: u64,
    /// Not good in the end.
    pub rejected: u64,
    /// Share that passed at once.
    pub yield_first: f64,
    /// Share that was good in the end.
    pub yield_final: f64,
    /// Good cards that did not pass.
    pub false_alarms: u64,
    /// Faulty cards that passed at once.
    pub missed: u64,
    /// Faulty cards that were found and called something else.
    pub misnamed: u64,
    /// Faulty cards that were found, and called by their names.
    pub named: u64,
    /// Of these the place was right too.
    pub placed: u64,
    /// Cards that were good in the end, but for a fault that they still have.
    pub escaped: u64,
    /// Repairs that were done.
    pub repairs: u64,
    /// By the kind of fault.
    pub faults: BTreeMap<&'static str, ByFault>,
}

/// A batch and its cards.
#[derive(Clone, Debug, Serialize)]
pub struct BatchReport {
    /// All that is random follows from it.
    pub seed: u64,
    /// Not all cards were tested.
    pub interrupted: bool,
    /// In numbers.
    pub summary: Summary,
    /// One by one.
    pub cards: Vec<ValidatedCard>,
}

/// Validates a batch. `begin` is told each test before it begins; `stops` is asked before each card.
///
/// # Errors
/// A card that cannot be made.
pub fn run(
    plan: &BatchPlan,
    mut begin: impl FnMut(Step),
    stops: impl Fn() -> bool,
) -> Result<BatchReport, ValidateError> {
    let usual = Expected::default();
    let campaign = Campaign {
        expected: Expected {
            links: plan.links,
            buffers: plan.buffers,
            block_bytes: plan.format.bytes(),
            ..usual
        },
        limits: plan.limits,
    };
    let mut cards = Vec::new();
    for (number, card) in plan.cards.iter().enumerate() {
        if stops() {
            break;
        }
        let seed = hash(plan.seed, 1 + number as u64);
        let config = BoardConfig {
            seed,
            format: plan.format,
            faults: card.faults.clone(),
            ..BoardConfig::new(plan.links, plan.buffers)
        };
        let mut bench = Bench::new(&card.name, &config)?;
        let report = campaign.qualify(&mut bench, |repairs, test| {
            begin(Step {
                card: number,
                cards: plan.cards.len(),
                repairs,
                test,
            });
        })?;
        cards.push(ValidatedCard {
            name: card.name.clone(),
            emulated: true,
            seed,
            card_seconds: bench.ns as f64 * 1e-9,
            truth: judge(&card.faults, bench.board().faults(), &report),
            report,
        });
    }
    Ok(BatchReport {
        seed: plan.seed,
        interrupted: cards.len() < plan.cards.len(),
        summary: Summary::of(&cards),
        cards,
    })
}

impl Summary {
    fn of(cards: &[ValidatedCard]) -> Self {
        let count = |is: &dyn Fn(&ValidatedCard) -> bool| {
            cards.iter().filter(|card| is(card)).count() as u64
        };
        let verdict = |verdict| count(&|card| card.report.verdict == verdict);
        let judged = |judged| count(&|card| card.truth.judged == judged);
        let [passed, recovered, rejected] =
            [Verdict::Passed, Verdict::Recovered, Verdict::Rejected].map(verdict);
        let share = |part: u64| part as f64 / cards.len().max(1) as f64;
        let mut faults = BTreeMap::new();
        for card in cards {
            ByFault::add(&mut faults, &card.truth, card.report.verdict);
        }
        Self {
            cards: cards.len() as u64,
            faulty: count(&|card| !card.truth.faults.is_empty()),
            passed,
            recovered,
            rejected,
            yield_first: share(passed),
            yield_final: share(passed + recovered),
            false_alarms: judged(Judged::FalseAlarm),
            missed: judged(Judged::Missed),
            misnamed: judged(Judged::Misnamed),
            named: judged(Judged::Named),
            placed: count(&|card| card.truth.placed),
            escaped: count(&|card| card.truth.escaped),
            repairs: cards
                .iter()
                .map(|card| card.report.rounds.len() as u64 - 1)
                .sum(),
            faults,
        }
    }
}
