//! Fragments: the chunks that all E-links have of one trigger.
//!
//! A chunk says the low 8 bits of its trigger number. Each E-link's are unwrapped by its own count, its first one to where the others are. Numbers
//! that are under way have a place in a window; one that leaves it with E-links missing is incomplete, and says which.

use crate::unwrap::Unwrap;

/// L1IDs that may be under way at a time; a power of two.
const WINDOW_MIN: usize = 256;
/// Low bits of its trigger number that a chunk says.
const LOW_BITS: u32 = 8;

/// A trigger under way.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// One more than the unwrapped number; 0 for none.
    number: u64,
    links: u32,
}

/// What became of chunks and of triggers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentAccount {
    /// Chunks that came.
    pub chunks: u64,
    /// Triggers of which all E-links' chunks came.
    pub complete: u64,
    /// Triggers of which some did not come before they left the window, or at all.
    pub incomplete: u64,
    /// Triggers from before the last E-link had begun.
    pub early: u64,
    /// Triggers that some E-links had not reached when the caller wanted no more.
    pub open: u64,
    /// Chunks of complete triggers.
    pub chunks_complete: u64,
    /// Chunks of incomplete ones.
    pub chunks_incomplete: u64,
    /// Chunks of early ones.
    pub chunks_early: u64,
    /// Chunks of open ones.
    pub chunks_open: u64,
    /// Chunks whose trigger had left the window already.
    pub chunks_late: u64,
    /// Chunks whose E-link had one of that trigger already.
    pub chunks_repeated: u64,
    /// Chunks of triggers that are under way.
    pub held: u64,
}

impl FragmentAccount {
    /// What does not add up, in chunks: nothing in a program without mistakes.
    #[must_use]
    pub fn residual(&self) -> i64 {
        let left = self.chunks_early + self.chunks_open;
        let gone = self.chunks_complete + self.chunks_incomplete + left;
        let all = gone + self.chunks_late + self.chunks_repeated + self.held;
        self.chunks as i64 - all as i64
    }
}

/// Joins chunks to fragments, by number of E-link and trigger alone.
#[derive(Debug)]
pub struct Fragments {
    places: Box<[Place]>,
    /// A bit for each E-link of each place.
    came: Box<[u64]>,
    words: usize,
    links: usize,
    numbers: Unwrap,
    missed: Box<[u64]>,
    account: FragmentAccount,
}

impl Fragments {
    /// For so many E-links; the window is rounded up to a power of two, from 256 on.
    #[must_use]
    pub fn new(links: usize, window: usize) -> Self {
        let window = window.max(WINDOW_MIN).next_power_of_two();
        let words = links.div_ceil(64);
        Self {
            places: vec![Place::default(); window].into(),
            came: vec![0; window * words].into(),
            words,
            links,
            numbers: Unwrap::new(links, LOW_BITS, window as u64),
            missed: vec![0; links].into(),
            account: FragmentAccount::default(),
        }
    }

    /// Triggers that may be under way.
    #[must_use]
    pub fn window(&self) -> usize {
        self.places.len()
    }

    /// A chunk of an E-link has come.
    #[inline]
    pub fn handle_chunk(&mut self, link: usize, l1id: u8) {
        self.account.chunks += 1;
        let number = self.numbers.number(link, u32::from(l1id));
        let at = number as usize & (self.places.len() - 1);
        let place = &mut self.places[at];
        if place.number != number {
            if place.number > number {
                self.account.chunks_late += 1;
                return;
            }
            self.leave(at, u64::MAX);
            self.places[at] = Place { number, links: 0 };
        }
        let (place, word) = (&mut self.places[at], at * self.words + link / 64);
        let bit = 1 << (link % 64);
        if self.came[word] & bit != 0 {
            self.account.chunks_repeated += 1;
            return;
        }
        self.came[word] |= bit;
        place.links += 1;
        self.account.held += 1;
        if place.links as usize == self.links {
            let chunks = self.links as u64;
            self.account.complete += 1;
            self.account.chunks_complete += chunks;
            self.account.held -= chunks;
        }
    }

    /// What is at this place leaves it; all E-links have had the time to get as far as `reached`.
    fn leave(&mut self, at: usize, reached: u64) {
        let Place { number, links } = self.places[at];
        let came = &mut self.came[at * self.words..][..self.words];
        if number > 0 && (links as usize) < self.links {
            let chunks = u64::from(links);
            self.account.held -= chunks;
            if self.numbers.all_begun() && number < self.numbers.first() {
                self.account.early += 1;
                self.account.chunks_early += chunks;
            } else if number > reached {
                self.account.open += 1;
                self.account.chunks_open += chunks;
            } else {
                self.account.incomplete += 1;
                self.account.chunks_incomplete += chunks;
                for (link, missed) in self.missed.iter_mut().enumerate() {
                    *missed += u64::from(came[link / 64] >> (link % 64) & 1 == 0);
                }
            }
        }
        came.fill(0);
        self.places[at] = Place::default();
    }

    /// Nothing more comes. What is under way is incomplete when `has_all` came that there was; else what some E-link has not reached is open.
    pub fn finish(&mut self, has_all: bool) {
        let reached = self.numbers.reached().filter(|_| !has_all);
        let reached = reached.unwrap_or(u64::MAX);
        (0..self.places.len()).for_each(|at| self.leave(at, reached));
    }

    /// Counts of chunks and triggers.
    #[must_use]
    pub fn account(&self) -> &FragmentAccount {
        &self.account
    }

    /// How many incomplete triggers lack this E-link.
    #[must_use]
    pub fn missed(&self, link: usize) -> u64 {
        self.missed[link]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn done(mut fragments: Fragments) -> FragmentAccount {
        assert_eq!(fragments.account().residual(), 0);
        fragments.finish(true);
        let account = *fragments.account();
        assert_eq!((account.residual(), account.held), (0, 0), "{account:?}");
        account
    }

    #[test]
    fn a_trigger_is_complete_when_all_e_links_have_come_in_any_order() {
        let mut fragments = Fragments::new(70, 0);
        assert_eq!(fragments.window(), 256);
        // Each E-link in pieces of its own length, and not all at the same time.
        for begin in (0..3000).step_by(100) {
            for link in 0..70 {
                for number in begin..begin + 100 {
                    fragments.handle_chunk(link, number as u8);
                }
            }
        }
        let account = done(fragments);
        assert_eq!((account.complete, account.incomplete), (3000, 0));
        assert_eq!(account.chunks_complete, 70 * 3000);
    }

    #[test]
    fn what_leaves_the_window_says_which_e_link_it_lacks() {
        let mut fragments = Fragments::new(3, 256);
        for number in 0..1000_u64 {
            for link in 0..3 {
                if link != 1 || !number.is_multiple_of(10) || number == 0 {
                    fragments.handle_chunk(link, number as u8);
                }
            }
        }
        let missed: Vec<u64> = (0..3).map(|link| fragments.missed(link)).collect();
        assert!(missed[1] > 0 && missed[0] + missed[2] == 0, "{missed:?}");
        let account = done(fragments);
        assert_eq!((account.complete, account.incomplete), (901, 99));
    }

    #[test]
    fn triggers_before_the_last_e_link_began_are_early() {
        let mut fragments = Fragments::new(2, 256);
        for number in 250..300_u64 {
            fragments.handle_chunk(0, number as u8);
        }
        for number in 290..400_u64 {
            fragments.handle_chunk(1, number as u8);
        }
        for number in 300..400_u64 {
            fragments.handle_chunk(0, number as u8);
        }
        let account = done(fragments);
        assert_eq!(
            (account.early, account.complete, account.incomplete),
            (40, 110, 0)
        );
    }

    #[test]
    fn e_links_that_come_one_after_the_other_begin_together_all_the_same() {
        let mut fragments = Fragments::new(2, 4096);
        for link in 0..2 {
            // The second one saw one trigger more, before the other.
            for number in (1000 - link as u64)..4000 {
                fragments.handle_chunk(link, number as u8);
            }
        }
        let account = done(fragments);
        assert_eq!(
            (account.complete, account.early, account.incomplete),
            (3000, 1, 0)
        );
    }

    #[test]
    fn what_an_e_link_has_not_reached_when_no_more_is_wanted_is_open() {
        for (has_all, open, incomplete) in [(false, 30, 1), (true, 0, 31)] {
            let mut fragments = Fragments::new(2, 256);
            for number in 0..100_u64 {
                fragments.handle_chunk(0, number as u8);
                if number < 70 && number != 50 {
                    fragments.handle_chunk(1, number as u8);
                }
            }
            fragments.finish(has_all);
            let account = *fragments.account();
            assert_eq!((account.open, account.incomplete), (open, incomplete));
            assert_eq!(
                (account.complete, account.residual(), account.held),
                (69, 0, 0)
            );
            assert_eq!(fragments.missed(1), incomplete);
        }
    }

    #[test]
    fn who_begins_much_later_is_where_the_others_are() {
        let mut fragments = Fragments::new(2, 256);
        for number in 0..2000_u64 {
            fragments.handle_chunk(0, number as u8);
            if number >= 1500 {
                fragments.handle_chunk(1, number as u8);
            }
        }
        let missed = fragments.missed(1);
        let account = done(fragments);
        assert_eq!(account.complete, 500);
        assert_eq!(
            (missed, account.early + account.incomplete),
            (account.incomplete, 1500)
        );
    }

    #[test]
    fn what_comes_after_its_trigger_has_left_is_late_and_twice_is_repeated() {
        let mut fragments = Fragments::new(2, 256);
        fragments.handle_chunk(0, 0);
        fragments.handle_chunk(1, 0);
        fragments.handle_chunk(1, 0);
        for number in 1..=256_u64 {
            fragments.handle_chunk(0, number as u8);
        }
        fragments.handle_chunk(1, 0);
        let account = done(fragments);
        assert_eq!((account.chunks_repeated, account.chunks_late), (1, 1));
        assert_eq!((account.complete, account.incomplete), (1, 256));
    }

    proptest! {
        #[test]
        fn whatever_comes_the_chunks_add_up(
            links in 1..70_usize,
            chunks in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3000),
        ) {
            let mut fragments = Fragments::new(links, 256);
            for (link, l1id) in &chunks {
                fragments.handle_chunk(link.index(links), *l1id);
                prop_assert_eq!(fragments.account().residual(), 0);
            }
            let account = done(fragments);
            prop_assert_eq!(account.chunks, chunks.len() as u64);
        }

        #[test]
        fn lost_chunks_make_their_triggers_incomplete_and_no_other(
            links in 2..20_usize,
            lost in prop::collection::btree_set((0..20_usize, 1..600_u64), 0..50),
        ) {
            let mut fragments = Fragments::new(links, 256);
            let mut bad = std::collections::BTreeSet::new();
            for number in 0..600 {
                for link in 0..links {
                    if lost.contains(&(link, number)) {
                        bad.insert(number);
                    } else {
                        fragments.handle_chunk(link, number as u8);
                    }
                }
            }
            // A trigger of which nothing came is not known of.
            let none = bad.iter().filter(|number| (0..links).all(|link| lost.contains(&(link, **number)))).count() as u64;
            let account = done(fragments);
            prop_assert_eq!(account.incomplete, bad.len() as u64 - none);
            prop_assert_eq!(account.complete, 600 - bad.len() as u64);
        }
    }
}
