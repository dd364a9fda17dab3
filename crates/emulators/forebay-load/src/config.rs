//! What load is asked for.

use forebay_emu::rng::hash;
use forebay_wire::load::HEAD_BYTES;
use thiserror::Error;

/// Most bytes of a packet: what a datagram of UDP over IPv4 holds.
pub const PACKET_BYTES_MAX: usize = 65_507;
/// Most targets.
pub const TARGETS_MAX: usize = 1 << 10;
/// Most packets of a target whose answers are waited for.
pub const WINDOW_MAX: usize = 1 << 20;
/// Most packets of all targets together whose answers are waited for: they take 40 bytes each, 671 MB.
pub const WINDOWS_MAX: usize = 1 << 24;

/// Least packets of a target that are remembered: a copy of an answer to one that is forgotten cannot be told from a late one.
const WINDOW_MIN: usize = 1 << 14;

/// How much is sent in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// So many bits of payload in a second, 1 at least.
    Bits(u64),
    /// So many packets in a second, 1 at least.
    Packets(u64),
}

/// When packets are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Evenly, whatever is answered.
    Open(Rate),
    /// So many are on their way at a time, 1 at least.
    Closed(u32),
}

/// How long packets are, in bytes of payload; with what is in front of their heads, if there is something ([`Config::front_bytes`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// These, one after the other, and again.
    List(Vec<usize>),
    /// Between these two, each as often as the others.
    Range(usize, usize),
}

impl Sizes {
    /// That of a packet.
    #[must_use]
    #[inline]
    pub fn of(&self, sequence: u64) -> usize {
        match self {
            Self::List(all) => all[(sequence % all.len() as u64) as usize],
            Self::Range(least, most) => {
                let choices = (most - least) as u64 + 1;
                least + (hash(choices, sequence) % choices) as usize
            }
        }
    }

    /// The longest.
    #[must_use]
    pub fn most(&self) -> usize {
        match self {
            Self::List(all) => all.iter().copied().max().unwrap_or(HEAD_BYTES),
            Self::Range(_, most) => *most,
        }
    }

    /// The shortest.
    #[must_use]
    pub fn least(&self) -> usize {
        match self {
            Self::List(all) => all.iter().copied().min().unwrap_or(0),
            Self::Range(least, _) => *least,
        }
    }

    fn check(&self, front_bytes: usize) -> Result<(), ConfigError> {
        let (least, most) = (self.least(), self.most());
        let fewest = HEAD_BYTES.saturating_add(front_bytes);
        for bytes in [least, most] {
            if !(fewest..=PACKET_BYTES_MAX).contains(&bytes) {
                return Err(ConfigError::Size(bytes, fewest));
            }
        }
        (least <= most)
            .then_some(())
            .ok_or(ConfigError::Range(least, most))
    }
}

/// Load for all targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// When packets are sent, target by target.
    pub paces: Vec<Pace>,
    /// How long they are.
    pub sizes: Sizes,
    /// Bytes in front of the head of each packet that others write, such as those of an Ethernet header: they count as bytes of the packet.
    pub front_bytes: usize,
    /// How long an answer is waited for, in ns, 1 at least.
    pub time_out_ns: u64,
    /// How long packets are made, in ns; none: until it is told to stop.
    pub duration_ns: Option<u64>,
    /// Number of the run, by which packets of another one are known.
    pub run: u32,
}

/// Load that cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// There is no target, or more than are counted.
    #[error("{0} targets, 1 to {TARGETS_MAX} expected")]
    Targets(usize),
    /// A packet has no room for its head, with what is in front of it, or is longer than any datagram.
    #[error("packets of {0} bytes, {1} to {PACKET_BYTES_MAX} expected")]
    Size(usize, usize),
    /// The smaller size stands last.
    #[error("sizes from {0} to {1} bytes, the smaller one expected first")]
    Range(usize, usize),
    /// Nothing would be sent.
    #[error("a rate of 0, 1 expected at least")]
    Rate,
    /// More on its way than is remembered.
    #[error("{0} packets at a time, 1 to {WINDOW_MAX} expected")]
    Closed(u32),
    /// More of all targets together.
    #[error(
        "{0} packets to be remembered of all targets, {WINDOWS_MAX} at most expected: fewer targets, a lower rate or a shorter time-out"
    )]
    Windows(usize),
    /// No answer could come in time.
    #[error("a time-out of 0, 1 ns expected at least")]
    TimeOut,
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if !(1..=TARGETS_MAX).contains(&self.paces.len()) {
            return Err(ConfigError::Targets(self.paces.len()));
        }
        for pace in &self.paces {
            match *pace {
                Pace::Open(Rate::Bits(0) | Rate::Packets(0)) => return Err(ConfigError::Rate),
                Pace::Closed(packets) if packets == 0 || packets as usize > WINDOW_MAX => {
                    return Err(ConfigError::Closed(packets));
                }
                _ => {}
            }
        }
        if self.time_out_ns == 0 {
            return Err(ConfigError::TimeOut);
        }
        let windows: usize = self.paces.iter().map(|pace| self.window(*pace)).sum();
        if windows > WINDOWS_MAX {
            return Err(ConfigError::Windows(windows));
        }
        self.sizes.check(self.front_bytes)
    }

    /// Packets that are remembered of a target with this pace: as many as are sent until an answer is given up, a power of two.
    pub(crate) fn window(&self, pace: Pace) -> usize {
        let packets = match pace {
            Pace::Closed(packets) => u128::from(packets) * 2,
            Pace::Open(rate) => {
                let (units, of_each) = match rate {
                    Rate::Packets(packets) => (packets, 1),
                    Rate::Bits(bits) => (bits, 8 * self.sizes.least().max(HEAD_BYTES) as u128),
                };
                u128::from(units) * u128::from(self.time_out_ns) / 1_000_000_000 / of_each * 2 + 64
            }
        };
        (packets.min(WINDOW_MAX as u128) as usize)
            .max(WINDOW_MIN)
            .next_power_of_two()
    }
}

/// Name of a target: A, B, … Z, AA, AB, …
#[must_use]
pub fn target_name(at: usize) -> String {
    let letter = char::from(b'A' + (at % 26) as u8);
    match at / 26 {
        0 => letter.to_string(),
        more => target_name(more - 1) + &letter.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_that_would_take_all_memory_are_refused() {
        let check = |targets, packets| {
            let config = Config {
                paces: vec![Pace::Open(Rate::Packets(packets)); targets],
                sizes: Sizes::List(vec![40]),
                front_bytes: 0,
                time_out_ns: 1_000_000_000,
                duration_ns: None,
                run: 1,
            };
            config.check()
        };
        assert_eq!(check(16, 1_000_000_000), Ok(()));
        let wrong = Err(ConfigError::Windows(17 << 20));
        assert_eq!(check(17, 1_000_000_000), wrong);
        // As many targets as there may be, at a rate for which the least is remembered.
        assert_eq!(check(TARGETS_MAX, 8_000), Ok(()));
        let wrong = Err(ConfigError::Windows(TARGETS_MAX << 15));
        assert_eq!(check(TARGETS_MAX, 9_000), wrong);
    }

    #[test]
    fn targets_are_called_by_letters() {
        let names = [0, 1, 25, 26, 27, 51, 52, 701, 702].map(target_name);
        assert_eq!(names, ["A", "B", "Z", "AA", "AB", "AZ", "BA", "ZZ", "AAA"]);
    }
}
