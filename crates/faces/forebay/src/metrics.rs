//! `--metrics`: where Prometheus reads a run.

use std::net::SocketAddr;

use anyhow::Result;
use forebay_ledger::LedgerReader;
use forebay_run::metrics::MetricsServer;

use crate::output::note_page;

/// Serves the metrics of `reader` as long as the result lives.
pub(crate) fn serve(
    address: Option<SocketAddr>,
    reader: &LedgerReader,
) -> Result<Option<MetricsServer>> {
    let Some(address) = address else {
        return Ok(None);
    };
    let server = MetricsServer::start(address, reader.clone())?;
    note_page(server.address());
    Ok(Some(server))
}
