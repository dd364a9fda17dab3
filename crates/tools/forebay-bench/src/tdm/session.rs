//! One session of one scheme: a receiver and its senders, real processes with clocks of their own.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use forebay_emu::rng::mix;
use serde_json::{Value, json};

use super::ground::Ground;
use super::{Options, left_over};
use crate::running::Running;

/// What a session may take beyond its sending.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes around a datagram as the port's queue counts them: Ethernet's header, IPv4, UDP.
const WIRE_OVERHEAD_BYTES: u32 = 42;
/// A window where none is given, for the number of them.
const WINDOW: Duration = Duration::from_millis(10);

/// The schedule of those that share the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// All at once.
    Incast,
    /// In turns, flat out.
    Slots,
    /// In turns, paced.
    SlotsPaced,
    /// By grants.
    Credit,
}

impl Scheme {
    /// Its name, as for `forebay tdm receive --mode`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Incast => "incast",
            Self::Slots => "slots",
            Self::SlotsPaced => "slots-paced",
            Self::Credit => "credit",
        }
    }
}

/// The JSON object of a process, when it has ended.
fn json(mut process: Running, what: &str, until: Instant) -> Result<Value> {
    while process.try_wait()?.is_none() {
        if Instant::now() > until {
            bail!("the {what} did not end within {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let stdout = process.stdout.take().context("its output")?;
    let line = BufReader::new(stdout).lines().next().transpose()?;
    let Some(line) = line else {
        let stderr = process.stderr.take().context("its errors")?;
        let told: Vec<String> = BufReader::new(stderr)
            .lines()
            .map_while(Result::ok)
            .collect();
        bail!("the {what} said nothing: {}", told.join("; "));
    };
    serde_json::from_str(&line).with_context(|| format!("reading what the {what} said: {line}"))
}

/// What a session's receiver keeps of it in files.
#[derive(Clone, Debug)]
pub(crate) enum Kept {
    /// Nothing: payloads are compared with the test stream.
    Nothing,
    /// The same, and a row of each window in this Parquet file.
    Windows(PathBuf),
    /// All payloads and a line for each packet, in this directory.
    Packets(PathBuf),
}

/// Runs one session of a scheme, with the clocks of `round`; gives its scheme's object.
pub(super) fn run(
    options: &Options,
    ground: &Ground,
    (scheme, round): (Scheme, u32),
    kept: &Kept,
) -> Result<Value> {
    let before = ground.port_drops()?;
    let address = format!("{}:{}", ground.address(), forebay_run_tdm::PORT);
    let mut receiver = ground.at_receiver(&options.program);
    let turn = options.window.unwrap_or(WINDOW) * u32::from(options.senders);
    let windows = (options.duration.as_secs_f64() / turn.as_secs_f64())
        .ceil()
        .max(1.0);
    receiver.args(["tdm", "receive", "--format", "json", "--wait", "20s"]);
    match kept {
        Kept::Nothing => receiver.arg("--verify"),
        Kept::Windows(path) => receiver.args(["--verify", "--rows"]).arg(path),
        Kept::Packets(directory) => receiver
            .args(["--csv", "per-packet", "--output"])
            .arg(directory),
    };
    // Its senders are in namespaces of this host's, or on its loopback.
    receiver.args(["--bind", &address, "--no-key", "--mode", scheme.name()]);
    receiver.args(["--senders", &options.senders.to_string()]);
    receiver.args(["--link-rate", &options.port_rate_bps.to_string()]);
    receiver.args(["--port-buffer", &options.port_buffer_bytes.to_string()]);
    receiver.args(["--wire-overhead", &WIRE_OVERHEAD_BYTES.to_string()]);
    receiver.args(["--windows", &windows.to_string()]);
    for (flag, time) in [
        ("--window", options.window),
        ("--dead-time", options.dead_time),
    ] {
        if let Some(time) = time {
            receiver.args([flag, &format!("{}us", time.as_nanos() as f64 / 1e3)]);
        }
    }
    let receiver = Running::start(&mut receiver, Stdio::piped())?;
    let mut senders = Vec::new();
    for (number, mut sender) in ground.at_senders(&options.program).into_iter().enumerate() {
        sender.args(["tdm", "send", &address, "--format", "json", "--wait", "20s"]);
        sender.args(["--id", &format!("sender{number}")]);
        if options.sender_queue.is_some() {
            sender.args(["--launch-times", "kept"]);
        }
        if let Some(seed) = options.clock_seed {
            let (offset_ns, skew_ppb) = clock(seed, round, number as u64);
            sender.args(["--emulate-clock", &format!("{offset_ns},{skew_ppb}")]);
        }
        senders.push(Running::start(&mut sender, Stdio::piped())?);
    }
    let until = Instant::now() + options.duration * 4 + LIMIT;
    let mut truth = 0;
    let mut told = Vec::new();
    for (number, sender) in senders.into_iter().enumerate() {
        let said = json(sender, &format!("sender {number}"), until)?;
        truth = truth.max(
            said["clock"]["same_host_error_ns_p99"]
                .as_u64()
                .unwrap_or(u64::MAX),
        );
        told.push(said);
    }
    let mut received = json(receiver, "receiver", until)?;
    if received["end"] != "ended" || received["wrong_payloads"] != 0 {
        bail!("a session of {} ended badly: {received}", scheme.name());
    }
    let books = std::iter::once(&received).chain(&told).map(left_over);
    let books: u64 = books.sum();
    let mut session = received["schemes"][0].take();
    let of_windows = session["residual_items"].as_u64().unwrap_or(1);
    session["residual_items"] = json!(of_windows + books);
    session["clock_bound_ns_p99"] = session["clock_error_ns_p99"].take();
    // Against the truth, which one host knows: its clocks are the same, but for what was added to them.
    session["clock_error_ns_p99"] = json!(truth);
    session["port_drops"] = json!(ground.port_drops()? - before);
    session["goodput_bps"] = json!(session["goodput_bps"].as_f64().unwrap_or(0.0));
    let sum = |key: &str| {
        told.iter()
            .filter_map(|said| said[key].as_u64())
            .sum::<u64>()
    };
    let kept = |said: &&Value| said["launches"]["kept"] == true;
    session["launches_kept"] = json!(told.iter().filter(kept).count());
    for key in ["windows", "late", "preempted", "cut", "carried"] {
        session[key] = json!(sum(key));
    }
    Ok(session)
}

/// Offset and skew of one sender's clock: up to 20 ms and 100 ppm either way.
fn clock(seed: u64, round: u32, sender: u64) -> (i64, i64) {
    let drawn = mix(seed ^ mix(u64::from(round) << 32 | sender));
    let within = |drawn: u64, most: i64| (drawn % (2 * most as u64 + 1)) as i64 - most;
    (
        within(drawn >> 32, 20_000_000),
        within(drawn & 0xffff_ffff, 100_000),
    )
}
