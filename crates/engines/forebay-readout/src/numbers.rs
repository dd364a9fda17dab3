//! Whether trigger numbers go on as they should, E-link by E-link.

/// What a trigger number is after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The first one.
    First,
    /// The next one.
    Next,
    /// The same one once more.
    Repeated,
    /// A later one; so many between are missing. What went back looks like a large jump.
    Jumped(u32),
}

/// The low 8 bits, as generated chunks have them: 256 missing in a row leave no trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LowBits(Option<u8>);

impl LowBits {
    /// The next one has come.
    #[inline]
    pub fn step(&mut self, l1id: u8) -> Step {
        let Some(last) = self.0.replace(l1id) else {
            return Step::First;
        };
        match l1id.wrapping_sub(last) {
            1 => Step::Next,
            0 => Step::Repeated,
            by => Step::Jumped(u32::from(by) - 1),
        }
    }

    /// The next one has come, and cannot be read.
    #[inline]
    pub fn pass(&mut self) {
        self.0 = self.0.map(|last| last.wrapping_add(1));
    }
}

/// Number and resets, as messages about triggers have them: 24 bits that begin at 0 again with each of up to 255 resets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Triggers(Option<(u32, u8)>);

const BITS: u32 = (1 << 24) - 1;

impl Triggers {
    /// The next one has come.
    #[inline]
    pub fn step(&mut self, l1id: u32, resets: u8) -> Step {
        let l1id = l1id & BITS;
        let Some((last, last_resets)) = self.0.replace((l1id, resets)) else {
            return Step::First;
        };
        let by = if resets == last_resets {
            l1id.wrapping_sub(last) & BITS
        } else {
            // How many there were before the reset is not known.
            l1id + 1
        };
        match by {
            1 => Step::Next,
            0 => Step::Repeated,
            by => Step::Jumped(by - 1),
        }
    }

    /// The next one has come, and cannot be read.
    #[inline]
    pub fn pass(&mut self) {
        self.0 = self
            .0
            .map(|(last, resets)| (last.wrapping_add(1) & BITS, resets));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_bits_go_round_and_jumps_say_how_many_are_missing() {
        let mut numbers = LowBits::default();
        numbers.pass();
        for (l1id, step) in [
            (254, Step::First),
            (255, Step::Next),
            (0, Step::Next),
            (0, Step::Repeated),
            (3, Step::Jumped(2)),
            (2, Step::Jumped(254)),
        ] {
            assert_eq!(numbers.step(l1id), step, "{l1id}");
        }
        numbers.pass();
        assert_eq!(numbers.step(4), Step::Next);
    }

    #[test]
    fn triggers_begin_at_0_after_a_reset() {
        let mut numbers = Triggers::default();
        for (l1id, resets, step) in [
            (BITS, 7, Step::First),
            (0, 7, Step::Next),
            (1, 7, Step::Next),
            (0, 8, Step::Next),
            (2, 8, Step::Jumped(1)),
            (2, 8, Step::Repeated),
            (0, 255, Step::Next),
            (0, 0, Step::Next),
            (3, 1, Step::Jumped(3)),
        ] {
            assert_eq!(numbers.step(l1id, resets), step, "{l1id} {resets}");
        }
        numbers.pass();
        assert_eq!(numbers.step(5, 1), Step::Next);
    }
}
