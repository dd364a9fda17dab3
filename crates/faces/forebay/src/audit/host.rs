//! What the whole host counted below the sockets, from the record beside a ledger.

use std::path::Path;

use forebay_run::record::RecordView;

/// The record of the run `run_id` in `directory`; none where it has left none yet.
pub(super) fn record(directory: &Path, run_id: &str) -> Option<RecordView> {
    let names = ["run.json".to_owned(), format!("run-{run_id}.json")];
    names.iter().find_map(|name| {
        let text = std::fs::read(directory.join(name)).ok()?;
        RecordView::parse(&text).filter(|record| record.run_id() == Some(run_id))
    })
}
