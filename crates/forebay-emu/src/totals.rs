//! What was made, sent and lost by each source, counted where it happens.

/// Sub-events and their bytes (headers included, padding not).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Sub-events.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Amount {
    pub(crate) fn add(&mut self, (items, bytes): (u64, u64)) {
        self.items += items;
        self.bytes += bytes;
    }
}

impl std::ops::AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.add((other.items, other.bytes));
    }
}

/// The books of one source: `made = sent + dropped_message + restart + send_failed + held`.
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
    /// Datagrams sent.
    pub datagrams: u64,
    /// Their payload bytes: queue headers, padding and trailers included.
    pub bytes_messages: u64,
}

impl SourceTotals {
    /// What the books do not explain: made − sent − dropped − held, in sub-events and in bytes.
    #[must_use]
    pub fn residual(&self) -> (i64, i64) {
        let out = [
            self.sent,
            self.dropped_message,
            self.restart,
            self.send_failed,
            self.held,
        ];
        let items: u64 = out.iter().map(|a| a.items).sum();
        let bytes: u64 = out.iter().map(|a| a.bytes).sum();
        (
            self.made.items.wrapping_sub(items).cast_signed(),
            self.made.bytes.wrapping_sub(bytes).cast_signed(),
        )
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
        self.datagrams += other.datagrams;
        self.bytes_messages += other.bytes_messages;
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
