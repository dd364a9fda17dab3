//! What is chosen beside the profile.

/// Most bytes of an IP packet: the MTU of the networks that the published profiles are of.
pub const IP_BYTES_MAX: u32 = 9_020;

/// What is chosen beside the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// All random numbers follow from it. Default 1.
    pub seed: u64,
    /// Where the sizes of packets come from. Default: the profile's octets.
    pub sizes: Sizes,
    /// When the packets of a flow are sent. Default: uniform.
    pub timing: Timing,
    /// Larger packets are made this large, in octets of IP, as where a network takes no larger ones; headers are never cut. Default: none is.
    pub ip_bytes_max: u32,
}

/// Where the sizes of packets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// They add up to the octets of the row. Where these need packets above 1,500 octets, all that carry something are.
    Profile,
    /// The row's packets are kept, and not its octets: 64 bytes of IP (52 %), 128 (26 %), 256 (14 %) or 512 (8 %), 143 in the mean. The
    /// same packets with less to copy: what is left is the cost of a packet.
    Small,
}

/// When the packets of a flow are sent, between its first and its last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// At instants that are uniform over its duration.
    Uniform,
    /// In trains, which are uniform over its duration.
    Trains(Trains),
}

/// Packets of a flow that follow each other closely, as a sender's window lets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trains {
    /// Packets of a train are uniform from 1 to this, at least 1.
    pub packets_max: u32,
    /// Least mean time from a packet of a train to the next, ns; at least 1.
    pub gap_ns: u64,
    /// A flow's mean time is the least one, or the double, or so often doubled at most, each as often: senders have links of different rates. At most 32.
    pub gap_doublings: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 1,
            sizes: Sizes::Profile,
            timing: Timing::Uniform,
            ip_bytes_max: IP_BYTES_MAX,
        }
    }
}
