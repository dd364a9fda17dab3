//! The hosts of a world: senders with clocks of their own, and the receiver.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use forebay_emu::affine_clock::AffineClock;
use forebay_emu::port::Port;
use forebay_emu::rng::Xoshiro256;
use forebay_tdm::key::Key;
use forebay_tdm::receiver::{LostRange, Receiver, Row};
use forebay_tdm::sender::Sender;

use super::stream::Ranges;

/// How late a host wakes up, in ns: mostly a little, sometimes much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lateness {
    pub(crate) usual_ns: u64,
    /// One wake-up in so many is later than usual.
    pub(crate) one_in: u64,
    pub(crate) most_ns: u64,
}

impl Lateness {
    /// At real-time priority with a bounded spin.
    pub(crate) const SPIN: Self = Self {
        usual_ns: 200,
        one_in: 200,
        most_ns: 20_000,
    };

    pub(crate) fn draw(&self, random: &mut Xoshiro256) -> u64 {
        let rare = random.below(self.one_in.max(1)) == 0;
        random.below(if rare { self.most_ns } else { self.usual_ns } + 1)
    }
}

/// What a sender has to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input {
    /// Length of the stream.
    pub(crate) bytes: u64,
    /// It comes at this rate, in bytes/s from the world's beginning on; 0: all of it is there.
    pub(crate) bytes_per_s: u64,
    /// Nothing comes in this span of true time since the beginning, in ns.
    pub(crate) pause_ns: (u64, u64),
}

impl Input {
    pub(crate) const fn of(bytes: u64) -> Self {
        Self {
            bytes,
            bytes_per_s: 0,
            pause_ns: (0, 0),
        }
    }

    /// Bytes that have come by `since_ns` after the beginning.
    pub(crate) fn come(&self, since_ns: u64) -> u64 {
        if self.bytes_per_s == 0 {
            return self.bytes;
        }
        let (from, to) = self.pause_ns;
        let paused = since_ns.clamp(from, to) - from;
        let come = u128::from(since_ns - paused) * u128::from(self.bytes_per_s) / 1_000_000_000;
        self.bytes.min(u64::try_from(come).unwrap())
    }
}

/// A sender's host.
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) sender: Option<Sender>,
    pub(crate) clock: AffineClock,
    pub(crate) lateness: Lateness,
    pub(crate) input: Input,
    pub(crate) nic: Port,
    pub(crate) key: Option<Key>,
    /// Wake-ups under another number are old.
    pub(crate) wake: u64,
    /// Data packets, and of them those of which no good copy reached the receiver.
    pub(crate) data_sent: u64,
    pub(crate) data_dropped: u64,
    /// The kernel refuses one of so many data packets, 0: none; and those that it refused.
    pub(crate) refuses: u64,
    pub(crate) data_refused: u64,
    /// At the starts of its windows: the error of its clock, in ns, and the bound that it stated.
    pub(crate) errors: Vec<(u64, u64)>,
    /// By how much the first packets of windows left before or after the planned start, in ns of true time.
    pub(crate) starts: Vec<i64>,
    pub(crate) window: Option<u32>,
    /// When the last burst that was given ahead leaves, in ns of true time.
    pub(crate) launch_ns: u64,
}

/// A receiver and what came to it.
pub(crate) struct Site {
    pub(crate) receiver: Receiver,
    pub(crate) clock: AffineClock,
    pub(crate) wake: u64,
    /// Closed windows; none of them when `keeps_rows` is false, but always their sums.
    pub(crate) rows: Vec<Row>,
    pub(crate) keeps_rows: bool,
    pub(crate) sums: BTreeMap<u16, Row>,
    /// By sender and window: what came and is in no closed window.
    pub(crate) open: BTreeMap<(u16, u32), u64>,
    /// Most rows that waited at once.
    pub(crate) rows_waiting: usize,
    pub(crate) lost: Vec<LostRange>,
    /// What came of each stream, by sender and start.
    pub(crate) streams: BTreeMap<(u16, u32), Ranges>,
    pub(crate) data: u64,
    pub(crate) data_bytes: u64,
    /// Bytes on the wire of it, and when its last packet came.
    pub(crate) wire_bytes: u64,
    pub(crate) last_ps: u64,
    /// Data in the order in which it was taken: sender, window and packet's place by arrival in its window.
    pub(crate) order: Vec<(u16, u32)>,
}
