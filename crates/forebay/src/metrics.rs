//! `--metrics`: where Prometheus reads a run.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use forebay_ledger::LedgerReader;
use forebay_run::metrics::MetricsServer;

use crate::output::note_line;

/// Reads `ADDRESS:PORT`, or a port on 127.0.0.1.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse()
        .map_err(|_| format!("{text:?} is no address; write it as 127.0.0.1:9400, or 9400"))
}

/// Serves the metrics of `reader` as long as the result lives.
pub(crate) fn serve(
    address: Option<SocketAddr>,
    reader: &LedgerReader,
) -> Result<Option<MetricsServer>> {
    let Some(address) = address else {
        return Ok(None);
    };
    let server = MetricsServer::start(address, reader.clone())?;
    note_line(format_args!(
        "metrics at http://{}/metrics",
        server.address()
    ));
    Ok(Some(server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_port_is_one_of_this_host() {
        assert_eq!(parse_address("9400"), Ok(([127, 0, 0, 1], 9400).into()));
        assert_eq!(parse_address("[::1]:1"), Ok("[::1]:1".parse().unwrap()));
        assert!(
            parse_address("localhost")
                .unwrap_err()
                .contains("127.0.0.1:9400")
        );
    }
}
