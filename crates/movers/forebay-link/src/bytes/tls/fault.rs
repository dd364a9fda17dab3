//! What can go wrong with TLS, and what to do about it.

use rustls::{AlertDescription, CertificateError, Error};
use thiserror::Error as ThisError;

/// Why two sides do not come together over TLS.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum TlsFault {
    /// This side speaks TLS, the peer does not.
    #[error(
        "it speaks {what}, and this side TLS; give it --tls-certificate, --tls-key and --tls-authority too, or --plain to both sides"
    )]
    PlainPeer {
        /// What it looks like.
        what: &'static str,
    },
    /// The peer speaks TLS, this side does not.
    #[error(
        "it speaks TLS, and this side does not; give this side --tls-certificate, --tls-key and --tls-authority too, or --plain to both sides"
    )]
    TlsPeer,
    /// The peer shows no certificate.
    #[error(
        "it shows no certificate; give it --tls-certificate and --tls-key with one of this side's authority"
    )]
    NoCertificate,
    /// The peer's certificate is not accepted here.
    #[error("its certificate {what}; {remedy}")]
    Certificate {
        /// What is wrong with it.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The peer does not accept this side's certificate.
    #[error("it does not accept this side's certificate ({what}); {remedy}")]
    Refused {
        /// What it says.
        what: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// Anything else: an attack, damage, or something that only looks like TLS.
    #[error("the TLS hand-shake or a record failed: {what}")]
    Protocol {
        /// What happened.
        what: String,
    },
}

const SAME_AUTHORITY: &str =
    "both sides need certificates of the same authority: compare their --tls-authority";
const DATES: &str = "have a new one made by its authority; if its dates are right, one of the two hosts' clocks is wrong";

impl TlsFault {
    /// Its name in counters.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::PlainPeer { .. } => "plain_peer",
            Self::TlsPeer => "tls_peer",
            Self::NoCertificate => "no_certificate",
            Self::Certificate { .. } => "bad_certificate",
            Self::Refused { .. } => "certificate_refused",
            Self::Protocol { .. } => "tls_failed",
        }
    }
}

impl From<Error> for TlsFault {
    fn from(error: Error) -> Self {
        match error {
            Error::NoCertificatesPresented => Self::NoCertificate,
            Error::InvalidCertificate(error) => {
                let (what, remedy) = told(&error);
                Self::Certificate { what, remedy }
            }
            Error::AlertReceived(alert) => refused(alert),
            other => Self::Protocol {
                what: other.to_string(),
            },
        }
    }
}

/// What is wrong with a certificate, and what to do.
pub(super) fn told(error: &CertificateError) -> (String, &'static str) {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            ("has expired".into(), DATES)
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            ("is not valid yet".into(), DATES)
        }
        CertificateError::UnknownIssuer => ("is of another authority".into(), SAME_AUTHORITY),
        // An authority that was made anew has the name of the old one.
        CertificateError::BadSignature => (
            "is of another authority, of the same name".into(),
            SAME_AUTHORITY,
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
            format!("is not for this address ({error})"),
            "connect to a name or number that stands in it, or have one made whose subjectAltName has the address",
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => (
            "is not for this use".into(),
            "have one made with extendedKeyUsage=serverAuth,clientAuth",
        ),
        CertificateError::BadEncoding => {
            ("is damaged".into(), "have a new one made by its authority")
        }
        // What rustls hands on of the library below it, which has no other name here.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => (
            "is an authority's own, as a self-signed one is, and proves nobody's name".into(),
            "have one made for this host by that authority, with basicConstraints=CA:FALSE",
        ),
        CertificateError::Other(_) => (
            "is not made as those of a host are".into(),
            "have a new one made by its authority, as docs/CONFIGURATION.md says",
        ),
        other => (
            format!("cannot be used ({other})"),
            "have a new one made by its authority, as docs/CONFIGURATION.md says",
        ),
    }
}

fn refused(alert: AlertDescription) -> TlsFault {
    let (what, remedy) = match alert {
        AlertDescription::CertificateExpired => ("expired", DATES),
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            ("another authority", SAME_AUTHORITY)
        }
        AlertDescription::CertificateRequired => (
            "there is none",
            "give this side --tls-certificate and --tls-key",
        ),
        AlertDescription::BadCertificate => (
            "bad",
            "it may not be for the address to which the peer connects: the peer tells more",
        ),
        AlertDescription::UnsupportedCertificate => (
            "not for this use",
            "have one made with extendedKeyUsage=serverAuth,clientAuth",
        ),
        AlertDescription::CertificateUnknown
        | AlertDescription::CertificateRevoked
        | AlertDescription::AccessDenied => ("not good", "the peer tells more"),
        other => {
            return TlsFault::Protocol {
                what: format!("the peer ended it with {other:?}"),
            };
        }
    };
    TlsFault::Refused { what, remedy }
}
