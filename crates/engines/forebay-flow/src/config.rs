//! Settings of the decoder and of the table.

use forebay_settings::{OutOfRange, in_range};

use crate::record::{EndReason, FlowRecord};

const SECOND_NS: u64 = 1_000_000_000;

/// Which flow goes when there is no room for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Of all flows the one whose time-out is nearest: it was idle longest, or it has ended and lingers. All room is used before any goes.
    Oldest,
    /// Of the 16 flows that share a row by their hash, the one whose last packet came first. A row may be full while others have room.
    LineLru,
}

/// How flows are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Flows that there is room for, 16 to 2^26; [`Eviction::LineLru`] rounds up to a power of two. 128 bytes each, and up to 36 to find it. Default 2^17.
    pub flows: u32,
    /// Both directions are one flow. Default true.
    pub biflow: bool,
    /// A flow without a packet for so long ends, in ns, 1 s to 1 h. Default 30 s.
    pub idle_timeout_ns: u64,
    /// A flow ends so long after it began, in ns, 1 s to 24 h. Default 300 s.
    pub active_timeout_ns: u64,
    /// A flow whose end TCP told stays so long after its last packet, in ns, 0 to the idle time-out: acknowledgements that come behind a FIN belong to it.
    /// Default 1 s.
    pub linger_ns: u64,
    /// Which flow goes when there is no room.
    pub eviction: Eviction,
    /// Seed of the hash. Take a secret one where strangers choose addresses and ports: with it known, rows and chains of the index can be made long.
    pub hash_seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            flows: 1 << 17,
            biflow: true,
            idle_timeout_ns: 30 * SECOND_NS,
            active_timeout_ns: 300 * SECOND_NS,
            linger_ns: SECOND_NS,
            eviction: Eviction::Oldest,
            hash_seed: 0,
        }
    }
}

impl Config {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first setting that is outside.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        let (second, hour) = (SECOND_NS, 3600 * SECOND_NS);
        in_range("flows", self.flows.into(), 16, 1 << 26)?;
        in_range("idle_timeout_ns", self.idle_timeout_ns, second, hour)?;
        in_range(
            "active_timeout_ns",
            self.active_timeout_ns,
            second,
            24 * hour,
        )?;
        in_range("linger_ns", self.linger_ns, 0, self.idle_timeout_ns)
    }

    /// When the time-out of a flow that has ended was over, ns; none of one that ended for another reason.
    pub const fn due_ns(&self, record: &FlowRecord) -> Option<u64> {
        Some(match record.end_reason {
            EndReason::Idle => record.end_ns.saturating_add(self.idle_timeout_ns),
            EndReason::Active => record.start_ns.saturating_add(self.active_timeout_ns),
            EndReason::EndDetected => record.end_ns.saturating_add(self.linger_ns),
            EndReason::Forced | EndReason::LackOfResources => return None,
        })
    }
}

/// How frames are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeConfig {
    /// The same addresses and ports in two VLANs are two flows. Default false.
    pub vlan_in_key: bool,
    /// So many tunnels are looked into, 0 to 4: the flow is that of the innermost packet found. Default 0: that of the outer one.
    pub tunnel_depth: u8,
    /// First fragments that are remembered for their ports, 4 to 2^20, rounded up to a power of two. 64 bytes each. Default 8192.
    pub fragments: u32,
    /// A first fragment is remembered for so long, in ns, up to 60 s. Default 3 s, as ipfixprobe.
    pub fragment_timeout_ns: u64,
    /// Seed of the hash of fragments, as that of [`Config::hash_seed`].
    pub hash_seed: u64,
}

impl Default for DecodeConfig {
    fn default() -> Self {
        Self {
            vlan_in_key: false,
            tunnel_depth: 0,
            fragments: 8192,
            fragment_timeout_ns: 3 * SECOND_NS,
            hash_seed: 0,
        }
    }
}

impl DecodeConfig {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first setting that is outside.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        in_range("tunnel_depth", self.tunnel_depth.into(), 0, 4)?;
        in_range("fragments", self.fragments.into(), 4, 1 << 20)?;
        in_range(
            "fragment_timeout_ns",
            self.fragment_timeout_ns,
            0,
            60 * SECOND_NS,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_named() {
        assert_eq!(Config::default().validate(), Ok(()));
        assert_eq!(DecodeConfig::default().validate(), Ok(()));
        let named = |config: Config| config.validate().unwrap_err().name;
        let base = Config::default();
        assert_eq!(named(Config { flows: 15, ..base }), "flows");
        let idle_timeout_ns = 3601 * SECOND_NS;
        let idle = Config {
            idle_timeout_ns,
            ..base
        };
        assert_eq!(named(idle), "idle_timeout_ns");
        let active = Config {
            active_timeout_ns: 0,
            ..base
        };
        assert_eq!(named(active), "active_timeout_ns");
        let linger = Config {
            linger_ns: base.idle_timeout_ns + 1,
            ..base
        };
        let error = linger.validate().unwrap_err();
        assert_eq!(
            error.to_string(),
            "linger_ns is 30000000001; it must be from 0 to 30000000000"
        );
        let named = |config: DecodeConfig| config.validate().unwrap_err().name;
        let base = DecodeConfig::default();
        let tunnels = DecodeConfig {
            tunnel_depth: 5,
            ..base
        };
        assert_eq!(named(tunnels), "tunnel_depth");
        let fragments = DecodeConfig {
            fragments: 3,
            ..base
        };
        assert_eq!(named(fragments), "fragments");
    }
}
