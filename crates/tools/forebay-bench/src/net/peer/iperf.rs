//! `iperf3`: what TCP gives with writes of a message's size.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::super::child::Says;
use super::super::ground::{Ground, Side};
use forebay_report::rows::Row;

const PORT: &str = "5201";
const SLACK: Duration = Duration::from_secs(10);

/// Runs it once; it takes whole seconds only.
pub(super) fn measure(message_bytes: u32, duration: Duration, ground: &Ground<'_>) -> Result<Row> {
    let address = ground.own_address().to_string();
    let stop = ground.stop();
    let seconds = duration.as_secs_f64().ceil().max(1.0);
    let mut server = Command::new("iperf3");
    server.args(["-s", "-1", "--forceflush", "-B", &address, "-p", PORT]);
    let mut server = ground.start("iperf3 -s", server, Side::Listener, Says::OnStdout)?;
    server.line(SLACK, stop, |line| {
        line.starts_with("Server listening").then_some(())
    })?;
    let mut client = Command::new("iperf3");
    client.args(["-c", &address, "-p", PORT, "-J"]);
    client.args(["-l", &message_bytes.to_string(), "-t", &seconds.to_string()]);
    let limit = Duration::from_secs_f64(seconds) + SLACK;
    let client = ground.start("iperf3 -c", client, Side::Sender, Says::OnStderr)?;
    let client = client.end(limit, stop)?;
    if client.code != Some(0) {
        bail!("{}", client.complaint("iperf3"));
    }
    server.end(SLACK, stop)?;
    let told: Value = serde_json::from_str(&client.stdout).context("reading iperf3's result")?;
    row(&told["end"], message_bytes).context("iperf3 gave no result")
}

fn row(end: &Value, message_bytes: u32) -> Option<Row> {
    let received = &end["sum_received"];
    let bps = received["bits_per_second"].as_f64()?;
    let bytes = received["bytes"].as_f64()?;
    let elapsed_s = received["seconds"].as_f64()?;
    let cpu = &end["cpu_utilization_percent"];
    let cpu_s = |side: &str| cpu[side].as_f64().unwrap_or_default() / 100.0 * elapsed_s;
    let mut row = Row::default();
    row.add("messages", (bytes / f64::from(message_bytes)).floor());
    row.add("bytes", bytes);
    row.add("elapsed_s", elapsed_s);
    row.add("message_rate_hz", bps / 8.0 / f64::from(message_bytes));
    row.add("goodput_bps", bps);
    row.add("cpu_sender_s", cpu_s("host_total"));
    row.add("cpu_receiver_s", cpu_s("remote_total"));
    Some(row)
}
