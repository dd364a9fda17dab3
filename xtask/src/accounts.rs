//! `cargo xtask accounts`: writes docs/ACCOUNTS.md anew, from the schemas of all ledgers and from what is said of which function counts each term.

use std::path::Path;

use anyhow::{Result, bail};

/// The tests of the page, which write it when they are told to.
const TESTS: [&str; 20] = [
    "test",
    "--quiet",
    "--package=forebay-run",
    "--package=forebay-run-net",
    "--package=forebay-run-evb",
    "--package=forebay-run-mover",
    "--package=forebay-run-tdm",
    "--package=forebay-run-felix",
    "--package=forebay-run-probe",
    "--package=forebay-run-mux",
    "--package=forebay-run-mux-client",
    "--package=forebay-run-traffic",
    "--package=forebay-run-load",
    "--package=forebay-run-emu",
    "--package=forebay-run-hades",
    "--package=forebay-testing",
    "--lib",
    "--",
    "the_page_of_accounts",
    "accounts::",
];

/// Writes the page.
///
/// # Errors
/// A term has no function that counts it, or a function that is named counts nothing; the tests have said which.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut command = crate::cargo();
    command.args(TESTS).current_dir(root);
    // Each test writes a section of its own, and one compares the whole: it comes again when all are written.
    let _ = command.env("FOREBAY_WRITE_ACCOUNTS", "1").status()?;
    let compared = command.env_remove("FOREBAY_WRITE_ACCOUNTS").status()?;
    if !compared.success() {
        bail!(
            "docs/ACCOUNTS.md lacks something: see the tests above, and crates/ground/forebay-testing/src/accounts/counted.toml"
        );
    }
    println!("xtask: docs/ACCOUNTS.md is written");
    Ok(())
}
