//! Windows, guard and pace, computed from the port and from what was measured, each with its reason.
//!
//! The port between senders and receiver has a rate and a buffer. What reaches it faster than it sends waits in the buffer, and what finds the buffer
//! full is lost. So three things are computed: *the pace*, at which the buffer stays empty; *the guard* between windows, which covers how late a sender wakes
//! up, how far the clocks are apart, and the last packet's way over the wire; and *the window*, so long that the guard costs no more than is allowed.

use std::fmt;

use forebay_wire::tdm::{DATA_HEAD_BYTES, DATAGRAM_BYTES_MAX, Mode, SENDERS_MAX};
use thiserror::Error;

pub(crate) mod units;

use crate::policy;
use units::{rate, time};

/// Bytes of Ethernet, IPv4 and UDP around a datagram: preamble and start 8, header 14, check 4, gap 12, IPv4 20, UDP 8.
pub const WIRE_OVERHEAD_BYTES: u32 = 66;
/// Least and most length of a window, in ns.
pub const WINDOW_NS: (u64, u64) = (100_000, 1_000_000_000);
/// What a plan may stay below the utilisation that is asked for without a warning.
const UTILISATION_SLACK: f64 = 0.01;
/// Part of the port's buffer that one sender's burst may fill.
const BURST_PART: u64 = 8;
/// Part of the port's buffer that a sender may fill by catching up.
const CATCH_UP_PART: u64 = 4;
/// Most packets of one burst: what the kernel cuts one large datagram into.
const BURST_PACKETS_MAX: u64 = 64;
/// A burst no longer than this, in ns: a sender looks at the time between bursts.
const BURST_NS: u64 = 100_000;

/// What is known of port and senders.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanInput {
    /// Rate of the port, in bits/s; 1 Mb/s to 800 Gb/s.
    pub link_rate_bps: u64,
    /// Buffer of the port, in bytes.
    pub port_buffer_bytes: u64,
    /// Bytes of a datagram (UDP payload, with our heads); default 1472, what fits a frame of 1500 bytes.
    pub packet_bytes: u32,
    /// Bytes around each datagram on the wire; default [`WIRE_OVERHEAD_BYTES`].
    pub wire_overhead_bytes: u32,
    /// Part of the port that each sender shall have, against the others'.
    pub shares: Vec<u16>,
    /// The schedule of those that share the port.
    pub mode: Mode,
    /// How late a sender wakes up, in ns (99 % are better); default 100 us.
    pub lateness_ns: u64,
    /// Bound of the error of the senders' clocks, in ns; default 5 us.
    pub clock_error_ns: u64,
    /// Part of the port's time that windows shall fill; default 0.98.
    pub utilisation: f64,
    /// Length of a window by hand, in ns.
    pub window_ns: Option<u64>,
    /// Guard by hand, in ns.
    pub guard_ns: Option<u64>,
}

impl Default for PlanInput {
    fn default() -> Self {
        Self {
            link_rate_bps: 1_000_000_000,
            port_buffer_bytes: 131_072,
            packet_bytes: 1472,
            wire_overhead_bytes: WIRE_OVERHEAD_BYTES,
            shares: vec![1, 1],
            mode: Mode::SlotsPaced,
            lateness_ns: 100_000,
            clock_error_ns: 5_000,
            utilisation: 0.98,
            window_ns: None,
            guard_ns: None,
        }
    }
}

/// The part of one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// From the start of the cycle, in ns.
    pub offset_ns: u64,
    /// In ns.
    pub window_ns: u64,
    /// Most packets of the window.
    pub packets: u32,
}

/// A number of the plan and why it is so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The number.
    pub what: &'static str,
    /// Its value, with its unit.
    pub value: String,
    /// Why.
    pub why: String,
}

/// Which sender sends when.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The schedule of those that share the port.
    pub mode: Mode,
    /// One for each sender.
    pub slots: Vec<Slot>,
    /// From the start of a sender's window to that of its next, in ns.
    pub cycle_ns: u64,
    /// Nothing is sent for so long after each window, in ns.
    pub guard_ns: u64,
    /// From packet to packet inside a window, in ps; 0: flat out.
    pub pace_ps: u64,
    /// Time of one packet on the wire, in ps.
    pub packet_ps: u64,
    /// Bytes of a full datagram.
    pub packet_bytes: u32,
    /// Most packets sent at once.
    pub burst_packets: u16,
    /// Most packets that a late sender may catch up.
    pub catch_up_packets: u16,
    /// Part of the port's time that windows fill.
    pub utilisation: f64,
    /// Part of the port's rate that is payload.
    pub goodput_bps: u64,
    /// Each number's reason.
    pub reasons: Vec<Reason>,
    /// What the plan gives up, in words.
    pub warnings: Vec<String>,
}

/// Why there is no plan. Each names the key and what would be right.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PlanError {
    /// A number outside its range.
    #[error("{key} is {value}; {range}")]
    Range {
        /// Name of the setting.
        key: &'static str,
        /// What it is.
        value: String,
        /// What is allowed.
        range: &'static str,
    },
    /// The port's buffer holds too few packets for any burst.
    #[error(
        "the port's buffer (--port-buffer) is {port_buffer_bytes} bytes and a packet takes {packet_bytes} of it; it must hold at least two: use smaller packets (--packet-bytes)"
    )]
    Buffer {
        /// Bytes of the buffer.
        port_buffer_bytes: u64,
        /// Bytes of a packet on the wire.
        packet_bytes: u64,
    },
    /// A window that holds no packet.
    #[error(
        "a window of {} holds no packet: one takes {} at {}; make the window longer (--window)", time(.window_ns), time(.packet_ns), rate(.link_rate_bps)
    )]
    Window {
        /// Length of the window.
        window_ns: u64,
        /// Time of a packet.
        packet_ns: u64,
        /// Rate of the port.
        link_rate_bps: u64,
    },
    /// More than the port carries.
    #[error(
        "utilisation {percent} % is asked for, and a port carries at most {most} % when it is shared in turns; ask for less (--utilisation)"
    )]
    Overbooked {
        /// What was asked for.
        percent: f64,
        /// The most there is.
        most: f64,
    },
    /// The guard asks for longer windows than are allowed.
    #[error(
        "a guard of {} and a utilisation of {utilisation} ask for a window of {}, more than {}; better clocks, real-time priority, or less of it (--utilisation) make it shorter", time(.guard_ns), time(.window_ns), time(.most_ns)
    )]
    Guard {
        /// The guard.
        guard_ns: u64,
        /// The utilisation.
        utilisation: f64,
        /// The window.
        window_ns: u64,
        /// The most.
        most_ns: u64,
    },
}

impl Plan {
    /// Computes the plan.
    ///
    /// # Errors
    /// No plan works with these numbers; the error names the number and what would be right.
    pub fn compute(input: &PlanInput) -> Result<Self, PlanError> {
        check(input)?;
        let port = Port::of(input)?;
        let mut plan = policy::plan(input, &port)?;
        let busy: u128 = plan.slots.iter().map(|slot| u128::from(slot.packets)).sum();
        let busy_ps = busy * u128::from(port.packet_ps);
        let cycle_ps = u128::from(plan.cycle_ns) * 1_000;
        plan.utilisation = busy_ps as f64 / cycle_ps as f64;
        let payload = u64::from(input.packet_bytes) - DATA_HEAD_BYTES as u64;
        let wire = u64::from(input.packet_bytes) + u64::from(input.wire_overhead_bytes);
        plan.goodput_bps =
            (input.link_rate_bps as f64 * plan.utilisation * payload as f64 / wire as f64) as u64;
        if plan.utilisation < input.utilisation - UTILISATION_SLACK {
            plan.warnings.push(format!(
                "windows fill {:.1} % of the port and not {:.1} %: next to a guard of {} they are short; make them longer (--window), or leave their length to the plan",
                plan.utilisation * 100.0,
                input.utilisation * 100.0,
                time(&plan.guard_ns)
            ));
        }
        if plan.utilisation > 1.0 {
            return Err(PlanError::Overbooked {
                percent: (plan.utilisation * 1000.0).round() / 10.0,
                most: 100.0,
            });
        }
        Ok(plan)
    }
}

/// What follows from the port alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    /// Time of one packet on the wire, in ps.
    pub(crate) packet_ps: u64,
    /// Packets at once.
    pub(crate) burst_packets: u16,
    /// Packets that a late sender may catch up.
    pub(crate) catch_up_packets: u16,
    /// Packets that the buffer holds.
    pub(crate) buffer_packets: u64,
}

impl Port {
    fn of(input: &PlanInput) -> Result<Self, PlanError> {
        let wire = u64::from(input.packet_bytes) + u64::from(input.wire_overhead_bytes);
        let packet_ps = u128::from(wire) * 8 * 1_000_000_000_000 / u128::from(input.link_rate_bps);
        let packet_ps = u64::try_from(packet_ps).unwrap_or(u64::MAX);
        let buffer_packets = input.port_buffer_bytes / wire;
        if buffer_packets < 2 {
            return Err(PlanError::Buffer {
                port_buffer_bytes: input.port_buffer_bytes,
                packet_bytes: wire,
            });
        }
        let short = (BURST_NS * 1_000 / packet_ps.max(1)).max(1);
        let burst = (buffer_packets / BURST_PART)
            .clamp(1, BURST_PACKETS_MAX)
            .min(short);
        let catch_up = (buffer_packets / CATCH_UP_PART).min(u64::from(u16::MAX));
        Ok(Self {
            packet_ps,
            burst_packets: burst as u16,
            catch_up_packets: catch_up as u16,
            buffer_packets,
        })
    }

    /// Time of so many packets, in ns, rounded up.
    pub(crate) const fn takes_ns(&self, packets: u64) -> u64 {
        self.packet_ps.saturating_mul(packets).div_ceil(1_000)
    }

    /// Packets that go over the wire in `ns`.
    pub(crate) fn packets_in(&self, ns: u64) -> u32 {
        let packets = u128::from(ns) * 1_000 / u128::from(self.packet_ps.max(1));
        u32::try_from(packets).unwrap_or(u32::MAX)
    }
}

fn check(input: &PlanInput) -> Result<(), PlanError> {
    let range = |ok: bool, key, value: &dyn fmt::Display, range| {
        let value = value.to_string();
        if ok {
            Ok(())
        } else {
            Err(PlanError::Range { key, value, range })
        }
    };
    range(
        (1_000_000..=800_000_000_000).contains(&input.link_rate_bps),
        "rate of the port",
        &rate(&input.link_rate_bps),
        "1 Mbit/s to 800 Gbit/s are allowed, as 1G",
    )?;
    range(
        (128..=DATAGRAM_BYTES_MAX as u32).contains(&input.packet_bytes),
        "size of a packet (--packet-bytes)",
        &format_args!("{} bytes", input.packet_bytes),
        "128 to 65507 are allowed",
    )?;
    range(
        input.wire_overhead_bytes <= 1_000,
        "what is around a packet on the wire (--wire-overhead)",
        &format_args!("{} bytes", input.wire_overhead_bytes),
        "0 to 1000 are allowed",
    )?;
    range(
        (1..=usize::from(SENDERS_MAX)).contains(&input.shares.len()),
        "number of senders",
        &input.shares.len(),
        "1 to 1024 are allowed",
    )?;
    range(
        !input.shares.contains(&0),
        "share",
        &0,
        "1 to 65535 are allowed",
    )?;
    range(
        input.utilisation > 0.0 && input.utilisation.is_finite(),
        "utilisation (--utilisation)",
        &input.utilisation,
        "more than 0 and at most 1 are allowed",
    )?;
    for (key, ns) in [
        ("guard (--dead-time)", input.guard_ns.unwrap_or(0)),
        ("lateness of senders", input.lateness_ns),
        ("error of senders' clocks", input.clock_error_ns),
    ] {
        range(ns <= WINDOW_NS.1, key, &time(&ns), "at most 1 s is allowed")?;
    }
    if let Some(window_ns) = input.window_ns {
        range(
            (WINDOW_NS.0..=WINDOW_NS.1).contains(&window_ns),
            "window (--window)",
            &time(&window_ns),
            "100 us to 1 s are allowed",
        )?;
    }
    if input.utilisation > 1.0 {
        let percent = (input.utilisation * 1000.0).round() / 10.0;
        return Err(PlanError::Overbooked {
            percent,
            most: 100.0,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
