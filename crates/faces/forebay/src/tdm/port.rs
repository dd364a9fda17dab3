//! What `receive`, `plan` and `bench` are told of the port.

use std::time::Duration;

use clap::ValueEnum;
use forebay_run_tdm::{Mode, PlanInput, WIRE_OVERHEAD_BYTES};

use crate::output::{parse_bytes, parse_duration};

/// Which sender uses the port when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    /// No schedule: all at once, for comparison.
    Incast,
    /// A slot for each sender, flat out inside it, for comparison.
    Slots,
    /// A slot for each sender, paced at the port's rate inside it.
    SlotsPaced,
    /// The receiver grants window after window.
    Credit,
}

impl ModeArg {
    pub(crate) const fn mode(self) -> Mode {
        match self {
            Self::Incast => Mode::Incast,
            Self::Slots => Mode::Slots,
            Self::SlotsPaced => Mode::SlotsPaced,
            Self::Credit => Mode::Credit,
        }
    }
}

/// The port between senders and receiver, and what is set by hand.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PortArgs {
    /// Rate of the port to the receiver, in bit/s, as 1G.
    #[arg(long, value_name = "BITS", default_value = "1G", value_parser = parse_bytes)]
    pub(crate) link_rate: u64,
    /// Buffer of that port, in bytes, as 128K (of a switch: per port, when all are busy).
    #[arg(long, value_name = "BYTES", default_value = "128Ki", value_parser = parse_bytes)]
    pub(crate) port_buffer: u64,
    /// Bytes of a datagram; smaller where a sender's path carries less in one piece.
    #[arg(long, value_name = "BYTES", default_value_t = 1472)]
    pub(crate) packet_bytes: u32,
    /// Bytes around each datagram on the wire: Ethernet with its gap, IPv4 and UDP.
    #[arg(long, value_name = "BYTES", default_value_t = WIRE_OVERHEAD_BYTES)]
    pub(crate) wire_overhead: u32,
    /// Who shares the port when.
    #[arg(long, value_enum, default_value_t = ModeArg::SlotsPaced)]
    pub(crate) mode: ModeArg,
    /// Part of the port's time that windows shall fill.
    #[arg(long, value_name = "0..1", default_value_t = 0.98)]
    pub(crate) utilisation: f64,
    /// Length of a window, as 2.5ms; else computed. The guard's part for being late is then no longer than --utilisation leaves, but for what a late sender does not catch up (not with grants).
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) window: Option<Duration>,
    /// Nothing is sent for so long after a window (the guard); else computed from what senders measure.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) dead_time: Option<Duration>,
}

impl PortArgs {
    pub(crate) fn input(&self) -> PlanInput {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        PlanInput {
            link_rate_bps: self.link_rate,
            port_buffer_bytes: self.port_buffer,
            packet_bytes: self.packet_bytes,
            wire_overhead_bytes: self.wire_overhead,
            mode: self.mode.mode(),
            utilisation: self.utilisation,
            window_ns: self.window.map(nanos),
            guard_ns: self.dead_time.map(nanos),
            // What nobody has measured: senders say how late and how far off they are.
            lateness_ns: 0,
            clock_error_ns: 0,
            ..PlanInput::default()
        }
    }
}
