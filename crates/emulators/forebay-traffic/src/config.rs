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
}

/// Where the sizes of packets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// They add up to the octets of the row.
    Profile,
    /// The row's packets are kept, and not its octets: 64 bytes of IP (52 %), 128 (26 %), 256 (14 %) or 512 (8 %), 143 in the mean. The
    /// same packets with less to copy: what is left is the cost of a packet.
    Small,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 1,
            sizes: Sizes::Profile,
        }
    }
}
