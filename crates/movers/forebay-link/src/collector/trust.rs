//! Which authorities are believed, and the certificate of this side.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, Error, InconsistentKeys, RootCertStore};

use crate::bytes::{CertificateError, PemFile};

/// The authorities that are believed, and the certificate of this side, ready for use. A copy of it costs nothing.
#[derive(Clone, Debug)]
pub struct Trust {
    pub(super) config: Arc<ClientConfig>,
}

impl Trust {
    /// Reads the authorities, and this side's certificate with its key.
    ///
    /// # Errors
    /// A file cannot be read, or has not what it should have.
    pub fn of(
        ca: PemFile<'_>,
        own: Option<(PemFile<'_>, PemFile<'_>)>,
    ) -> Result<Self, CertificateError> {
        let config = Arc::new(config(ca, own)?);
        Ok(Self { config })
    }
}

fn config(
    ca: PemFile<'_>,
    own: Option<(PemFile<'_>, PemFile<'_>)>,
) -> Result<ClientConfig, CertificateError> {
    let remedy = "name the authority's own certificate";
    let mut roots = RootCertStore::empty();
    for root in ca.certificates()? {
        let added = roots.add(root);
        added.map_err(|error| ca.content(error.to_string(), remedy))?;
    }
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|error| ca.content(error.to_string(), remedy))?
        .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificate.certificates()?;
            let built = builder.with_client_auth_cert(chain, key.key()?);
            built.map_err(|error| unfit(&error, certificate, key))?
        }
    };
    // Connections are made seldom: none is taken up again, and each one proves both names anew.
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn unfit(error: &Error, certificate: PemFile<'_>, key: PemFile<'_>) -> CertificateError {
    match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => key.content(
            format!(
                "the key does not belong to the certificate in {}",
                certificate.option
            ),
            "name the one with which the certificate was asked for",
        ),
        error => key.content(
            error.to_string(),
            "make a key and a certificate as docs/CONFIGURATION.md says",
        ),
    }
}
