//! The balance sheet as an operator sees it. A change shows up here as a change of the text.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod pipeline;

use forebay_ledger::{Condition, Reason, Supervisor};
use pipeline::Pipeline;

#[test]
fn the_sheet_of_a_leaking_and_of_a_dead_run() {
    let mut text = String::new();
    for (leak, ends) in [("ring:7", true), ("", false)] {
        let mut path = Pipeline::new(leak);
        (1..=100_000).for_each(|n| path.send(n));
        path.build(if ends { usize::MAX } else { 80_000 });
        path.write_all();
        path.commit();
        if ends {
            path.run
                .finish(Condition::Ended, Reason::LimitReached, 9_000);
        } else {
            path.run.heartbeat(1_795_343_085_123_000_000);
        }
        text += &format!("{}\n", path.audit(Supervisor::Gone));
    }
    assert_eq!(text, include_str!("sheet.golden"), "\n{text}");
}
