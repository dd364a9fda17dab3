//! What connections are made with.

use super::Room;
use super::tls::Certificates;

/// What connections are made with, and doors opened.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// Memory, where the backend has its own.
    pub room: Room,
    /// Whether `tcp://` is encrypted, and whether what is not may leave this host.
    pub security: Security,
}

impl From<Room> for Terms {
    fn from(room: Room) -> Self {
        Self {
            room,
            ..Self::default()
        }
    }
}

/// Whether TCP is encrypted, and both sides prove their identity.
#[derive(Debug, Clone, Default)]
pub enum Security {
    /// Plain on this host's loopback (127.0.0.0/8, ::1, and names of those only); elsewhere nothing is connected or listened to.
    #[default]
    PlainOnLoopback,
    /// Plain everywhere: anybody on the way reads and changes what is sent, and anybody may connect.
    Plain,
    /// TLS 1.3 everywhere: both sides show a certificate of the same authority.
    Tls(Certificates),
}

/// What to do where plain TCP is not the default.
pub(super) const REMEDY: &str = "give --tls-certificate, --tls-key and --tls-authority, so that both sides prove who they are and what is sent is encrypted \
     (docs/CONFIGURATION.md says how they are made), or --plain, if everybody on the way may read and change it";
/// What to do where nothing can be encrypted.
pub(super) const NOT_SECURABLE: &str = "write tcp://HOST:PORT, or leave --tls-certificate, --tls-key and --tls-authority away, if everybody on the way may \
     read and change what is sent";
/// What to do where nothing is encrypted, and that is no default.
pub(super) const UNENCRYPTED: &str = "what goes over libfabric is not encrypted: give --plain, if everybody on the way may read and change it, or write \
     tcp://HOST:PORT and give --tls-certificate, --tls-key and --tls-authority";
