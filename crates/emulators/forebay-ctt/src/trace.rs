//! The packets of a profile, as the model needs them: flow and bytes, in order.

use forebay_traffic::{Config, NamedProfile, Sizes, Traffic};

use crate::outcome::Outcome;
use crate::parameters::Parameters;
use crate::table::Table;

/// Whether packets have the sizes of the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edition {
    /// They have.
    Default,
    /// As many packets, and small.
    Small,
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracePacket {
    /// Its flow, from 0.
    pub flow: u32,
    /// Its bytes.
    pub bytes: u16,
}

/// The packets of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    packets: Vec<TracePacket>,
}

impl Trace {
    /// Of a profile: so many packets, which follow from the seed.
    #[must_use]
    pub fn of_profile(profile: &NamedProfile, edition: Edition, packets: u64, seed: u64) -> Self {
        let config = Config {
            seed,
            sizes: match edition {
                Edition::Default => Sizes::Profile,
                Edition::Small => Sizes::Small,
            },
            timing: profile.timing,
            ..Config::default()
        };
        let mut traffic = Traffic::new(profile.rows(packets, seed).map(Ok), &config);
        let mut trace = Self::default();
        while let Ok(Some(packet)) = traffic.poll_packet(&mut []) {
            trace.packets.push(TracePacket {
                flow: packet.row as u32,
                bytes: packet.ip_bytes as u16,
            });
        }
        trace
    }

    /// Its packets.
    #[must_use]
    pub fn packets(&self) -> &[TracePacket] {
        &self.packets
    }

    /// What a table with these parameters makes of it.
    #[must_use]
    pub fn run(&self, parameters: &Parameters) -> Outcome {
        let mut table = Table::new(parameters);
        for packet in &self.packets {
            table.offer(packet.flow, u32::from(packet.bytes));
        }
        table.outcome()
    }
}
