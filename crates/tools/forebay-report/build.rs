//! Notes the commit that is built, for the records of measurements.

use std::process::Command;

fn main() {
    let commit =
        git(&["describe", "--always", "--dirty", "--tags"]).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=FOREBAY_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", name])
            && std::path::Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
