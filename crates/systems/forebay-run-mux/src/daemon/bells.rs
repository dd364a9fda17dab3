//! Whether there was something to take when a client rang: one that rings without end wakes the daemon for nothing, and this says which one it is.

/// Bells of the clients of a place, as the daemon heard them: several that come before it looks are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bells {
    pub(super) heard: u64,
    /// Of these, ones since which, and since the one before, nothing was taken from the client. One alone says nothing: what a client rings for may be taken before its bell is heard.
    pub(super) idle: u64,
    /// What had been taken at the last two, the latest one first.
    taken: [Option<u64>; 2],
}

impl Bells {
    /// A client rang, of which so much was taken until now.
    pub(super) fn hear(&mut self, taken: u64) {
        self.heard += 1;
        self.idle += u64::from(self.taken == [Some(taken); 2]);
        self.taken = [Some(taken), self.taken[0]];
    }

    /// Another client has the place.
    pub(super) const fn begin(&mut self) {
        self.taken = [None; 2];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_behind_which_nothing_was_taken_is_idle() {
        let heard = |all: &[u64]| {
            let mut bells = Bells::default();
            all.iter().for_each(|taken| bells.hear(*taken));
            (bells.heard, bells.idle)
        };
        assert_eq!(heard(&[0, 1, 7, 7, 7, 7, 8]), (7, 2));
        // Each was for something, which was taken before it was heard, or behind it.
        assert_eq!(heard(&[1, 1, 2, 2, 3, 3]), (6, 0));
    }

    #[test]
    fn the_counts_of_the_next_client_of_a_place_begin_anew() {
        let mut bells = Bells::default();
        [7, 7].iter().for_each(|taken| bells.hear(*taken));
        bells.begin();
        bells.hear(7);
        assert_eq!((bells.heard, bells.idle), (3, 0));
    }
}
