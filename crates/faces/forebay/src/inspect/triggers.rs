//! Gaps between the trigger numbers of a file's events: triggers that are in none of them.

use forebay_wire::subevent::{SubEventHeader, TriggerBits};

/// Gaps that are listed one by one; further ones are only counted.
const GAPS_LISTED_MAX: usize = 1_000;
/// Gaps that are shown to people.
const GAPS_SHOWN: usize = 8;
/// Fewest triggers up to number 0 for which the numbers began anew, and 0 did not come next.
const RESTART_GAP_MIN: u32 = 64;

/// What is known of the triggers of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Triggers {
    bits: TriggerBits,
    step: u32,
    pub(super) first: Option<u32>,
    pub(super) last: Option<u32>,
    /// From the first trigger to the last one, those between them that are in no event included.
    pub(super) span: u64,
    /// Those of them that are in no event.
    pub(super) missing: u64,
    /// How often the numbers began anew.
    pub(super) restarts: u64,
    /// First and last number of ranges that are in no event.
    pub(super) gaps: Vec<[u32; 2]>,
    pub(super) gaps_all: u64,
}

impl Triggers {
    /// Of numbers that have `bits`, 16 or 24, and follow each other by `step`.
    pub(super) fn new(bits: u32, step: u32) -> Self {
        Self {
            bits: TriggerBits::from_bits(bits).unwrap_or_default(),
            step,
            ..Self::default()
        }
    }

    /// The trigger number of a sub-event, in the width that the file is read with.
    pub(super) const fn of(&self, header: &SubEventHeader) -> u32 {
        header.trigger(self.bits)
    }

    /// The next event is that of `trigger`.
    pub(super) fn see(&mut self, trigger: u32) {
        let mask = self.bits.mask();
        self.first.get_or_insert(trigger);
        self.span += 1;
        if let Some(last) = self.last.replace(trigger) {
            let ahead = trigger.wrapping_sub(last) & mask;
            let between = ahead.saturating_sub(1) / self.step;
            let from_zero = between >= RESTART_GAP_MIN && trigger < self.step;
            if ahead == 0 || ahead > mask >> 2 || from_zero {
                self.restarts += 1;
            } else if between > 0 {
                self.miss(last, trigger, between);
            }
        }
    }

    fn miss(&mut self, last: u32, trigger: u32, between: u32) {
        self.span += u64::from(between);
        self.missing += u64::from(between);
        self.gaps_all += 1;
        if self.gaps.len() < GAPS_LISTED_MAX {
            let mask = self.bits.mask();
            let first = last.wrapping_add(self.step) & mask;
            let end = trigger.wrapping_sub(self.step) & mask;
            self.gaps.push([first, end]);
        }
    }

    /// One line for people.
    pub(super) fn line(&self) -> Option<String> {
        let (first, last) = self.first.zip(self.last)?;
        let mut text = format!(
            "{first} to {last}, {} of {} in no event",
            self.missing, self.span
        );
        let shown = self.gaps.iter().take(GAPS_SHOWN);
        let gaps = shown.map(|[first, last]| match first == last {
            true => first.to_string(),
            false => format!("{first} to {last}"),
        });
        let mut gaps: Vec<String> = gaps.collect();
        let more = self.gaps_all - gaps.len() as u64;
        if more > 0 {
            gaps.push(format!("{more} more ranges"));
        }
        if !gaps.is_empty() {
            text += &format!(": {}", gaps.join(", "));
        }
        if self.restarts > 0 {
            text += &format!("; the numbers began anew {} times", self.restarts);
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(bits: u32, step: u32, numbers: impl IntoIterator<Item = u32>) -> Triggers {
        let mut triggers = Triggers::new(bits, step);
        let mask = triggers.bits.mask();
        numbers
            .into_iter()
            .for_each(|number| triggers.see(number & mask));
        triggers
    }

    #[test]
    fn gaps_are_found_across_the_wrap_and_restarts_are_none() {
        let wrapped = seen(
            16,
            1,
            (65_500..65_700).filter(|n| !(65_530..65_540).contains(n)),
        );
        assert_eq!((wrapped.span, wrapped.missing), (200, 10));
        assert_eq!(wrapped.gaps, [[65_530, 3]]);
        let anew = seen(16, 1, (60_000..60_010).chain(0..10));
        assert_eq!((anew.span, anew.missing, anew.restarts), (20, 0, 1));
        let dealt = seen(24, 4, (0..100).filter(|n| *n != 7).map(|n| 3 + 4 * n));
        assert_eq!((dealt.span, dealt.gaps), (100, vec![[31, 31]]));
        assert_eq!(seen(24, 1, []).line(), None);
    }
}
