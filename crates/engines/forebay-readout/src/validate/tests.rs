use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

/// A card that answers anything: seeded, and without any sense.
struct Garbage {
    state: u64,
    /// One answer in so many is all ones or nothing.
    sober: u64,
    runs: u64,
}

impl Garbage {
    fn next(&mut self) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let value = self.state ^ self.state >> 33;
        match value % self.sober {
            0 => u64::MAX,
            1 => 0,
            _ => value.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }
}

impl Card for Garbage {
    type Error = Infallible;

    fn access(&mut self, accesses: &[Access]) -> Result<Vec<u64>, Infallible> {
        // Too few, or too many.
        let count = match self.next() % 3 {
            0 => accesses.len(),
            _ => (self.next() % 200) as usize,
        };
        Ok((0..count).map(|_| self.next()).collect())
    }

    fn run(&mut self, _: u64) -> Result<(), Infallible> {
        self.runs += 1;
        Ok(())
    }

    fn take_blocks(&mut self, _: usize, each: &mut dyn FnMut(&[u8])) -> Result<u64, Infallible> {
        let block: Vec<u8> = (0..self.next() % 5000)
            .map(|n| n.wrapping_mul(self.state) as u8)
            .collect();
        for _ in 0..self.next() % 3 {
            each(&block);
        }
        // Nor does it say how many there were.
        Ok(self.next() % 4)
    }

    fn take_interrupts(&mut self, _: usize) -> Result<u64, Infallible> {
        Ok(self.next() >> 8)
    }

    fn send_ttc(&mut self, _: &Burst) -> Result<Counts, Infallible> {
        let counts = [self.next(), self.next(), self.next()];
        let [l1a, bcr, ecr] = counts;
        Ok(Counts { l1a, bcr, ecr })
    }
}

impl Workshop for Garbage {
    fn repair(&mut self, _: Remedy) {}
}

fn quick() -> Campaign {
    let mut campaign = Campaign::default();
    campaign.limits.dma.blocks = 4;
    campaign.limits.dma.blocks_random = 8;
    campaign.limits.dma.idle_steps = 5;
    campaign.limits.links.align_tries = 4;
    campaign
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// It ends, in bounded time, and with a judgement.
    #[test]
    fn a_card_that_answers_garbage_is_borne(
        state: u64, sober in 2_u64..1000, links in 0_usize..40, buffers in 0_usize..12, block_bytes in 0_usize..20_000,
    ) {
        let mut campaign = quick();
        campaign.expected = Expected { links, buffers, block_bytes, ..Expected::default() };
        let mut card = Garbage { state, sober, runs: 0 };
        let Ok(report) = campaign.qualify(&mut card, |_, _| {});
        prop_assert_eq!(report.verdict, Verdict::Rejected);
        prop_assert!(report.rounds.len() <= campaign.limits.repairs_most + 1);
        for round in &report.rounds {
            prop_assert!(round.symptoms().count() > 0 && !round.passed());
        }
        // Each test by itself: registers that are garbage keep the others from being carried out.
        let (expected, limits) = (&campaign.expected, &campaign.limits);
        let tests = [
            registers::test(&mut card, expected),
            links::test(&mut card, expected, &limits.links),
            prbs::test(&mut card, expected, &limits.links),
            dma::test(&mut card, expected, &limits.dma),
            ttc::test(&mut card, &limits.ttc),
            fifo::test(&mut card, expected),
        ];
        for test in tests {
            let Ok(report) = test;
            prop_assert!(report.measurements.iter().all(|one| !one.name.is_empty()));
            let failed = report.outcome == Outcome::Fail;
            prop_assert!(failed || report.symptoms.is_empty());
        }
        let most = u64::from(limits.links.align_tries) + 2 * 16 + 5 * 20 + 8 * (1 + 3 * 10 + 20 * 5);
        prop_assert!(card.runs < most, "{} of {}", card.runs, most);
    }

    #[test]
    fn any_symptoms_have_a_diagnosis_or_none(picks in prop::collection::vec((0_usize..29, 0_u8..30), 0..20)) {
        let signs = all_signs();
        let symptoms: Vec<Symptom> = picks
            .iter()
            .map(|(sign, link)| Symptom::new(signs[*sign], Place::Link(*link), ""))
            .collect();
        let found = diagnose(&symptoms);
        prop_assert!(found.len() <= 3 && found.is_empty() == symptoms.is_empty());
        prop_assert!(found.windows(2).all(|two| two[0].score >= two[1].score));
        for one in found {
            prop_assert!(!one.suspect.remedies().is_empty());
        }
    }
}

fn all_signs() -> [Sign; 29] {
    [
        Sign::AllOnes,
        Sign::BitStays,
        Sign::Aliased,
        Sign::NotHeld,
        Sign::ConstantBit,
        Sign::FirmwareDiffers,
        Sign::ConstantDiffers,
        Sign::NeverAligns,
        Sign::SometimesAligns,
        Sign::Swapped,
        Sign::HearsWrong,
        Sign::NoPrbs,
        Sign::WrongBits,
        Sign::DataBitStays,
        Sign::WordsMoved,
        Sign::WordsWrong,
        Sign::BlocksMissing,
        Sign::BlocksStop,
        Sign::NoInterrupt,
        Sign::Slow,
        Sign::Unlocked,
        Sign::L1aDiffers,
        Sign::BcrDiffers,
        Sign::EcrDiffers,
        Sign::MarksIgnored,
        Sign::XoffStaysUp,
        Sign::XoffStaysDown,
        Sign::MarksMissed,
        Sign::QueueWrong,
    ]
}

#[test]
fn every_sign_makes_a_suspect_and_every_suspect_has_a_sign() {
    let mut suspects = Vec::new();
    for sign in all_signs() {
        let found = diagnose(&[Symptom::new(sign, Place::Card, "")]);
        assert!(!found.is_empty(), "{sign:?}");
        suspects.push(found[0].suspect);
    }
    for suspect in Suspect::ALL {
        assert!(suspects.contains(&suspect), "{suspect:?}");
    }
}

#[test]
fn a_link_that_is_dead_explains_more_than_a_register() {
    let link = Place::Link(3);
    let symptoms = [
        Symptom::new(Sign::NeverAligns, link, ""),
        Symptom::new(Sign::Slow, Place::Card, ""),
    ];
    let found = diagnose(&symptoms);
    assert_eq!(
        (found[0].suspect, found[0].place),
        (Suspect::DeadLink, link)
    );
    let bit = Place::Bit {
        address: 0xb10,
        bit: 0,
    };
    let symptoms = [
        Symptom::new(Sign::L1aDiffers, Place::Card, ""),
        Symptom::new(Sign::BcrDiffers, Place::Card, ""),
        Symptom::new(Sign::BitStays, bit, ""),
    ];
    let found = diagnose(&symptoms);
    assert_eq!(
        (found[0].suspect, found[0].place),
        (Suspect::StuckRegisterBit, bit)
    );
}
