//! What the whole host counted below the sockets, from the record beside a ledger.

use std::path::Path;

use forebay_host::Changes;
use serde_json::Value;

/// The record of the run `run_id` in `directory`; none where it has left none yet.
pub(super) fn record(directory: &Path, run_id: &str) -> Option<Value> {
    let names = ["run.json".to_owned(), format!("run-{run_id}.json")];
    names.iter().find_map(|name| {
        let text = std::fs::read(directory.join(name)).ok()?;
        let record: Value = serde_json::from_slice(&text).ok()?;
        // That of a run of the event builder has its name in its summary.
        let ours = [&record["run_id"], &record["summary"]["run_id"]];
        ours.contains(&&Value::from(run_id)).then_some(record)
    })
}

/// Its counters of the host; none of a run that was killed, or of an older version.
pub(super) fn counters(record: &Value) -> Option<Changes> {
    let told = record.get("host_counters")?;
    serde_json::from_value(told.clone()).ok()
}
