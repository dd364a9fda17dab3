//! The last words of a sender.

use forebay_ledger::last_words;

use super::SendSummary;
use crate::words::part_of;

impl SendSummary {
    /// What was lost and what nobody knows of, and then whether all of it is accounted for.
    #[must_use]
    pub fn closing(&self) -> String {
        let left = self.residual_items.unwrap_or(0) + self.books_residual[0];
        if left > 0 || self.books_residual[1] > 0 {
            return format!(
                "THE BOOKS DO NOT CLOSE: {left} packets and {} bytes are left over.",
                self.books_residual[1]
            );
        }
        let mut said = Vec::new();
        if self.packets == 0 {
            said.push("Nothing was sent".to_owned());
        }
        let told = self.received.unwrap_or(0) + self.lost.unwrap_or(0);
        if let Some(lost) = self.lost.filter(|lost| *lost > 0) {
            said.push(format!("Lost: {}", part_of(lost, told, "packets")));
        }
        if let Some(heaps) = self.heaps.filter(|heaps| heaps.not_sent > 0) {
            let not_sent = part_of(heaps.not_sent, heaps.came, "heaps");
            said.push(format!("Not sent: {not_sent}"));
        }
        let unknown = self.packets_unconfirmed;
        let books = match unknown {
            0 => "close",
            _ => {
                let packets = part_of(unknown, self.packets, "packets");
                said.push(format!("Not known: what came of {packets}"));
                "close but for what is not known"
            }
        };
        last_words(&said, books)
    }
}
