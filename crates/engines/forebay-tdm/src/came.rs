//! What came in windows that are not closed.

use std::collections::VecDeque;

/// Packets that came of each window, in the order of the windows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Came(VecDeque<(u32, u64)>);

impl Came {
    /// One more came in this window.
    #[inline]
    pub fn count(&mut self, window: u32) {
        let Self(open) = self;
        if let Some((last, came)) = open.back_mut()
            && *last == window
        {
            *came += 1;
            return;
        }
        let at = open.partition_point(|(other, _)| *other < window);
        match open.get_mut(at) {
            Some((other, came)) if *other == window => *came += 1,
            _ => open.insert(at, (window, 1)),
        }
    }

    /// What came in the windows up to this one, which are closed, in packets.
    pub fn close_up_to(&mut self, last: u32) -> u64 {
        let mut all = 0;
        while let Some(&(window, came)) = self.0.front()
            && window <= last
        {
            self.0.pop_front();
            all += came;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_in_any_order_is_counted_in_its_own_window() {
        let mut came = Came::default();
        for window in [5, 5, 7, 5, 6, 7, 3, 6, 5, 9] {
            came.count(window);
        }
        assert_eq!(came.0, [(3, 1), (5, 4), (6, 2), (7, 2), (9, 1)]);
        assert_eq!((came.close_up_to(6), came.close_up_to(6)), (7, 0));
        assert_eq!(came.0, [(7, 2), (9, 1)]);
    }
}
