//! Profiles of our own, made from a few numbers and a seed: stand-ins that are like published ones, of which no row was measured.
//!
//! What is published of the real ones are aggregates (CESNET's FETA and FlowTest): packet rates and mean sizes of three of them, the share of jumbo packets of
//! those of GÉANT, and of a thousand flows of another profile their protocols, ports, packets, and how many have one direction. The rest is assumed: which
//! hours the published labels mean, the mean sizes and rates of the other profiles, how the share of the heaviest flows changes in time, and the trains. The mean
//! share was set for each profile from one figure of the published connection table, its hits of whole packets; the trains were set for each family, by what
//! one of its profiles gives (the morning's).

mod draws;
mod rows;

pub use rows::NamedRows;

use crate::config::{Timing, Trains};

/// A profile that has a name, and no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedProfile {
    /// Its name.
    pub name: &'static str,
    /// The label of the published profile that it stands for.
    pub stands_for: &'static str,
    /// What it is like.
    pub says: &'static str,
    /// Packets in a second, on the profile's clock.
    pub packet_rate_hz: u32,
    /// Octets of IP of a packet, in the mean.
    pub packet_bytes: u32,
    /// Packets that are in the heaviest flows, of a thousand.
    pub elephant_permille: u32,
    /// The heaviest flows at one time.
    pub elephants: u32,
    /// Forward packets of the heaviest flows, of a thousand: the other ones acknowledge them.
    pub forward_permille: u32,
    /// Least and most mean octets of what the heaviest flows send forward.
    pub forward_bytes: (u32, u32),
    /// Mean octets of packets of all other flows, about.
    pub mouse_bytes: u32,
    /// How its packets are sent.
    pub timing: Timing,
}

/// Packets for which the heaviest flows, and their share, stay what they are.
pub const WINDOW_PACKETS: u64 = 125_000;
/// Packets of a profile where nothing else is asked for: sixteen windows, in which the share takes each of its values once.
pub const PACKETS: u64 = 16 * WINDOW_PACKETS;

/// Of a network of research: few flows are most of it, in jumbo packets.
const fn geant(
    name: &'static str,
    stands_for: &'static str,
    says: &'static str,
    packet_rate_hz: u32,
    packet_bytes: u32,
    elephant_permille: u32,
) -> NamedProfile {
    NamedProfile {
        name,
        stands_for,
        says,
        packet_rate_hz,
        packet_bytes,
        elephant_permille,
        elephants: 3,
        // 52 % of all packets are jumbo ones.
        forward_permille: 520_000 / elephant_permille,
        forward_bytes: (1_600, 6_000),
        mouse_bytes: 350,
        timing: trains(packet_rate_hz, 40),
    }
}

/// Of an exchange: many flows, and none of them large.
const fn nix(
    name: &'static str,
    stands_for: &'static str,
    says: &'static str,
    packet_rate_hz: u32,
    elephant_permille: u32,
) -> NamedProfile {
    NamedProfile {
        name,
        stands_for,
        says,
        packet_rate_hz,
        packet_bytes: 480,
        elephant_permille,
        elephants: 6,
        forward_permille: 620,
        forward_bytes: (400, 1_460),
        mouse_bytes: 480,
        timing: trains(packet_rate_hz, 75),
    }
}

/// Trains of 8 packets in the mean; the fastest senders leave so many packets of others between two of theirs in the mean, the slowest 16 times as many.
const fn trains(packet_rate_hz: u32, packets_between: u64) -> Timing {
    Timing::Trains(Trains {
        packets_max: 15,
        gap_ns: packets_between * 1_000_000_000 / packet_rate_hz as u64,
        gap_doublings: 4,
    })
}

/// All of them.
pub const NAMED: [NamedProfile; 7] = [
    geant(
        "geant-like-afternoon",
        "G_AD",
        "like GEANT in the afternoon: 1.8 M packets/s of 1,028 octets",
        1_828_486,
        1_028,
        770,
    ),
    geant(
        "geant-like-morning",
        "G_MR",
        "like GEANT in the morning: 3.0 M packets/s of 1,115 octets",
        3_015_896,
        1_115,
        860,
    ),
    geant(
        "geant-like-sunday",
        "G_S",
        "like GEANT with less in its heaviest flows: rate and size are assumed",
        2_400_000,
        1_100,
        750,
    ),
    nix(
        "nix-like-afternoon",
        "N_AD",
        "like an exchange with more in its heaviest flows: rate and size are assumed",
        900_000,
        420,
    ),
    nix(
        "nix-like-morning",
        "N_M",
        "like an exchange in the morning: 1.0 M packets/s of 480 octets",
        998_443,
        180,
    ),
    nix(
        "nix-like-night",
        "N_NL",
        "like an exchange at night: rate and size are assumed",
        500_000,
        340,
    ),
    nix(
        "nix-like-weekend",
        "N_WP",
        "like an exchange at a weekend's peak: rate and size are assumed",
        1_100_000,
        230,
    ),
];

/// The profile of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static NamedProfile> {
    NAMED.iter().find(|profile| profile.name == name)
}

impl NamedProfile {
    /// Its rows, with so many packets in all, at least [`Self::packets_min`]; they follow from the seed.
    #[must_use]
    pub fn rows(&self, packets: u64, seed: u64) -> NamedRows {
        NamedRows::new(self, packets, seed)
    }

    /// Fewest packets that can be asked for: a thousand.
    #[must_use]
    pub const fn packets_min() -> u64 {
        1_000
    }
}
