//! The last words of a sender.

use forebay_ledger::last_words;
use forebay_run::record::Record;
use forebay_run::words::part_of;

use super::SendSummary;

/// What was lost and what nobody knows of, and then whether all of it is accounted for.
#[must_use]
pub fn closing(record: &Record<SendSummary>) -> String {
    if record.is_closed() {
        return record.summary.closing();
    }
    let books = &record.envelope.books;
    let over = record.sessions_residual_items.unwrap_or(0) + books.residual_items;
    format!(
        "THE BOOKS DO NOT CLOSE: {over} packets or heaps and {} bytes are left over; {} and {} bytes are left inside.",
        books.residual_bytes, books.left_items, books.left_bytes
    )
}

impl SendSummary {
    fn closing(&self) -> String {
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
