//! Replays the corpus of the fuzz target of the control socket with its own oracle, and tries requests at random.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

#[path = "../../../../fuzz/oracle/mux_control.rs"]
mod mux_control;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use std::collections::BTreeMap;

use forebay_run_mux::control::{Change, Request, Target};
use proptest::prelude::*;

#[test]
fn the_corpus_of_requests() {
    replay::replay("mux_control", 10, mux_control::check);
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        6 => prop_oneof!["a", "b"].prop_map(Target::Client),
        3 => (0..2_u32).prop_map(Target::Class),
        1 => "\\PC{0,4}".prop_map(Target::Client),
        1 => any::<u32>().prop_map(Target::Class),
    ]
}

fn key() -> impl Strategy<Value = String> {
    let keys = "policy|guard_us|burst_packets|level_guard_us|window_us|uncounted_bytes|queue|guarantee|class|transmit_queue|sojourn_max_us|rate_bps|burst_bytes|level|quantum_bytes|cycle_us|link_rate_bps|overhead_bytes|slot_offset_us|slot_us";
    prop_oneof![20 => keys, 1 => "name|uid|mac|address", 1 => "\\PC{0,6}"]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (0..5000_u32).prop_map(|number| number.to_string()),
        2 => "[1-9]{1,4}[kMG]",
        3 => "default|signalled|round-robin|deficit-round-robin|priority|token-bucket|window|tdm",
        2 => "[0-9a-z\"'\\[\\]{}=#, \n]{0,12}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_said_is_set_or_nothing_is(
        said in proptest::collection::vec((target(), proptest::collection::btree_map(key(), value(), 0..3)), 0..4),
    ) {
        let changes = said.into_iter().map(|(of, keys): (_, BTreeMap<_, _>)| Change { of, keys });
        mux_control::check(&Request::Set(changes.collect()).emit().unwrap());
    }

    #[test]
    fn any_bytes_behind_a_head_are_a_request_or_an_error(body in "\\PC{0,40}|[{}\\[\\]\":,a-z0-9]{0,60}", version in 0..3_u8, kind in 0..3_u8) {
        let mut record = [b'F', b'B', b'M', b'C', version, 0, kind, 0].to_vec();
        record.extend(body.bytes());
        mux_control::check(&record);
    }
}
