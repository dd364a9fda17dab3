//! The `[[sinks]]` blocks.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::config::block::Block;
use crate::plan::{Backpressure, FilePlan, SinkKind, SinkPlan};
use crate::presets;

/// Most sinks of a run.
const SINKS_MAX: usize = 16;
/// Keys that only files have.
const FILE_KEYS: [&str; 7] = [
    "directory",
    "prefix",
    "builder_number",
    "file_bytes_max",
    "file_events_max",
    "file_s_max",
    "sync",
];
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
        let Some(kind) = block.choice("kind") else {
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
        let number = kinds.entry(kind).or_default();
        *number += 1;
        let default_name = if *number == 1 {
            kind.to_owned()
        } else {
            format!("{kind}{number}")
        };
        sinks.push(one(block, kind, default_name, run_dir));
    }
    refuse_twins(blocks, &sinks);
    sinks
}

fn one(block: &Block<'_, '_>, kind: &str, default_name: String, run_dir: &Path) -> SinkPlan {
    let mut sink = match kind {
        "null" => presets::null_sink(),
        _ => presets::file_sink(run_dir.to_path_buf(), "be"),
    };
    sink.name = block.name("name").unwrap_or(default_name);
    if kind != "file" {
        FILE_KEYS
            .iter()
            .for_each(|key| block.idle(key, "this sink writes no files"));
    }
    if kind != "tcp" {
        block.idle("address", "this sink connects to nobody");
    }
    if kind == "null" {
        QUEUE_KEYS
            .iter()
            .for_each(|key| block.idle(key, "a null sink takes everything at once"));
        return sink;
    }
    sink.queue_bytes = block.integer("queue_bytes").unwrap_or(sink.queue_bytes);
    sink.backpressure = backpressure(block);
    sink.kind = if kind == "tcp" {
        tcp(block)
    } else {
        SinkKind::File(file(block, run_dir))
    };
    sink
}

fn backpressure(block: &Block<'_, '_>) -> Backpressure {
    if block.choice("full") == Some("drop") {
        block.idle("block_ms_max", "full = \"drop\" never blocks");
        return Backpressure::Drop;
    }
    Backpressure::Block {
        limit_ms: block.integer("block_ms_max").unwrap_or(10_000),
    }
}

fn tcp(block: &Block<'_, '_>) -> SinkKind {
    let address = block.socket("address");
    if !block.has("address") {
        block.complain_whole(
            "it does not say where to connect to",
            "address = \"HOST:PORT\" for kind = \"tcp\"",
            "add address",
        );
    }
    let peer = address.unwrap_or_else(|| ([127, 0, 0, 1], 1).into());
    SinkKind::Tcp(peer.into())
}

fn file(block: &Block<'_, '_>, run_dir: &Path) -> FilePlan {
    let number = |name| block.integer(name);
    FilePlan {
        directory: block
            .path("directory")
            .unwrap_or_else(|| run_dir.to_path_buf()),
        prefix: block.name("prefix").unwrap_or_else(|| "be".into()),
        builder_number: number("builder_number")
            .and_then(|value| u8::try_from(value).ok())
            .unwrap_or(1),
        bytes_max: number("file_bytes_max").unwrap_or(2_000_000_000),
        events_max: number("file_events_max").unwrap_or(0),
        seconds_max: number("file_s_max").unwrap_or(0),
        sync: block.flag("sync").unwrap_or(false),
    }
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
