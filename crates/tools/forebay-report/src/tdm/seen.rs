//! What pictures of a session keep of it: windows in bins, and the first packets one by one. It does not grow with the session.

use std::ops::Range;

use forebay_run_tdm::receive::{Came, Row};

/// Bins of all senders together, unless that were fewer than [`BINS_LEAST`] for one.
const BINS_OF_ALL: usize = 8192;
const BINS_LEAST: usize = 8;
/// Most bins of one sender: more than a picture has room for.
const BINS_MOST: usize = 256;
/// Packets are kept one by one for so long from the first window's start, in ns, as the original draws them.
pub const FIRST_NS: u64 = 30_000_000;
/// Most of them: 12 B each.
pub const PACKETS_MOST: usize = 100_000;
/// Kinds of windows by packets that overlap: none, 1, 2 to 3, 4 to 7, and so on.
pub const OVERLAP_KINDS: usize = 24;

/// Least, most and mean of what was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
    sum: f64,
    count: u64,
}

impl Default for Spread {
    fn default() -> Self {
        Self {
            low: f64::INFINITY,
            high: f64::NEG_INFINITY,
            sum: 0.0,
            count: 0,
        }
    }
}

impl Spread {
    fn add(&mut self, low: f64, mean: f64, high: f64) {
        self.merge(&Self {
            low,
            high,
            sum: mean,
            count: 1,
        });
    }

    /// Takes in what was seen elsewhere.
    pub fn merge(&mut self, other: &Self) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
        self.sum += other.sum;
        self.count += other.count;
    }

    /// Not a number where nothing was seen.
    pub fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }
}

/// Windows of one sender that follow each other.
#[derive(Clone, Debug, Default)]
pub struct Bin {
    /// How many.
    pub windows: u64,
    /// Packets of a window.
    pub received: Spread,
    /// Packets of a window that did not come.
    pub missing: Spread,
    /// Packets of a window in overlaps.
    pub overlaps: Spread,
    /// In us.
    pub travel_us: Spread,
    /// The longest travel time of a window less its shortest, in us.
    pub jitter_us: Spread,
    /// Payload while the window was sent, in bits/s.
    pub rate_bps: Spread,
    /// From the start of the cycle to the first and the last packet as they were sent, in ms.
    pub sent_ms: Spread,
    /// The same as they came.
    pub came_ms: Spread,
}

impl Bin {
    fn merge(&mut self, other: &Self) {
        self.windows += other.windows;
        self.received.merge(&other.received);
        self.missing.merge(&other.missing);
        self.overlaps.merge(&other.overlaps);
        self.travel_us.merge(&other.travel_us);
        self.jitter_us.merge(&other.jitter_us);
        self.rate_bps.merge(&other.rate_bps);
        self.sent_ms.merge(&other.sent_ms);
        self.came_ms.merge(&other.came_ms);
    }

    fn add(&mut self, row: &Row, from_start_ms: impl Fn(u64) -> f64) {
        let exact = |spread: &mut Spread, value: f64| spread.add(value, value, value);
        self.windows += 1;
        exact(&mut self.received, row.received as f64);
        exact(&mut self.missing, row.lost.total() as f64);
        let overlaps = row.overlap_front + row.overlap_back;
        exact(&mut self.overlaps, overlaps as f64);
        if row.received == 0 {
            return;
        }
        let us = |ns: i64| ns as f64 / 1e3;
        self.travel_us.add(
            us(row.travel_min_ns),
            us(row.travel_mean_ns()),
            us(row.travel_max_ns),
        );
        exact(
            &mut self.jitter_us,
            us(row.travel_max_ns.saturating_sub(row.travel_min_ns)),
        );
        if row.first_sent_ns > 0 {
            let (first, last) = (row.first_sent_ns, row.last_sent_ns);
            let (low, high) = (from_start_ms(first), from_start_ms(last));
            self.sent_ms.add(low, f64::midpoint(low, high), high);
            // Between n packets there are n − 1 spaces.
            if let (Some(rate), true) = (rate_bps(row), row.received > 1) {
                exact(&mut self.rate_bps, rate);
            }
        }
        if row.first_came_ns > 0 {
            let low = from_start_ms(row.first_came_ns);
            let high = from_start_ms(row.last_came_ns);
            self.came_ms.add(low, f64::midpoint(low, high), high);
        }
    }
}

/// Payload of a window in bits/s, while it was sent; none of one packet.
pub fn rate_bps(row: &Row) -> Option<f64> {
    let span_ns = row.last_sent_ns.checked_sub(row.first_sent_ns)?;
    let spaces = row.received.checked_sub(1)?;
    let bits = row.payload_bytes as f64 * 8.0 * spaces as f64 / row.received as f64;
    (span_ns > 0 && spaces > 0).then(|| bits / (span_ns as f64 / 1e9))
}

/// A packet of the first 30 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dot {
    /// Whose, by its index.
    pub sender: u16,
    /// From the start of the first window, in ns.
    pub sent_ns: i32,
    /// The same.
    pub came_ns: i32,
}

/// A session as its pictures know it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The senders' names.
    pub names: Vec<String>,
    senders: Vec<Vec<Bin>>,
    /// Windows of a bin.
    pub windows_of_bin: u32,
    most: usize,
    /// When the first window began, and from then to the second of the same sender; 0: there is no cycle.
    start_ns: u64,
    cycle_ns: u64,
    /// Windows by kinds of overlaps.
    pub overlaps: [u64; OVERLAP_KINDS],
    /// The first packets.
    pub dots: Vec<Dot>,
    /// Packets that there was no room for.
    pub more_dots: u64,
    /// When the first of them was sent, in ns.
    pub dots_until_ns: u64,
}

impl Seen {
    /// Nothing so far, of at most so many senders.
    pub fn new(senders: usize) -> Self {
        Self {
            names: Vec::new(),
            senders: Vec::new(),
            windows_of_bin: 1,
            most: (BINS_OF_ALL / senders.max(1)).clamp(BINS_LEAST, BINS_MOST),
            start_ns: 0,
            cycle_ns: 0,
            overlaps: [0; OVERLAP_KINDS],
            dots: Vec::new(),
            more_dots: 0,
            dots_until_ns: FIRST_NS,
        }
    }

    /// When its windows begin.
    pub fn planned(&mut self, start_ns: u64, cycle_ns: u64) {
        (self.start_ns, self.cycle_ns) = (start_ns, cycle_ns);
    }

    /// Whether windows come again after a time that is known.
    pub const fn has_cycle(&self) -> bool {
        self.cycle_ns > 0
    }

    /// A sender and its name.
    pub fn joined(&mut self, sender: u16, name: &str) {
        let sender = usize::from(sender);
        while self.names.len() <= sender {
            self.names.push(String::new());
            self.senders.push(Vec::new());
        }
        name.clone_into(&mut self.names[sender]);
    }

    /// A window is closed.
    pub fn window(&mut self, row: &Row) {
        let overlaps = row.overlap_front + row.overlap_back;
        let kind = (u64::BITS - overlaps.leading_zeros()) as usize;
        self.overlaps[kind.min(OVERLAP_KINDS - 1)] += 1;
        while row.window / self.windows_of_bin >= self.most as u32 {
            self.halve();
        }
        let at = (row.window / self.windows_of_bin) as usize;
        let begin_ns = self.start_ns + u64::from(row.window) * self.cycle_ns;
        let Some(bins) = self.senders.get_mut(usize::from(row.sender)) else {
            return;
        };
        if bins.len() <= at {
            bins.resize(at + 1, Bin::default());
        }
        let from_start_ms = |at_ns: u64| (i128::from(at_ns) - i128::from(begin_ns)) as f64 / 1e6;
        bins[at].add(row, from_start_ms);
    }

    /// Each two bins become one.
    fn halve(&mut self) {
        self.windows_of_bin = self.windows_of_bin.saturating_mul(2);
        for bins in &mut self.senders {
            let pairs = bins.chunks(2).map(|pair| {
                let mut bin = pair[0].clone();
                pair[1..].iter().for_each(|other| bin.merge(other));
                bin
            });
            *bins = pairs.collect();
        }
    }

    /// A packet came.
    #[inline]
    pub fn packet(&mut self, came: &Came) {
        let from_start = |at_ns: u64| {
            at_ns
                .cast_signed()
                .wrapping_sub(self.start_ns.cast_signed())
        };
        let sent_ns = from_start(came.sent_ns);
        if sent_ns >= FIRST_NS as i64 {
            return;
        }
        let within =
            |ns: i64| i32::try_from(ns).unwrap_or(if ns < 0 { i32::MIN } else { i32::MAX });
        if self.dots.len() < PACKETS_MOST {
            self.dots.push(Dot {
                sender: came.sender,
                sent_ns: within(sent_ns),
                came_ns: within(from_start(came.came_ns)),
            });
        } else {
            self.more_dots += 1;
            self.dots_until_ns = self.dots_until_ns.min(sent_ns.max(0).cast_unsigned());
        }
    }

    /// Senders, and their bins in the order of windows.
    pub fn senders(&self) -> impl ExactSizeIterator<Item = (&str, &[Bin])> {
        let names = self.names.iter().map(String::as_str);
        names.zip(self.senders.iter().map(Vec::as_slice))
    }

    /// Windows of bin number `at`.
    pub fn windows(&self, at: usize) -> Range<u64> {
        let width = u64::from(self.windows_of_bin);
        at as u64 * width..(at as u64 + 1) * width
    }

    /// Number of bins of the sender that has most.
    pub fn bins(&self) -> usize {
        self.senders.iter().map(Vec::len).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(sender: u16, window: u32) -> Row {
        Row {
            sender,
            window,
            sent: 10,
            received: 10,
            payload_bytes: 1000,
            travel_min_ns: 1000 + i64::from(window),
            travel_sum_ns: 20_000,
            travel_max_ns: 3000,
            first_sent_ns: 1_000 + u64::from(window) * 1_000_000,
            last_sent_ns: 10_000 + u64::from(window) * 1_000_000,
            first_came_ns: 2_000 + u64::from(window) * 1_000_000,
            last_came_ns: 11_000 + u64::from(window) * 1_000_000,
            overlap_front: u64::from(window % 4 == 3) * 5,
            ..Row::default()
        }
    }

    #[test]
    fn bins_have_all_windows_and_do_not_grow_with_the_session() {
        for senders in [1, 3, 1024] {
            let mut seen = Seen::new(senders);
            seen.planned(0, 1_000_000);
            for sender in 0..senders {
                seen.joined(sender as u16, "it");
            }
            let windows = if senders == 1024 { 100 } else { 100_000 };
            for window in 0..windows {
                for sender in 0..senders {
                    seen.window(&row(sender as u16, window));
                }
            }
            for (_, bins) in seen.senders() {
                assert!(bins.len() <= BINS_MOST, "{}", bins.len());
                let all: u64 = bins.iter().map(|bin| bin.windows).sum();
                assert_eq!(all, u64::from(windows));
                let low = bins.iter().map(|bin| bin.travel_us.low);
                assert_eq!(low.fold(f64::INFINITY, f64::min), 1.0);
                // The cycle's start is taken off, of each window its own.
                assert!((bins[1].sent_ms.low - 0.001).abs() < 1e-9);
                assert!((bins[1].sent_ms.high - 0.010).abs() < 1e-9);
                assert_eq!(bins[1].travel_us.mean(), 2.0);
            }
            let memory: usize = seen.senders().map(|(_, bins)| bins.len()).sum();
            assert!(memory <= BINS_OF_ALL.max(BINS_LEAST * senders), "{memory}");
            // A quarter of all windows has 5 packets in overlaps: of the kind from 4 to 7.
            let all = u64::from(windows) * senders as u64;
            assert_eq!(
                (seen.overlaps[0], seen.overlaps[3]),
                (all - all / 4, all / 4)
            );
        }
    }

    #[test]
    fn the_first_packets_are_kept_and_no_more_than_there_is_room_for() {
        let mut seen = Seen::new(1);
        seen.planned(5_000, 1_000_000);
        let mut packet = |sent_ns: u64| {
            seen.packet(&Came {
                sender: 0,
                window: 0,
                packet: 0,
                sent_ns,
                came_ns: sent_ns + 1_500,
            });
        };
        packet(5_000 + FIRST_NS);
        for number in 0..=PACKETS_MOST as u64 {
            packet(4_990 + number * 100);
        }
        assert_eq!((seen.dots.len(), seen.more_dots), (PACKETS_MOST, 1));
        assert_eq!((seen.dots[0].sent_ns, seen.dots[0].came_ns), (-10, 1_490));
        assert_eq!(seen.dots_until_ns, PACKETS_MOST as u64 * 100 - 10);
    }
}
