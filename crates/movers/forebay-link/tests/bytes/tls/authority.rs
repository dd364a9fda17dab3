//! Authorities, and certificates of theirs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use forebay_link::bytes::{CertificateError, CertificateFiles, Certificates};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};

/// Somebody whose word is taken.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// Certificate, key and authority as PEM.
#[derive(Clone)]
pub(crate) struct Pems {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) authority: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// A certificate for these hosts, changed before it is signed.
    pub(crate) fn issue_with(
        &self,
        hosts: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Pems {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).into()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Pems {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
            authority: self.pem.clone(),
        }
    }

    pub(crate) fn issue(&self, hosts: &[&str]) -> Pems {
        self.issue_with(hosts, |_| {})
    }

    pub(crate) fn expired(&self, hosts: &[&str]) -> Pems {
        self.issue_with(hosts, |params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2020, 2, 1);
        })
    }
}

impl Pems {
    /// Into three files of a directory.
    pub(crate) fn write(&self, directory: &Path) -> CertificateFiles {
        let files = files_in(directory);
        fs::write(&files.certificate, &self.certificate).unwrap();
        fs::write(&files.key, &self.key).unwrap();
        fs::set_permissions(&files.key, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&files.authority, &self.authority).unwrap();
        files
    }

    pub(crate) fn load(&self) -> Result<Certificates, CertificateError> {
        let directory = tempfile::tempdir().unwrap();
        Certificates::load(&self.write(directory.path()))
    }
}

pub(crate) fn files_in(directory: &Path) -> CertificateFiles {
    CertificateFiles {
        certificate: directory.join("host.pem"),
        key: directory.join("host.key"),
        authority: directory.join("authority.pem"),
    }
}
