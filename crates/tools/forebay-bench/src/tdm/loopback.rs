//! One sender to one receiver over loopback, flat out: two processes of the program.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use forebay_sys::socket::{UdpOptions, bind_udp};
use serde_json::Value;

use super::left_over;
use crate::running::Running;

/// Bytes of a datagram.
pub(crate) const DATAGRAM_BYTES: usize = 1472;
/// Of them, bytes of payload.
const PAYLOAD_BYTES: usize = DATAGRAM_BYTES - 56;
/// Length of a window, in seconds.
const WINDOW_S: f64 = 0.1;

/// What came of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OneSender {
    /// Bits/s of datagrams that came.
    pub(crate) rate_bps: f64,
    /// Datagrams that were sent.
    pub(crate) sent: f64,
    /// Datagrams that came.
    pub(crate) received: f64,
    /// The part that was lost, in the receiver's socket.
    pub(crate) lost_part: f64,
    /// CPU time of the sender's process, its preparations included, in s.
    pub(crate) sender_cpu_s: f64,
    /// The same of the receiver's.
    pub(crate) receiver_cpu_s: f64,
    /// Datagrams that are neither received nor lost.
    pub(crate) residual_items: f64,
}

impl OneSender {
    /// Bytes of datagrams that came.
    pub(crate) const fn bytes(&self) -> f64 {
        self.received * DATAGRAM_BYTES as f64
    }
}

/// Sends for so many seconds; `plain`: each datagram by a call of its own at both ends, without the kernel's cutting and merging.
pub(crate) fn one_sender(program: &Path, seconds: f64, plain: bool) -> Result<OneSender> {
    let free = bind_udp((Ipv4Addr::LOCALHOST, 0).into(), &UdpOptions::default())?;
    let address = free.address.to_string();
    drop(free);
    let windows = (seconds / WINDOW_S).ceil().to_string();
    let start = |arguments: &[&str]| -> Result<Running> {
        let mut command = Command::new(program);
        command
            .arg("tdm")
            .args(arguments)
            .args(["--format", "json"]);
        if plain {
            let is_receiver = arguments.first() == Some(&"receive");
            command.arg(if is_receiver { "--no-gro" } else { "--plain" });
        }
        Running::start(&mut command, Stdio::null())
    };
    let receiver = start(&[
        "receive",
        "--bind",
        &address,
        "--senders",
        "1",
        "--mode",
        "slots",
        "--link-rate",
        "100G",
        "--port-buffer",
        "16M",
        "--window",
        "100ms",
        "--dead-time",
        "1us",
        "--windows",
        &windows,
    ])?;
    let sender = start(&["send", &address, "--wait", "10s"])?;
    let told = |mut process: Running, what: &str| -> Result<Value> {
        let stdout = process.stdout.take().context("its output")?;
        let told = serde_json::from_reader(stdout);
        process
            .wait()
            .with_context(|| format!("waiting for the {what}"))?;
        told.with_context(|| format!("reading what the {what} said"))
    };
    let sent = told(sender, "sender")?;
    let received = told(receiver, "receiver")?;
    let scheme = &received["schemes"][0];
    let number = |key: &str| scheme[key].as_f64().unwrap_or(0.0);
    let left = number("residual_items") + (left_over(&received) + left_over(&sent)) as f64;
    if received["end"] != "ended" || left != 0.0 {
        bail!("the session did not end as it should: {received}");
    }
    Ok(OneSender {
        rate_bps: number("goodput_bps") * DATAGRAM_BYTES as f64 / PAYLOAD_BYTES as f64,
        sent: number("sent"),
        received: number("received"),
        lost_part: 1.0 - number("received") / number("sent").max(1.0),
        sender_cpu_s: cpu_s(&sent),
        receiver_cpu_s: cpu_s(&received),
        residual_items: left,
    })
}

/// CPU time by a record, in s.
fn cpu_s(record: &Value) -> f64 {
    let stages = record["cpu_s"].as_object();
    stages.map_or(f64::NAN, |stages| {
        stages.values().filter_map(Value::as_f64).sum()
    })
}
