//! `--metrics`: where Prometheus reads a run.

use std::net::SocketAddr;

use anyhow::Result;
use forebay_ledger::LedgerReader;
use forebay_run::metrics::{MetricsServer, Shown};

use crate::output::note_line;

/// Serves the metrics of `reader` as long as the result lives.
pub(crate) fn serve(
    address: Option<SocketAddr>,
    reader: &LedgerReader,
) -> Result<Option<MetricsServer>> {
    let Some(address) = address else {
        return Ok(None);
    };
    let server = MetricsServer::start(address, reader.clone())?;
    say(server.address());
    Ok(Some(server))
}

/// Serves a page, on which there is nothing yet, as long as the result lives.
pub(crate) fn show(address: SocketAddr) -> Result<Shown> {
    let shown = Shown::default().served_at(address)?;
    shown.address().into_iter().for_each(say);
    Ok(shown)
}

fn say(address: SocketAddr) {
    note_line(format_args!("metrics at http://{address}/metrics"));
}
