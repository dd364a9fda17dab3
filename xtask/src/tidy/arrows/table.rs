//! Which crate each module of the assembly is for, and which of these crates may name which.

use super::Kept;

const RUN: &str = "run";
const NET: &str = "run-net";
const BENCH: &str = "bench";

/// Each crate, and what it may name of the others: the runtime knows no system, and no system another one but messaging, which is the service under them. Engines count too.
pub(super) const ALLOWED: &[(&str, &[&str])] = &[
    (RUN, &[]),
    (NET, &[RUN, "forebay_msg"]),
    (BENCH, &[RUN, NET, "forebay_msg"]),
];

/// The engines: naming one of them is judged as an arrow, too.
pub(super) const ENGINES: &[&str] = &[
    "forebay_emu",
    "forebay_evb",
    "forebay_msg",
    "forebay_readout",
    "forebay_tdm",
];

/// Modules by their path. A module whose children have rows has no other children: each of them needs a row.
pub(super) const MODULES: &[(&str, &str)] = &[
    // The root, which names nothing but what it re-exports.
    ("", RUN),
    ("child", RUN),
    ("config", RUN),
    ("doctor", RUN),
    ("error", RUN),
    ("hops", RUN),
    ("host", RUN),
    ("metrics", RUN),
    ("removed", RUN),
    ("run_dir", RUN),
    ("teller", RUN),
    ("watched", RUN),
    ("whole_file", RUN),
    ("words", RUN),
    ("config/block", RUN),
    ("config/file", RUN),
    ("config/keys", RUN),
    ("config/mistake", RUN),
    ("config/page", RUN),
    ("config/reference", RUN),
    ("config/security", NET),
    ("config/spelling", RUN),
    ("net", NET),
    ("net/acknowledgement", NET),
    ("net/books", NET),
    ("net/books_tests", NET),
    ("net/buffers", NET),
    ("net/bus", NET),
    ("net/connection", NET),
    ("net/counts", NET),
    ("net/dial", NET),
    ("net/end_point", NET),
    ("net/entrance", NET),
    ("net/error", NET),
    ("net/hub", NET),
    ("net/lasting", NET),
    ("net/leaving", NET),
    ("net/lends", NET),
    ("net/perf", BENCH),
    ("net/publisher", NET),
    ("net/receiver", NET),
    ("net/sender", NET),
    ("net/settings", NET),
    ("net/subscriber", NET),
    ("net/summary", NET),
    ("net/tags", NET),
    ("net/viewed", NET),
    ("stage", RUN),
    ("worker", RUN),
];

/// Arrows that have still to be cut.
pub(super) const KEPT: &[Kept] = &[];
