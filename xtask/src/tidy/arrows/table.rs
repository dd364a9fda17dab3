//! Which crate each module of the assembly is for, and which of these crates may name which.

use super::Kept;

const RUN: &str = "run";
const NET: &str = "run-net";
const EVB: &str = "run-evb";
const FELIX: &str = "run-felix";
const EMU: &str = "run-emu";
const TDM: &str = "run-tdm";
const BENCH: &str = "bench";

/// Each crate, and what it may name of the others: the runtime knows no system, and no system another one but messaging, which is the service under them. Cards are
/// emulated for the readers of cards, whose protocol they speak. Engines count too.
pub(super) const ALLOWED: &[(&str, &[&str])] = &[
    (RUN, &[]),
    (NET, &[RUN, "forebay_msg"]),
    (
        EVB,
        &[
            RUN,
            NET,
            "forebay_evb",
            "forebay_emu",
            "forebay_msg",
            "forebay_readout",
        ],
    ),
    (FELIX, &[RUN, NET, "forebay_msg", "forebay_readout"]),
    (
        EMU,
        &[
            RUN,
            NET,
            FELIX,
            "forebay_emu",
            "forebay_msg",
            "forebay_readout",
        ],
    ),
    (TDM, &[RUN, NET, "forebay_tdm"]),
    (BENCH, &[RUN, NET, "forebay_msg"]),
];

/// The engines: who names one is judged, too.
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
    ("accounts", RUN),
    ("balance_lines", RUN),
    ("carriage", EVB),
    ("doctor", RUN),
    ("error", RUN),
    ("hops", RUN),
    ("host", RUN),
    ("metrics", RUN),
    ("removed", RUN),
    ("run_dir", RUN),
    ("teller", RUN),
    ("watched", RUN),
    ("words", RUN),
    ("config", EVB),
    ("config/block", RUN),
    ("config/elinks", EVB),
    ("config/file", RUN),
    ("config/keys", RUN),
    ("config/mistake", RUN),
    ("config/movers", EVB),
    ("config/needs", EVB),
    ("config/page", RUN),
    ("config/reference", RUN),
    ("config/sections", EVB),
    ("config/security", NET),
    ("config/sinks", EVB),
    ("config/sources", EVB),
    ("config/spelling", RUN),
    ("config/stages", EVB),
    ("net", NET),
    ("net/acknowledgement", NET),
    ("net/books", NET),
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
    ("books", EVB),
    ("books/bound", EVB),
    ("books/capture", EVB),
    ("books/chunks", EVB),
    ("books/page", EVB),
    ("books/sinks", EVB),
    ("builder", EVB),
    ("evb_error", EVB),
    ("generator", EVB),
    ("mover", EVB),
    ("plan", EVB),
    ("presets", EVB),
    ("receiver", EVB),
    ("replay", EVB),
    ("silence", EVB),
    ("sink", EVB),
    ("stage", RUN),
    ("stages", EVB),
    ("summary", EVB),
    ("supervisor", EVB),
    ("triggers", EVB),
    ("verify", EVB),
    ("worker", RUN),
    ("readout", EMU),
    ("readout/books", FELIX),
    ("readout/buffer_summary", FELIX),
    ("readout/card", EMU),
    ("readout/card_books", EMU),
    ("readout/check", FELIX),
    ("readout/child", RUN),
    ("readout/config", EMU),
    ("readout/config/batch", EMU),
    ("readout/config/queues", EMU),
    ("readout/config/sections", EMU),
    ("readout/config/sections/batch", EMU),
    ("readout/config/sections/card", EMU),
    ("readout/config/sections/from_host", EMU),
    ("readout/config/sections/toflx", FELIX),
    ("readout/config/sections/tohost", FELIX),
    ("readout/config/toflx", FELIX),
    ("readout/config/tohost", FELIX),
    ("readout/demo", EMU),
    ("readout/device", FELIX),
    ("readout/device/diagnostics", EMU),
    ("readout/device/door", FELIX),
    ("readout/device/from_host", FELIX),
    ("readout/device/tests", FELIX),
    ("readout/elink_table", FELIX),
    ("readout/emu_error", EMU),
    ("readout/error", FELIX),
    ("readout/kept", FELIX),
    ("readout/map", EMU),
    ("readout/outlet", FELIX),
    ("readout/reader", FELIX),
    ("readout/swrod", FELIX),
    ("readout/toflx", FELIX),
    ("readout/tohost", FELIX),
    ("readout/trigger_times", FELIX),
    ("readout/validate", EMU),
    ("tdm", TDM),
    ("tdm/awake", TDM),
    ("tdm/error", TDM),
    ("tdm/lateness", TDM),
    ("tdm/local_clock", TDM),
    ("tdm/outbound", TDM),
    ("tdm/pattern", TDM),
    ("tdm/receive", TDM),
    ("tdm/send", TDM),
    ("tdm/whole_file", RUN),
];

/// Arrows that have still to be cut.
pub(super) const KEPT: &[Kept] = &[
    kept(
        "tdm/pattern",
        "forebay_emu",
        "its numbers are hashed by the emulator",
    ),
    kept("tdm/whole_file", "tdm", "it needs an error of its own"),
];

const fn kept(from: &'static str, to: &'static str, reason: &'static str) -> Kept {
    Kept { from, to, reason }
}
