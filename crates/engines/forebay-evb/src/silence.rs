//! How long a source has been silent, and how long it usually is between two messages.

use crate::engine::Builder;

/// A source is not given up before it was silent for so long, unless the time-out is shorter: less than that, a busy
/// host's scheduler takes by itself.
pub(crate) const SILENCE_NS_MIN: u64 = 100_000_000;
/// How many of its usual gaps a source may be silent when there is a reason to hurry.
pub(crate) const GAPS: u64 = 2;

/// When the messages of one source came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rhythm {
    last_ns: Option<u64>,
    /// Longest gap of the period at hand, and of the one before.
    longest_ns: [u64; 2],
    began_ns: u64,
}

impl Rhythm {
    /// A message came. Those that come at one look of the builder are one.
    #[inline]
    pub(crate) fn note(&mut self, now_ns: u64, period_ns: u64) {
        let gap_ns = self.since_last_ns(now_ns);
        self.skip(now_ns, period_ns);
        self.longest_ns[0] = self.longest_ns[0].max(gap_ns);
    }

    /// The same when the gap before it is none to be remembered.
    #[inline]
    pub(crate) fn skip(&mut self, now_ns: u64, period_ns: u64) {
        let last_ns = *self.last_ns.get_or_insert(now_ns);
        if now_ns <= last_ns {
            return;
        }
        self.last_ns = Some(now_ns);
        if now_ns - self.began_ns >= period_ns {
            self.longest_ns = [0, self.longest_ns[0]];
            self.began_ns = now_ns;
        }
    }

    /// How long ago the last message came; 0 before the first.
    #[inline]
    pub(crate) fn since_last_ns(&self, now_ns: u64) -> u64 {
        self.last_ns
            .map_or(0, |last_ns| now_ns.saturating_sub(last_ns))
    }

    /// When the last message came; `None` before the first.
    pub(crate) fn last_ns(&self) -> Option<u64> {
        self.last_ns
    }

    /// The longest gap of the last one or two periods; `None` before the first gap.
    pub(crate) fn usual_ns(&self) -> Option<u64> {
        let [now, before] = self.longest_ns;
        Some(now.max(before)).filter(|gap_ns| *gap_ns > 0)
    }

    /// How long the source may be silent when there is a reason to hurry; never longer than `timeout_ns`, and as long as
    /// that before anything is known of it.
    pub(crate) fn patience_ns(&self, timeout_ns: u64) -> u64 {
        let usual = self.usual_ns();
        let patience_ns = usual.map(|gap_ns| gap_ns.saturating_mul(GAPS).max(SILENCE_NS_MIN));
        patience_ns.unwrap_or(timeout_ns).min(timeout_ns)
    }
}

impl Builder {
    /// A message of `source` came that did not come before: a silence that was told of is over, and its totals stay.
    pub(crate) fn hear(&mut self, source: usize, now_ns: u64) {
        let (words, book) = (&self.accounts.sources[source], &mut self.book);
        if std::mem::take(&mut self.sources[source].mute) {
            let heard_ns = match book.value(words.heard) {
                0 => self.first_ns.unwrap_or(now_ns),
                heard_ns => heard_ns,
            };
            let amounts = [
                1,
                now_ns.saturating_sub(heard_ns),
                book.value(words.unheard),
            ];
            for (word, amount) in words.ended.into_iter().zip(amounts) {
                book.add(word, amount);
            }
        }
        book.set(words.heard, now_ns);
        book.set(words.unheard, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const TIMEOUT_NS: u64 = 1_000 * MS;

    fn rhythm(at_ms: &[u64]) -> Rhythm {
        let mut rhythm = Rhythm::default();
        for ms in at_ms {
            rhythm.note(ms * MS, TIMEOUT_NS);
        }
        rhythm
    }

    #[test]
    fn the_usual_gap_is_the_longest_of_late() {
        assert_eq!(rhythm(&[]).usual_ns(), None);
        assert_eq!(rhythm(&[5_000, 5_000]).usual_ns(), None, "one look");
        assert_eq!(rhythm(&[0, 70, 130, 130]).usual_ns(), Some(70 * MS));
        let old = [0, 400, 1_000, 1_070, 2_010];
        assert_eq!(rhythm(&old[..4]).usual_ns(), Some(600 * MS));
        let every_70: Vec<u64> = (0..20).map(|index| 2_010 + 70 * index).collect();
        let all = [&old[..3], &every_70].concat();
        assert_eq!(rhythm(&all).usual_ns(), Some(1_010 * MS));
        let longer: Vec<u64> = (0..60).map(|index| 2_010 + 70 * index).collect();
        let all = [&old[..3], &longer].concat();
        assert_eq!(rhythm(&all).usual_ns(), Some(70 * MS), "forgotten");
    }

    #[test]
    fn patience_has_a_floor_and_a_ceiling() {
        let patience = |at_ms: &[u64]| rhythm(at_ms).patience_ns(TIMEOUT_NS) / MS;
        assert_eq!(patience(&[7]), 1_000, "nothing is known");
        assert_eq!(patience(&[0, 7]), 100);
        assert_eq!(patience(&[0, 68, 136]), 136);
        assert_eq!(patience(&[0, 700]), 1_000);
        assert_eq!(rhythm(&[0, 7]).patience_ns(30 * MS), 30 * MS);
    }
}
