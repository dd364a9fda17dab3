//! The diagnostics of a card: tests in order, each with its limits, symptoms, and what they point at.
//!
//! A campaign sees nothing of a card but what [`Card`] offers: registers, time that passes, blocks in DMA buffers, interrupts, and a source of triggers. So it is the
//! same for an emulated card in virtual time and for one that is at work. What broke is not said to it; it names the likeliest fault from the [`Symptom`]s, the next
//! likely ones, and the repair to try. After a repair a card is tested again from the beginning.
//!
//! ```text
//! registers ─▶ links ─▶ prbs ─▶ dma ─▶ ttc ─▶ fifo ─▶ symptoms ─▶ diagnosis ─▶ repair ─┐
//!     ▲  a bus that cannot be trusted ends the round here                               │
//!     └─────────────────────────────────────────────────────────────────────────────────┘
//! ```

mod diagnosis;
mod dma;
mod fifo;
mod limits;
mod links;
mod prbs;
mod registers;
mod report;
mod symptom;
mod ttc;

pub use diagnosis::{Diagnosis, Remedy, Suspect, diagnose};
pub use limits::{DmaLimits, Expected, Limits, LinkLimits, PRBS_BOUNDS, TtcLimits};
pub use report::{Bound, CardReport, Measurement, Outcome, Round, Test, TestReport, Verdict};
pub use symptom::{Place, Sign, Symptom};

/// One access to a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read(u32),
    /// Writes it.
    Write(u32, u64),
}

/// What a source of triggers is to send: triggers at random, a reset of the bunch counter (BCR) at each orbit, resets of the trigger number (ECR).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// Triggers in a second, on average.
    pub rate_hz: u32,
    /// How long, in nanoseconds.
    pub for_ns: u64,
    /// From one ECR to the next, in nanoseconds.
    pub ecr_period_ns: u64,
}

/// What a source has sent, or a card has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Triggers.
    pub l1a: u64,
    /// Resets of the bunch counter.
    pub bcr: u64,
    /// Resets of the trigger number.
    pub ecr: u64,
}

/// A card as diagnostics see it. What it says is not to be trusted.
pub trait Card {
    /// What stands between this side and the card, when it fails. It ends the campaign, and is no fault of the card.
    type Error;

    /// Carries these accesses out, in order: what the reads have said. Reads that are missing count as 0.
    ///
    /// # Errors
    /// The way to the card is gone.
    fn access(&mut self, accesses: &[Access]) -> Result<Vec<u64>, Self::Error>;

    /// Lets so many nanoseconds of the card's time pass.
    ///
    /// # Errors
    /// The way to the card is gone.
    fn run(&mut self, ns: u64) -> Result<(), Self::Error>;

    /// Reads the blocks that lie in a DMA buffer, in order, and gives them back: how many there were.
    ///
    /// # Errors
    /// The way to the card is gone.
    fn take_blocks(
        &mut self,
        buffer: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<u64, Self::Error>;

    /// Why a DMA buffer cannot be tested; none when it can.
    fn withheld(&self, buffer: usize) -> Option<String> {
        let _ = buffer;
        None
    }

    /// Interrupts of a buffer since they were asked for, or as many as the way can tell: 0 is none.
    ///
    /// # Errors
    /// The way to the card is gone.
    fn take_interrupts(&mut self, buffer: usize) -> Result<u64, Self::Error>;

    /// Sends triggers and resets to the test input: what was sent.
    ///
    /// # Errors
    /// The way to the card is gone.
    fn send_ttc(&mut self, burst: &Burst) -> Result<Counts, Self::Error>;

    /// Reads a register.
    ///
    /// # Errors
    /// The way to the card is gone.
    fn read(&mut self, address: u32) -> Result<u64, Self::Error> {
        let values = self.access(&[Access::Read(address)])?;
        Ok(values.first().copied().unwrap_or(0))
    }

    /// Writes a register.
    ///
    /// # Errors
    /// The way to the card is gone.
    fn write(&mut self, address: u32, value: u64) -> Result<(), Self::Error> {
        self.access(&[Access::Write(address, value)]).map(|_| ())
    }
}

/// Where cards are repaired.
pub trait Workshop {
    /// Does that to the card, whose power then comes up anew. It does not say whether that has helped.
    fn repair(&mut self, remedy: Remedy);
}

/// A campaign: what cards should be, and what they must keep.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Campaign {
    /// What a card should say of itself.
    pub expected: Expected,
    /// Limits of the tests.
    pub limits: Limits,
}

impl Campaign {
    /// Carries all tests out once. `begin` is told each test before it begins.
    ///
    /// # Errors
    /// The way to the card is gone.
    pub fn test<C: Card>(
        &self,
        card: &mut C,
        mut begin: impl FnMut(Test),
    ) -> Result<Round, C::Error> {
        let mut tests = Vec::new();
        begin(Test::Registers);
        tests.push(registers::test(card, &self.expected)?);
        let cannot = tests[0]
            .symptoms
            .iter()
            .any(|symptom| symptom.sign.spoils_the_bus());
        for test in Test::ALL.into_iter().skip(1) {
            if cannot {
                tests.push(TestReport::skipped(test, "registers cannot be trusted"));
                continue;
            }
            begin(test);
            let (expected, limits) = (&self.expected, &self.limits);
            tests.push(match test {
                Test::Links => links::test(card, expected, &limits.links)?,
                Test::Prbs => prbs::test(card, expected, &limits.links)?,
                Test::Dma => dma::test(card, expected, &limits.dma)?,
                Test::Ttc => ttc::test(card, &limits.ttc)?,
                Test::Fifo | Test::Registers => fifo::test(card, expected)?,
            });
        }
        let all = tests.iter().flat_map(|test| test.symptoms.iter().cloned());
        let symptoms: Vec<Symptom> = all.collect();
        Ok(Round {
            diagnosis: diagnose(&symptoms),
            tests,
            repair: None,
        })
    }

    /// Tests a card, repairs it by what the diagnosis says, and tests it again, until it is good or nothing is left to try.
    ///
    /// # Errors
    /// The way to the card is gone.
    pub fn qualify<C: Card + Workshop>(
        &self,
        card: &mut C,
        mut begin: impl FnMut(usize, Test),
    ) -> Result<CardReport, C::Error> {
        let mut rounds: Vec<Round> = Vec::new();
        let mut tried: Vec<(Suspect, Place, Remedy)> = Vec::new();
        loop {
            let number = rounds.len();
            let mut round = self.test(card, |test| begin(number, test))?;
            let passed = round.passed();
            let next = (tried.len() < self.limits.repairs_most)
                .then(|| next_repair(&round.diagnosis, &tried))
                .flatten()
                .filter(|_| !passed);
            round.repair = next.map(|(_, _, remedy)| remedy);
            rounds.push(round);
            let Some(repair) = next else {
                let verdict = match (passed, number) {
                    (true, 0) => Verdict::Passed,
                    (true, _) => Verdict::Recovered,
                    (false, _) => Verdict::Rejected,
                };
                return Ok(CardReport { rounds, verdict });
            };
            tried.push(repair);
            card.repair(repair.2);
        }
    }
}

/// The first repair of the likeliest suspect that was not tried for it yet.
fn next_repair(
    diagnosis: &[Diagnosis],
    tried: &[(Suspect, Place, Remedy)],
) -> Option<(Suspect, Place, Remedy)> {
    let likeliest = diagnosis.first()?;
    let of = |remedy: &Remedy| (likeliest.suspect, likeliest.place, *remedy);
    let remedies = likeliest.suspect.remedies().iter().map(of);
    remedies.into_iter().find(|repair| !tried.contains(repair))
}

#[cfg(test)]
#[path = "validate/tests.rs"]
mod tests;
