//! Which plugins there are.

use core::fmt;
use core::str::FromStr;

use super::{Column, Plugin};
use super::{basic, bursts, dhcp, dns, entropy, http, ntp, pstats, quic, rtt, ssdp, tls};

macro_rules! plugins {
    ($($(#[$of:meta])* $kind:ident = $name:literal, $columns:path, $make:expr;)+) => {
        /// A plugin that may be chosen.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum PluginKind {
            $($(#[$of])* $kind),+
        }

        impl PluginKind {
            /// How many there are.
            pub const COUNT: usize = [$($name),+].len();
            /// All of them.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$kind),+];

            /// Its name on the command line and in files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name),+
                }
            }

            /// Its fields, in order.
            #[must_use]
            pub const fn columns(self) -> &'static [Column] {
                match self {
                    $(Self::$kind => $columns),+
                }
            }

            /// Whether it reads more of a packet than its headers, length and time.
            #[must_use]
            pub const fn reads_payload(self) -> bool {
                !matches!(self, Self::Basic | Self::Pstats | Self::Bursts | Self::Rtt)
            }

            /// Makes one with memory for so many flows.
            pub(super) fn make(self, places: usize) -> Box<dyn Plugin> {
                match self {
                    $(Self::$kind => Box::new($make(places))),+
                }
            }
        }
    };
}

plugins! {
    /// Time to live, window and options of TCP.
    Basic = "basic", basic::COLUMNS, basic::Basic::new;
    /// Lengths, times, directions and TCP flags of the first packets.
    Pstats = "pstats", pstats::COLUMNS, pstats::Pstats::new;
    /// Bursts of packets.
    Bursts = "bursts", bursts::COLUMNS, bursts::Bursts::new;
    /// How long the handshake of TCP took.
    Rtt = "rtt", rtt::COLUMNS, rtt::Rtt::new;
    /// Entropy of the payload.
    Entropy = "entropy", entropy::COLUMNS, entropy::Entropy::new;
    /// Questions and answers of the domain name system.
    Dns = "dns", dns::COLUMNS, dns::Dns::unicast;
    /// The same on the local link.
    Mdns = "mdns", dns::MDNS_COLUMNS, dns::Dns::multicast;
    /// What a client of TLS says first.
    Tls = "tls", tls::COLUMNS, tls::Tls::new;
    /// The same in QUIC.
    Quic = "quic", quic::COLUMNS, quic::Quic::new;
    /// Request and response of HTTP/1.
    Http = "http", http::COLUMNS, http::Http::new;
    /// Discovery of services on the local link.
    Ssdp = "ssdp", ssdp::COLUMNS, ssdp::Ssdp::new;
    /// Time of the network.
    Ntp = "ntp", ntp::COLUMNS, ntp::Ntp::new;
    /// Addresses for hosts.
    Dhcp = "dhcp", dhcp::COLUMNS, dhcp::Dhcp::new;
}

impl fmt::Display for PluginKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PluginKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("{text:?} is no plugin; there are {names}")
        })
    }
}
