//! DMA buffers: patterns that go the way of data, interrupts, speed.

use forebay_wire::felix::board::{
    DMA_TEST_BLOCKS, DMA_TEST_HOLD, DMA_TEST_PATTERN, DMA_TEST_SEED, Pattern, TEST_HEAD_WORDS,
    words_of,
};

use super::limits::{DmaLimits, Expected};
use super::report::{Bound, Test, TestReport};
use super::symptom::{Place, Sign, Symptom};
use super::{Access, Card};

/// What the random pattern follows from.
const SEED: u32 = 0x5eed_f05e;
/// Blocks that may be missing in a row and still be seen as missing.
const GAP_MOST: u64 = 16;
/// Most words of a block.
const WORDS_MOST: usize = 4096;
/// Lines of addresses within blocks: of words, up to the largest block.
const LINES: std::ops::Range<u8> = 2..14;

/// What came of one pattern.
#[derive(Debug, Default)]
struct Seen {
    blocks: u64,
    missing: u64,
    words_wrong: u64,
    /// Bits that were wrong in any word, and all words in which one was 1, or 0, that should not.
    bits: u32,
    /// Bits that were right as 1, and as 0, in any word.
    right_ones: u32,
    right_zeros: u32,
    /// Ways of a stuck line that explain all wrong words so far.
    ways: Option<Ways>,
    short: u64,
    /// A block of the random pattern was wholly right.
    right: bool,
    /// Words of the random pattern, and of them wrong.
    random_words: u64,
    random_wrong: u64,
    /// What the block at hand should be.
    scratch: Vec<u8>,
}

pub(super) fn test<C: Card>(
    card: &mut C,
    expected: &Expected,
    limits: &DmaLimits,
) -> Result<TestReport, C::Error> {
    let mut report = TestReport::new(Test::Dma);
    let mut slow = Vec::new();
    let mut tested = 0;
    for buffer in 0..expected.buffers() {
        if let Some(why) = card.withheld(buffer) {
            report.left_out.push(format!("DMA buffer {buffer}: {why}"));
            continue;
        }
        tested += 1;
        if !test_buffer(card, buffer, expected, limits, &mut report)? {
            slow.push(buffer);
        }
    }
    if tested > 0 && slow.len() == tested {
        let says = "all DMA buffers are slow";
        report
            .symptoms
            .push(Symptom::new(Sign::Slow, Place::Card, says));
    } else {
        for buffer in slow {
            let says = format!("DMA buffer {buffer} is slow");
            let place = Place::Buffer(buffer as u8);
            report.symptoms.push(Symptom::new(Sign::Slow, place, says));
        }
    }
    Ok(report.concluded())
}

/// All patterns through one buffer; false when it is slow.
fn test_buffer<C: Card>(
    card: &mut C,
    buffer: usize,
    expected: &Expected,
    limits: &DmaLimits,
    report: &mut TestReport,
) -> Result<bool, C::Error> {
    card.write(DMA_TEST_HOLD.address, 1 << buffer)?;
    card.run(limits.step_ns)?;
    // What lay there is nobody's any more.
    let strange = card.take_blocks(buffer, &mut |_| {})?;
    if strange > 0 {
        report.left_out.push(format!(
            "DMA buffer {buffer}: {strange} blocks that lay in it"
        ));
    }
    card.take_interrupts(buffer)?;
    let mut all = Seen::default();
    let (mut asked, mut interrupts, mut speed) = (0, 0, None);
    for pattern in Pattern::ALL {
        let blocks = if pattern == Pattern::Random {
            limits.blocks_random
        } else {
            limits.blocks
        };
        let run = Run {
            buffer,
            blocks,
            pattern,
            block_bytes: expected.block_bytes,
        };
        let ns = run.carry_out(card, limits, &mut all)?;
        asked += blocks;
        interrupts += card.take_interrupts(buffer)?;
        if pattern == Pattern::Random && ns > 0 {
            speed = Some((blocks * expected.block_bytes as u64) as f64 * 1e9 / ns as f64);
        }
    }
    card.write(DMA_TEST_HOLD.address, 0)?;
    all.tell(buffer, asked, report);
    let place = Place::Buffer(buffer as u8);
    if all.blocks > 0 && interrupts == 0 {
        let says = format!("{} blocks came without an interrupt", all.blocks);
        report
            .symptoms
            .push(Symptom::new(Sign::NoInterrupt, place, says));
    }
    let limit = Bound::Least(u64::from(all.blocks > 0) as f64);
    let name = format!("DMA buffer {buffer}: interrupts seen");
    report.measure(name, interrupts as f64, "interrupts", limit);
    let Some((least, speed)) = limits.bytes_per_s_min.zip(speed) else {
        return Ok(true);
    };
    let name = format!("DMA buffer {buffer}: speed");
    Ok(report.measure(name, speed, "B/s", Bound::Least(least)))
}

/// A pattern through a buffer.
struct Run {
    buffer: usize,
    blocks: u64,
    pattern: Pattern,
    block_bytes: usize,
}

impl Run {
    /// How long it took, in nanoseconds of the card's time; what came is added to `all`.
    fn carry_out<C: Card>(
        &self,
        card: &mut C,
        limits: &DmaLimits,
        all: &mut Seen,
    ) -> Result<u64, C::Error> {
        card.access(&[
            Access::Write(DMA_TEST_PATTERN.address, self.pattern.number()),
            Access::Write(DMA_TEST_SEED.address, u64::from(SEED)),
            Access::Write(DMA_TEST_BLOCKS.at(self.buffer), self.blocks),
        ])?;
        let (mut next, mut came, mut ns, mut done_ns, mut idle) = (0, 0, 0_u64, 0, 0);
        // Blocks in a row that cannot be told from those that a card without end would send.
        let most = self.blocks.saturating_mul(2);
        while next < self.blocks && idle < limits.idle_steps && came < most {
            card.run(limits.step_ns)?;
            ns += limits.step_ns;
            // What it says comes first: blocks that it has written before are there then.
            let left = card.read(DMA_TEST_BLOCKS.at(self.buffer))?;
            let new = card.take_blocks(self.buffer, &mut |block| {
                next = self.look(block, next, all);
            })?;
            came += new;
            if new > 0 {
                (idle, done_ns) = (0, ns);
            } else if left == 0 {
                // It is done: what is missing at the end is missing.
                break;
            } else {
                idle += 1;
            }
        }
        // What the buffer still gives is none of this pattern.
        card.write(DMA_TEST_BLOCKS.at(self.buffer), 0)?;
        if next < self.blocks && next > 0 && self.blocks - next <= GAP_MOST {
            all.missing += self.blocks - next;
        }
        Ok(done_ns)
    }

    /// One block, of which number `next` is due: the number after it.
    fn look(&self, block: &[u8], next: u64, all: &mut Seen) -> u64 {
        all.blocks += 1;
        if block.len() < self.block_bytes || self.block_bytes < 4 * TEST_HEAD_WORDS {
            all.short += 1;
            return next + 1;
        }
        all.scratch.resize(block.len(), 0);
        self.pattern.fill(SEED, next, &mut all.scratch);
        let whole = block.len() & !3;
        if block.get(4..whole) == all.scratch.get(4..whole) {
            all.right |= self.pattern == Pattern::Random;
            all.random_words += u64::from(self.pattern == Pattern::Random) * (whole / 4) as u64;
            return next + 1;
        }
        let number = self.number(block, next);
        all.missing += number - next;
        for (place, is) in words_of(block).take(WORDS_MOST).enumerate().skip(1) {
            let should = self.expected(number, place);
            let differs = is ^ should;
            all.bits |= differs;
            all.right_ones |= is & should;
            all.right_zeros |= !is & !should;
            let is_random = u64::from(self.pattern == Pattern::Random);
            all.random_words += is_random;
            if differs != 0 {
                all.words_wrong += 1;
                all.random_wrong += is_random;
                let of = self.ways(is, number, place);
                all.ways = Some(all.ways.map_or(of, |ways| Ways {
                    fit: ways.fit & of.fit,
                    moved: ways.moved | of.moved,
                }));
            }
        }
        number + 1
    }

    /// The number of a block that is not the one that is due: one that fits wholly, or but for a bit that stays, or the best of all.
    fn number(&self, block: &[u8], next: u64) -> u64 {
        let differs = |number: u64| {
            let words = words_of(block).take(WORDS_MOST).enumerate().skip(1);
            words.fold((0_u32, 0_usize), |(bits, wrong), (place, word)| {
                let differs = word ^ self.expected(number, place);
                (bits | differs, wrong + usize::from(differs != 0))
            })
        };
        let all = (next..=next + GAP_MOST).map(|number| (number, differs(number)));
        let rank = |(number, (bits, wrong)): &(u64, (u32, usize))| match bits.count_ones() {
            // Of those with one bit the first: more blocks would be missing with the others.
            ones @ (0 | 1) => (ones as usize, *number),
            _ => (1 + wrong, *number),
        };
        all.min_by_key(rank).map_or(next, |(number, _)| number)
    }

    fn expected(&self, number: u64, place: usize) -> u32 {
        match place {
            1 => number as u32,
            2 => (number >> 32) as u32,
            _ => self.pattern.word(SEED, number, place),
        }
    }

    /// Ways of a stuck line, two bits for each, that would have put this word there: it belongs to the other place of the two, or to none since this one is never
    /// written. Only the random pattern tells which.
    fn ways(&self, is: u32, number: u64, place: usize) -> Ways {
        if self.pattern != Pattern::Random {
            return Ways::ANY;
        }
        let mut ways = Ways { fit: 0, moved: 0 };
        for (n, (line, high)) in each_line().enumerate() {
            let bit = 1 << (line - 2);
            let is_written = (place & bit != 0) == high;
            let other = place ^ bit;
            let of_head = other == 0 || other * 4 >= self.block_bytes;
            let belongs = !of_head && is == self.expected(number, other);
            ways.fit |= u32::from(!is_written || of_head || belongs) << n;
            // Of two words that go to the higher place the one that belongs there comes second: only the lower place shows it, which is never written.
            ways.moved |= u32::from(if high {
                !is_written
            } else {
                is_written && belongs
            }) << n;
        }
        ways
    }
}

/// Lines, and what they stay at.
fn each_line() -> impl Iterator<Item = (u8, bool)> {
    LINES.flat_map(|line| [(line, false), (line, true)])
}

/// Ways in which a line of the address can be stuck, a bit for each.
#[derive(Debug, Clone, Copy)]
struct Ways {
    /// Those that all wrong words allow.
    fit: u32,
    /// Those that put some word where it is.
    moved: u32,
}

impl Ways {
    const ANY: Self = Self {
        fit: u32::MAX,
        moved: 0,
    };

    /// The one way that is left.
    fn line(self) -> Option<u8> {
        let mut left = each_line().enumerate();
        let is_left = |n: &usize| (self.fit & self.moved) >> n & 1 == 1;
        left.find(|(n, _)| is_left(n)).map(|(_, (line, _))| line)
    }
}

impl Seen {
    fn tell(&self, buffer: usize, asked: u64, report: &mut TestReport) {
        let of = |what: &str| format!("DMA buffer {buffer}: {what}");
        let count = self.blocks as f64;
        report.measure(
            of("blocks that came"),
            count,
            "blocks",
            Bound::Is(asked as f64),
        );
        let (missing, wrong) = (self.missing as f64, self.words_wrong as f64);
        report.measure(
            of("blocks missing between others"),
            missing,
            "blocks",
            Bound::Is(0.0),
        );
        report.measure(of("words that are wrong"), wrong, "words", Bound::Is(0.0));
        let place = Place::Buffer(buffer as u8);
        let mut tell =
            |sign, place, says: String| report.symptoms.push(Symptom::new(sign, place, says));
        if self.missing > 0 {
            let says = format!(
                "{} of {asked} blocks are missing between others",
                self.missing
            );
            tell(Sign::BlocksMissing, place, says);
        }
        if self.blocks + self.missing < asked {
            let says = format!("{} of {asked} blocks came", self.blocks);
            tell(Sign::BlocksStop, place, says);
        }
        if self.words_wrong == 0 && self.short == 0 {
            return;
        }
        let number = buffer as u8;
        let is_one_bit = self.bits.is_power_of_two();
        // Blocks of the random pattern have every bit as 1 and as 0.
        let was_right_both = self.right || self.right_ones & self.right_zeros & self.bits != 0;
        // Half of the words are never written, so that at least so many are wrong, but for old ones that happen to be right.
        let is_half = 8 * self.random_wrong >= 3 * self.random_words && self.random_wrong > 0;
        let line = self.ways.filter(|_| is_half).and_then(Ways::line);
        if is_one_bit && !was_right_both && self.short == 0 {
            let bit = self.bits.trailing_zeros() as u8;
            let says = format!("bit {bit} of all words stays as it is");
            tell(Sign::DataBitStays, Place::BufferBit(number, bit), says);
        } else if let Some(line) = line {
            let says = format!(
                "{} words lie where line {line} of the address, if it stayed as it is, would put them",
                self.words_wrong
            );
            tell(Sign::WordsMoved, Place::BufferLine(number, line), says);
        } else {
            let says = format!(
                "{} words are wrong, {} blocks too short",
                self.words_wrong, self.short
            );
            tell(Sign::WordsWrong, place, says);
        }
    }
}
