//! The events built or given up lately, to tell a repeated sub-event from numbers that started anew.

/// How many are remembered: more than a message holds, and more than the network delays.
pub(crate) const RECENT: usize = 16_384;
const NONE: u64 = u64::MAX;
/// Stands for every tag: what a predecessor built is known by its numbers only.
const ANY_TAG: u64 = 1 << 32;

/// Trigger numbers and tags, by trigger number modulo [`RECENT`].
#[derive(Debug)]
pub(crate) struct Recent(Vec<u64>);

impl Recent {
    /// What is known before the event `next`, when a predecessor may have built those before it.
    pub(crate) fn before(next: Option<u32>, mask: u32) -> Self {
        let mut recent = Self(vec![NONE; RECENT]);
        if let Some(next) = next {
            for back in 1..=RECENT as u32 {
                let trigger = next.wrapping_sub(back) & mask;
                *recent.place(trigger) = u64::from(trigger) << 8 | ANY_TAG;
            }
        }
        recent
    }

    #[inline]
    pub(crate) fn note(&mut self, trigger: u32, tag: u8) {
        *self.place(trigger) = u64::from(trigger) << 8 | u64::from(tag);
    }

    pub(crate) fn knows(&self, trigger: u32, tag: u8) -> bool {
        let entry = self.0[trigger as usize % RECENT];
        let number = u64::from(trigger) << 8;
        entry == number | u64::from(tag) || entry == number | ANY_TAG
    }

    #[inline]
    fn place(&mut self, trigger: u32) -> &mut u64 {
        &mut self.0[trigger as usize % RECENT]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_and_tag_are_known_until_overwritten() {
        let mut recent = Recent::before(None, 0xff_ffff);
        assert!(!recent.knows(7, 3));
        recent.note(7, 3);
        assert!(recent.knows(7, 3));
        assert!(!recent.knows(7, 4));
        assert!(!recent.knows(7 + RECENT as u32, 3));
        recent.note(7 + RECENT as u32, 3);
        assert!(!recent.knows(7, 3));
    }

    #[test]
    fn a_successor_knows_its_predecessors_numbers_across_the_wrap() {
        let recent = Recent::before(Some(5), 0xffff);
        for trigger in [0, 4, 0xffff, 0xfff0] {
            assert!(recent.knows(trigger, 99), "{trigger:#x}");
        }
        assert!(!recent.knows(5, 99));
        assert!(!recent.knows(0x8000, 99));
    }
}
