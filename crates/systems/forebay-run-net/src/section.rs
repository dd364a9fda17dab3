//! What sections of files share that describe an end point: whether `tcp://` is encrypted, and how a slow reader fares.

use std::path::PathBuf;

use forebay_config::Block;
use forebay_settings::{choices, settings};
use serde::{Deserialize, Serialize};

use crate::{CertificateFiles, Certificates, Security, Slow};

/// Most bytes of payload of a network buffer.
pub const BUFFER_BYTES_MOST: u64 = forebay_msg::Config::BUFFER_BYTES_MOST;

choices! {
    /// What becomes of messages for which a subscriber is too slow.
    pub enum SlowReader {
        /// The publisher waits for a bounded time; then the connection is ended, and what waited is lost by name.
        Block = "block",
        /// What is new is dropped.
        DropNewest = "drop-newest",
        /// What has waited longest is dropped.
        DropOldest = "drop-oldest",
        /// The connection is ended at once, and what waited is lost by name.
        Disconnect = "disconnect",
    }
}

impl From<SlowReader> for Slow {
    fn from(slow: SlowReader) -> Self {
        match slow {
            SlowReader::Block => Self::Block,
            SlowReader::DropNewest => Self::DropNewest,
            SlowReader::DropOldest => Self::DropOldest,
            SlowReader::Disconnect => Self::Disconnect,
        }
    }
}

settings! {
    /// How a TCP address beyond loopback is secured.
    #[derive(Serialize, Deserialize)]
    pub struct SecuritySettings in [] {
        /// Whether a TCP address beyond loopback may go without TLS.
        plain: bool = false,
        /// This side's certificate as PEM: tcp:// is then encrypted by TLS, and both sides prove who they are. With `tls_key` and `tls_authority`.
        tls_certificate: Option<PathBuf> => "plain on loopback, refused elsewhere",
        /// The key of that certificate as PEM.
        tls_key: Option<PathBuf> => "none",
        /// Certificates of the authority that both sides' certificates are of, as PEM.
        tls_authority: Option<PathBuf> => "none",
    }
}

impl SecuritySettings {
    /// Where this side's certificates are, if they are named.
    #[must_use]
    pub fn files(&self) -> Option<CertificateFiles> {
        Some(CertificateFiles {
            certificate: self.tls_certificate.clone()?,
            key: self.tls_key.clone()?,
            authority: self.tls_authority.clone()?,
        })
    }

    /// Reads the certificates that the block names; what is wrong with them is a mistake.
    pub fn certificates(&self, block: &Block<'_, '_>) -> Option<Certificates> {
        let named = [
            ("tls_certificate", &self.tls_certificate),
            ("tls_key", &self.tls_key),
            ("tls_authority", &self.tls_authority),
        ];
        if named.iter().all(|(_, path)| path.is_none()) {
            return None;
        }
        for (key, _) in named.iter().filter(|(key, _)| !block.has(key)) {
            block.complain_whole(
                &format!("{key} is not named"),
                "all of tls_certificate, tls_key and tls_authority, or none of them",
                &format!("add {key} = \"FILE.pem\""),
            );
        }
        block.idle(
            "plain",
            "certificates are named, and what is sent is encrypted",
        );
        read(block, &self.files()?)
    }

    /// How `tcp://` is secured when these are the certificates.
    #[must_use]
    pub fn with(&self, certificates: Option<Certificates>) -> Security {
        match certificates {
            Some(certificates) => Security::Tls(certificates),
            None if self.plain => Security::Plain,
            None => Security::PlainOnLoopback,
        }
    }
}

/// Reads certificates; complains when they cannot be used.
fn read(block: &Block<'_, '_>, files: &CertificateFiles) -> Option<Certificates> {
    let read = Certificates::load(files).map_err(|error| {
        block.complain(
            "tls_certificate",
            &error.to_string(),
            "certificates as docs/CONFIGURATION.md makes them",
            "name the files of this side, and of the authority of both",
        );
    });
    let certificates = read.ok()?;
    if let Some(warning) = certificates.warning() {
        tracing::warn!("{warning}");
    }
    Some(certificates)
}
