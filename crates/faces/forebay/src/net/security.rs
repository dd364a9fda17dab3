//! Whether `tcp://` is encrypted: options.

use std::path::PathBuf;

use anyhow::Result;
use forebay_run_net::{CertificateFiles, Certificates, Security};

use crate::output::note_line;

/// Certificates, or the word that none are wanted.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SecurityArgs {
    /// This side's certificate, as PEM: tcp:// is then encrypted by TLS, and both sides prove who they are. On other hosts than this one that is wanted.
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_authority"])]
    tls_certificate: Option<PathBuf>,
    /// The key of that certificate, as PEM.
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_certificate",
        conflicts_with = "plain"
    )]
    tls_key: Option<PathBuf>,
    /// Certificates of the authority that both sides' certificates are of, as PEM.
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_certificate",
        conflicts_with = "plain"
    )]
    tls_authority: Option<PathBuf>,
    /// No encryption and no proof, also beyond this host: whoever is on the way may read and change what is sent.
    #[arg(long, conflicts_with = "tls_certificate")]
    plain: bool,
}

impl SecurityArgs {
    /// Reads the files.
    pub(super) fn read(&self) -> Result<Security> {
        let (Some(certificate), Some(key), Some(authority)) =
            (&self.tls_certificate, &self.tls_key, &self.tls_authority)
        else {
            return Ok(if self.plain {
                Security::Plain
            } else {
                Security::PlainOnLoopback
            });
        };
        let certificates = Certificates::load(&CertificateFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            authority: authority.clone(),
        })?;
        if let Some(warning) = certificates.warning() {
            note_line(format_args!("forebay: {warning}"));
        }
        Ok(Security::Tls(certificates))
    }
}
