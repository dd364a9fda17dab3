//! The closing numbers of a process that has the ledgers of end points beside its own.

use forebay_ledger::Closed;

use crate::net::NetSummary;

/// Those of its own ledger, and what those of its end points leave over.
pub(super) fn with_end_points<'a>(
    own: Closed,
    end_points: impl IntoIterator<Item = &'a NetSummary>,
) -> Closed {
    end_points.into_iter().fold(own, |sum, one| Closed {
        residual_items: sum.residual_items.saturating_add(one.residual_items),
        residual_bytes: sum.residual_bytes.saturating_add(one.residual_bytes),
        ..sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_end_point_leaves_over_is_its_process_s_too() {
        let own = Closed {
            residual_items: 1,
            left_bytes: 7,
            ..Closed::default()
        };
        let one = NetSummary {
            residual_items: 2,
            residual_bytes: 30,
            ..NetSummary::default()
        };
        let sum = with_end_points(own, [&one, &NetSummary::default()]);
        let expected = Closed {
            residual_items: 3,
            residual_bytes: 30,
            left_items: 0,
            left_bytes: 7,
        };
        assert_eq!(sum, expected);
        assert!(!with_end_points(Closed::default(), [&one]).is_closed());
    }
}
