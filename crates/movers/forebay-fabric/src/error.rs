//! What can go wrong, by whose fault it is.

use std::fmt;

use thiserror::Error;

/// A number of libfabric's, and what the library says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The number: one of `errno`, or from 256 on one of libfabric's own.
    pub errno: i32,
    /// The library's words.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text, self.errno)
    }
}

/// Whose fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The other end, or the network between.
    Peer,
    /// The host: it lacks a library, memory, descriptors.
    Resource,
    /// The user who set it up.
    Configuration,
    /// The caller of this crate.
    Misuse,
}

/// Why something over libfabric does not go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FabricError {
    /// The library cannot be loaded.
    #[error(
        "{path} cannot be loaded: {what}; install the package libfabric1, or use tcp:// or shm://"
    )]
    LibraryMissing {
        /// What was to be loaded.
        path: String,
        /// The loader's words.
        what: String,
    },
    /// The library lacks a function of the version that this crate knows.
    #[error("{path} has no {symbol} of version {version}; use libfabric 1.9 or later")]
    SymbolMissing {
        /// The library.
        path: String,
        /// The function.
        symbol: &'static str,
        /// Its version.
        version: &'static str,
    },
    /// The library is older than this crate can use.
    #[error("libfabric {major}.{minor} is too old; use 1.9 or later")]
    LibraryTooOld {
        /// Major version found.
        major: u32,
        /// Minor version found.
        minor: u32,
    },
    /// A setting is out of its range.
    #[error("{name} = {value} is not in {low} to {high}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// What was given.
        value: usize,
        /// Least.
        low: usize,
        /// Most.
        high: usize,
    },
    /// The library has no such provider, or it has found no device.
    #[error("libfabric has no provider {provider} here; there are: {}{}", there.join(", "), remedy(provider))]
    ProviderMissing {
        /// Which one.
        provider: String,
        /// Those that can be used.
        there: Vec<String>,
    },
    /// A provider that is there and must not be used.
    #[error("the provider {provider} is refused: {why}")]
    ProviderRefused {
        /// Which one.
        provider: String,
        /// Why.
        why: &'static str,
    },
    /// A provider without end points that this crate can use.
    #[error(
        "the provider {provider} has no connections (FI_EP_MSG) as they are asked for: {fault}; fi_info -p {provider} shows what it has"
    )]
    NoConnections {
        /// Which one.
        provider: String,
        /// The library's answer.
        fault: Fault,
    },
    /// No address of this provider.
    #[error("{place}: {what}")]
    Place {
        /// What was given.
        place: String,
        /// What is wrong.
        what: &'static str,
    },
    /// The address cannot be listened on.
    #[error("listening on {address}: {fault}")]
    Listen {
        /// Where.
        address: String,
        /// The library's answer.
        fault: Fault,
    },
    /// Nobody listens there, it cannot be reached, or it refuses.
    #[error("connecting to {address}: {fault}")]
    Connect {
        /// Whereto.
        address: String,
        /// The library's answer.
        fault: Fault,
    },
    /// The peer is gone without having ended its side, or the network between.
    #[error(
        "the connection to {peer} is lost: {fault}; of {unconfirmed_pages} pages it is not known whether they arrived"
    )]
    Lost {
        /// The peer.
        peer: String,
        /// The library's answer.
        fault: Fault,
        /// Pages that were posted and not confirmed.
        unconfirmed_pages: u64,
    },
    /// The peer broke the rules.
    #[error("{peer} broke the link: {what}")]
    Broken {
        /// The peer.
        peer: String,
        /// What was wrong.
        what: &'static str,
    },
    /// A call failed that does not depend on a peer.
    #[error("{call}: {fault}")]
    Call {
        /// The call.
        call: &'static str,
        /// The library's answer.
        fault: Fault,
    },
    /// More than a page of the peer's takes: the caller's mistake.
    #[error("{bytes} bytes at once; a page has at most {most}")]
    TooLong {
        /// Bytes.
        bytes: usize,
        /// Most.
        most: usize,
    },
    /// Something was sent after the end: the caller's mistake.
    #[error("sent after the end of this side")]
    AfterEnd,
    /// A range that the region does not have: the caller's mistake.
    #[error("bytes {from} to {to} of a region of {len}")]
    OutOfRegion {
        /// First byte.
        from: usize,
        /// Behind the last one.
        to: usize,
        /// Bytes of the region.
        len: usize,
    },
    /// A region that another domain knows, and this provider needs it registered: the caller's mistake.
    #[error("the region is registered with another domain than the connection's")]
    ForeignRegion,
    /// More ranges behind a piece than the provider takes in one send: the caller's mistake.
    #[error("{ranges} ranges behind a piece; the provider takes at most {most} in one send")]
    TooManyRanges {
        /// There are.
        ranges: usize,
        /// Most.
        most: usize,
    },
    /// What is to be shared could shrink while it is read, is empty, or is no memory file: the caller's mistake.
    #[error(
        "only a memory file (memfd_create) that has bytes and the seal F_SEAL_SHRINK can be shared"
    )]
    NotShareable,
}

impl FabricError {
    /// Whose fault it is.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match self {
            Self::Connect { .. } | Self::Lost { .. } | Self::Broken { .. } => Blame::Peer,
            Self::LibraryMissing { .. }
            | Self::SymbolMissing { .. }
            | Self::LibraryTooOld { .. }
            | Self::Call { .. } => Blame::Resource,
            Self::OutOfRange { .. }
            | Self::ProviderMissing { .. }
            | Self::ProviderRefused { .. }
            | Self::NoConnections { .. }
            | Self::Place { .. }
            | Self::Listen { .. } => Blame::Configuration,
            Self::TooLong { .. }
            | Self::AfterEnd
            | Self::OutOfRegion { .. }
            | Self::ForeignRegion
            | Self::TooManyRanges { .. }
            | Self::NotShareable => Blame::Misuse,
        }
    }

    /// Its name in counters.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::LibraryMissing { .. } => "library_missing",
            Self::SymbolMissing { .. } => "symbol_missing",
            Self::LibraryTooOld { .. } => "library_too_old",
            Self::OutOfRange { .. } => "out_of_range",
            Self::ProviderMissing { .. } => "provider_missing",
            Self::ProviderRefused { .. } => "provider_refused",
            Self::NoConnections { .. } => "no_connections",
            Self::Place { .. } => "place",
            Self::Listen { .. } => "listen",
            Self::Connect { .. } => "not_connected",
            Self::Lost { .. } => "connection_lost",
            Self::Broken { .. } => "link_broken",
            Self::Call { .. } => "call",
            Self::TooLong { .. } => "too_long",
            Self::AfterEnd => "after_end",
            Self::OutOfRegion { .. } => "out_of_region",
            Self::ForeignRegion => "foreign_region",
            Self::TooManyRanges { .. } => "too_many_ranges",
            Self::NotShareable => "not_shareable",
        }
    }

    /// What the library said, where it was asked.
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::NoConnections { fault, .. }
            | Self::Listen { fault, .. }
            | Self::Connect { fault, .. }
            | Self::Lost { fault, .. }
            | Self::Call { fault, .. } => Some(fault),
            _ => None,
        }
    }
}

/// What to do about a provider that is missing, where it is known.
fn remedy(provider: &str) -> &'static str {
    match provider {
        "verbs" => {
            "; verbs needs an RDMA device: ls /sys/class/infiniband, and the package ibverbs-providers"
        }
        "psm2" | "psm3" => "; it needs an Omni-Path device",
        "efa" => "; it needs an EFA device",
        _ => "",
    }
}
