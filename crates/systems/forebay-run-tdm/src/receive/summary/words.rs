//! The last words of a receiver.

use forebay_ledger::last_words;
use forebay_run::record::Record;
use forebay_run::words::part_of;

use super::ReceiveSummary;

/// What was lost and what is not whole, in numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Lacks {
    senders: u64,
    sent: u64,
    received: u64,
    lost: u64,
    not_written: u64,
    heaps: u64,
    heaps_whole: u64,
    untold: u64,
    wrong: u64,
}

impl Lacks {
    /// The lines; none where all is whole.
    fn said(&self) -> Vec<String> {
        if self.senders == 0 {
            return vec!["Nothing came: no sender took part".to_owned()];
        }
        let mut said = Vec::new();
        if self.received == 0 {
            said.push("Nothing came: no packet was received".to_owned());
        }
        if self.lost > 0 {
            said.push(format!(
                "Lost: {}",
                part_of(self.lost, self.sent, "packets")
            ));
        }
        if self.not_written > 0 {
            let packets = part_of(self.not_written, self.received, "packets that came");
            said.push(format!("Not written: {packets}"));
        }
        if self.heaps_whole < self.heaps {
            let heaps = part_of(self.heaps - self.heaps_whole, self.heaps, "heaps");
            said.push(format!("Incomplete: {heaps}"));
        }
        if self.wrong > 0 {
            let packets = part_of(self.wrong, self.received, "packets");
            said.push(format!("Wrong: {packets}"));
        }
        if self.untold > 0 {
            let what = if self.untold == 1 {
                "sender"
            } else {
                "senders"
            };
            said.push(format!("Not known: what {} {what} sent last", self.untold));
        }
        said
    }

    /// How the books are.
    fn books(&self) -> &'static str {
        match self.untold {
            0 => "close",
            _ => "close but for what is not known",
        }
    }
}

/// What is gone of what was written, what was lost and what is not whole, and then whether all of it is accounted for.
#[must_use]
pub fn closing(record: &Record<ReceiveSummary>, gone: Option<String>) -> String {
    if record.is_closed() {
        return record.summary.closing(gone);
    }
    let books = &record.envelope.books;
    format!(
        "THE BOOKS DO NOT CLOSE: {} items and {} bytes are left over; {} items and {} bytes are left inside.",
        books.residual_items, books.residual_bytes, books.left_items, books.left_bytes
    )
}

impl ReceiveSummary {
    fn closing(&self, gone: Option<String>) -> String {
        let mut lacks = Lacks {
            senders: self.by_sender.len() as u64,
            wrong: self.wrong_payloads,
            ..Lacks::default()
        };
        for sender in &self.by_sender {
            lacks.sent += sender.sent;
            lacks.received += sender.received;
            lacks.lost += sender.lost.values().sum::<u64>();
            lacks.not_written += sender.not_written.values().sum::<u64>();
            lacks.untold += u64::from(!sender.sent_known);
            if let Some(heaps) = &sender.heaps {
                lacks.heaps += heaps.sent;
                lacks.heaps_whole += heaps.whole;
            }
        }
        let said: Vec<String> = gone.into_iter().chain(lacks.said()).collect();
        last_words(&said, lacks.books())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_whole_is_said_before_all() {
        let whole = Lacks {
            senders: 1,
            sent: 10,
            received: 10,
            ..Lacks::default()
        };
        assert_eq!(last_words(&whole.said(), "close"), "The books close.");
        let nobody = last_words(&Lacks::default().said(), "close");
        assert_eq!(
            nobody,
            "Nothing came: no sender took part. All of it is accounted for: the books close."
        );
        let silent = Lacks {
            received: 0,
            sent: 0,
            ..whole
        };
        assert_eq!(silent.said(), ["Nothing came: no packet was received"]);
        let bad = Lacks {
            senders: 2,
            sent: 1_000,
            received: 800,
            lost: 200,
            not_written: 8,
            heaps: 10,
            heaps_whole: 3,
            untold: 1,
            wrong: 4,
        };
        assert_eq!(
            last_words(&bad.said(), bad.books()),
            "Lost: 200 of 1000 packets (20.00 %); Not written: 8 of 800 packets that came (1.00 %); Incomplete: 7 of 10 heaps (70.00 %); Wrong: 4 of 800 packets (0.50 %); \
             Not known: what 1 sender sent last. All of it is accounted for: the books close but for what is not known."
        );
    }
}
