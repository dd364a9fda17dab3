//! The identity of this side, and the authority that it believes: certificate, key and authority from PEM files.

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, Error, InconsistentKeys, RootCertStore, ServerConfig};
use rustls_pki_types::pem::{Error as PemError, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use thiserror::Error as ThisError;

use super::fault::told;

/// Larger ones are no certificates or keys.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Bits of a file's mode by which others than its owner and its group get at it.
const OTHERS: u32 = 0o007;
/// The protocol that is spoken inside, so that no other one's peer is taken for ours.
const PROTOCOL: &[u8] = b"forebay-net/1";

/// Where certificate, key and authority are: PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// This side's certificate, and then those between it and the authority, if there are any.
    pub certificate: PathBuf,
    /// Its key: PKCS#8, SEC1 or PKCS#1, not encrypted.
    pub key: PathBuf,
    /// Certificates of the authorities whose certificates are believed; this side's has to be of one of them.
    pub authority: PathBuf,
}

/// Why there are no certificates.
#[derive(Debug, ThisError)]
pub enum CertificateError {
    /// It cannot be read.
    #[error("reading {option} {}: {source}", path.display())]
    Read {
        /// By which option it was given.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// What is in it is not what is wanted.
    #[error("{option} {}: {what}; {remedy}", path.display())]
    Content {
        /// By which option it was given.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
}

/// Certificate, key and authority of this side, ready for use. A copy of it costs nothing.
#[derive(Clone)]
pub struct Certificates {
    pub(super) client: Arc<ClientConfig>,
    pub(super) server: Arc<ServerConfig>,
    warning: Option<String>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the key.
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

/// A PEM file, and the option by which it was given.
#[derive(Clone, Copy, Debug)]
pub struct PemFile<'a> {
    /// By which option it was given, as it is told where something is wrong.
    pub option: &'static str,
    /// Where it is.
    pub path: &'a Path,
}

impl PemFile<'_> {
    fn read(&self) -> Result<Vec<u8>, CertificateError> {
        let failed = |source| CertificateError::Read {
            option: self.option,
            path: self.path.into(),
            source,
        };
        let bytes = std::fs::metadata(self.path).map_err(failed)?.len();
        if bytes > FILE_BYTES_MAX {
            let what = format!("{bytes} bytes are too many for PEM");
            return Err(self.content(what, "name the PEM file"));
        }
        std::fs::read(self.path).map_err(failed)
    }

    /// What is wrong with what is in it, and what to do.
    #[must_use]
    pub fn content(&self, what: impl Into<String>, remedy: &'static str) -> CertificateError {
        CertificateError::Content {
            option: self.option,
            path: self.path.into(),
            what: what.into(),
            remedy,
        }
    }

    /// All certificates that are in it, at least one.
    ///
    /// # Errors
    /// It cannot be read, is no PEM, or has no certificate.
    pub fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
        let remedy = "it must have '-----BEGIN CERTIFICATE-----', as openssl x509 writes it";
        let text = self.read()?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let found = found.map_err(|error| self.content(said(&error), remedy))?;
        if found.is_empty() {
            return Err(self.content("there is no certificate in it", remedy));
        }
        Ok(found)
    }

    /// The key that is in it: PKCS#8, SEC1 or PKCS#1, not encrypted.
    ///
    /// # Errors
    /// It cannot be read, is no PEM, or has no key.
    pub fn key(&self) -> Result<PrivateKeyDer<'static>, CertificateError> {
        let remedy = "it must have '-----BEGIN PRIVATE KEY-----' and no password: `openssl pkey -in OLD -out NEW` takes one off";
        PrivateKeyDer::from_pem_slice(&self.read()?).map_err(|error| match error {
            PemError::NoItemsFound => self.content("there is no private key in it", remedy),
            error => self.content(said(&error), remedy),
        })
    }

    /// What should be mended of a key's file, though it works: others than its owner can get at it.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let mode = std::fs::metadata(self.path).ok()?.permissions().mode();
        (mode & OTHERS != 0).then(|| {
            let (option, key, mode) = (self.option, self.path.display(), mode & 0o777);
            format!(
                "{option} {key}: others than its owner can get at it (mode {mode:03o}): `chmod 600 {key}`"
            )
        })
    }
}

fn said(error: &PemError) -> String {
    match error {
        PemError::MissingSectionEnd { end_marker } => {
            format!(
                "'-----END {}-----' is missing",
                String::from_utf8_lossy(end_marker)
            )
        }
        PemError::IllegalSectionStart { line } => {
            format!(
                "the line '{}' is no PEM",
                String::from_utf8_lossy(line).trim_end()
            )
        }
        other => other.to_string(),
    }
}

impl Certificates {
    /// Reads them and holds them against each other: the key has to belong to the certificate, and the certificate to the authority.
    ///
    /// # Errors
    /// One is missing, is no PEM, does not belong to the others, or the certificate has expired.
    pub fn load(files: &CertificateFiles) -> Result<Self, CertificateError> {
        let certificate = PemFile {
            option: "--tls-certificate",
            path: &files.certificate,
        };
        let key = PemFile {
            option: "--tls-key",
            path: &files.key,
        };
        let authority = PemFile {
            option: "--tls-authority",
            path: &files.authority,
        };
        let chain = certificate.certificates()?;
        let secret = key.key()?;
        let mut roots = RootCertStore::empty();
        for root in authority.certificates()? {
            roots.add(root).map_err(|error| {
                authority.content(error.to_string(), "name the authority's own certificate")
            })?;
        }
        let roots = Arc::new(roots);
        let unfit = |error: Error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => key.content(
                "the key does not belong to the certificate",
                "name the one with which the certificate was asked for",
            ),
            error => key.content(
                error.to_string(),
                "make a key as docs/CONFIGURATION.md says",
            ),
        };
        let provider = Arc::new(ring::default_provider());
        let client = client(&provider, &roots, &chain, secret.clone_key()).map_err(unfit)?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build();
        let verifier = verifier.map_err(|error| {
            authority.content(error.to_string(), "name the authority's own certificate")
        })?;
        // As any peer will look at it.
        if let Err(error) = verifier.verify_client_cert(&chain[0], &chain[1..], UnixTime::now()) {
            let (what, remedy) = match error {
                Error::InvalidCertificate(
                    rustls::CertificateError::UnknownIssuer
                    | rustls::CertificateError::BadSignature,
                ) => (
                    format!("is not of the authority in {}", files.authority.display()),
                    "name the authority that made it, and all certificates between in --tls-certificate",
                ),
                Error::InvalidCertificate(error) => told(&error),
                other => (
                    format!("cannot be used ({other})"),
                    "make one as docs/CONFIGURATION.md says",
                ),
            };
            return Err(certificate.content(format!("the certificate {what}"), remedy));
        }
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(unfit)?;
        let server = server.with_client_cert_verifier(verifier);
        let mut server = server.with_single_cert(chain, secret).map_err(unfit)?;
        // Connections are made seldom: nothing is kept to take one up again, and nothing of it can be stolen.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        server.alpn_protocols = vec![PROTOCOL.into()];
        Ok(Self {
            client: Arc::new(client),
            server: Arc::new(server),
            warning: key.warning(),
        })
    }

    /// What should be mended, though it works.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }
}

fn client(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    chain: &[CertificateDer<'static>],
    key: PrivateKeyDer<'static>,
) -> Result<ClientConfig, Error> {
    let mut client = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(Arc::clone(roots))
        .with_client_auth_cert(chain.to_vec(), key)?;
    client.resumption = Resumption::disabled();
    client.alpn_protocols = vec![PROTOCOL.into()];
    Ok(client)
}
