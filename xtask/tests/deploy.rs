//! The units in `deploy/`, as systemd's own checker reads them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// What the units run.
const PROGRAM: &str = "/usr/local/bin/forebay";
/// Most exposure that a unit may have, in tenths, by `systemd-analyze security`: both have 20 with systemd 252.
const EXPOSURE_TENTHS_MAX: u32 = 25;

/// All units, with a program that is there, in a folder of their own.
fn units(folder: &Path) -> Vec<PathBuf> {
    let deploy = forebay_testing::root().join("deploy");
    let files = fs::read_dir(deploy).unwrap();
    let services = files
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "service"));
    let place = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let begins = format!("\nExecStart={PROGRAM} ");
        assert!(text.contains(&begins), "{}", path.display());
        let here = folder.join(path.file_name().unwrap());
        fs::write(&here, text.replace(&begins, "\nExecStart=/bin/true ")).unwrap();
        here
    };
    services.map(place).collect()
}

/// Whether it is content, and what it says.
fn analyze(words: &[&str], unit: &Path) -> (bool, String) {
    let mut command = Command::new("systemd-analyze");
    let ended = command.args(words).arg(unit).output().unwrap();
    let said = [ended.stdout, ended.stderr].concat();
    (
        ended.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

#[test]
fn units_are_what_systemd_takes_and_have_few_rights() {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        forebay_testing::skip!("systemd-analyze is not there");
        return;
    }
    let folder = TempDir::new().unwrap();
    let units = units(folder.path());
    assert!(units.len() >= 2, "{units:?}");
    let threshold = format!("--threshold={EXPOSURE_TENTHS_MAX}");
    let security = ["security", "--offline=true", "--no-pager", &threshold];
    for unit in &units {
        // A key that it does not know is told, and is no error.
        let verify = ["verify", "--man=no"];
        let name = unit.file_name().unwrap().to_string_lossy();
        let (is_right, said) = analyze(&verify, unit);
        // It reads the units that this one names, too, and says what it thinks of those of the host.
        let of_unit: Vec<&str> = said.lines().filter(|it| it.contains(&*name)).collect();
        assert!(is_right && of_unit.is_empty(), "{said}");
        let (is_right, said) = analyze(&security, unit);
        assert!(is_right, "{said}");
        // Both can say no.
        let text = fs::read_to_string(unit).unwrap();
        fs::write(unit, text.replace("PrivateTmp=yes", "PrivateTemp=yes")).unwrap();
        let (_, said) = analyze(&verify, unit);
        assert!(said.contains("PrivateTemp"), "{said}");
        let is_kept = |line: &&str| !line.starts_with("CapabilityBoundingSet=");
        let lines: Vec<&str> = text.lines().filter(is_kept).collect();
        fs::write(unit, lines.join("\n")).unwrap();
        let (is_right, said) = analyze(&security, unit);
        assert!(!is_right, "{said}");
        fs::write(unit, text).unwrap();
    }
}
