//! What stays the same while crates are moved: texts in the folder of this file that the program is held against.
//!
//! `UPDATE_DOCS=1 cargo test -p forebay --test golden` writes them anew; the difference is for the review.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

#[path = "../rig/mod.rs"]
mod rig;

mod agreed;
mod events;
mod flows;
mod help;
mod layout;
mod loaded;
mod messages;
mod mistakes;
mod page;
mod readout;
mod settings;
mod shape;
mod small;
mod taken;
mod windows;

use agreed::assert_agreed;
use taken::TAKEN;

/// Groups, accounts with their reasons, links, counters, histograms and tables, and where each lies.
#[test]
fn the_ledger_of_each_program_lies_as_it_was_agreed() {
    assert_agreed("ledger", &TAKEN.ledgers);
}

#[test]
fn the_json_of_each_verb_is_one_object_with_the_keys_that_were_agreed() {
    assert_agreed("json", &TAKEN.json);
}

#[test]
fn the_record_of_each_program_has_the_keys_that_were_agreed() {
    assert_agreed("record", &TAKEN.records);
}

/// The keys that every record has, with the kinds of their values.
const ENVELOPE: &str = "condition: text, cpu_s: object, drops: object, duration_s: float, host_counters: object, left_bytes: integer, left_items: integer, \
    pids: object, program: text, reason: text, record_version: integer, residual_bytes: integer, residual_items: integer, run_id: text, taints: list, warnings: list";

#[test]
fn each_record_has_the_keys_that_all_have() {
    assert!(TAKEN.records.len() >= 18);
    for (program, keys) in &TAKEN.records {
        for key in ENVELOPE.split(", ") {
            assert!(keys.lines().any(|line| line == key), "{program}: {key}");
        }
        assert!(keys.contains("\nfailed: "), "{program}");
    }
}

#[test]
fn the_metrics_of_each_program_are_those_that_were_agreed() {
    assert_agreed("metrics", &TAKEN.pages);
}

#[test]
fn the_help_of_each_verb_says_what_was_agreed() {
    assert_agreed("help", &help::texts());
}

#[test]
fn the_mistakes_in_each_kind_of_file_are_told_as_it_was_agreed() {
    assert_agreed("mistakes", &mistakes::texts());
}

/// What is said and what is not, which has its default.
#[test]
fn the_settings_of_a_run_come_to_what_was_agreed() {
    assert_agreed("settings", &TAKEN.plans);
}

#[test]
fn good_files_are_told_as_it_was_agreed() {
    assert_agreed("good", &mistakes::good());
}

#[test]
fn the_reference_that_is_printed_is_that_of_the_document() {
    let document = forebay_testing::root().join("docs/CONFIGURATION.md");
    let document = std::fs::read_to_string(document).unwrap();
    let printed = mistakes::reference();
    assert!(printed.len() > 10_000 && document.contains(printed.trim_end()));
}
