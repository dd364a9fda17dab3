//! Which authorities a probe believes, and its own certificate: the files that the settings name.

use std::path::{Path, PathBuf};

use forebay_link::bytes::{CertificateError, PemFile};
use forebay_link::collector;
use thiserror::Error as ThisError;

use crate::config::ProbeSettings;
use crate::export::Export;

const CA: &str = "--export-ca";
const CERTIFICATE: &str = "--export-certificate";
const KEY: &str = "--export-key";

/// What is wrong with the files of a probe that exports over TLS.
#[derive(Debug, ThisError)]
pub enum TrustError {
    /// A collector over TLS, and no authority that is believed.
    #[error(
        "{export} is nothing without --export-ca: no authority is believed of itself; give --export-ca FILE.pem with the certificate of the authority that made \
         the collector's, or /etc/ssl/certs/ca-certificates.crt for all that Debian believes"
    )]
    NoAuthority {
        /// The collector.
        export: String,
    },
    /// A certificate without its key, or a key without its certificate.
    #[error("{there} {} is nothing without {missing}; give both, or none of them", path.display())]
    Half {
        /// The option that is given.
        there: &'static str,
        /// What it names.
        path: PathBuf,
        /// The option that is missing.
        missing: &'static str,
    },
    /// Files for TLS, and no collector over TLS.
    #[error(
        "{there} {} is of no use: no --export is ipfix+tls://HOST:PORT, and nothing is encrypted; give such a one, or leave it out", path.display()
    )]
    Idle {
        /// The option that is given.
        there: &'static str,
        /// What it names.
        path: PathBuf,
    },
    /// One of the files cannot be read.
    #[error("{0}; name a file of PEM that this user may read")]
    Unread(#[source] CertificateError),
    /// One of the files does not have what it should.
    #[error(transparent)]
    File(CertificateError),
}

impl TrustError {
    /// The key of a probe's section that it is about, if it is there.
    pub(crate) fn key(&self) -> String {
        let option = match self {
            Self::NoAuthority { .. } => "--export",
            Self::Half { there, .. } | Self::Idle { there, .. } => there,
            Self::Unread(error) | Self::File(error) => option_of(error),
        };
        option.trim_start_matches('-').replace('-', "_")
    }
}

const fn option_of(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::Read { option, .. } | CertificateError::Content { option, .. } => option,
    }
}

impl From<CertificateError> for TrustError {
    fn from(error: CertificateError) -> Self {
        match error {
            CertificateError::Read { .. } => Self::Unread(error),
            CertificateError::Content { .. } => Self::File(error),
        }
    }
}

/// The authorities that a probe believes, and its own certificate, ready for use. A copy of it costs nothing.
#[derive(Clone, Debug)]
pub(crate) struct Trust {
    pub(super) believed: collector::Trust,
    /// What should be mended, though it works.
    pub(crate) warning: Option<String>,
}

/// A file that a setting names.
fn named<'a>(option: &'static str, path: &'a Option<PathBuf>) -> Option<PemFile<'a>> {
    path.as_deref().map(|path: &Path| PemFile { option, path })
}

impl Trust {
    /// Reads the files that the settings name; none where no collector is over TLS.
    pub(crate) fn load(settings: &ProbeSettings) -> Result<Option<Self>, TrustError> {
        let is_tls = |export: &&Export| matches!(export, Export::IpfixTls(_));
        let ca = named(CA, &settings.export_ca);
        let certificate = named(CERTIFICATE, &settings.export_certificate);
        let key = named(KEY, &settings.export_key);
        let Some(export) = settings.export.iter().find(is_tls) else {
            let idle = [ca, certificate, key].into_iter().flatten().next();
            return idle.map_or(Ok(None), |file| {
                let (there, path) = (file.option, file.path.to_path_buf());
                Err(TrustError::Idle { there, path })
            });
        };
        let Some(ca) = ca else {
            let export = export.to_string();
            return Err(TrustError::NoAuthority { export });
        };
        let own = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (Some(certificate), None) => return Err(half(certificate, KEY)),
            (None, Some(key)) => return Err(half(key, CERTIFICATE)),
            (None, None) => None,
        };
        Ok(Some(Self {
            believed: collector::Trust::of(ca, own)?,
            warning: key.and_then(|key| key.warning()),
        }))
    }
}

fn half(there: PemFile<'_>, missing: &'static str) -> TrustError {
    TrustError::Half {
        there: there.option,
        path: there.path.to_path_buf(),
        missing,
    }
}
