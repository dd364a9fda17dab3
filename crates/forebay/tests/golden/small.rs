//! Verbs that look at files and at the host, and leave nothing.

use std::fs;
use std::path::Path;

use forebay_testing::root;

use crate::taken::{Taken, begin, text};

/// A batch of two cards, one of them with a fault.
const BATCH: &str = "[batch]\ncards = 2\nlinks = 2\ndma_buffers = 1\nblock_bytes = 1024\n\
                     [[defects]]\ncard = 1\nkind = \"swapped_links\"\nlink = 0\nother_link = 1\ncure = \"replug\"\n";

/// A file with a mistake.
const WRONG: &str = "[receiver]\ncpu = 1.5\n";

pub(crate) fn play(taken: &mut Taken, folder: &Path) {
    let example = |name: &str| root().join(format!("examples/{name}.toml"));
    for kind in ["hades", "chunks", "card", "tohost", "toflx", "batch"] {
        let file = example(kind);
        taken.run(&format!("check {kind}"), &["check", text(&file)], &[]);
    }
    let wrong = folder.join("wrong.toml");
    fs::write(&wrong, WRONG).unwrap();
    let told = begin(&["check", text(&wrong)]).end().json_of(2);
    taken.said("check mistake", &told, &[]);
    let card = example("card");
    for verb in ["show", "check"] {
        let words = ["elinks", verb, text(&card)];
        taken.run(&format!("elinks {verb}"), &words, &[]);
    }
    let batch = folder.join("batch.toml");
    fs::write(&batch, BATCH).unwrap();
    let validate = ["card", "validate", text(&batch)];
    taken.run("card validate", &validate, &["faults"]);
    taken.run("tdm plan", &["tdm", "plan"], &["warnings"]);
    // What it says of the host decides its exit code.
    let doctor = begin(&["doctor"]).end().json();
    taken.said("doctor", &doctor, &[]);
    let counter = ["doctor", "--counter", "Udp.RcvbufErrors"];
    taken.run("doctor counter", &counter, &["counters"]);
    taken.run("figure list", &["figure", "--list"], &[]);
    taken.run("sweep conditions", &["sweep", "conditions"], &[]);
}
