//! Files that cannot be used: which one, why, and what to do.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use forebay_link::bytes::Certificates;
use rcgen::{BasicConstraints, IsCa};

use super::{Authority, HOST, Pems};

fn refused(pems: &Pems, parts: &[&str]) {
    let text = pems.load().unwrap_err().to_string();
    for part in parts {
        assert!(text.contains(part), "no '{part}' in: {text}");
    }
}

#[test]
fn what_does_not_fit_together_is_named() {
    let (authority, other) = (Authority::new("ours"), Authority::new("other"));
    let good = authority.issue(&[HOST]);
    good.load().unwrap();
    let with = |change: fn(&mut Pems, Pems)| {
        let mut pems = good.clone();
        change(&mut pems, other.issue(&[HOST]));
        pems
    };
    refused(
        &with(|pems, other| pems.key = other.key),
        &[
            "--tls-key",
            "host.key",
            "does not belong to the certificate",
        ],
    );
    refused(
        &with(|pems, other| pems.authority = other.authority),
        &[
            "--tls-certificate",
            "host.pem",
            "is not of the authority in",
            "authority.pem",
        ],
    );
    refused(
        &authority.expired(&[HOST]),
        &["--tls-certificate", "has expired", "have a new one made"],
    );
    let for_servers = authority.issue_with(&[HOST], |params| {
        params.extended_key_usages.truncate(1);
    });
    refused(&for_servers, &["not for this use", "serverAuth,clientAuth"]);
    // As a self-signed one is made by default.
    let authoritys = authority.issue_with(&[HOST], |params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    });
    refused(&authoritys, &["self-signed", "CA:FALSE"]);
    let told = authoritys.load().unwrap_err().to_string();
    assert!(!told.contains("Other"), "{told}");
}

#[test]
fn what_is_no_pem_is_named() {
    let good = Authority::new("ours").issue(&[HOST]);
    let with = |change: fn(&mut Pems)| {
        let mut pems = good.clone();
        change(&mut pems);
        pems
    };
    refused(
        &with(|pems| pems.certificate.clear()),
        &[
            "--tls-certificate",
            "there is no certificate",
            "BEGIN CERTIFICATE",
        ],
    );
    refused(
        &with(|pems| pems.certificate = pems.key.clone()),
        &["--tls-certificate", "there is no certificate"],
    );
    refused(
        &with(|pems| pems.key = pems.certificate.clone()),
        &["--tls-key", "there is no private key", "openssl pkey"],
    );
    refused(
        &with(|pems| pems.authority.truncate(100)),
        &["--tls-authority", "END CERTIFICATE", "is missing"],
    );
    refused(
        &with(|pems| pems.authority = pems.authority.replace('M', "*")),
        &["--tls-authority", "authority.pem"],
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let files = Authority::new("ours")
        .issue(&[HOST])
        .write(directory.path());
    fs::remove_file(&files.key).unwrap();
    let text = Certificates::load(&files).unwrap_err().to_string();
    assert!(
        text.contains("--tls-key") && text.contains("host.key"),
        "{text}"
    );
}

#[test]
fn a_key_that_others_can_read_is_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    let files = Authority::new("ours")
        .issue(&[HOST])
        .write(directory.path());
    assert_eq!(Certificates::load(&files).unwrap().warning(), None);
    fs::set_permissions(&files.key, fs::Permissions::from_mode(0o644)).unwrap();
    let loaded = Certificates::load(&files).unwrap();
    let warning = loaded.warning().unwrap();
    assert!(
        warning.contains("644") && warning.contains("chmod 600"),
        "{warning}"
    );
}
