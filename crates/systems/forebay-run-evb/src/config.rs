//! The configuration file of a chain: TOML in, a [`Plan`] out, or every mistake with its place and its remedy.
//!
//! Nothing is guessed: a key that is not declared in [`sections`] is refused, a value outside of its range too, and so
//! is what only disagrees with another key. The same declarations make `docs/CONFIGURATION.md`.
//!
//! Sizes are integers in the unit of their key (`queue_bytes = 4_194_304`): one way to write each thing.

mod elinks;
mod movers;
pub mod needs;
pub mod sections;
mod sinks;
mod sources;
mod stages;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use forebay_ledger::SchemaError;
use forebay_run::config::block::Block;
use forebay_run::config::mistake::Words;
use forebay_run::config::page::{self, Page};
use forebay_run::config::{ConfigError, Mistakes, Source};

use crate::books::Books;
use crate::plan::Plan;
use crate::presets;
use needs::{Memory, Need};

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

fn of_source(source: &Source, stamp: &str) -> Result<Chain, Mistakes> {
    let page = Page::new(source, &sections::SECTIONS);
    let chain = read(&page, stamp);
    page.conclude(chain)
}

fn read(page: &Page<'_>, stamp: &str) -> Option<Chain> {
    let table = page.parse()?;
    let root = table.get_ref();
    page.check_sections(root);
    let run = page.one(root, &sections::RUN);
    let receiver = page.one(root, &sections::RECEIVER);
    let builder = page.one(root, &sections::BUILDER);
    let source_blocks = page.many(root, &sections::SOURCES);
    let sink_blocks = page.many(root, &sections::SINKS);
    let run_dir = run
        .path("directory")
        .unwrap_or_else(|| "forebay-run".into());
    let sources = sources::read(&source_blocks, &receiver);
    if source_blocks.is_empty() && page::find(root, "sources").is_none() {
        page.note(0..0, no_sources());
    }
    let name = run.name("name").unwrap_or_else(|| "run".into());
    let run_id = format!("{name}-{stamp}");
    let mut plan = presets::plan(&run_id, &run_dir, Ipv4Addr::LOCALHOST.into(), 0, 0);
    plan.receiver = stages::receiver(&receiver, sources.ports.len());
    plan.builder = stages::builder(&builder);
    plan.sinks = sinks::read(&sink_blocks, &run_dir);
    plan.ports = sources.ports;
    plan.sources = sources.sources;
    let elinks = page.one(root, &sections::ELINKS);
    plan.elinks = elinks::plan(&plan, sources.publishers, &elinks, &receiver);
    sources::fill_queues(&mut plan.sources, &source_blocks, &receiver);
    stages::agree(&plan, &receiver, &builder, &sink_blocks);
    movers::agree(&plan, &name, &run, &builder, &sink_blocks);
    let chain = Chain {
        duration: run.integer("duration_s").map(Duration::from_secs),
        processes: run.choice("stages") != Some("threads"),
        metrics: run.socket("metrics"),
        memory_bytes_max: run.integer("memory_bytes_max"),
        plan,
    };
    check_memory(&chain, &run, &receiver);
    Some(chain)
}

/// The sum of the run's memory against its limit, and its names against the ledger's rules.
fn check_memory(chain: &Chain, run: &Block<'_, '_>, receiver: &Block<'_, '_>) {
    let memory = match Memory::of(&chain.plan) {
        Ok(memory) => memory,
        // It may follow from what was said already.
        Err(_) if !receiver.page.is_clean() => return,
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
