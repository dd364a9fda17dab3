//! The whole chain of link readout on one host: card, to-host and subscriber as three processes, and what they say held against each other.

mod words;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use forebay_ledger::Closed;
use forebay_run::Stop;
use forebay_run::chain::{self, Chain, Kind, MemberEnd};
use forebay_run::child::Ended;
use forebay_run::error::RunError;
use forebay_run_felix::config::SwrodFile;
use forebay_run_felix::tohost::ToHostFile;
use forebay_run_net::Address;
use serde::Serialize;
use serde_json::Value;

use crate::card::CardPlan;

/// Longest path of a socket, in bytes (`sun_path` of Linux without its end).
const SOCKET_PATH_MAX: usize = 107;

/// What the chain does.
#[derive(Clone, Debug)]
pub struct DemoPlan {
    /// Links in FULL mode, 1 to 24.
    pub links: u16,
    /// DMA buffers, 1 to 8; links take turns in them.
    pub dma_buffers: u16,
    /// Triggers asked for in a second of the card's time.
    pub trigger_hz: u64,
    /// Size of a chunk in bytes.
    pub chunk_bytes: u32,
    /// How long triggers come, in ms of the card's time.
    pub duration_ms: u64,
    /// Size of a block in bytes.
    pub block_bytes: u32,
    /// Where the first DMA buffer is published.
    pub backend: Address,
    /// How much slower than real time the card lives.
    pub time_dilation: u64,
    /// Everything random follows from it.
    pub seed: u64,
    /// Directory of the files and records.
    pub out: PathBuf,
    /// Where Prometheus is answered by the card; by to-host and the subscriber at the next two ports.
    pub metrics: Option<SocketAddr>,
    /// The fault switch of the tests, and the process of [`hops::DEMO_TOHOST`](crate::hops::DEMO_TOHOST) that it is for.
    pub leak: Option<(String, String)>,
}

/// Which of the ports of metrics a process has.
#[derive(Clone, Copy)]
enum At {
    Card,
    ToHost,
    Swrod,
}

impl DemoPlan {
    fn metrics_at(&self, at: At) -> Option<SocketAddr> {
        let first = self.metrics?;
        let port = first.port().checked_add(at as u16)?;
        Some(SocketAddr::new(first.ip(), port))
    }

    /// A line of a file.
    fn metrics_line(&self, at: At) -> String {
        let address = self.metrics_at(at);
        address.map_or_else(String::new, |address| format!("metrics = \"{address}\"\n"))
    }
}

/// What the chain did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DemoSummary {
    /// Triggers that front ends got.
    pub triggers: u64,
    /// Triggers that BUSY held back since a link could not carry more: they never were, and are no drops.
    pub held_by_link: u64,
    /// Triggers that BUSY held back since a DMA buffer was full.
    pub held_by_dma: u64,
    /// Triggers times links.
    pub chunks_expected: u64,
    /// Chunks that to-host has published.
    pub chunks_published: u64,
    /// Chunks that lost their end in the card, or on the way.
    pub chunks_truncated: u64,
    /// Chunks that the subscriber got.
    pub chunks_received: u64,
    /// Bytes of them.
    pub bytes_received: u64,
    /// Chunks whose payload the subscriber found wrong.
    pub payload_mismatches: u64,
    /// Chunks lost, by place and reason.
    pub drops: BTreeMap<String, u64>,
    /// Chunks that were still somewhere inside when the chain ended.
    pub held: u64,
    /// What all books leave over, and what they still say to be inside.
    #[serde(flatten)]
    pub books: Closed,
    /// Where something is left over.
    pub residuals: BTreeMap<String, i128>,
    /// Triggers per second of the card's time.
    pub trigger_rate_hz: f64,
    /// Chunks received per second of real time, while triggers came.
    pub chunk_rate_hz: f64,
    /// Processes.
    pub pids: BTreeMap<String, u32>,
    /// How much slower than real time the card lived.
    pub time_dilation: u64,
    /// The budget of a link held triggers back.
    pub link_limited: bool,
    /// This host was too slow for the card's time, or held triggers back by a full DMA buffer.
    pub host_limited: bool,
    /// Share of the time in which BUSY was up.
    pub busy_fraction: f64,
    /// Trigger to subscriber, percentiles in ns; none where it was not measured.
    pub latency_ns: Option<Value>,
    /// CPU time by process, in s.
    pub cpu_s: BTreeMap<String, f64>,
    /// What went wrong with a process.
    pub failed: Vec<String>,
}

impl DemoSummary {
    /// Whether the books close, and every process ended as it should.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.books.is_closed() && self.failed.is_empty()
    }
}

/// The chain's file.
fn chain_file(plan: &DemoPlan, addresses: &[Address]) -> String {
    let addresses: Vec<String> = addresses.iter().map(quoted).collect();
    let mut text = format!(
        "# Written by `forebay demo tohost`; `forebay run` takes it.\n[chain]\ndirectory = {directory}\n
[members.card]\nkind = \"card\"\n
[members.card.card]\nsocket = {socket}\n{card_metrics}trigger_times = {times}\nblock_bytes = {block_bytes}\ndma_buffers = {buffers}\nseed = {seed}\ntime_dilation = {dilation}\n
[members.card.ttc]\nrate_hz = {rate}\nduration_ms = {duration}\n
[members.card.chunks]\nbytes = {chunk}\n
[members.tohost]\nkind = \"tohost\"\n
[members.tohost.tohost]\n{tohost_metrics}subscribers_min = 1\n
[[members.tohost.devices]]\nsocket = {socket}\naddress = {backend}\n
[members.swrod]\nkind = \"swrod\"\n
[members.swrod.swrod]\naddresses = [{addresses}]\n{swrod_metrics}trigger_times = {times}\n",
        directory = quoted(&plan.out),
        socket = quoted(&socket(plan)),
        card_metrics = plan.metrics_line(At::Card),
        times = quoted(&times(plan)),
        block_bytes = plan.block_bytes,
        buffers = plan.dma_buffers,
        seed = plan.seed,
        dilation = plan.time_dilation,
        rate = plan.trigger_hz,
        duration = plan.duration_ms,
        chunk = plan.chunk_bytes,
        tohost_metrics = plan.metrics_line(At::ToHost),
        backend = quoted(&plan.backend),
        addresses = addresses.join(", "),
        swrod_metrics = plan.metrics_line(At::Swrod),
    );
    for buffer in 0..plan.dma_buffers {
        let links = (0..plan.links).filter(|link| link % plan.dma_buffers == buffer);
        let links: Vec<String> = links.map(|link| link.to_string()).collect();
        if !links.is_empty() {
            text += &format!(
                "\n[[members.card.links]]\nlinks = [{}]\ndma_buffer = {buffer}\n",
                links.join(", ")
            );
        }
    }
    text
}

fn socket(plan: &DemoPlan) -> PathBuf {
    plan.out.join("card0.sock")
}

fn times(plan: &DemoPlan) -> PathBuf {
    plan.out.join("trigger-times")
}

trait Text {
    fn text(&self) -> String;
}

impl Text for PathBuf {
    fn text(&self) -> String {
        self.display().to_string()
    }
}

impl Text for Address {
    fn text(&self) -> String {
        self.to_string()
    }
}

/// As a text of TOML.
fn quoted(value: &impl Text) -> String {
    toml::Value::from(value.text()).to_string()
}

/// Runs the chain until its triggers have come, or `stop` says so. `tell` is told which member it ends for.
///
/// # Errors
/// Files cannot be written, an address is one too many, or a process cannot be started.
pub fn run(
    plan: &DemoPlan,
    stop: &Stop,
    tell: impl FnMut(&str),
) -> Result<DemoSummary, crate::EmuError> {
    fs::create_dir_all(&plan.out).map_err(RunError::file("creating directory", &plan.out))?;
    let plan = &DemoPlan {
        out: plan
            .out
            .canonicalize()
            .map_err(RunError::file("finding", &plan.out))?,
        ..plan.clone()
    };
    let addresses = addresses(plan)?;
    if socket(plan).as_os_str().len() > SOCKET_PATH_MAX {
        return Err(RunError::File {
            what: "making the card's socket in",
            path: plan.out.clone(),
            source: std::io::Error::new(
                std::io::ErrorKind::InvalidFilename,
                "the path is too long for a socket; give a shorter --out",
            ),
        }
        .into());
    }
    let file = plan.out.join("chain.toml");
    {
        // The file of a chain at work stays as it is.
        let _lock = chain::lock(&plan.out)?;
        fs::write(&file, chain_file(plan, &addresses)).map_err(RunError::file("writing", &file))?;
    }
    let kinds = [
        Kind::of::<CardPlan>(),
        Kind::of::<ToHostFile>(),
        Kind::of::<SwrodFile>(),
    ];
    let chain = Chain {
        leak: plan.leak.clone(),
        ..Chain::load(&file, &kinds)?
    };
    Ok(judge(plan, &chain::run(&chain, stop, tell)?))
}

/// Where the DMA buffers are published.
fn addresses(plan: &DemoPlan) -> Result<Vec<Address>, crate::EmuError> {
    let any_port = matches!(&plan.backend, Address::Tcp { port: 0, .. })
        || matches!(&plan.backend, Address::Fabric { place, .. } if place.ends_with(":0"));
    if any_port {
        return Err(crate::EmuError::AnyPort {
            address: plan.backend.to_string(),
        });
    }
    let nth = |n| match n {
        0 => Ok(plan.backend.clone()),
        n => Ok(plan.backend.nth(n)?),
    };
    (0..plan.dma_buffers).map(nth).collect()
}

/// Holds what the processes say against each other.
fn judge(plan: &DemoPlan, members: &[MemberEnd]) -> DemoSummary {
    let all: Vec<&Ended> = members.iter().map(|one| &one.ended).collect();
    let [card, tohost, swrod] = all[..] else {
        unreachable!("its file has three members")
    };
    let mut residuals = between(card, tohost, swrod);
    let mut failed = Vec::new();
    for MemberEnd {
        ended, failed: why, ..
    } in members
    {
        failed.extend(why.clone());
        for unit in ["items", "bytes"] {
            let own = ended.number(&format!("/residual_{unit}"));
            residuals.insert(format!("{}, {unit}", ended.name), own.into());
        }
    }
    let expected = card.number("/triggers") * u64::from(plan.links);
    let made = card.number("/chunks");
    let missing = i128::from(expected) - i128::from(made);
    if card.said.is_some() {
        residuals.insert("triggers to chunks".into(), missing);
    }
    let residual = |bytes: bool| -> u64 {
        let of_unit = residuals
            .iter()
            .filter(|(name, _)| name.ends_with("bytes") == bytes);
        let sum: u128 = of_unit.map(|(_, rest)| rest.unsigned_abs()).sum();
        u64::try_from(sum).unwrap_or(u64::MAX)
    };
    let seconds = card.real("/trigger_time_s") * plan.time_dilation as f64;
    let received = swrod.number("/chunks");
    DemoSummary {
        triggers: card.number("/triggers"),
        held_by_link: card.number("/held_by_link"),
        held_by_dma: card.number("/held_by_dma"),
        chunks_expected: expected,
        chunks_published: tohost.number("/chunks_published"),
        chunks_truncated: card.number("/chunks_truncated"),
        chunks_received: received,
        bytes_received: swrod.number("/bytes"),
        payload_mismatches: swrod.counts("/bad_payload").iter().map(|(_, n)| n).sum(),
        held: card.number("/held"),
        books: Closed {
            residual_items: residual(false),
            residual_bytes: residual(true),
            left_items: all.iter().map(|ended| ended.number("/left_items")).sum(),
            left_bytes: all.iter().map(|ended| ended.number("/left_bytes")).sum(),
        },
        drops: drops(card, tohost),
        trigger_rate_hz: card.real("/trigger_rate_hz"),
        chunk_rate_hz: if seconds > 0.0 {
            received as f64 / seconds
        } else {
            0.0
        },
        pids: of_all(&all, |ended| ended.pid),
        time_dilation: plan.time_dilation,
        link_limited: card.number("/held_by_link") > 0,
        host_limited: card.value("/host_limited") == Some(&Value::Bool(true))
            || card.number("/held_by_dma") > 0,
        busy_fraction: card.real("/busy_fraction"),
        latency_ns: swrod.value("/latency_ns").cloned(),
        cpu_s: of_all(&all, |ended| ended.real(&format!("/cpu_s/{}", ended.name))),
        failed,
        residuals: residuals
            .into_iter()
            .filter(|(_, rest)| *rest != 0)
            .collect(),
    }
}

fn of_all<T>(all: &[&Ended], of: impl Fn(&Ended) -> T) -> BTreeMap<String, T> {
    all.iter()
        .map(|ended| (ended.name.clone(), of(ended)))
        .collect()
}

/// The sum of a field over a list.
fn sum(ended: &Ended, list: &str, field: &str) -> u64 {
    let all = ended.value(list).and_then(Value::as_array);
    let values = all.into_iter().flatten();
    values.filter_map(|one| one.pointer(field)?.as_u64()).sum()
}

/// What left one process and did not come to the next one, and is not named there either.
fn between(card: &Ended, tohost: &Ended, swrod: &Ended) -> BTreeMap<String, i128> {
    let mut residuals = BTreeMap::new();
    let mut link = |name: &str, from: &[u64], to: &[u64]| {
        let sum = |all: &[u64]| all.iter().map(|one| i128::from(*one)).sum::<i128>();
        residuals.insert(name.to_owned(), sum(from) - sum(to));
    };
    // A process that was killed has said nothing, and nothing can be held against it.
    let have_said = |one: &Ended, other: &Ended| one.said.is_some() && other.said.is_some();
    if have_said(card, tohost) {
        let unread = sum(card, "/dma", "/blocks_unread");
        let shown = sum(card, "/dma", "/blocks");
        link(
            "card to tohost, blocks",
            &[shown],
            &[tohost.number("/blocks"), unread],
        );
        if unread == 0 {
            // Both sides had the same blocks, so they had the same chunks.
            let unfinished = sum(tohost, "/buffers", "/damage/unfinished");
            link(
                "card to tohost, chunks",
                &[card.number("/chunks_out"), unfinished],
                &[tohost.number("/chunks")],
            );
            link(
                "card to tohost, bytes",
                &[card.number("/chunk_bytes_out")],
                &[tohost.number("/chunk_bytes")],
            );
        }
    }
    if have_said(tohost, swrod) {
        let of_publishers = |field: &str| sum(tohost, "/buffers", &format!("/publisher/{field}"));
        link(
            "tohost to swrod, chunks",
            &[of_publishers("messages")],
            &[of_publishers("missing_at_peers"), swrod.number("/chunks")],
        );
        link(
            "tohost to swrod, bytes",
            &[of_publishers("bytes")],
            &[
                of_publishers("missing_bytes_at_peers"),
                swrod.number("/bytes"),
            ],
        );
    }
    residuals
}

/// Chunks lost, by place and reason.
fn drops(card: &Ended, tohost: &Ended) -> BTreeMap<String, u64> {
    let mut drops = BTreeMap::new();
    for (reason, count) in card.counts("/dropped") {
        drops.insert(format!("{}.{reason}", card.name), count);
    }
    let lost = tohost.value("/drops").and_then(Value::as_object);
    for (name, lost) in lost.into_iter().flatten() {
        let items = lost["items"].as_u64().unwrap_or(0);
        let reason: Vec<&str> = name.split('.').take(2).collect();
        let name = format!("{}.{}", tohost.name, reason.join("."));
        *drops.entry(name).or_default() += items;
    }
    let missing = sum(tohost, "/buffers", "/publisher/missing_at_peers");
    if missing > 0 {
        drops.insert("link.missing".into(), missing);
    }
    drops
}
