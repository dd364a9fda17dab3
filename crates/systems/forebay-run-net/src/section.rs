//! Whether `tcp://` is encrypted, as a section of a file says it.

use forebay_run::config::block::Block;
use forebay_run::config::keys::CERTIFICATES;

use crate::{CertificateFiles, Certificates, Security};

/// Where this side's certificates are, if the block names them.
pub fn certificate_files(block: &Block<'_, '_>) -> Option<CertificateFiles> {
    let [certificate, key, authority] = CERTIFICATES.map(|key| block.path(key.name));
    let named = [&certificate, &key, &authority];
    if named.iter().all(|path| path.is_none()) {
        return None;
    }
    for (of, _) in CERTIFICATES
        .iter()
        .zip(named)
        .filter(|(of, _)| !block.has(of.name))
    {
        block.complain_whole(
            &format!("{} is not named", of.name),
            "all of tls_certificate, tls_key and tls_authority, or none of them",
            &format!("add {} = \"FILE.pem\"", of.name),
        );
    }
    block.idle(
        "plain",
        "certificates are named, and what is sent is encrypted",
    );
    Some(CertificateFiles {
        certificate: certificate?,
        key: key?,
        authority: authority?,
    })
}

/// How `tcp://` is secured: by the certificates that the block names, which are read.
pub fn security(block: &Block<'_, '_>) -> Security {
    match certificate_files(block) {
        Some(files) => match read(block, &files) {
            Some(certificates) => Security::Tls(certificates),
            None => Security::PlainOnLoopback,
        },
        None if block.flag("plain") == Some(true) => Security::Plain,
        None => Security::PlainOnLoopback,
    }
}

/// Reads certificates; complains when they cannot be used.
pub fn read(block: &Block<'_, '_>, files: &CertificateFiles) -> Option<Certificates> {
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
