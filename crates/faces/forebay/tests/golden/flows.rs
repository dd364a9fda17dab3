//! Emulated traffic, and the flow probe that reads it.

use std::path::Path;

use forebay_testing::root;

use crate::taken::{Taken, text};

pub(crate) fn play(taken: &mut Taken, folder: &Path) {
    let profile = root().join("crates/emulators/forebay-traffic/tests/profile.csv");
    let [pcap, made, out] = ["it.pcap", "traffic", "probe"].map(|name| folder.join(name));
    let words = ["emulate", "traffic", "--profile", text(&profile)];
    let to = ["--pcap", text(&pcap), "--out", text(&made)];
    taken.run("emulate traffic", &[&words[..], &to].concat(), &[]);
    taken.left("emulate traffic", &made, &[]);
    let words = ["probe", "--read", text(&pcap), "--export", "none"];
    taken.run("probe", &[&words[..], &["--out", text(&out)]].concat(), &[]);
    taken.left("probe", &out, &[]);
}
