//! The plan of one run: everything a stage must know, fixed before the first process starts.

mod fit;
pub(crate) mod stages;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use forebay_evb::Completion;
use forebay_evb::Config as BuilderConfig;
use forebay_host::doctor::Needs;
use forebay_ring::RingSetSpec;
pub use forebay_sink::{FilePlan, Io, MoverLimit, Stall, TcpPlan};
use forebay_wire::subevent::TriggerBits;
use serde::{Deserialize, Serialize};

use crate::presets;
pub use fit::QueueTooSmall;
pub use stages::{BuilderPlan, ElinkSettings, FullPolicy, ReceiverPlan};

/// How datagrams of one port are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKey {
    /// Everything that comes is this source's.
    Port,
    /// By the address in the first sub-event's id.
    SubEventId(u32),
    /// By the sender's address.
    Sender(SocketAddr),
    /// The E-link of this fid: chunks that are subscribed to, and no datagrams.
    Elink(u64),
}

/// One source of sub-events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePlan {
    /// Its name in accounts and reports.
    pub name: String,
    /// Index of its port in [`Plan::ports`]; 0 for E-links, which have none.
    pub port: usize,
    /// What tells it from others on that port.
    pub key: SourceKey,
    /// Size of its queue in bytes, a power of two of at least 64 KiB.
    pub ring_bytes: u64,
}

/// Where built events go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SinkKind {
    /// Counted and forgotten.
    Null,
    /// HLD files in a directory.
    File(FilePlan),
    /// Another `forebay` that writes them.
    Tcp(TcpPlan),
}

/// What happens when a sink cannot keep up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backpressure {
    /// Hold the builder for at most so many ms, then drop events for this sink until it has room again.
    Block {
        /// The limit.
        limit_ms: u64,
    },
    /// Drop at once.
    Drop,
}

/// One sink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkPlan {
    /// Its name in accounts and reports.
    pub name: String,
    /// What it is.
    pub kind: SinkKind,
    /// Size of its queue in bytes, a power of two.
    pub queue_bytes: u64,
    /// What happens when the queue is full.
    pub backpressure: Backpressure,
}

/// A capture in the place of sockets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayPlan {
    /// The capture, pcap or pcapng.
    pub file: PathBuf,
    /// Speed in thousandths of that of the capture; none: as fast as it goes.
    pub speed_milli: Option<u64>,
    /// Whether datagrams to any port belong to the one port of the plan.
    pub any_port: bool,
}

/// Chunks of E-links in the place of datagrams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElinksPlan {
    /// Where to-host publishes, as messaging writes addresses.
    pub publishers: Vec<String>,
    /// How their chunks are read.
    #[serde(flatten)]
    pub said: ElinkSettings,
}

/// The whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the run.
    pub run_id: String,
    /// Directory of the run's record and ledger.
    pub run_dir: PathBuf,
    /// Addresses to receive on.
    pub ports: Vec<SocketAddr>,
    /// The sources.
    pub sources: Vec<SourcePlan>,
    /// The receiver.
    pub receiver: ReceiverPlan,
    /// The builder.
    pub builder: BuilderPlan,
    /// The sinks.
    pub sinks: Vec<SinkPlan>,
    /// The emulator, when it runs in the same books.
    pub generator: Option<forebay_run_hades::GeneratorPlan>,
    /// `HOP:N`: lose N items there uncounted, to test the books.
    pub leak: Option<String>,
    /// Least run number of a new file, so that no older file in the sinks' directories has the same; the supervisor finds it.
    #[serde(default)]
    pub run_min: u32,
    /// `SINK:FILE`: this sink writes nothing while that file is there, to test that it stalls nothing else.
    #[serde(default)]
    pub stall: Option<String>,
    /// The capture that datagrams come from instead of sockets.
    pub replay: Option<ReplayPlan>,
    /// Chunks of E-links that come instead of datagrams.
    #[serde(default)]
    pub elinks: Option<ElinksPlan>,
}

impl Plan {
    /// Receive buffer asked of the kernel for each socket, in bytes.
    #[must_use]
    pub fn socket_buffer_bytes(&self) -> usize {
        let share = || presets::socket_buffer_bytes(self.ports.len());
        self.receiver.socket_buffer_bytes.unwrap_or_else(share)
    }

    /// Settings of the builder engine.
    #[must_use]
    pub fn builder_config(&self) -> BuilderConfig {
        let builder = &self.builder;
        let mut config = BuilderConfig::new(self.sources.len());
        config.completion = builder.completion;
        config.trigger_bits = TriggerBits::from_bits(builder.trigger_bits).unwrap_or_default();
        config.trigger_step = builder.trigger_step;
        config.check_tag = builder.check_tag;
        config.timeout_ns = builder.timeout_ms.saturating_mul(1_000_000);
        config.timeout_events = builder.timeout_events;
        config.window_events = builder.window_events;
        config.event_bytes_max = builder.event_bytes_max;
        config
    }

    /// What a test wants `sink` to wait for before its first block.
    #[must_use]
    pub fn stall_of(&self, sink: &str) -> Stall {
        let wanted = self.stall.as_deref().and_then(|text| text.split_once(':'));
        let own = wanted.filter(|(name, _)| *name == sink);
        Stall::of(own.map(|(_, file)| file.into()))
    }

    /// Where its sinks write files.
    pub fn file_directories(&self) -> impl Iterator<Item = &Path> {
        self.sinks.iter().filter_map(|sink| match &sink.kind {
            SinkKind::File(file) => Some(file.directory.as_path()),
            SinkKind::Null | SinkKind::Tcp(_) => None,
        })
    }

    /// Names of the sources.
    #[must_use]
    pub fn owners(&self) -> Vec<String> {
        self.sources
            .iter()
            .map(|source| source.name.clone())
            .collect()
    }

    /// Sources on `port`, in order.
    #[must_use]
    pub fn sources_of(&self, port: usize) -> Vec<usize> {
        let on_port = |source: &(usize, &SourcePlan)| source.1.port == port;
        self.sources
            .iter()
            .enumerate()
            .filter(on_port)
            .map(|(index, _)| index)
            .collect()
    }

    /// Owner of what cannot be charged to one source of a port: the source itself if it is alone.
    #[must_use]
    pub fn port_owner(&self, port: usize) -> String {
        match self.sources_of(port).as_slice() {
            [only] if self.sources[*only].key == SourceKey::Port => {
                self.sources[*only].name.clone()
            }
            _ => format!("port{}", self.ports[port].port()),
        }
    }

    /// Shape of the rings from receiver to builder.
    #[must_use]
    pub fn event_rings(&self) -> RingSetSpec {
        let capacities = self
            .sources
            .iter()
            .map(|source| source.ring_bytes)
            .collect();
        // A page that must be made in the middle of a receive costs time in the data path: the supervisor takes them meanwhile, or the stages as they map them.
        RingSetSpec {
            populate: self.receiver.populate_queues,
            ..RingSetSpec::new("forebay-sources", capacities, self.record_bytes_max())
        }
    }

    /// Longest record in a source's ring: a whole message behind whatever is unfinished.
    #[must_use]
    pub fn record_bytes_max(&self) -> u32 {
        self.receiver.message_bytes_max + 65_536
    }

    /// Shape of the queue of one sink.
    #[must_use]
    pub fn sink_ring(&self, sink: usize) -> RingSetSpec {
        let plan = &self.sinks[sink];
        let longest = u32::try_from(self.sink_record_bytes_max(sink)).unwrap_or(u32::MAX);
        RingSetSpec::new(
            format!("forebay-{}", plan.name),
            vec![plan.queue_bytes],
            longest,
        )
    }

    /// Memory that the run takes, in bytes, by what it is for.
    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory {
            source_rings_bytes: self.sources.iter().map(|source| source.ring_bytes).sum(),
            sink_queues_bytes: self.sinks.iter().map(|sink| sink.queue_bytes).sum(),
            sink_pieces_bytes: self.sinks.iter().map(SinkPlan::pieces_bytes).sum(),
            socket_buffers_bytes: 2 * (self.socket_buffer_bytes() * self.ports.len()) as u64,
        }
    }

    /// Queues that stages populate before the run is ready, in bytes.
    #[must_use]
    pub fn populated_bytes(&self) -> u64 {
        u64::from(self.receiver.populate_queues) * self.memory().source_rings_bytes
    }

    /// What this plan needs of its host; `memory_bytes` is the sum of its memory.
    #[must_use]
    pub fn host_needs(&self, memory_bytes: u64) -> Needs {
        Needs {
            sockets: self.ports.len() as u64,
            socket_buffer_bytes: self.socket_buffer_bytes() as u64,
            memory_bytes,
            message_bytes_max: self.receiver.message_bytes_max.into(),
            real_time: self.receiver.real_time.is_some() || self.builder.real_time.is_some(),
            remote: self.ports.iter().any(|port| !port.ip().is_loopback()),
        }
    }
}

/// Upper bounds of memory use by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Rings from receiver to builder.
    pub source_rings_bytes: u64,
    /// Queues of the sinks.
    pub sink_queues_bytes: u64,
    /// Pieces of files on their way past the page cache.
    pub sink_pieces_bytes: u64,
    /// Kernel memory for socket buffers, at most (the kernel counts whole buffers and doubles the size asked for).
    pub socket_buffers_bytes: u64,
}

// How long the parts of a run are waited for at its end.
/// Longest time that a sink which drops when it cannot keep up may hang at the end.
const SINK_LIMIT: Duration = Duration::from_secs(10);

impl SinkPlan {
    /// Memory that it can take beside its queue, in bytes.
    #[must_use]
    pub fn pieces_bytes(&self) -> u64 {
        match &self.kind {
            SinkKind::File(file) => file.pieces_bytes(self.queue_bytes),
            SinkKind::Null | SinkKind::Tcp(_) => 0,
        }
    }

    /// How long this sink may get on with nothing at the end before it is given up.
    #[must_use]
    pub fn end_limit(&self) -> Duration {
        match (&self.kind, self.backpressure) {
            (SinkKind::Null, _) => Duration::ZERO,
            // It gives up by itself, and names what it could not deliver.
            (SinkKind::Tcp(tcp), _) => SINK_LIMIT + 2 * Duration::from_millis(tcp.patience_ms),
            (SinkKind::File(_), Backpressure::Block { limit_ms }) => {
                Duration::from_millis(limit_ms)
            }
            (SinkKind::File(_), Backpressure::Drop) => SINK_LIMIT,
        }
    }

    /// How long this sink may hold the builder while its queue is full.
    #[must_use]
    pub fn hold_limit(&self) -> Duration {
        match (&self.kind, self.backpressure) {
            (SinkKind::Null, _) | (_, Backpressure::Drop) => Duration::ZERO,
            (_, Backpressure::Block { limit_ms }) => Duration::from_millis(limit_ms),
        }
    }
}

impl Plan {
    /// How long the sinks may keep the builder from its end while nothing gets on: they hold it together, and are given up
    /// one after the other.
    #[must_use]
    pub fn sinks_end_limit(&self) -> Duration {
        let hold = self.sinks.iter().map(SinkPlan::hold_limit).max();
        let ends = self.sinks.iter().map(SinkPlan::end_limit);
        ends.fold(hold.unwrap_or_default(), Duration::saturating_add)
    }
}

#[cfg(test)]
mod limits_tests {
    use super::*;

    #[test]
    fn sinks_hold_together_and_end_one_after_the_other() {
        let local = std::net::Ipv4Addr::LOCALHOST;
        let mut plan = presets::plan("test", std::path::Path::new("."), local.into(), 0, 1);
        let sink = |limit_ms| SinkPlan {
            backpressure: Backpressure::Block { limit_ms },
            ..presets::file_sink(".".into(), "te")
        };
        let tcp = presets::tcp_sink((local, 1).into());
        plan.sinks = vec![sink(90_000), sink(3_600_000), presets::null_sink(), tcp];
        let seconds = 3600 + (90 + 3600 + 10 + 2 * 10);
        assert_eq!(plan.sinks_end_limit(), Duration::from_secs(seconds));
    }
}
