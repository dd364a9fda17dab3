//! The configuration file of a chain: TOML in, a [`Plan`] out, or every mistake with its place and its remedy.
//!
//! Nothing is guessed: a key that is not declared is refused, a value outside of its range too, and so
//! is what only disagrees with another key. The same declarations make `docs/CONFIGURATION.md`.
//!
//! Sizes are integers in the unit of their key (`queue_bytes = 4_194_304`): one way to write each thing.

mod elinks;
mod movers;
pub mod needs;
mod sinks;
mod sources;
mod stages;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_config::mistake::Words;
use forebay_config::{Block, ConfigError, ConfigFile, Document, Mistakes, Sections, Source};
use forebay_ledger::SchemaError;
use forebay_run::chain::{Joints, Member};
use forebay_settings::{Settings, choices, settings};

use crate::books::Books;
use crate::plan::{BuilderPlan, ElinkSettings, Plan, ReceiverPlan, SinkKind};
use crate::presets;
use needs::{Memory, Need};
pub use sinks::{IoWord, SinkSettings};
pub use sources::SourceSettings;

/// Sections of a chain file.
pub const SECTIONS: Sections = &[
    RunSettings::SECTION,
    ReceiverPlan::SECTION,
    SourceSettings::SECTION,
    ElinkSettings::SECTION,
    BuilderPlan::SECTION,
    SinkSettings::SECTION,
];

choices! {
    /// What stages run as.
    pub enum StagesWord {
        /// Each in a process of its own.
        Processes = "processes",
        /// As threads of one process.
        Threads = "threads",
    }
}

settings! {
    /// The run as a whole.
    pub struct RunSettings in [run] {
        /// First part of the run's name in ledger and record; a time stamp follows. With a tcp sink 42 characters at most.
        name: String = "run".into(),
        /// Where ledger and record lie, and files of sinks that name no other place. Made if it is not there.
        directory: PathBuf = "forebay-run".into(),
        /// Ends the run after so long.
        duration_s: Option<u64> [1..=31_536_000] => "until Ctrl-C or SIGTERM",
        /// Processes: a stage that crashes is started again and nothing is lost. Threads: one process, for debuggers and profilers.
        stages: StagesWord = StagesWord::Processes,
        /// Refuses to start when rings, queues, socket buffers and ledger together can take more.
        memory_bytes_max: Option<u64> [1 << 20..=1 << 44] => "no limit",
        /// Serves Prometheus' text format at GET /metrics there.
        metrics: Option<SocketAddr> => "not served",
    }
}

/// What a chain file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The run.
    pub plan: Plan,
    /// Ends the run after so long; none: by a signal.
    pub duration: Option<Duration>,
    /// Each stage in a process of its own.
    pub processes: bool,
    /// Where to serve Prometheus' text.
    pub metrics: Option<SocketAddr>,
    /// Most memory that the run may take, in bytes.
    pub memory_bytes_max: Option<u64>,
}

/// Reads a chain file, and keys of the command line as of [`Source::read`]; `stamp` becomes the end of the run's name.
///
/// # Errors
/// The file cannot be read, or has mistakes: all of them are told.
pub fn load(path: &Path, said: &[String], stamp: &str) -> Result<Chain, ConfigError> {
    Ok(of_source(&Source::read(path, said)?, stamp)?)
}

/// Reads the text of a chain file called `file`.
///
/// # Errors
/// All mistakes in it.
pub fn parse(file: &str, text: &str, stamp: &str) -> Result<Chain, Mistakes> {
    of_source(&Source::of_text(file, text), stamp)
}

/// Reads what a source says.
///
/// # Errors
/// All mistakes in it.
pub fn of_source(source: &Source, stamp: &str) -> Result<Chain, Mistakes> {
    let mut chain = forebay_config::read::<Chain>(source)?;
    chain.plan.run_id = format!("{}-{stamp}", chain.plan.run_id);
    Ok(chain)
}

impl ConfigFile for Chain {
    const SECTIONS: Sections = SECTIONS;

    /// The run's name has no stamp yet.
    fn of(document: &Document<'_>) -> Option<Self> {
        Some(read(document))
    }
}

impl Member for Chain {
    const KIND: &'static str = "evb";
    const DIRECTORY: &'static str = "run.directory";

    fn joints(&self) -> Joints {
        let publishers = self
            .plan
            .elinks
            .iter()
            .flat_map(|elinks| &elinks.publishers);
        let ports = self.plan.ports.iter().filter(|port| port.port() != 0);
        let movers = self.plan.sinks.iter().filter_map(|sink| match &sink.kind {
            SinkKind::Tcp(tcp) => Some(tcp.peer),
            SinkKind::File(_) | SinkKind::Null => None,
        });
        Joints {
            connects: publishers.cloned().collect(),
            delivers: movers.map(|peer| format!("tcp://{peer}")).collect(),
            listens: ports.map(|port| format!("udp://{port}")).collect(),
            may_listen: Vec::new(),
        }
    }
}

fn read(document: &Document<'_>) -> Chain {
    let (said, run) = document.one::<RunSettings>();
    let (mut receiver, receiver_block) = document.one::<ReceiverPlan>();
    let (builder, builder_block) = document.one::<BuilderPlan>();
    let (elinks, elinks_block) = document.one::<ElinkSettings>();
    let source_blocks = document.many::<SourceSettings>();
    let sink_blocks = document.many::<SinkSettings>();
    let sources = sources::read(&source_blocks, &receiver);
    if source_blocks.is_empty() && !document.has(SourceSettings::SECTION) {
        document.note(0..0, no_sources());
    }
    let run_dir = &said.directory;
    let mut plan = presets::plan(&said.name, run_dir, Ipv4Addr::LOCALHOST.into(), 0, 0);
    plan.builder = stages::builder(builder, &builder_block);
    plan.sinks = sinks::read(&sink_blocks, run_dir);
    plan.ports = sources.ports;
    plan.sources = sources.sources;
    let elinks = (elinks, &elinks_block);
    plan.elinks = elinks::plan(&plan, sources.publishers, elinks, &receiver_block);
    sources::fill_queues(&mut plan.sources, &source_blocks, &receiver);
    let share = presets::socket_buffer_bytes(plan.ports.len());
    receiver.socket_buffer_bytes.get_or_insert(share);
    plan.receiver = receiver;
    stages::agree(&plan, &receiver_block, &builder_block, &sink_blocks);
    movers::agree(&plan, &said.name, &run, &builder_block, &sink_blocks);
    let chain = Chain {
        duration: said.duration_s.map(Duration::from_secs),
        processes: said.stages == StagesWord::Processes,
        metrics: said.metrics,
        memory_bytes_max: said.memory_bytes_max,
        plan,
    };
    check_memory(&chain, &run, &receiver_block);
    chain
}

/// The sum of the run's memory against its limit, and its names against the ledger's rules.
fn check_memory(chain: &Chain, run: &Block<'_, '_>, receiver: &Block<'_, '_>) {
    let memory = match Memory::of(&chain.plan) {
        Ok(memory) => memory,
        // It may follow from what was said already.
        Err(_) if !receiver.document.is_clean() => return,
        Err(error) => return undeclarable(&error, receiver),
    };
    if let Err(Need {
        needed_bytes,
        limit_bytes: _,
    }) = memory.within(chain.memory_bytes_max)
    {
        run.complain(
            "memory_bytes_max",
            &format!("the run can take more: {memory}"),
            &format!("at least {needed_bytes} bytes"),
            "raise it, or give sources, sinks and sockets smaller queues",
        );
    }
}

fn undeclarable(error: &SchemaError, receiver: &Block<'_, '_>) {
    receiver.complain_whole(
        &format!("the ledger of this run cannot be made: {error}"),
        "every port and every name used once",
        "give sources and sinks names of their own, and ports that differ",
    );
}

fn no_sources() -> Words {
    Words {
        key: "sources".into(),
        wrong: "no source is named".into(),
        right: "one [[sources]] block or more".into(),
        remedy: "add [[sources]] with base_port = 50000 and count = 90".into(),
        ..Words::default()
    }
}

/// Whether the ledger of `plan` can be made, ports that are still open set to different numbers.
pub(crate) fn books_of(plan: &Plan) -> Result<Books, SchemaError> {
    let mut plan = plan.clone();
    let mut free = (1..=u16::MAX).filter({
        let taken: std::collections::HashSet<u16> =
            plan.ports.iter().map(SocketAddr::port).collect();
        move |port| !taken.contains(port)
    });
    for port in plan.ports.iter_mut().filter(|port| port.port() == 0) {
        port.set_port(free.next().unwrap_or(0));
    }
    Books::declare(&plan)
}
