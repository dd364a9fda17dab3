//! What can go wrong with a collector over TLS, and what to do about it: the options are those of `forebay probe`.

use std::io::{self, ErrorKind};

use rustls::{AlertDescription, CertificateError, Error};
use thiserror::Error as ThisError;

/// Why a probe and a collector do not come together over TLS.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[error("{what}; {remedy}")]
pub struct TlsFault {
    /// What happened.
    pub what: String,
    /// What to do.
    pub remedy: &'static str,
}

const RENEW: &str = "have a new one made for it; if its dates are right, the clock of one of the two hosts is wrong";
const AUTHORITY: &str =
    "give --export-ca the certificate of the authority that made the collector's";
const ANOTHER: &str = "have another one made for the collector";
const OWN: &str =
    "give --export-certificate and --export-key what an authority made that the collector believes";
const OWN_TOO: &str = "give --export-certificate and --export-key";
const NO_TLS: &str = "give --export the port where it speaks TLS, which is 4740 for IPFIX, or ipfix+tcp:// for one without";
const VERSIONS: &str = "the probe speaks TLS 1.2 and 1.3: let the collector speak one of them";
const ITS_LOG: &str = "the log of the collector tells more";

impl TlsFault {
    pub(super) fn new(what: impl Into<String>, remedy: &'static str) -> Self {
        let what = what.into();
        Self { what, remedy }
    }

    /// The connection ended, or nothing came for too long, before both sides knew each other.
    pub(super) fn unmet(how: &str) -> Self {
        Self::new(format!("it {how} in the TLS hand-shake"), NO_TLS)
    }

    /// What the system's error is, if TLS is its cause.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<TlsFault> for io::Error {
    fn from(fault: TlsFault) -> Self {
        Self::new(ErrorKind::InvalidData, fault)
    }
}

impl From<Error> for TlsFault {
    fn from(error: Error) -> Self {
        match error {
            Error::InvalidCertificate(error) => of_certificate(&error),
            Error::AlertReceived(alert) => told(alert),
            Error::InvalidMessage(_) => Self::new("it speaks no TLS", NO_TLS),
            Error::PeerIncompatible(what) => {
                Self::new(format!("it speaks no TLS of ours ({what:?})"), VERSIONS)
            }
            other => Self::new(format!("TLS failed: {other}"), ITS_LOG),
        }
    }
}

fn of_certificate(error: &CertificateError) -> TlsFault {
    let (what, remedy) = match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            ("has expired".into(), RENEW)
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            ("is not valid yet".into(), RENEW)
        }
        // An authority that was made anew has the name of the old one.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            ("is of no authority in --export-ca".into(), AUTHORITY)
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => (
            format!("is not for the host that --export names ({error})"),
            "give a name or number that stands in it, or have one made whose subjectAltName has this one",
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => (
            "is not for a server".into(),
            "have one made with extendedKeyUsage=serverAuth",
        ),
        // What rustls hands on of the library below it, which has no other name here.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => (
            "is an authority's own, as a self-signed one is, and proves no host's name".into(),
            "have one made for its host by that authority, with basicConstraints=CA:FALSE",
        ),
        other => (format!("cannot be used ({other})"), ANOTHER),
    };
    TlsFault::new(format!("its certificate {what}"), remedy)
}

/// What the collector said before it ended the connection.
fn told(alert: AlertDescription) -> TlsFault {
    use AlertDescription as Alert;
    let (what, remedy) = match alert {
        Alert::CertificateRequired => ("it wants a certificate of the probe".into(), OWN_TOO),
        Alert::ProtocolVersion => ("it speaks no TLS of ours".into(), VERSIONS),
        Alert::UnknownCA
        | Alert::DecryptError
        | Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateUnknown
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::AccessDenied => (
            format!("it does not accept the probe's certificate ({alert:?})"),
            OWN,
        ),
        // Of TLS 1.2 that is the answer to a side without a certificate, too.
        Alert::HandshakeFailure => (
            "it refuses the TLS hand-shake (HandshakeFailure)".into(),
            "if it wants a certificate of the probe give --export-certificate and --export-key; else its log tells more",
        ),
        other => (format!("it ended TLS ({other:?})"), ITS_LOG),
    };
    TlsFault::new(what, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_own_words() {
        let faults = [
            (
                Error::InvalidCertificate(CertificateError::Expired),
                "has expired",
            ),
            (
                Error::InvalidCertificate(CertificateError::NotValidYet),
                "not valid yet",
            ),
            (
                Error::InvalidCertificate(CertificateError::UnknownIssuer),
                "--export-ca",
            ),
            (
                Error::InvalidCertificate(CertificateError::NotValidForName),
                "subjectAltName",
            ),
            (
                Error::InvalidCertificate(CertificateError::InvalidPurpose),
                "serverAuth",
            ),
            (
                Error::InvalidCertificate(CertificateError::Revoked),
                "cannot be used",
            ),
            (
                Error::AlertReceived(AlertDescription::CertificateRequired),
                "wants a certificate",
            ),
            (
                Error::AlertReceived(AlertDescription::UnknownCA),
                "does not accept",
            ),
            (
                Error::AlertReceived(AlertDescription::HandshakeFailure),
                "if it wants",
            ),
            (
                Error::AlertReceived(AlertDescription::InternalError),
                "InternalError",
            ),
            (Error::DecryptError, "TLS failed"),
        ];
        for (error, wanted) in faults {
            let told = TlsFault::from(error.clone()).to_string();
            assert!(told.contains(wanted), "{error:?}: {told}");
        }
        let carried = io::Error::from(TlsFault::unmet("ended"));
        assert_eq!(TlsFault::of(&carried), Some(&TlsFault::unmet("ended")));
        assert_eq!(TlsFault::of(&io::Error::other("another")), None);
    }
}
