//! Certificates for tests over TLS.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};

/// Makes an authority in a directory, and a certificate of it for these hosts; the options that name them.
pub(crate) fn make(directory: &Path, hosts: Vec<String>) -> Vec<String> {
    make_with(directory, hosts, |_| {})
}

/// The same, with a certificate that is changed before it is signed.
pub(crate) fn make_with(
    directory: &Path,
    hosts: Vec<String>,
    change: impl FnOnce(&mut CertificateParams),
) -> Vec<String> {
    let mut authority = CertificateParams::default();
    // One name for both would be that of one that signed itself.
    authority
        .distinguished_name
        .push(DnType::CommonName, "an authority of tests");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority_pem = authority.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(authority, key);
    let mut params = CertificateParams::new(hosts).unwrap();
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    let files = [
        ("--tls-certificate", "host.pem", certificate),
        ("--tls-key", "host.key", key.serialize_pem()),
        ("--tls-authority", "authority.pem", authority_pem),
    ];
    let mut options = Vec::new();
    for (option, name, text) in files {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        options.extend([option.to_owned(), path.to_str().unwrap().to_owned()]);
    }
    options
}

/// A directory for the life of this process; those of processes that have ended are removed.
pub(crate) fn directory(name: &str) -> PathBuf {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    for old in std::fs::read_dir(&all).into_iter().flatten().flatten() {
        let pid = old.file_name();
        if !Path::new("/proc").join(pid).exists() {
            // Another one that begins may have been faster.
            let _ = std::fs::remove_dir_all(old.path());
        }
    }
    let own = all.join(std::process::id().to_string());
    std::fs::create_dir_all(&own).unwrap();
    own
}
