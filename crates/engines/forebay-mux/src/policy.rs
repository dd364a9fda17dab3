//! Which client sends next: one file for each policy.
//!
//! A [`Policy`] sees the packet at the head of each queue and the time. It says which client sends, or when to ask again, so that no caller polls. It holds no
//! packet: it can be changed for another one, or given other numbers, while packets wait.

pub(crate) mod bucket;
mod deficit_round_robin;
mod priority;
mod round_robin;
mod signalled;
mod tdm;
mod token_bucket;
mod window;

use core::fmt;

use crate::client::{CLIENTS_MAX, ClientId, ClientSet};
use forebay_settings::{OutOfRange, in_range};

pub use self::tdm::{Schedule, ScheduleError, Slot};

/// Levels of priority.
pub const LEVELS: usize = 8;
/// Window of the window policy in sDDF, in ns.
pub const WINDOW_NS: u64 = 10_000_000;
/// Longest packet that the policies count with, in bytes.
const PACKET_BYTES_MAX: u64 = 1 << 16;
const SECOND_NS: u64 = 1_000_000_000;

/// The packet at the head of a client's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Its bytes.
    pub bytes: u32,
    /// When it came, ns.
    pub arrival_ns: u64,
}

/// What a policy sees of the queues.
#[derive(Clone, Copy, Debug)]
pub struct Queues<'a> {
    ready: ClientSet,
    heads: &'a [Head],
}

impl<'a> Queues<'a> {
    /// Clients with something in their queues, and the heads of all clients' queues by number: as many as [`CLIENTS_MAX`].
    #[must_use]
    pub const fn new(ready: ClientSet, heads: &'a [Head; CLIENTS_MAX]) -> Self {
        Self { ready, heads }
    }

    /// Clients with something in their queues.
    #[must_use]
    #[inline]
    pub const fn ready(&self) -> &ClientSet {
        &self.ready
    }

    /// The head of a client's queue; of an empty queue it says nothing.
    #[must_use]
    #[inline]
    pub const fn head(&self, client: ClientId) -> Head {
        self.heads[client.index()]
    }
}

/// What a policy decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The head of this client's queue is to be sent.
    Send(ClientId),
    /// No client may send now: ask again at this time, ns, or when another packet comes.
    AskAt(u64),
    /// No client wants to send.
    Idle,
}

/// Decides which client sends next.
pub trait Policy: fmt::Debug + Send {
    /// Something came into a queue that was empty, which is what a client signals.
    fn woke(&mut self, client: ClientId) {
        let _ = client;
    }

    /// Decides. It may be asked again without anything having been sent.
    fn next(&mut self, queues: &Queues<'_>, now_ns: u64) -> Turn;

    /// The head of a queue was sent, of so many bytes, as was decided before.
    fn sent(&mut self, client: ClientId, bytes: u32, now_ns: u64);

    /// The head of a queue was dropped, or its client left: another head may be there, or none.
    fn head_lost(&mut self, client: ClientId) {
        let _ = client;
    }

    /// Takes other numbers at this time, ns, and keeps what it knows of the past. False: they are another policy's.
    fn adjust(&mut self, config: &PolicyConfig, now_ns: u64) -> bool;
}

/// A value for each client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerClient<T> {
    /// That of clients that are not named.
    pub default: T,
    /// Those of some clients; the last one counts.
    pub named: Vec<(ClientId, T)>,
}

impl<T: Copy> PerClient<T> {
    /// The same for all.
    #[must_use]
    pub const fn all(default: T) -> Self {
        let named = Vec::new();
        Self { default, named }
    }

    /// With this value for one of them.
    #[must_use]
    pub fn with(mut self, client: ClientId, value: T) -> Self {
        self.named.push((client, value));
        self
    }

    fn values(&self) -> impl Iterator<Item = T> {
        let named = self.named.iter().map(|(_, value)| *value);
        core::iter::once(self.default).chain(named)
    }

    /// One for each number of a client.
    fn by_number(&self) -> Vec<T> {
        let mut values = vec![self.default; CLIENTS_MAX];
        for (client, value) in &self.named {
            values[client.index()] = *value;
        }
        values
    }
}

/// A policy with its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyConfig {
    /// Clients in the order in which their queues had something again, each until its queue is empty or so many packets are sent, 1 to 2^32 − 1; then it
    /// waits behind the others. With the largest number it is as the original: a client that goes on holds all others.
    Signalled {
        /// Most packets at once.
        burst_packets: u32,
    },
    /// One packet of each client in turn.
    RoundRobin,
    /// As many bytes of each client in turn, whatever the length of its packets.
    DeficitRoundRobin {
        /// Bytes of a turn, 1,514 to 2^20: clients have shares as these numbers are to each other.
        quantum_bytes: PerClient<u32>,
    },
    /// Clients of the lowest level that has something to send, in turn.
    Priority {
        /// Level of a client, 0 to 7; 0 goes first.
        level: PerClient<u8>,
        /// A level that has had something to send for so long without its turn sends one packet, in ns, 1 µs to 10 s; without it it may wait for ever.
        guard_ns: Option<u64>,
    },
    /// Each client at its rate, with bursts.
    TokenBucket {
        /// Bits per second, 8,000 to 10^12; none: as fast as there is room.
        rate_bps: PerClient<Option<u64>>,
        /// Most bytes above the rate, 64 to 2^20: over any time t a client sends no more than these and rate × t.
        burst_bytes: PerClient<u32>,
        /// Bytes of each packet that do not count, 0 to 256: 42 where rates are those of UDP payload over IPv4.
        uncounted_bytes: u32,
    },
    /// Each client so many bits in each window of time, as the original. What goes beyond with its last packet is taken from the next one, so that the rate
    /// holds. The windows are the same for all and stand still, so that at their edge a client can send twice the bits of a window in no time: where that
    /// matters take the token bucket.
    Window {
        /// Length of a window, in ns, 100 µs to 1 s: 10 ms in the original.
        window_ns: u64,
        /// Bits per second, as above.
        rate_bps: PerClient<Option<u64>>,
        /// Bytes of each packet that do not count, as above.
        uncounted_bytes: u32,
    },
    /// Clients in windows of a schedule.
    Tdm(Schedule),
}

impl PolicyConfig {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first setting that is outside.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        match self {
            Self::Signalled { burst_packets } => {
                in_range("burst_packets", (*burst_packets).into(), 1, u32::MAX.into())
            }
            Self::RoundRobin => Ok(()),
            Self::DeficitRoundRobin { quantum_bytes } => {
                let mut quanta = quantum_bytes.values();
                quanta.try_for_each(|bytes| in_range("quantum_bytes", bytes.into(), 1514, 1 << 20))
            }
            Self::Priority { level, guard_ns } => {
                let most = LEVELS as u64 - 1;
                let mut levels = level.values();
                levels.try_for_each(|level| in_range("level", level.into(), 0, most))?;
                check_guard(*guard_ns)
            }
            Self::TokenBucket {
                rate_bps,
                burst_bytes,
                uncounted_bytes,
            } => {
                check_rates(rate_bps, *uncounted_bytes)?;
                let mut bursts = burst_bytes.values();
                bursts.try_for_each(|bytes| in_range("burst_bytes", bytes.into(), 64, 1 << 20))
            }
            Self::Window {
                window_ns,
                rate_bps,
                uncounted_bytes,
            } => {
                in_range("window_ns", *window_ns, 100_000, SECOND_NS)?;
                check_rates(rate_bps, *uncounted_bytes)
            }
            Self::Tdm(_) => Ok(()),
        }
    }

    /// The policy with these numbers, at its begin.
    ///
    /// # Errors
    /// A number is outside its range.
    pub fn policy(&self) -> Result<Box<dyn Policy>, OutOfRange> {
        self.validate()?;
        Ok(match self {
            Self::Signalled { burst_packets } => {
                Box::new(signalled::Signalled::new(*burst_packets))
            }
            Self::RoundRobin => Box::new(round_robin::RoundRobin::default()),
            Self::DeficitRoundRobin { quantum_bytes } => {
                Box::new(deficit_round_robin::DeficitRoundRobin::new(quantum_bytes))
            }
            Self::Priority { level, guard_ns } => {
                Box::new(priority::Priority::new(level, *guard_ns))
            }
            Self::TokenBucket {
                rate_bps,
                burst_bytes,
                uncounted_bytes,
            } => Box::new(token_bucket::TokenBucket::new(
                rate_bps,
                burst_bytes,
                *uncounted_bytes,
            )),
            Self::Window {
                window_ns,
                rate_bps,
                uncounted_bytes,
            } => Box::new(window::Window::new(*window_ns, rate_bps, *uncounted_bytes)),
            Self::Tdm(schedule) => Box::new(tdm::Tdm::new(schedule)),
        })
    }
}

pub(crate) fn check_guard(guard_ns: Option<u64>) -> Result<(), OutOfRange> {
    guard_ns.map_or(Ok(()), |ns| in_range("guard_ns", ns, 1000, 10 * SECOND_NS))
}

fn check_rates(rate_bps: &PerClient<Option<u64>>, uncounted: u32) -> Result<(), OutOfRange> {
    let mut rates = rate_bps.values().flatten();
    rates.try_for_each(|bps| in_range("rate_bps", bps, 8000, 1_000_000_000_000))?;
    in_range("uncounted_bytes", uncounted.into(), 0, 256)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_named() {
        let named = |config: PolicyConfig| config.policy().unwrap_err().name;
        let all = |rate| PerClient::all(Some(rate));
        let one = PerClient::all(0).with(ClientId::new(3), 8);
        let (level, guard_ns) = (one, None);
        assert_eq!(named(PolicyConfig::Priority { level, guard_ns }), "level");
        let (level, guard_ns) = (PerClient::all(7), Some(999));
        assert_eq!(
            named(PolicyConfig::Priority { level, guard_ns }),
            "guard_ns"
        );
        let quantum_bytes = PerClient::all(1513);
        assert_eq!(
            named(PolicyConfig::DeficitRoundRobin { quantum_bytes }),
            "quantum_bytes"
        );
        assert_eq!(
            named(PolicyConfig::Signalled { burst_packets: 0 }),
            "burst_packets"
        );
        let window = |window_ns, rate, uncounted_bytes| PolicyConfig::Window {
            window_ns,
            rate_bps: all(rate),
            uncounted_bytes,
        };
        assert_eq!(named(window(99_999, 8000, 0)), "window_ns");
        assert_eq!(named(window(100_000, 7999, 0)), "rate_bps");
        assert_eq!(named(window(100_000, 8000, 257)), "uncounted_bytes");
        assert!(window(100_000, 8000, 256).policy().is_ok());
        let bucket = PolicyConfig::TokenBucket {
            rate_bps: PerClient::all(None),
            burst_bytes: PerClient::all(63),
            uncounted_bytes: 0,
        };
        assert_eq!(named(bucket), "burst_bytes");
    }
}
