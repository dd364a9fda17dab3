//! The last words of the chain.

use forebay_ledger::last_words;
use forebay_run::words::part_of;

use super::DemoSummary;

impl DemoSummary {
    /// What was lost and what is not whole, and then whether all of it is accounted for.
    #[must_use]
    pub fn closing(&self) -> String {
        if self.books.residual_items + self.books.residual_bytes > 0 {
            return format!(
                "THE BOOKS DO NOT CLOSE: {} items and {} bytes are left over.",
                self.books.residual_items, self.books.residual_bytes
            );
        }
        if self.books.left_items + self.books.left_bytes > 0 {
            return format!(
                "THE BOOKS DO NOT CLOSE: {} items and {} bytes are still inside by the books of processes that have ended.",
                self.books.left_items, self.books.left_bytes
            );
        }
        let mut said = Vec::new();
        if self.chunks_expected == 0 {
            said.push("Nothing came: there was no trigger".to_owned());
        }
        let (unwanted, lost): (Vec<_>, Vec<_>) =
            (self.drops.iter()).partition(|(reason, _)| reason.ends_with("no_subscriber"));
        let sum = |of: &[(&String, &u64)]| of.iter().map(|(_, count)| **count).sum::<u64>();
        let missing = self.chunks_expected.saturating_sub(self.chunks_received);
        for (word, count) in [
            ("Lost", sum(&lost)),
            ("Not subscribed", sum(&unwanted)),
            ("Cut off", self.chunks_truncated),
            ("Wrong payload", self.payload_mismatches),
            ("Still inside", self.held),
        ] {
            if count > 0 {
                let chunks = part_of(count, self.chunks_expected, "chunks");
                said.push(format!("{word}: {chunks}"));
            }
        }
        if said.is_empty() && missing > 0 {
            // The process that was to tell what became of them has told nothing.
            let chunks = part_of(missing, self.chunks_expected, "chunks");
            said.push(format!("Not received: {chunks}"));
        }
        match self.failed.is_empty() {
            true => last_words(&said, "close"),
            false => {
                said.insert(0, "A part of the chain failed".to_owned());
                last_words(&said, "of those that told theirs close")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_ledger::Closed;

    use super::*;

    #[test]
    fn losses_come_before_the_books() {
        let mut summary = DemoSummary {
            chunks_expected: 1_000,
            chunks_received: 1_000,
            ..DemoSummary::default()
        };
        assert_eq!(summary.closing(), "The books close.");
        summary.chunks_received = 300;
        summary.drops = [("card.xoff", 600), ("tohost.publish.no_subscriber", 100)]
            .map(|(reason, count)| (reason.to_owned(), count))
            .into();
        assert_eq!(
            summary.closing(),
            "Lost: 600 of 1000 chunks (60.00 %); Not subscribed: 100 of 1000 chunks (10.00 %). All of it is accounted for: the books close."
        );
        summary.failed = vec!["card".to_owned()];
        assert!(
            summary
                .closing()
                .starts_with("A part of the chain failed; Lost: 600")
        );
        let nothing = DemoSummary::default().closing();
        assert!(nothing.starts_with("Nothing came"), "{nothing}");
        summary.books.residual_items = 1;
        assert!(summary.closing().starts_with("THE BOOKS DO NOT CLOSE"));
        let left = DemoSummary {
            books: Closed {
                left_items: 3,
                ..Closed::default()
            },
            ..DemoSummary::default()
        };
        assert!(
            left.closing()
                .contains("3 items and 0 bytes are still inside")
        );
        assert!(!left.is_closed());
    }
}
