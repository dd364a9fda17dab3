//! All sections and keys of a chain file, in the order in which they are documented.

use super::sinks::{FullWord, SinkWord};
use crate::plan::{Completion, FullPolicy};
use Default::{Depends, Required, Value};
use Kind::{
    Address, Choice, Flag, Integer, Integers, Link, Name, Path, PowerOfTwo, Socket, Sockets, ZeroOr,
};
use forebay_run::config::keys::{CERTIFICATES, Default, Kind, Section, key};

/// Largest ring or queue, in bytes.
const QUEUE_BYTES_MAX: u64 = 1 << 36;
/// Least ring or queue, in bytes.
const QUEUE_BYTES_MIN: u64 = forebay_ring::CAPACITY_BYTES_MIN;
/// A source's queue has room for a datagram of 64 KiB behind a message.
const SOURCE_QUEUE_BYTES_MIN: u64 = 1 << 17;

/// Least size of a file before the next one: below it, each event would begin a file of its own.
const FILE_BYTES_MIN: u64 = 64 << 10;

/// The whole run.
pub const RUN: Section = Section {
    name: "run",
    many: false,
    says: "The run as a whole.",
    keys: &[
        key(
            "name",
            Name,
            Value("\"run\""),
            "First part of the run's name in ledger and record; a time stamp follows. With a tcp sink 42 characters at most.",
        ),
        key(
            "directory",
            Path,
            Value("\"forebay-run\""),
            "Where ledger and record lie, and files of sinks that name no other place. Made if it is not there.",
        ),
        key(
            "duration_s",
            Integer(1, 31_536_000),
            Depends("until Ctrl-C or SIGTERM"),
            "Ends the run after so long.",
        ),
        key(
            "stages",
            Choice(&["processes", "threads"]),
            Value("\"processes\""),
            "Processes: a stage that crashes is started again and nothing is lost. Threads: one process, for debuggers and profilers.",
        ),
        key(
            "memory_bytes_max",
            Integer(1 << 20, 1 << 44),
            Depends("no limit"),
            "Refuses to start when rings, queues, socket buffers and ledger together can take more.",
        ),
        key(
            "metrics",
            Socket,
            Depends("not served"),
            "Serves Prometheus' text format at GET /metrics there.",
        ),
    ],
};

/// The receiver.
pub const RECEIVER: Section = Section {
    name: "receiver",
    many: false,
    says: "The receiver stage: datagrams off the sockets, checked, into one queue per source.",
    keys: &[
        key(
            "bind",
            Address,
            Value("\"127.0.0.1\""),
            "Address to listen on. \"0.0.0.0\": all of this host's; anyone who can reach it can then send.",
        ),
        key(
            "queue_bytes",
            PowerOfTwo(SOURCE_QUEUE_BYTES_MIN, QUEUE_BYTES_MAX),
            Depends(
                "2 GiB over all sources, or a quarter of the memory of host or control group if that is less; 256 KiB to 16 MiB each",
            ),
            "Queue of each source, unless its block says otherwise: the bytes of one source in the longest stall of the builder that shall lose nothing. One that holds less than twice timeout_ms at the rate of its source is warned of.",
        ),
        key(
            "socket_buffer_bytes",
            Integer(1 << 16, 1 << 30),
            Depends("1 GiB over all ports, 1 to 4 MiB each"),
            "Receive buffer asked of the kernel for each socket. It holds what comes while the receiver is not running. Beyond net.core.rmem_max it needs a privilege.",
        ),
        key(
            "message_bytes_max",
            Integer(64, 64 << 20),
            Value("262144"),
            "Longest message accepted; a longer one is a named loss.",
        ),
        key(
            "batch_datagrams",
            Integer(1, 64),
            Value("64"),
            "Datagrams taken from one socket before the next one has its turn.",
        ),
        key(
            "spin_us",
            Integer(0, 1_000_000),
            Value("0"),
            "How long to look for data before sleeping: lower latency for CPU time.",
        ),
        key(
            "gather_us",
            Integer(0, 1_000_000),
            Value("200"),
            "How long to let datagrams gather in the sockets' buffers after a round that found few: less CPU time for as much latency. 0: not at all.",
        ),
        key(
            "stamps",
            Flag,
            Value("true"),
            "Whether the kernel stamps each datagram; without it there is no latency histogram.",
        ),
        key(
            "gro",
            Flag,
            Value("false"),
            "Whether the kernel may merge datagrams. Its drop counter is then a lower bound.",
        ),
        key(
            "full",
            Choice(FullPolicy::NAMES),
            Value("\"hold\""),
            "When a queue is full. Hold: data waits in the socket's buffer, and what overflows there the kernel counts. Drop: it is received, dropped, and charged to the source.",
        ),
        key(
            "cpu",
            Integer(0, 8191),
            Depends("not pinned"),
            "CPU to run on.",
        ),
        key(
            "real_time",
            Integer(1, 99),
            Depends("off"),
            "Real-time priority (SCHED_FIFO), with memory locked. Low values, and a core of its own.",
        ),
    ],
};

/// Sources.
pub const SOURCES: Section = Section {
    name: "sources",
    many: true,
    says: "Who sends. A block is one source or several alike: on ports of their own (`base_port` with `count`, or `ports`), or together on one `port`, told apart by `sub_event_ids` or `senders`; or they are the `elinks` of a link readout.",
    keys: &[
        key(
            "name",
            Name,
            Value("\"source\""),
            "Name in accounts and reports; a block of several numbers them from 0. Unnamed blocks are numbered through.",
        ),
        key(
            "count",
            Integer(1, 1024),
            Value("1"),
            "How many, on ports one after the other; with `base_port`.",
        ),
        key(
            "base_port",
            Integer(0, 65535),
            Depends("—"),
            "First port. 0: any free ports.",
        ),
        key(
            "ports",
            Integers(1, 65535),
            Depends("—"),
            "A port for each source, when they do not follow each other.",
        ),
        key(
            "port",
            Integer(0, 65535),
            Depends("—"),
            "One port: of one source, or of all sources of `sub_event_ids` or `senders`. 0: any free port.",
        ),
        key(
            "sub_event_ids",
            Integers(0, 0xffff_ffff),
            Depends("—"),
            "Sources on `port` told apart by the id of the first sub-event in a message.",
        ),
        key(
            "senders",
            Sockets,
            Depends("—"),
            "Sources on `port` told apart by the sender's address and port.",
        ),
        key(
            "elinks",
            Integers(0, 2047),
            Depends("—"),
            "E-links of link readout, each of them a source: `forebay tohost` publishes their chunks at `address`.",
        ),
        key(
            "address",
            Link,
            Depends("required with elinks"),
            "Where they are published.",
        ),
        key(
            "detector",
            Integer(0, 255),
            Value("0"),
            "With elinks: the detector in their fids, as to-host is told.",
        ),
        key(
            "connector",
            Integer(0, 65535),
            Value("0"),
            "With elinks: the connector in their fids, as to-host is told.",
        ),
        key(
            "bind",
            Address,
            Depends("that of [receiver]"),
            "Address to listen on.",
        ),
        key(
            "queue_bytes",
            PowerOfTwo(SOURCE_QUEUE_BYTES_MIN, QUEUE_BYTES_MAX),
            Depends("that of [receiver]"),
            "Queue of each source of the block.",
        ),
    ],
};

/// Chunks of E-links.
pub const ELINKS: Section = Section {
    name: "elinks",
    many: false,
    says: "How chunks of E-links become sub-events; for sources that name `elinks`. A chunk is the payload of its sub-event as it came; one with something wrong in its status has the data-error bit.",
    keys: &[
        key(
            "l1id_offset_bytes",
            Integer(0, 65535),
            Value("3"),
            "Where in a chunk its trigger number (L1ID) begins, little-endian; by default as FELIX's data generator has it.",
        ),
        key(
            "l1id_bytes",
            Integer(1, 4),
            Value("1"),
            "How many bytes of its trigger number a chunk has. With fewer than trigger_bits the rest is counted, E-link by E-link from where they began together: one that loses all of 256 chunks in a row (with 1 byte) is matched one round too early from then on.",
        ),
        key(
            "buffer_bytes",
            Integer(64, (64 << 20) - 13),
            Value("65536"),
            "Size of the buffers of a connection to a publisher.",
        ),
        key(
            "buffer_count",
            Integer(1, 65_536),
            Value("64"),
            "Buffers of a connection: what may be on its way.",
        ),
        key(
            "plain",
            Flag,
            Value("false"),
            "Whether tcp:// beyond this host may go without encryption.",
        ),
        CERTIFICATES[0],
        CERTIFICATES[1],
        CERTIFICATES[2],
    ],
};

/// The builder.
pub const BUILDER: Section = Section {
    name: "builder",
    many: false,
    says: "The builder stage: sub-events of all sources matched by trigger number.",
    keys: &[
        key(
            "completion",
            Choice(Completion::NAMES),
            Value("\"partial\""),
            "An event that lacks a source. Wait: each waits for every source up to the time-out, then what came is written. Partial: the same, but a source waited for in vain is not waited for again until it speaks. Discard: only complete events are written.",
        ),
        key(
            "trigger_bits",
            Kind::Either(16, 24),
            Value("24"),
            "Width of the trigger number on the wire.",
        ),
        key(
            "trigger_step",
            Integer(1, 4096),
            Value("1"),
            "How far one trigger number is from the next: more than 1 where triggers are dealt out to a farm of builders. Numbers between are not missing.",
        ),
        key(
            "check_tag",
            Flag,
            Value("true"),
            "Whether the sub-events of an event must carry the same tag: a wrong tag shows a readout that counts wrongly.",
        ),
        key(
            "timeout_ms",
            Integer(1, 3_600_000),
            Value("1000"),
            "Longest wait for a source after the first sub-event of an event came. Longer than the slowest source takes to fill its water mark.",
        ),
        key(
            "timeout_events",
            Integer(1, 1_000_000),
            Value("20000"),
            "How many later events may pile up before the oldest stops waiting; not with \"wait\".",
        ),
        key(
            "window_events",
            Integer(1, 1 << 22),
            Value("16384"),
            "How far ahead of the others a trigger number is believed; at most a quarter of the range.",
        ),
        key(
            "event_bytes_max",
            Integer(1 << 10, 1 << 31),
            Value("25165824"),
            "Largest event built; a larger one is a named loss. Half of each sink's queue at most; with a tcp sink 67108864.",
        ),
        key(
            "gather_us",
            Integer(0, 1_000_000),
            Value("500"),
            "How long to let messages gather in the queues after a round that built nothing: less CPU time for as much latency. 0: not at all.",
        ),
        key(
            "cpu",
            Integer(0, 8191),
            Depends("not pinned"),
            "CPU to run on.",
        ),
        key(
            "real_time",
            Integer(1, 99),
            Depends("off"),
            "Real-time priority (SCHED_FIFO), with memory locked.",
        ),
    ],
};

/// Sinks.
pub const SINKS: Section = Section {
    name: "sinks",
    many: true,
    says: "Where events go, any number of them; without a block: HLD files in the run's directory. Each has a queue of its own, so that a stalled sink stalls no other.",
    keys: &[
        key(
            "kind",
            Choice(SinkWord::NAMES),
            Required,
            "HLD files; nothing (counted and forgotten); another host, where `forebay mover` writes.",
        ),
        key(
            "name",
            Name,
            Depends("its kind, numbered from the second on"),
            "Name in accounts and reports. Of a tcp sink 32 characters at most.",
        ),
        key(
            "queue_bytes",
            PowerOfTwo(QUEUE_BYTES_MIN, QUEUE_BYTES_MAX),
            Value("67108864"),
            "Queue before the sink: the data rate times the longest stall that shall lose nothing. Not for null.",
        ),
        key(
            "full",
            Choice(FullWord::NAMES),
            Depends("`\"block\"` for files, `\"drop\"` for tcp"),
            "When the queue is full. Block: hold the builder for at most `block_ms_max`, then drop events for this sink until it has room again. Drop: at once. Not for null.",
        ),
        key(
            "block_ms_max",
            Integer(1, 3_600_000),
            Value("10000"),
            "Longest hold of the builder by this sink; with full = \"block\".",
        ),
        key(
            "directory",
            Path,
            Depends("that of [run]"),
            "For files: where. Made if it is not there.",
        ),
        key(
            "prefix",
            Name,
            Value("\"be\""),
            "For files: first letters of the name, two by custom.",
        ),
        key(
            "builder_number",
            Integer(0, 99),
            Value("1"),
            "For files: number of this event builder, in the name.",
        ),
        key(
            "file_bytes_max",
            ZeroOr(FILE_BYTES_MIN, 1 << 44),
            Value("2000000000"),
            "For files, here or at the mover: a new one before this one grows beyond. 0: never. Smaller files than these would hold hardly an event.",
        ),
        key(
            "file_events_max",
            Integer(0, 1 << 44),
            Value("0"),
            "For files, here or at the mover: a new one after so many events. 0: never.",
        ),
        key(
            "file_s_max",
            Integer(0, 31_536_000),
            Value("0"),
            "For files, here or at the mover: a new one after so long. 0: never.",
        ),
        key(
            "sync",
            Flag,
            Value("false"),
            "For files: flush each block to the device before it counts as written, against power loss.",
        ),
        key(
            "address",
            Socket,
            Depends("required for tcp"),
            "For tcp: where the mover listens.",
        ),
        key(
            "patience_ms",
            Integer(1, 3_600_000),
            Depends("`10000` for tcp"),
            "For tcp: how long a silent mover is waited for; then the connection is made anew, and at the end of a run what it has not acknowledged is a named loss.",
        ),
    ],
};

/// Every section.
pub const SECTIONS: [Section; 6] = [RUN, RECEIVER, SOURCES, ELINKS, BUILDER, SINKS];
