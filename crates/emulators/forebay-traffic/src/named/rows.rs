//! The rows of a named profile, window by window: the heaviest flows of a window, which make its share and its octets, and all others.

use std::vec::IntoIter;

use forebay_emu::rng::{Xoshiro256, hash};
use forebay_wire::packet::{TCP, UDP};

use super::draws::{is_one_direction, packets, packets_mean, protocol, shares, shuffle};
use super::{NamedProfile, WINDOW_PACKETS};
use crate::frame::header_bytes;
use crate::profile::Row;

/// Octets of a segment that acknowledges alone, in the mean.
const ACKNOWLEDGE_BYTES: u64 = 52;
const ECHO_BYTES: u64 = 84;
/// Other flows last a window at most, about: longest durations are so often halved.
const DURATION_HALVINGS: u64 = 7;
/// Packets of all flows for each packet of one that is none of the heaviest, at least, if it does not last four windows so.
const PACE_PACKETS: u64 = 1_000;

/// The rows of a named profile, sorted by their start. Memory is that of a window.
#[derive(Debug)]
pub struct NamedRows {
    profile: NamedProfile,
    seed: u64,
    packets: u64,
    /// Packets of the windows that were made.
    made: u64,
    /// Octets that these lack to have the profile's mean.
    owed_bytes: i64,
    shares: [f64; 16],
    window: IntoIter<Row>,
}

impl NamedRows {
    pub(super) fn new(profile: &NamedProfile, packets: u64, seed: u64) -> Self {
        Self {
            profile: *profile,
            seed,
            packets,
            made: 0,
            owed_bytes: 0,
            shares: shares(f64::from(profile.elephant_permille) / 1_000.0),
            window: Vec::new().into_iter(),
        }
    }

    /// The time at which so many packets were sent, ms.
    fn at_ms(&self, packets: u64) -> u64 {
        (u128::from(packets) * 1_000 / u128::from(self.profile.packet_rate_hz)) as u64
    }

    /// The rows of the next window; there are packets left.
    fn make(&mut self) -> Vec<Row> {
        let number = self.made / WINDOW_PACKETS;
        let budget = WINDOW_PACKETS.min(self.packets - self.made);
        if number.is_multiple_of(16) {
            shuffle(
                &mut Xoshiro256::new(hash(!self.seed, number)),
                &mut self.shares,
            );
        }
        let mut window = Window {
            random: Xoshiro256::new(hash(self.seed, number)),
            from_ms: self.at_ms(self.made),
            to_ms: self.at_ms(self.made + budget),
            end_ms: self.at_ms(self.packets),
            owed_bytes: self.owed_bytes + (budget * u64::from(self.profile.packet_bytes)) as i64,
            rows: Vec::new(),
        };
        let heavy = (budget as f64 * self.shares[(number % 16) as usize]) as u64;
        // One packet has no flow in both directions.
        let heavy = if heavy < 2 { 0 } else { heavy };
        window.others(&self.profile, budget - heavy);
        window.heaviest(&self.profile, heavy);
        window.rows.sort_by_key(|row| row.start_ms);
        self.made += budget;
        self.owed_bytes = window.owed_bytes;
        window.rows
    }
}

impl Iterator for NamedRows {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        loop {
            if let Some(row) = self.window.next() {
                return Some(row);
            }
            if self.made >= self.packets {
                return None;
            }
            self.window = self.make().into_iter();
        }
    }
}

struct Window {
    random: Xoshiro256,
    from_ms: u64,
    to_ms: u64,
    /// When the profile ends.
    end_ms: u64,
    /// Octets that are to be made.
    owed_bytes: i64,
    rows: Vec<Row>,
}

impl Window {
    /// All flows but the heaviest, with so many packets in all.
    fn others(&mut self, profile: &NamedProfile, budget: u64) {
        let flows = budget as f64 / packets_mean();
        let elephants = f64::from(profile.elephants);
        let top = elephants / (elephants + flows);
        let pace_us = PACE_PACKETS * 1_000_000 / u64::from(profile.packet_rate_hz);
        let (mut left, mut balance) = (budget, 0_i64);
        while left > 0 {
            let packets = packets(&mut self.random, top).min(left);
            left -= packets;
            // Large where octets so far are below the mean.
            let row = self.row(packets, balance >= 0, pace_us);
            let bytes = row.bytes + row.bytes_reverse;
            balance += (packets * u64::from(profile.mouse_bytes)) as i64 - bytes as i64;
            self.owed_bytes -= bytes as i64;
            self.rows.push(row);
        }
    }

    fn row(&mut self, packets: u64, is_large: bool, pace_us: u64) -> Row {
        let random = &mut self.random;
        let (is_ipv6, protocol, (client, server)) = protocol(random);
        let to_server = random.below(2) == 0;
        let forward = match is_one_direction(random, packets) {
            true => packets,
            false => (packets * (300 + random.below(401)) / 1_000).clamp(1, packets - 1),
        };
        let least = header_bytes(is_ipv6, protocol) as u64;
        let data = match protocol {
            TCP if is_large => 700 + random.below(760),
            UDP if is_large && server == 443 => 900 + random.below(350),
            TCP | UDP => least + 20 + random.below(80),
            _ => ECHO_BYTES,
        };
        let answer = match protocol {
            TCP => least + random.below(12),
            UDP => least + 20 + random.below(60),
            _ => ECHO_BYTES,
        };
        let is_both = forward < packets;
        // Of two directions that of the server has the data; of one it may be either's.
        let of_forward = if is_both && to_server { answer } else { data };
        let of_reverse = if to_server { data } else { answer };
        let start_ms = self.from_ms + random.below((self.to_ms - self.from_ms).max(1));
        let duration_ms = self.duration_ms(packets, pace_us);
        let (source_port, destination_port) = if to_server {
            (client, server)
        } else {
            (server, client)
        };
        Row {
            start_ms,
            end_ms: (start_ms + duration_ms).clamp(start_ms, self.end_ms.max(start_ms)),
            is_ipv6,
            protocol,
            source_port,
            destination_port,
            packets: forward,
            bytes: side_bytes(forward, of_forward, least, protocol),
            packets_reverse: packets - forward,
            bytes_reverse: side_bytes(packets - forward, of_reverse, least, protocol),
            addresses: None,
        }
    }

    /// As many of the second half of a window's length as of the second half of that, and so on; no flow is faster than its pace.
    fn duration_ms(&mut self, packets: u64, pace_us: u64) -> u64 {
        if packets == 1 {
            return 0;
        }
        let longest_us = (self.to_ms - self.from_ms).max(1) * 1_000;
        let high = longest_us >> self.random.below(DURATION_HALVINGS);
        let drawn_us = high / 2 + self.random.below(high / 2 + 1);
        drawn_us
            .max((packets * pace_us).min(4 * longest_us))
            .div_ceil(1_000)
    }

    /// The heaviest flows, with so many packets in all: they have what octets are owed, as far as their sizes let them.
    fn heaviest(&mut self, profile: &NamedProfile, budget: u64) {
        let elephants = u64::from(profile.elephants).min(budget / 2);
        let reverse_all = budget * u64::from(1_000 - profile.forward_permille) / 1_000;
        let forward_all = (budget - reverse_all).max(1);
        let owed = self.owed_bytes - (reverse_all * ACKNOWLEDGE_BYTES) as i64;
        let (least, most) = profile.forward_bytes;
        let each = (owed / forward_all as i64).clamp(i64::from(least), i64::from(most)) as u64;
        for number in 0..elephants {
            let of = |all: u64| all / elephants + u64::from(number < all % elephants);
            let (packets, packets_reverse) = (of(forward_all), of(reverse_all));
            let (client, server) = (40_000 + self.random.below(20_000) as u16, 443);
            let row = Row {
                start_ms: self.from_ms,
                end_ms: self.to_ms,
                is_ipv6: false,
                protocol: TCP,
                source_port: server,
                destination_port: client,
                packets,
                bytes: packets * each,
                packets_reverse,
                bytes_reverse: packets_reverse * ACKNOWLEDGE_BYTES,
                addresses: None,
            };
            self.owed_bytes -= (row.bytes + row.bytes_reverse) as i64;
            self.rows.push(row);
        }
    }
}

/// Octets of a direction: all its packets are so large, but for the one that opens it.
fn side_bytes(packets: u64, each: u64, least: u64, protocol: u8) -> u64 {
    match packets {
        2.. if protocol == TCP => least + (packets - 1) * each,
        packets => packets * each,
    }
}
