//! `fi_pingpong`: libfabric's own round trips, over the provider of a fabric backend.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::super::child::Says;
use super::super::ground::{Ground, Side};
use forebay_report::rows::Row;

/// Round trips; the program counts them instead of watching the time.
const ROUNDS: &str = "10000";
const LIMIT: Duration = Duration::from_secs(30);
/// How long its listening side, which does not say when it is ready, is asked again.
const READY_LIMIT: Duration = Duration::from_secs(3);
const BETWEEN: Duration = Duration::from_millis(50);

/// Runs it once.
pub(super) fn measure(backend: &str, message_bytes: u32, ground: &Ground<'_>) -> Result<Row> {
    let provider = backend.strip_prefix("fabric+").unwrap_or(backend);
    let port = free_port()?;
    let size = message_bytes.to_string();
    let common = ["-p", provider, "-e", "msg", "-I", ROUNDS, "-S", &size];
    let mut listener = Command::new("fi_pingpong");
    listener.args(common).args(["-B", &port]);
    let listener = ground.start("fi_pingpong", listener, Side::Listener, Says::OnStderr)?;
    let address = ground.listener().to_string();
    let until = Instant::now() + READY_LIMIT;
    let told = loop {
        let mut sender = Command::new("fi_pingpong");
        sender.args(common).args(["-P", &port, &address]);
        let sender = ground.start("fi_pingpong", sender, Side::Sender, Says::OnStderr)?;
        let ended = sender.end(LIMIT, ground.stop())?;
        match ended.code {
            Some(0) => break ended.stdout,
            _ if Instant::now() > until => bail!("{}", ended.complaint("fi_pingpong")),
            _ => std::thread::sleep(BETWEEN),
        }
    };
    listener.end(LIMIT, ground.stop())?;
    row(&told, message_bytes).context("fi_pingpong gave no result")
}

/// A port that was free a moment ago, as text: the program takes no other choice.
fn free_port() -> Result<String> {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").context("finding a free port")?;
    Ok(socket.local_addr()?.port().to_string())
}

/// Its table: bytes, sent, acknowledged, total, time, MB/s, µs for one way, ways per µs.
fn row(text: &str, message_bytes: u32) -> Option<Row> {
    let line = text.lines().last()?;
    let cells: Vec<&str> = line.split_whitespace().collect();
    let one_way_us: f64 = cells.get(6)?.parse().ok()?;
    let rounds: f64 = ROUNDS.parse().ok()?;
    let rtt_ns = one_way_us * 2e3;
    let mut row = Row::default();
    row.add("messages", rounds);
    row.add("bytes", rounds * f64::from(message_bytes));
    row.add("elapsed_s", rounds * rtt_ns / 1e9);
    row.add("message_rate_hz", 1e9 / rtt_ns);
    row.add("goodput_bps", 8e9 * f64::from(message_bytes) / rtt_ns);
    row.add("rtt_samples", rounds);
    // A mean: the program keeps no single times.
    row.add("rtt_ns_p50", rtt_ns);
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_table_is_read() {
        let text = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n\
                    64      10k     =10k     1.2m        0.20s      6.40      10.00       0.10\n";
        assert_eq!(row(text, 64).unwrap().number("rtt_ns_p50"), 20_000.0);
    }
}
