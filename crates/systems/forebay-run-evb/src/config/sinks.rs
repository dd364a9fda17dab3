//! The `[[sinks]]` blocks.

use forebay_run::config::block::Block;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use forebay_settings::choices;

use crate::plan::{Backpressure, FilePlan, SinkKind, SinkPlan, TcpPlan};
use crate::presets;

choices! {
    /// What kind of sink it is.
    pub(super) enum SinkWord {
        /// HLD files here.
        File = "file",
        /// Nothing is kept.
        Null = "null",
        /// A mover writes files elsewhere.
        Tcp = "tcp",
    }
}

choices! {
    /// What happens when its queue is full.
    pub(super) enum FullWord {
        /// The builder waits.
        Block = "block",
        /// Events are dropped.
        Drop = "drop",
    }
}

/// Most sinks of a run.
const SINKS_MAX: usize = 16;
/// Keys that only files have.
const FILE_KEYS: [&str; 4] = ["directory", "prefix", "builder_number", "sync"];
/// Keys of files, here or at a remote mover.
const ROTATION_KEYS: [&str; 3] = ["file_bytes_max", "file_events_max", "file_s_max"];
/// Keys that only a remote mover has.
const TCP_KEYS: [&str; 2] = ["address", "patience_ms"];
/// Keys that only sinks with a queue have.
const QUEUE_KEYS: [&str; 3] = ["queue_bytes", "full", "block_ms_max"];

/// All sinks; files in the run's directory where the file names none.
pub(super) fn read(blocks: &[Block<'_, '_>], run_dir: &Path) -> Vec<SinkPlan> {
    if blocks.is_empty() {
        return vec![presets::file_sink(run_dir.to_path_buf(), "be")];
    }
    if let Some(block) = blocks.get(SINKS_MAX) {
        block.complain_whole(
            &format!("{} sinks are too many", blocks.len()),
            &format!("at most {SINKS_MAX} sinks"),
            "take some out",
        );
    }
    let mut kinds: HashMap<&str, usize> = HashMap::new();
    let mut sinks = Vec::new();
    for block in blocks {
        let Some(kind) = block.one_of::<SinkWord>("kind") else {
            if !block.has("kind") {
                let right = "kind = \"file\", \"null\" or \"tcp\"";
                block.complain_whole(
                    "it does not say what kind of sink it is",
                    right,
                    "add kind = \"file\"",
                );
            }
            continue;
        };
        let number = kinds.entry(kind.name()).or_default();
        *number += 1;
        let default_name = if *number == 1 {
            kind.name().to_owned()
        } else {
            format!("{}{number}", kind.name())
        };
        sinks.push(one(block, kind, default_name, run_dir));
    }
    refuse_twins(blocks, &sinks);
    sinks
}

fn one(block: &Block<'_, '_>, kind: SinkWord, default_name: String, run_dir: &Path) -> SinkPlan {
    let mut sink = match kind {
        SinkWord::Null => presets::null_sink(),
        SinkWord::Tcp => presets::tcp_sink(address(block)),
        SinkWord::File => presets::file_sink(run_dir.to_path_buf(), "be"),
    };
    sink.name = block.name("name").unwrap_or(default_name);
    let idle = |keys: &[&str], because| keys.iter().for_each(|key| block.idle(key, because));
    if kind != SinkWord::File {
        idle(&FILE_KEYS, "this sink writes no files here");
    }
    if kind != SinkWord::Tcp {
        idle(&TCP_KEYS, "this sink connects to nobody");
    }
    if kind == SinkWord::Null {
        idle(&ROTATION_KEYS, "this sink writes no files");
        idle(&QUEUE_KEYS, "a null sink takes everything at once");
        return sink;
    }
    sink.queue_bytes = block.integer("queue_bytes").unwrap_or(sink.queue_bytes);
    sink.backpressure = backpressure(block, sink.backpressure);
    match &mut sink.kind {
        SinkKind::Null => {}
        SinkKind::File(file) => read_file(block, file),
        SinkKind::Tcp(tcp) => read_tcp(block, tcp),
    }
    sink
}

/// What `full` says, or what the kind of sink does without it.
fn backpressure(block: &Block<'_, '_>, usual: Backpressure) -> Backpressure {
    let drops = match block.one_of("full") {
        Some(FullWord::Drop) => true,
        Some(FullWord::Block) => false,
        None => usual == Backpressure::Drop,
    };
    if drops {
        block.idle("block_ms_max", "full = \"drop\" never blocks");
        return Backpressure::Drop;
    }
    let limit_ms = block.integer("block_ms_max").unwrap_or(10_000);
    Backpressure::Block { limit_ms }
}

/// Where a remote mover listens.
fn address(block: &Block<'_, '_>) -> SocketAddr {
    if !block.has("address") {
        block.complain_whole(
            "it does not say where to connect to",
            "address = \"HOST:PORT\" for kind = \"tcp\"",
            "add address",
        );
    }
    let given = block.socket("address");
    if given.is_some_and(|address| address.port() == 0) {
        block.complain(
            "address",
            "port 0 is none that can be connected to",
            "a port from 1 to 65535",
            "write the port of the mover's --listen",
        );
    }
    given.unwrap_or_else(|| ([127, 0, 0, 1], 1).into())
}

fn read_tcp(block: &Block<'_, '_>, tcp: &mut TcpPlan) {
    let set = |name, value: &mut u64| *value = block.integer(name).unwrap_or(*value);
    set("file_bytes_max", &mut tcp.bytes_max);
    set("file_events_max", &mut tcp.events_max);
    set("file_s_max", &mut tcp.seconds_max);
    set("patience_ms", &mut tcp.patience_ms);
}

fn read_file(block: &Block<'_, '_>, file: &mut FilePlan) {
    let set = |name, value: &mut u64| *value = block.integer(name).unwrap_or(*value);
    set("file_bytes_max", &mut file.bytes_max);
    set("file_events_max", &mut file.events_max);
    set("file_s_max", &mut file.seconds_max);
    if let Some(directory) = block.path("directory") {
        file.directory = directory;
    }
    if let Some(prefix) = block.name("prefix") {
        file.prefix = prefix;
    }
    let number = block.integer("builder_number").map(u8::try_from);
    file.builder_number = number.and_then(Result::ok).unwrap_or(file.builder_number);
    file.sync = block.flag("sync").unwrap_or(file.sync);
}

/// Two sinks of one name, or two that would write the same files.
fn refuse_twins(blocks: &[Block<'_, '_>], sinks: &[SinkPlan]) {
    if blocks.len() != sinks.len() {
        return;
    }
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut files: HashMap<(&PathBuf, &str, u8), usize> = HashMap::new();
    for (block, sink) in blocks.iter().zip(sinks) {
        if let Some(line) = names.insert(&sink.name, block.line()) {
            let wrong = format!("the sink of line {line} is called {:?} too", sink.name);
            block.complain(
                "name",
                &wrong,
                "a name that no other sink has",
                "choose another name",
            );
        }
        if let SinkKind::File(file) = &sink.kind
            && let Some(line) = files.insert(
                (&file.directory, &file.prefix, file.builder_number),
                block.line(),
            )
        {
            let wrong = format!("it writes the same files as the sink of line {line}");
            let right = "another directory, prefix or builder_number";
            block.complain_whole(&wrong, right, "give this sink a directory of its own");
        }
    }
}
