//! What vanishes behind the table of a probe: `forebay audit` names the place, and no other one.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod rig;

use std::path::Path;

use rig::{forebay, start};
use tempfile::TempDir;

/// Records or packets that vanish.
const LOST: u64 = 2;

/// Accounts and links that do not close, with what they lack.
fn open_places(out: &Path) -> Vec<(String, u64)> {
    let verdict = rig::audit_json(out);
    let lists = ["accounts", "links"].map(|list| verdict["balance"][list].as_array().unwrap());
    let lines = lists.into_iter().flatten();
    let open = lines.filter(|line| line["residual"]["items"] != 0);
    open.map(|line| {
        let text = |key: &str| line[key].as_str().unwrap();
        let name = format!("{} {}", text("place"), text("owner"));
        (name, line["residual"]["items"].as_u64().unwrap())
    })
    .collect()
}

#[test]
fn what_vanishes_on_its_way_to_an_exporter_or_a_file_of_packets_is_found_where_it_was() {
    let folder = TempDir::new().unwrap();
    let mut command = forebay();
    command.current_dir(folder.path()).args([
        "emulate",
        "traffic",
        "--profile",
        "nix-like-morning",
    ]);
    command.args(["--packets", "5k", "--snap", "96", "--pcap", "it.pcap"]);
    let made = start(&mut command).end();
    assert_eq!(made.code(), Some(0), "{}", made.stderr);
    for (hop, owner) in [
        ("fan_out", "exporter0"),
        ("export", "exporter0"),
        ("tap", "all"),
    ] {
        let mut command = forebay();
        command
            .current_dir(folder.path())
            .args(["probe", "--read", "it.pcap", "--format", "json"]);
        let file = |end: &str| format!("{hop}.{end}");
        command.args(["--export", &file("jsonl"), "--export", &file("ipfix")]);
        command.args(["--export-packets", &file("pcapng"), "--out", hop]);
        let leak = format!("{hop}:{LOST}");
        let json = start(command.env("FOREBAY_LEAK", leak)).end().json_of(1);
        assert_eq!(json["residual_items"], LOST, "{hop}: {json}");
        let place = format!("{hop} {owner}");
        assert_eq!(open_places(&folder.path().join(hop)), [(place, LOST)]);
    }
}
