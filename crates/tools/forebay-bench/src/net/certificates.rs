//! Certificates for a measurement over TLS, made by `openssl` and gone with it.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

const REQUEST: &str = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 2";

/// An authority and a certificate for loopback.
#[derive(Debug)]
pub(super) struct Certificates {
    _directory: TempDir,
    options: Vec<String>,
}

impl Certificates {
    /// Makes them; none where there is no `openssl`.
    pub(super) fn make() -> Result<Option<Self>> {
        let there = Command::new("openssl").arg("version").output();
        if !there.is_ok_and(|said| said.status.success()) {
            return Ok(None);
        }
        let directory = tempfile::tempdir().context("a directory for certificates")?;
        let make = |words: &str| openssl(directory.path(), &format!("{REQUEST} {words}"));
        make("-subj /CN=bench-authority -keyout authority.key -out authority.pem")?;
        make(
            "-subj /CN=bench -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE \
             -CA authority.pem -CAkey authority.key -keyout host.key -out host.pem",
        )?;
        let option = |option: &str, name: &str| {
            let path = directory.path().join(name);
            [option.to_owned(), path.display().to_string()]
        };
        let options = [
            option("--tls-certificate", "host.pem"),
            option("--tls-key", "host.key"),
            option("--tls-authority", "authority.pem"),
        ];
        Ok(Some(Self {
            options: options.into_iter().flatten().collect(),
            _directory: directory,
        }))
    }

    /// What both sides are told.
    pub(super) fn options(&self) -> &[String] {
        &self.options
    }
}

fn openssl(directory: &Path, words: &str) -> Result<()> {
    let said = Command::new("openssl")
        .args(words.split_whitespace())
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .context("running openssl")?;
    if !said.status.success() {
        bail!(
            "openssl {words}: {}",
            String::from_utf8_lossy(&said.stderr).trim()
        );
    }
    Ok(())
}
