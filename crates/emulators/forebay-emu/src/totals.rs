//! What was made, sent and lost by each source, counted where it happens.

/// Items and their bytes: of a sub-event with its header, without padding; of a datagram its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// How many.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Amount {
    pub(crate) fn add(&mut self, (items, bytes): (u64, u64)) {
        self.items += items;
        self.bytes += bytes;
    }

    fn beyond(self, parts: &[Self]) -> (i64, i64) {
        let rest = parts.iter().fold(self, |rest, part| Self {
            items: rest.items.wrapping_sub(part.items),
            bytes: rest.bytes.wrapping_sub(part.bytes),
        });
        (rest.items.cast_signed(), rest.bytes.cast_signed())
    }
}

impl std::ops::AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.add((other.items, other.bytes));
    }
}

/// The books of one source, in sub-events and in datagrams:
/// `made = sent + dropped_message + restart + send_failed + held` and
/// `datagrams_made = datagrams_sent + datagrams_refused + datagrams_held`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceTotals {
    /// Sub-events made (the account's *in*); those of a duplicated message count twice.
    pub made: Amount,
    /// Sub-events in messages whose last datagram was handed out and not refused (*out*).
    pub sent: Amount,
    /// Lost by [`Fault::DropMessage`](crate::Fault::DropMessage).
    pub dropped_message: Amount,
    /// Lost by [`Fault::Restart`](crate::Fault::Restart).
    pub restart: Amount,
    /// In messages of which a datagram could not be sent.
    pub send_failed: Amount,
    /// In the open queue, held back, or in datagrams not yet settled; read, not counted.
    pub held: Amount,
    /// Of `made`: second copies made by a fault.
    pub duplicated: Amount,
    /// Triggers for which a silent source made nothing.
    pub silent: u64,
    /// Sub-events made with a wrong tag, size, error bit or without payload.
    pub spoiled_subevents: u64,
    /// Messages with a byte changed.
    pub corrupted_messages: u64,
    /// Messages sent after the one that followed.
    pub reordered_messages: u64,
    /// Messages sent whole.
    pub messages: u64,
    /// Datagrams that became ready; their bytes are those of the messages, queue headers, padding
    /// and trailers included.
    pub datagrams_made: Amount,
    /// Datagrams handed out and not refused.
    pub datagrams_sent: Amount,
    /// Datagrams that could not be sent.
    pub datagrams_refused: Amount,
    /// Datagrams not yet settled; read, not counted.
    pub datagrams_held: Amount,
}

impl SourceTotals {
    /// What the books of sub-events do not explain, in items and bytes.
    #[must_use]
    pub fn residual(&self) -> (i64, i64) {
        let out = [
            self.sent,
            self.dropped_message,
            self.restart,
            self.send_failed,
            self.held,
        ];
        self.made.beyond(&out)
    }

    /// What the books of datagrams do not explain, in items and bytes.
    #[must_use]
    pub fn residual_datagrams(&self) -> (i64, i64) {
        let out = [
            self.datagrams_sent,
            self.datagrams_refused,
            self.datagrams_held,
        ];
        self.datagrams_made.beyond(&out)
    }

    fn merge(&mut self, other: &Self) {
        self.made += other.made;
        self.sent += other.sent;
        self.dropped_message += other.dropped_message;
        self.restart += other.restart;
        self.send_failed += other.send_failed;
        self.held += other.held;
        self.duplicated += other.duplicated;
        self.silent += other.silent;
        self.spoiled_subevents += other.spoiled_subevents;
        self.corrupted_messages += other.corrupted_messages;
        self.reordered_messages += other.reordered_messages;
        self.messages += other.messages;
        self.datagrams_made += other.datagrams_made;
        self.datagrams_sent += other.datagrams_sent;
        self.datagrams_refused += other.datagrams_refused;
        self.datagrams_held += other.datagrams_held;
    }
}

/// The books of all sources.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// Triggers made.
    pub events: u64,
    /// The sum over the sources.
    pub all: SourceTotals,
    /// Each source.
    pub by_source: Vec<SourceTotals>,
}

impl Totals {
    pub(crate) fn new(events: u64, by_source: Vec<SourceTotals>) -> Self {
        let mut all = SourceTotals::default();
        by_source.iter().for_each(|source| all.merge(source));
        Self {
            events,
            all,
            by_source,
        }
    }
}
