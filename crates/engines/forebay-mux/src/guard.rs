//! The guard against starvation, of classes and of levels of priority alike: one that has had something to send for longer than its guard without its turn
//! gets one, before those that go first. Of several the one that has waited longest, so that each is fed, also where a packet takes longer than the guard.

/// How long one of those that wait has waited for its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    /// Since when it has had something to send without its turn; nothing if it has nothing.
    since_ns: Option<u64>,
}

impl Wait {
    /// It has something to send, and waits from now on if it did not before; or it has nothing.
    #[inline]
    pub(crate) fn note(&mut self, is_ready: bool, now_ns: u64) {
        let since_ns = self.since_ns.unwrap_or(now_ns);
        self.since_ns = is_ready.then_some(since_ns);
    }

    /// It waits for nothing.
    #[inline]
    pub(crate) const fn clear(&mut self) {
        self.since_ns = None;
    }

    /// It had its turn.
    #[inline]
    pub(crate) const fn serve(&mut self, now_ns: u64) {
        self.since_ns = Some(now_ns);
    }

    /// How long it has waited, ns, if that is longer than its guard.
    fn starves_ns(self, guard_ns: Option<u64>, now_ns: u64) -> Option<u64> {
        let waited_ns = now_ns.saturating_sub(self.since_ns?);
        (waited_ns > guard_ns?).then_some(waited_ns)
    }

    /// The place of the one that has waited longest of those that have waited for longer than their guards, ns.
    #[inline]
    pub(crate) fn starving(
        waits: impl Iterator<Item = (Self, Option<u64>)>,
        now_ns: u64,
    ) -> Option<usize> {
        let starving = waits.enumerate().filter_map(|(at, (wait, guard_ns))| {
            let waited_ns = wait.starves_ns(guard_ns, now_ns)?;
            Some((waited_ns, at))
        });
        starving.max().map(|(_, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beyond_its_guard_goes_first() {
        let of = |since_ns: &[Option<u64>], guard_ns| {
            let waits = since_ns.iter().map(|since_ns| {
                let since_ns = *since_ns;
                (Wait { since_ns }, guard_ns)
            });
            Wait::starving(waits, 100)
        };
        assert_eq!(of(&[Some(50), Some(40), Some(60)], Some(10)), Some(1));
        assert_eq!(of(&[Some(50), None], Some(49)), Some(0));
        assert_eq!(of(&[Some(50), None], Some(50)), None);
        assert_eq!(of(&[Some(0)], None), None);
        assert_eq!(of(&[Some(101)], Some(0)), None);
    }

    #[test]
    fn a_wait_begins_once_and_ends_with_its_turn() {
        let mut wait = Wait::default();
        wait.note(true, 5);
        wait.note(true, 9);
        assert_eq!(wait.since_ns, Some(5));
        wait.serve(10);
        wait.note(true, 11);
        assert_eq!(wait.since_ns, Some(10));
        wait.note(false, 12);
        wait.note(true, 13);
        assert_eq!(wait.since_ns, Some(13));
        wait.clear();
        assert_eq!(wait, Wait::default());
    }
}
