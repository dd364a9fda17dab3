//! The search for constants that are not public: bounded, the same each time, and on two profiles alone.

use forebay_emu::rng::{Xoshiro256, hash};

use crate::outcome::Outcome;
use crate::parameters::Parameters;
use crate::published::{Published, Quantity};
use crate::trace::{Edition, Trace};

/// A constant that is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Its name.
    pub name: &'static str,
    /// Least value.
    pub from: u64,
    /// Most.
    pub to: u64,
    /// The finest step.
    pub step: u64,
    /// Where the search begins: what the figures say at first sight.
    pub start: u64,
}

const fn constant(name: &'static str, [from, to, step, start]: [u64; 4]) -> Constant {
    Constant {
        name,
        from,
        to,
        step,
        start,
    }
}

/// All constants that are searched for; every other parameter has a source or is assumed, and stays.
pub const CONSTANTS: [Constant; 6] = [
    constant("table.hit_latency_ns", [200, 240, 5, 210]),
    constant("table.retention_ns", [300, 3_000, 50, 1_200]),
    constant("table.fifo_bytes", [400_000, 1_050_000, 50_000, 900_000]),
    constant("memory.latency_ns", [400, 2_000, 25, 1_000]),
    constant("memory.efficiency_permille", [400, 900, 10, 650]),
    constant("memory.outstanding", [16, 512, 4, 48]),
];

/// Rounds of the search: each tries each constant with a step of its own, a quarter of its range at first, then half of that.
pub const ROUNDS: u32 = 5;
/// Points that are tried first, which follow from a seed: the search goes on from the best ones of them and from [`Constant::start`].
pub const SCATTERED: u64 = 48;
/// How many of the best ones.
const STARTS: usize = 2;
const SEED: u64 = 18;

/// A trace with the figures that it is held against.
#[derive(Clone, Debug)]
pub struct Case {
    /// What is published.
    pub published: &'static Published,
    /// The edition.
    pub edition: Edition,
    /// Its packets.
    pub trace: Trace,
}

impl Case {
    /// How far from the figures an outcome is: squares of differences, of ratios by 3 percentage points and of latencies by a quarter of the smaller one. Of two
    /// editions it is the distance from the nearer value, as they differ by more than the model could tell.
    #[must_use]
    pub fn error(&self, outcome: &Outcome) -> f64 {
        let of = |quantity| {
            let (first, july) = self.published.values(self.edition, quantity);
            let found = quantity_of(outcome, quantity);
            let distance = |value: f64| match quantity {
                Quantity::Drop | Quantity::Hit => (found - value) / 3.0,
                Quantity::Latency => (found - value) / (found.min(value) / 4.0).max(1.0),
            };
            let first = distance(first).powi(2);
            july.map_or(first, |july| first.min(distance(july).powi(2)))
        };
        of(Quantity::Drop) + of(Quantity::Hit) + of(Quantity::Latency)
    }
}

/// A quantity of an outcome, in the unit of its figure.
#[must_use]
pub fn quantity_of(outcome: &Outcome, quantity: Quantity) -> f64 {
    match quantity {
        Quantity::Drop => outcome.drop_ratio() * 100.0,
        Quantity::Hit => outcome.hit_ratio() * 100.0,
        Quantity::Latency => outcome.latency_ns_mean,
    }
}

/// What a search came to.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The parameters, with the constants that were found.
    pub parameters: Parameters,
    /// What is left of the error.
    pub error: f64,
    /// How often the cases were run.
    pub tries: u32,
}

/// Searches from several points, which are the same whatever the constants are in `from`: one constant after the other goes a step up or down where the error becomes smaller by it. `goes_on` is asked before each try,
/// and ends the search with what was found by then.
pub fn search(cases: &[Case], from: &Parameters, goes_on: &mut dyn FnMut(&Fit) -> bool) -> Fit {
    let error = |parameters: &Parameters| -> f64 {
        let each = cases
            .iter()
            .map(|case| case.error(&case.trace.run(parameters)));
        each.sum()
    };
    let first = |parameters: Parameters| Fit {
        error: error(&parameters),
        parameters,
        tries: 1,
    };
    let mut begin = from.clone();
    for constant in &CONSTANTS {
        begin.set(constant.name, constant.start);
    }
    let mut best = first(begin);
    let mut starts = Vec::new();
    for number in 0..SCATTERED {
        if !goes_on(&best) {
            break;
        }
        starts.push(first(scattered(from, number)));
        best.tries += 1;
    }
    starts.sort_by(|a, b| a.error.total_cmp(&b.error));
    starts.truncate(STARTS);
    starts.insert(0, best.clone());
    for mut start in starts {
        start.tries = best.tries;
        let found = descend(start, &error, goes_on);
        best.tries = found.tries;
        if found.error < best.error {
            best = found;
        }
    }
    best
}

/// One of the points that are tried first.
fn scattered(from: &Parameters, number: u64) -> Parameters {
    let mut random = Xoshiro256::new(hash(SEED, number));
    let mut parameters = from.clone();
    for constant in &CONSTANTS {
        let steps = (constant.to - constant.from) / constant.step + 1;
        parameters.set(
            constant.name,
            constant.from + random.below(steps) * constant.step,
        );
    }
    parameters
}

fn descend(
    mut fit: Fit,
    error: &dyn Fn(&Parameters) -> f64,
    goes_on: &mut dyn FnMut(&Fit) -> bool,
) -> Fit {
    for round in 0..ROUNDS {
        for constant in &CONSTANTS {
            while let Some(better) = step(constant, round, &mut fit, error, goes_on) {
                fit = better;
            }
        }
    }
    fit
}

/// A step of one constant that makes the error smaller, if there is one.
fn step(
    constant: &Constant,
    round: u32,
    fit: &mut Fit,
    error: &dyn Fn(&Parameters) -> f64,
    goes_on: &mut dyn FnMut(&Fit) -> bool,
) -> Option<Fit> {
    let now = fit.parameters.value(constant.name)?;
    let width = (constant.to - constant.from) >> (round + 2);
    let width = (width / constant.step).max(1) * constant.step;
    for next in [now.saturating_add(width), now.saturating_sub(width)] {
        let next = next.clamp(constant.from, constant.to);
        if next == now || !goes_on(fit) {
            continue;
        }
        let mut parameters = fit.parameters.clone();
        parameters.set(constant.name, next);
        fit.tries += 1;
        let error = error(&parameters);
        if error < fit.error {
            let tries = fit.tries;
            return Some(Fit {
                parameters,
                error,
                tries,
            });
        }
    }
    None
}
