//! What a client does with a datagram: the five clients that sDDF was measured with.
//!
//! | workload | of each datagram that comes |
//! |---|---|
//! | `echo` | it goes back |
//! | `rx-mostly` | every 10,000th goes back |
//! | `tx-mostly` | it goes back 10,000 times |
//! | `tx-initiated` | the first one goes back so many times as it is asked for (1,000,000), and then the client is done; others are not answered |
//! | `heavy` | it is copied and its bytes are added up ten times, and it goes back |
//!
//! What is due waits in order. It is a count of copies and not the copies, so that much that is due takes little memory.

use std::collections::VecDeque;
use std::hint::black_box;
use std::net::{IpAddr, SocketAddr};

use forebay_ledger::Leak;

use crate::counts::{Amount, WorkCounts, WorkDrop};

/// Datagrams that come for one answer of `rx-mostly`, and answers of `tx-mostly` to one.
pub const MOSTLY: u64 = 10_000;
/// Datagrams that `tx-initiated` sends, where nothing else is said.
pub const INITIATED: u64 = 1_000_000;
/// Rounds of `heavy`.
pub const ROUNDS: u32 = 10;
/// Most datagrams that wait for their answers.
pub const WAITING_MAX: usize = 1_024;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sends back what comes.
    Echo,
    /// Receives, mostly.
    RxMostly,
    /// Sends, mostly.
    TxMostly,
    /// Sends so many datagrams once it was asked to.
    TxInitiated {
        /// How many, 1 at least.
        packets: u64,
    },
    /// Works on what comes, and sends it back.
    Heavy {
        /// How many times each datagram is copied and its bytes are added up.
        rounds: u32,
    },
}

impl Kind {
    /// Its name, as people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::RxMostly => "rx-mostly",
            Self::TxMostly => "tx-mostly",
            Self::TxInitiated { .. } => "tx-initiated",
            Self::Heavy { .. } => "heavy",
        }
    }
}

/// Both ends of a datagram: the sender, and which address of the client it was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The sender.
    pub remote: SocketAddr,
    /// The client's address.
    pub local: IpAddr,
}

/// A datagram that is due so many times.
#[derive(Debug)]
struct Burst {
    to: Ends,
    payload: Vec<u8>,
    left: u64,
}

/// A workload at work.
#[derive(Debug)]
pub struct Workload {
    kind: Kind,
    counts: WorkCounts,
    due: Amount,
    waiting: VecDeque<Burst>,
    spare: Vec<Vec<u8>>,
    has_begun: bool,
    byte_sum: u64,
    copy: Vec<u8>,
    leak: Leak,
}

/// The accounts of what comes, of what is due for it, and of what connections of TCP bring.
pub(crate) const WORK: &str = "client_work";
pub(crate) const SEND: &str = "client_send";
pub(crate) const TCP: &str = "client_tcp";
/// Accounts at which datagrams, and what was read of connections, can be made to vanish.
pub const HOPS: &[&str] = &[WORK, SEND, TCP];

impl Workload {
    /// One that has seen nothing.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            counts: WorkCounts::default(),
            due: Amount::default(),
            waiting: VecDeque::new(),
            spare: Vec::new(),
            has_begun: false,
            byte_sum: 0,
            copy: Vec::new(),
            leak: Leak::off(),
        }
    }

    /// The same, of which some vanish uncounted at one of [`HOPS`], for tests of the books.
    #[must_use]
    pub fn leaking(self, leak: Leak) -> Self {
        Self { leak, ..self }
    }

    /// What vanishes on purpose, for what does not come here: frames of a client without a stack, and connections.
    pub(crate) const fn leak_mut(&mut self) -> &mut Leak {
        &mut self.leak
    }

    /// The workload that it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// What came, and what became of it.
    #[must_use]
    pub const fn counts(&self) -> WorkCounts {
        self.counts
    }

    /// Datagrams that were due so far, those that were sent among them.
    #[must_use]
    pub const fn due(&self) -> Amount {
        self.due
    }

    /// Sum of all bytes that `heavy` has added up.
    #[must_use]
    pub const fn byte_sum(&self) -> u64 {
        self.byte_sum
    }

    /// Whether it sends nothing any more, whatever comes.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let is_one_burst = matches!(self.kind, Kind::TxInitiated { .. });
        is_one_burst && self.has_begun && self.waiting.is_empty()
    }

    /// Takes a datagram.
    pub fn handle_datagram(&mut self, ends: Ends, payload: &[u8]) {
        self.counts.came.add(1, payload.len());
        if self.leak.take(WORK) {
            return;
        }
        let copies = self.copies();
        if copies == 0 {
            self.counts.dropped[WorkDrop::ByDesign].add(1, payload.len());
        } else if self.waiting.len() >= WAITING_MAX {
            self.counts.dropped[WorkDrop::NoRoom].add(1, payload.len());
        } else {
            self.answer(ends, payload, copies);
        }
    }

    /// How many times the datagram that was counted last is due.
    fn copies(&self) -> u64 {
        match self.kind {
            Kind::Echo | Kind::Heavy { .. } => 1,
            Kind::RxMostly => u64::from(self.counts.came.packets.is_multiple_of(MOSTLY)),
            Kind::TxMostly => MOSTLY,
            Kind::TxInitiated { .. } if self.has_begun => 0,
            Kind::TxInitiated { packets } => packets,
        }
    }

    fn answer(&mut self, to: Ends, payload: &[u8], copies: u64) {
        if let Kind::Heavy { rounds } = self.kind {
            self.work_on(payload, rounds);
        }
        self.counts.answered.add(1, payload.len());
        self.has_begun = true;
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(payload);
        self.due.add(copies, payload.len());
        let left = copies - self.leak.take_of(SEND, copies);
        if left == 0 {
            return;
        }
        self.waiting.push_back(Burst {
            to,
            payload: kept,
            left,
        });
    }

    fn work_on(&mut self, payload: &[u8], rounds: u32) {
        for _ in 0..rounds {
            self.copy.clear();
            self.copy.extend_from_slice(black_box(payload));
            let sum: u64 = black_box(&self.copy).iter().copied().map(u64::from).sum();
            self.byte_sum = self.byte_sum.wrapping_add(sum);
        }
    }

    /// The next datagram that is due.
    #[must_use]
    pub fn next_due(&self) -> Option<(Ends, &[u8])> {
        let first = self.waiting.front()?;
        Some((first.to, &first.payload))
    }

    /// The next datagram that is due was taken.
    pub fn advance(&mut self) {
        let Some(first) = self.waiting.front_mut() else {
            return;
        };
        first.left -= 1;
        if first.left == 0
            && let Some(done) = self.waiting.pop_front()
        {
            self.spare.push(done.payload);
        }
    }

    /// What is due and was not taken.
    #[must_use]
    pub fn held(&self) -> Amount {
        let mut held = Amount::default();
        for burst in &self.waiting {
            held.add(burst.left, burst.payload.len());
        }
        held
    }

    /// Forgets what is due to this address, or to all; how much that was.
    pub fn forget(&mut self, to: Option<IpAddr>) -> Amount {
        let mut forgotten = Amount::default();
        self.waiting.retain(|burst| {
            let is_meant = to.is_none_or(|to| burst.to.remote.ip() == to);
            if is_meant {
                forgotten.add(burst.left, burst.payload.len());
            }
            !is_meant
        });
        forgotten
    }
}
