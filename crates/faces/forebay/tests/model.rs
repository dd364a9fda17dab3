//! The model of the connection table, and the named profiles that drive it, as commands.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::fs;

use rig::{Ended, forebay, start};
use serde_json::Value;
use tempfile::TempDir;

fn said(args: &[&str]) -> Ended {
    start(forebay().args(args)).end()
}

fn model(args: &[&str]) -> Value {
    let all = [
        &["model", "ctt", "--packets", "20k", "--format", "json"],
        args,
    ]
    .concat();
    said(&all).json_of(0)
}

#[test]
fn each_profile_is_told_with_published_values_and_residuals() {
    let told = model(&[]);
    let rows = told["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 14);
    assert!(told["is"].as_str().unwrap().contains("no measurement"));
    for row in rows {
        let outcome = &row["outcome"];
        let of = |name: &str| outcome[name].as_u64().unwrap();
        assert_eq!(of("packets_in"), 20_000);
        let ends = of("packets_out") + of("packets_dropped") + of("packets_held");
        assert_eq!(ends, 20_000);
        let residual = row["residual"]["drop_percent"].as_f64().unwrap();
        let found = row["model"]["drop_percent"].as_f64().unwrap();
        let published = row["published"]["drop_percent"].as_f64().unwrap();
        assert!((found - published - residual).abs() < 1e-9, "{row}");
        let is_fitted = ["G_MR", "N_M"].contains(&row["stands_for"].as_str().unwrap());
        assert_eq!(row["fitted"], is_fitted);
    }
}

#[test]
fn parameters_that_are_printed_are_read_again_and_set_by_name() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("ctt.toml");
    let printed = said(&[
        "model",
        "ctt",
        "--print-parameters",
        "--set",
        "memory.channels=3",
    ]);
    fs::write(&path, &printed.stdout).unwrap();
    let text = path.to_str().unwrap();
    let channels = |told: &Value| told["parameters"]["memory"]["channels"]["value"].clone();
    let one = ["--profile", "nix-like-night", "--parameters", text];
    assert_eq!(channels(&model(&one)), 3);
    let with = [&one[..], &["--set", "memory.channels=5"]].concat();
    assert_eq!(channels(&model(&with)), 5);
    let wrong = said(&["model", "ctt", "--set", "memory.channels=0"]);
    assert_eq!(wrong.code(), Some(2));
    assert!(wrong.stderr.contains("channels"), "{}", wrong.stderr);
    let text = fs::read_to_string(&path).unwrap();
    let keys = text.lines().filter(|line| line.contains(" = ")).count();
    let sources = text.lines().filter(|line| {
        line.starts_with('#')
            && ["Source:", "ssumed", "Fitted", "igures"]
                .iter()
                .any(|word| line.contains(word))
    });
    assert_eq!(sources.count(), keys, "each parameter has its source");
}

#[test]
fn a_sweep_has_each_line_with_each_memory() {
    let told = model(&["--sweep", "--profile", "nix-like-morning"]);
    let rows = told["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 2 * 4);
    let rate = |row: &Value| row["memory_rate_hz"].as_f64().unwrap();
    assert!(
        rate(&rows[rows.len() - 1]) > 7.0 * rate(&rows[0]),
        "a stack of memory is faster"
    );
}

#[test]
fn profiles_are_listed_and_written_and_make_the_same_packets() {
    let listed = said(&["emulate", "traffic", "--list", "--format", "json"]).json_of(0);
    let profiles = listed["profiles"].as_array().unwrap();
    assert_eq!(profiles.len(), 7);
    assert!(
        profiles
            .iter()
            .all(|one| one["name"].as_str().unwrap().contains("like"))
    );
    let folder = TempDir::new().unwrap();
    let [csv, by_name, by_file] = ["it.csv", "name.pcap", "file.pcap"]
        .map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let make = |args: &[&str]| {
        said(&[&["emulate", "traffic", "--format", "json"], args].concat()).json_of(0)
    };
    let named = ["--profile", "geant-like-sunday", "--packets", "5k"];
    let written = make(&[&named[..], &["--write-profile", &csv]].concat());
    assert_eq!(written["packets"], 5_000);
    let made = make(
        &[
            &named[..],
            &["--pcap", &by_name, "--timing", "uniform", "--snap", "128"],
        ]
        .concat(),
    );
    assert_eq!(
        (&made["packets"], &made["octets"]),
        (&written["packets"], &written["octets"])
    );
    make(&["--profile", &csv, "--pcap", &by_file, "--snap", "128"]);
    assert_eq!(fs::read(&by_name).unwrap(), fs::read(&by_file).unwrap());
    let wrong = said(&[
        "emulate",
        "traffic",
        "--profile",
        "geant",
        "--pcap",
        "none.pcap",
    ]);
    assert_eq!(wrong.code(), Some(2));
    assert!(
        wrong.stderr.contains("geant-like-morning"),
        "{}",
        wrong.stderr
    );
}
