//! The sink that takes everything and keeps nothing.

use forebay_evb::EventMeta;
use forebay_ledger::{Book, Leak};

use super::offer::{add, tally};
use crate::books::SinkWords;

/// A null sink. It counts each event as it is handed over, from what it is told of it, and never from the builder's counts.
pub(super) struct NullSink {
    words: SinkWords,
    /// Counted since the last seal: taken in, and done with.
    incoming: (u64, u64),
    outgoing: (u64, u64),
}

impl NullSink {
    pub(super) fn new(words: SinkWords) -> Self {
        Self {
            words,
            incoming: (0, 0),
            outgoing: (0, 0),
        }
    }

    pub(super) fn take(&mut self, event: &EventMeta, leak: &mut Leak) {
        let bytes = event.bytes as usize;
        if leak.take("sink_queue") {
            return;
        }
        add(&mut self.incoming, bytes);
        if leak.take("sink") {
            return;
        }
        add(&mut self.outgoing, bytes);
    }

    /// Counts into the builder's book: one record with what was handed over.
    pub(super) fn seal(&mut self, book: &mut Book) {
        let account = &self.words.account;
        tally(book, account.incoming, std::mem::take(&mut self.incoming));
        tally(book, account.outgoing, std::mem::take(&mut self.outgoing));
    }
}
