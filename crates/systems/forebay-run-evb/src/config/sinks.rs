//! The `[[sinks]]` blocks.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use forebay_config::Block;
use forebay_settings::{choices, settings};

use crate::plan::stages::QUEUE_BYTES_MAX;
use crate::plan::{Backpressure, FilePlan, Io, SinkKind, SinkPlan, TcpPlan};
use crate::presets;

choices! {
    /// What kind of sink it is.
    pub enum SinkWord {
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
    pub enum FullWord {
        /// The builder waits.
        Block = "block",
        /// Events are dropped.
        Drop = "drop",
    }
}

choices! {
    /// How files are written.
    pub enum IoWord {
        /// Past the page cache (O_DIRECT).
        Direct = "direct",
        /// Through the page cache.
        Buffered = "buffered",
    }
}

/// Least size of a file before the next one: below it, each event would begin a file of its own.
const FILE_BYTES_MIN: u64 = 64 << 10;

settings! {
    /// Where events go, any number of them; without a block: HLD files in the run's directory. Each has a queue of its own, so that a stalled sink stalls no other.
    pub struct SinkSettings in [[sinks]] {
        /// HLD files; nothing (counted and forgotten); another host, where `forebay mover` writes.
        kind: Option<SinkWord>,
        /// Name in accounts and reports. Of a tcp sink 32 characters at most.
        name: Option<String> => "its kind, numbered from the second on",
        /// Queue before the sink: the data rate times the longest stall that shall lose nothing. Not for null.
        #[flag = "sink-queue"]
        queue_bytes: u64 [pow2 forebay_ring::CAPACITY_BYTES_MIN..=QUEUE_BYTES_MAX] = 64 << 20,
        /// When the queue is full. Block: hold the builder for at most `block_ms_max`, then drop events for this sink until it has room again. Drop: at once. Not for null.
        full: Option<FullWord> => "`\"block\"` for files, `\"drop\"` for tcp",
        /// Longest hold of the builder by this sink; with full = "block".
        block_ms_max: u64 [1..=3_600_000] = 10_000,
        /// For files: where. Made if it is not there.
        directory: Option<PathBuf> => "that of [run]",
        /// For files: first letters of the name, two by custom.
        #[flag = "prefix"]
        prefix: String = "be".into(),
        /// For files: number of this event builder, in the name.
        builder_number: u8 [0..=99] = 1,
        /// For files, here or at the mover: a new one before this one grows beyond. 0: never. Smaller files than these would hold hardly an event.
        #[flag = "file-size"]
        file_bytes_max: u64 [zero or FILE_BYTES_MIN..=1 << 44] = 2_000_000_000,
        /// For files, here or at the mover: a new one after so many events. 0: never.
        #[flag = "file-events"]
        file_events_max: u64 [0..=1 << 44] = 0,
        /// For files, here or at the mover: a new one after so long. 0: never.
        #[flag = "file-time"]
        file_s_max: u64 [0..=31_536_000] = 0,
        /// For files: flush each block to the device before it counts as written, against power loss.
        sync: bool = false,
        /// For files: past the page cache, or through it. Without it direct where the file system says that it does that (ext4, XFS; no tmpfs, no network file system) and the queue has 1 MiB or more; the start of the run and its record say which, and why. Direct where it cannot be is an error. Buffered is better on network file systems, for files of a few MB, and for files that are read again at once.
        #[flag = "file-io"]
        io: Option<IoWord> => "`\"direct\"` where the file system does that, else `\"buffered\"`",
        /// For tcp: where the mover listens.
        address: Option<SocketAddr> => "required for tcp",
        /// For tcp: how long a silent mover is waited for; then the connection is made anew, and at the end of a run what it has not acknowledged is a named loss.
        #[flag = "mover-timeout"]
        patience_ms: u64 [1..=3_600_000] = 10_000 => "`10000` for tcp",
    }
}

/// Most sinks of a run.
const SINKS_MAX: usize = 16;
/// Keys that only files have.
const FILE_KEYS: [&str; 5] = ["directory", "prefix", "builder_number", "sync", "io"];
/// Keys of files, here or at a remote mover.
const ROTATION_KEYS: [&str; 3] = ["file_bytes_max", "file_events_max", "file_s_max"];
/// Keys that only a remote mover has.
const TCP_KEYS: [&str; 2] = ["address", "patience_ms"];
/// Keys that only sinks with a queue have.
const QUEUE_KEYS: [&str; 3] = ["queue_bytes", "full", "block_ms_max"];

/// All sinks; files in the run's directory where the file names none.
pub(super) fn read(blocks: &[(SinkSettings, Block<'_, '_>)], run_dir: &Path) -> Vec<SinkPlan> {
    if blocks.is_empty() {
        return vec![presets::file_sink(run_dir.to_path_buf(), "be")];
    }
    if let Some((_, block)) = blocks.get(SINKS_MAX) {
        block.complain_whole(
            &format!("{} sinks are too many", blocks.len()),
            &format!("at most {SINKS_MAX} sinks"),
            "take some out",
        );
    }
    let mut kinds: HashMap<&str, usize> = HashMap::new();
    let mut sinks = Vec::new();
    for (said, block) in blocks {
        let Some(kind) = said.kind else {
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
        sinks.push(one(said, block, kind, default_name, run_dir));
    }
    refuse_twins(blocks, &sinks);
    sinks
}

fn one(
    said: &SinkSettings,
    block: &Block<'_, '_>,
    kind: SinkWord,
    default_name: String,
    run_dir: &Path,
) -> SinkPlan {
    let mut sink = match kind {
        SinkWord::Null => presets::null_sink(),
        SinkWord::Tcp => SinkPlan {
            kind: SinkKind::Tcp(said.tcp(peer(said, block))),
            ..presets::tcp_sink(NOBODY.into())
        },
        SinkWord::File => {
            let directory = said.directory.clone();
            let directory = directory.unwrap_or_else(|| run_dir.to_path_buf());
            SinkPlan {
                kind: SinkKind::File(said.file(directory)),
                ..presets::file_sink(PathBuf::new(), "")
            }
        }
    };
    sink.name = said.name.clone().unwrap_or(default_name);
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
    sink.queue_bytes = said.queue_bytes;
    sink.backpressure = backpressure(said, block, sink.backpressure);
    sink
}

/// What `full` says, or what the kind of sink does without it.
fn backpressure(said: &SinkSettings, block: &Block<'_, '_>, usual: Backpressure) -> Backpressure {
    let drops = match said.full {
        Some(FullWord::Drop) => true,
        Some(FullWord::Block) => false,
        None => usual == Backpressure::Drop,
    };
    if drops {
        block.idle("block_ms_max", "full = \"drop\" never blocks");
        return Backpressure::Drop;
    }
    Backpressure::Block {
        limit_ms: said.block_ms_max,
    }
}

/// Stands for an address that is not said.
const NOBODY: ([u8; 4], u16) = ([127, 0, 0, 1], 1);

/// Where a remote mover listens.
fn peer(said: &SinkSettings, block: &Block<'_, '_>) -> SocketAddr {
    if !block.has("address") {
        block.complain_whole(
            "it does not say where to connect to",
            "address = \"HOST:PORT\" for kind = \"tcp\"",
            "add address",
        );
    }
    if said.address.is_some_and(|address| address.port() == 0) {
        block.complain(
            "address",
            "port 0 is none that can be connected to",
            "a port from 1 to 65535",
            "write the port of the mover's --listen",
        );
    }
    said.address.unwrap_or_else(|| NOBODY.into())
}

impl SinkSettings {
    /// A sink at the remote mover `peer`.
    pub(crate) fn tcp(&self, peer: SocketAddr) -> TcpPlan {
        TcpPlan {
            peer,
            bytes_max: self.file_bytes_max,
            events_max: self.file_events_max,
            seconds_max: self.file_s_max,
            patience_ms: self.patience_ms,
        }
    }

    /// A sink of files in `directory`.
    pub(crate) fn file(&self, directory: PathBuf) -> FilePlan {
        FilePlan {
            directory,
            prefix: self.prefix.clone(),
            builder_number: self.builder_number,
            bytes_max: self.file_bytes_max,
            events_max: self.file_events_max,
            seconds_max: self.file_s_max,
            sync: self.sync,
            io: match self.io {
                None => Io::Auto,
                Some(IoWord::Direct) => Io::Direct,
                Some(IoWord::Buffered) => Io::Buffered,
            },
        }
    }
}

impl SinkPlan {
    /// Changes what a block of the file would say of the sink. Keys of other kinds of sinks change nothing.
    pub fn change(&mut self, change: impl FnOnce(&mut SinkSettings)) {
        let mut said = SinkSettings {
            queue_bytes: self.queue_bytes,
            ..SinkSettings::default()
        };
        match &mut self.kind {
            SinkKind::Null => return,
            SinkKind::File(file) => {
                said.prefix.clone_from(&file.prefix);
                said.builder_number = file.builder_number;
                said.file_bytes_max = file.bytes_max;
                said.file_events_max = file.events_max;
                said.file_s_max = file.seconds_max;
                said.sync = file.sync;
                said.io = match file.io {
                    Io::Auto => None,
                    Io::Direct => Some(IoWord::Direct),
                    Io::Buffered => Some(IoWord::Buffered),
                };
                change(&mut said);
                *file = said.file(file.directory.clone());
            }
            SinkKind::Tcp(tcp) => {
                said.file_bytes_max = tcp.bytes_max;
                said.file_events_max = tcp.events_max;
                said.file_s_max = tcp.seconds_max;
                said.patience_ms = tcp.patience_ms;
                change(&mut said);
                *tcp = said.tcp(tcp.peer);
            }
        }
        self.queue_bytes = said.queue_bytes;
    }
}

/// Two sinks of one name, or two that would write the same files.
fn refuse_twins(blocks: &[(SinkSettings, Block<'_, '_>)], sinks: &[SinkPlan]) {
    if blocks.len() != sinks.len() {
        return;
    }
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut files: HashMap<(&PathBuf, &str, u8), usize> = HashMap::new();
    for ((_, block), sink) in blocks.iter().zip(sinks) {
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
