//! What can go wrong with a connection, by whose fault it is.

use std::io;

use forebay_fabric::{Blame, FabricError, Fault};
use forebay_sys::SysError;
use thiserror::Error;

use super::terms::{NOT_SECURABLE, REMEDY, UNENCRYPTED};
use super::tls::TlsFault;

/// Numbers of faults from here on are libfabric's own.
const OWN_FAULTS_FROM: i32 = 256;

/// Why a connection is over, or was never made.
#[derive(Debug, Error)]
pub enum ByteLinkError {
    /// Nobody listens there, or it cannot be reached.
    #[error("connecting to {address}: {source}")]
    Connect {
        /// Whereto.
        address: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The peer is gone without having ended its side, or the network between.
    #[error("the connection to {peer} is lost: {source}")]
    Lost {
        /// The peer.
        peer: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The peer broke the rules of the link itself.
    #[error("{peer} broke the link: {what}")]
    Broken {
        /// The peer.
        peer: String,
        /// What was wrong.
        what: &'static str,
    },
    /// The host has not what is needed: memory, descriptors.
    #[error(transparent)]
    Resource(#[from] SysError),
    /// More than a piece may have: the caller's mistake.
    #[error("{bytes} bytes at once; a piece has at most {most}")]
    TooLong {
        /// Bytes.
        bytes: usize,
        /// Most.
        most: usize,
    },
    /// A range that the region does not have: the caller's mistake.
    #[error("bytes {from} to {to} of a region of {bytes} bytes")]
    OutOfRegion {
        /// The range's first byte.
        from: usize,
        /// The one behind its last.
        to: usize,
        /// Bytes of the region.
        bytes: usize,
    },
    /// The library or the provider; what its peers do is one of the others.
    #[error(transparent)]
    Fabric(FabricError),
    /// The two sides do not come together over TLS.
    #[error("{peer}: {fault}")]
    Tls {
        /// The peer.
        peer: String,
        /// Why.
        fault: TlsFault,
    },
    /// Plain TCP is no default there.
    #[error("{address} is not on this host's loopback; {REMEDY}")]
    NotSecured {
        /// Where.
        address: String,
    },
    /// libfabric's connections are never encrypted, and beyond this host that has to be said.
    #[error("{address} is not on this host's loopback; {UNENCRYPTED}")]
    Unencrypted {
        /// Where.
        address: String,
    },
    /// Encryption is wanted where there is none.
    #[error("{address}: only tcp:// is encrypted; {NOT_SECURABLE}")]
    NotSecurable {
        /// Where.
        address: String,
    },
    /// TLS compares the host with what stands in the peer's certificate.
    #[error(
        "{address}: this host can stand in no certificate; write a name or a number, as in tcp://daq7.example.org:7100"
    )]
    Unnameable {
        /// Where.
        address: String,
    },
}

impl ByteLinkError {
    /// Whether it will be the same at every attempt: what is missing here, or wrong with an address, is no matter of time.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::TooLong { .. }
            | Self::OutOfRegion { .. }
            | Self::NotSecured { .. }
            | Self::Unencrypted { .. }
            | Self::NotSecurable { .. }
            | Self::Unnameable { .. } => true,
            Self::Fabric(FabricError::Call { .. }) => false,
            Self::Fabric(error) => error.blame() != Blame::Peer,
            Self::Connect { .. }
            | Self::Lost { .. }
            | Self::Broken { .. }
            | Self::Resource(_)
            | Self::Tls { .. } => false,
        }
    }

    /// Its name in counters.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Connect { .. } => "not_connected",
            Self::Lost { .. } => "connection_lost",
            Self::Broken { .. } => "link_broken",
            Self::Resource(_) => "resource",
            Self::TooLong { .. } => "too_long",
            Self::OutOfRegion { .. } => "out_of_region",
            Self::Fabric(error) => error.reason(),
            Self::Tls { fault, .. } => fault.reason(),
            Self::NotSecured { .. } => "not_secured",
            Self::Unencrypted { .. } => "unencrypted",
            Self::NotSecurable { .. } => "not_securable",
            Self::Unnameable { .. } => "unnameable",
        }
    }
}

impl From<FabricError> for ByteLinkError {
    fn from(error: FabricError) -> Self {
        match error {
            FabricError::Connect { address, fault } => Self::Connect {
                address,
                source: answer(fault),
            },
            FabricError::Lost {
                peer,
                fault,
                unconfirmed_pages,
            } => {
                let kind = io::Error::from_raw_os_error(fault.errno).kind();
                let text = format!(
                    "{fault}; of {unconfirmed_pages} pieces it is not known whether they arrived"
                );
                Self::Lost {
                    peer,
                    source: io::Error::new(kind, text),
                }
            }
            FabricError::Broken { peer, what } => Self::Broken { peer, what },
            FabricError::TooLong { bytes, most } => Self::TooLong { bytes, most },
            other => Self::Fabric(other),
        }
    }
}

/// As the kernel would say it; but libfabric has numbers of its own, too.
fn answer(fault: Fault) -> io::Error {
    if fault.errno < OWN_FAULTS_FROM {
        io::Error::from_raw_os_error(fault.errno)
    } else {
        io::Error::other(fault.to_string())
    }
}

/// Why nobody can come in.
#[derive(Debug, Error)]
pub enum DoorError {
    /// The address cannot be had.
    #[error("listening on {address}: {source}{remedy}")]
    Listen {
        /// Where.
        address: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
        /// What to do, or nothing.
        remedy: &'static str,
    },
    /// Taking one in failed.
    #[error("taking a connection in on {address}: {source}")]
    Accept {
        /// Where.
        address: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The host has not what is needed.
    #[error(transparent)]
    Resource(#[from] SysError),
    /// A range that the region does not have: the caller's mistake.
    #[error("bytes {from} to {to} of a region of {bytes} bytes")]
    OutOfRegion {
        /// The range's first byte.
        from: usize,
        /// The one behind its last.
        to: usize,
        /// Bytes of the region.
        bytes: usize,
    },
    /// The library or the provider; what its peers do is one of the others.
    #[error(transparent)]
    Fabric(FabricError),
    /// Plain TCP is no default there.
    #[error("{address} is not on this host's loopback; {REMEDY}")]
    NotSecured {
        /// Where.
        address: String,
    },
    /// libfabric's connections are never encrypted, and beyond this host that has to be said.
    #[error("{address} is not on this host's loopback; {UNENCRYPTED}")]
    Unencrypted {
        /// Where.
        address: String,
    },
    /// Encryption is wanted where there is none.
    #[error("{address}: only tcp:// is encrypted; {NOT_SECURABLE}")]
    NotSecurable {
        /// Where.
        address: String,
    },
}

impl From<FabricError> for DoorError {
    fn from(error: FabricError) -> Self {
        let FabricError::Listen { address, fault } = error else {
            return Self::Fabric(error);
        };
        let source = answer(fault);
        let remedy = match source.kind() {
            io::ErrorKind::AddrInUse => {
                "; another process has it: choose another port or name, or end that one"
            }
            io::ErrorKind::AddrNotAvailable => "; `ip address` shows the addresses of this host",
            _ => "",
        };
        Self::Listen {
            address,
            source,
            remedy,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "a test that cannot go on has failed")]

    use rustix::io::Errno;

    use super::*;

    fn fault(errno: i32) -> Fault {
        Fault {
            errno,
            text: "so it says".into(),
        }
    }

    #[test]
    fn what_a_peer_does_over_libfabric_is_told_as_everywhere() {
        let refused = Errno::CONNREFUSED.raw_os_error();
        let error = ByteLinkError::from(FabricError::Connect {
            address: "fabric+tcp://a:1".into(),
            fault: fault(refused),
        });
        assert!(!error.is_final());
        let ByteLinkError::Connect { source, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(source.kind(), io::ErrorKind::ConnectionRefused);
        let error = ByteLinkError::from(FabricError::Lost {
            peer: "b".into(),
            fault: fault(Errno::CONNRESET.raw_os_error()),
            unconfirmed_pages: 3,
        });
        assert!(!error.is_final());
        let ByteLinkError::Lost { source, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(source.kind(), io::ErrorKind::ConnectionReset);
        assert!(source.to_string().contains("of 3 pieces"), "{source}");
        let error = ByteLinkError::from(FabricError::Broken {
            peer: "b".into(),
            what: "rules",
        });
        assert!(matches!(error, ByteLinkError::Broken { .. }) && !error.is_final());
        let error = ByteLinkError::from(FabricError::TooLong { bytes: 2, most: 1 });
        assert!(matches!(
            error,
            ByteLinkError::TooLong { bytes: 2, most: 1 }
        ));
    }

    #[test]
    fn a_number_of_libfabrics_own_keeps_its_words() {
        let source = answer(fault(OWN_FAULTS_FROM));
        assert!(source.to_string().contains("so it says"), "{source}");
    }

    #[test]
    fn what_is_missing_here_is_final() {
        let missing = FabricError::LibraryMissing {
            path: "libfabric.so.1".into(),
            what: "no such file".into(),
        };
        assert!(ByteLinkError::from(missing).is_final());
        let missing = FabricError::ProviderMissing {
            provider: "verbs".into(),
            there: Vec::new(),
        };
        assert!(ByteLinkError::from(missing).is_final());
        let passing = FabricError::Call {
            call: "fi_recv",
            fault: fault(Errno::NOMEM.raw_os_error()),
        };
        assert!(!ByteLinkError::from(passing).is_final());
    }

    #[test]
    fn a_place_in_use_is_known_and_has_a_remedy() {
        let error = DoorError::from(FabricError::Listen {
            address: "fabric+tcp://a:1".into(),
            fault: fault(Errno::ADDRINUSE.raw_os_error()),
        });
        let DoorError::Listen { source, remedy, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(source.kind(), io::ErrorKind::AddrInUse);
        assert!(!remedy.is_empty());
    }
}
