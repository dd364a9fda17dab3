//! The hops of each program at which `FOREBAY_LEAK=HOP:N` makes N items vanish uncounted, for tests of the books: each has the name of the account or
//! link that must show it. A name that a program does not have is refused with those that it has. A system that is a crate of its own has the lists of
//! its programs itself.

pub use forebay_ledger::{Leak, LeakError};

/// The variable of the environment that has the fault switch.
pub const VARIABLE: &str = "FOREBAY_LEAK";

/// The event builder with its receiver and sinks, live.
pub const EVB: &[&str] = &[
    "generator",
    "socket",
    "elink",
    "receiver",
    "queue",
    "ring",
    "builder",
    "events",
    "fan_out",
    "offer",
    "sink_queue",
    "sink",
    "stream",
    "reassembly",
    "capture",
];

/// A remote mover.
pub const MOVER: &[&str] = &["stream", "mover"];

/// An end point of messaging.
pub const NET: &[&str] = &["publish", "copies", "send", "receive", "read", "deliver"];

/// To-host, with the end points that it publishes by.
pub const TOHOST: &[&str] = &["dma", "decode", "publish", "send"];

/// To-flx, with the end point that it receives by.
pub const TOFLX: &[&str] = &["deliver", "route", "encode", "ring"];

/// An emulated card.
pub const CARD: &[&str] = &["card", "from_host"];

/// A card that shows the blocks of a file.
pub const CARD_REPLAY: &[&str] = &["file", "card"];

/// A subscriber that checks chunks, with its end point.
pub const SWROD: &[&str] = &["deliver", "check"];

/// The processes of `demo tohost` by name, the publisher first: of several that have a hop the first one is meant.
pub const DEMO_TOHOST: [(&str, &[&str]); 3] =
    [("tohost", TOHOST), ("card", CARD), ("swrod", SWROD)];

/// Which of the processes of a chain has the hop of `text`: the first one.
///
/// # Errors
/// It is not `hop:N`, or none has such a hop; the error lists those of all of them.
pub fn part_of(text: &str, parts: &[(&'static str, &[&str])]) -> Result<&'static str, LeakError> {
    let all: Vec<&str> = parts
        .iter()
        .flat_map(|(_, hops)| hops.iter().copied())
        .collect();
    Leak::parse(text, &all)?;
    let has = |(_, hops): &&(&str, &[&str])| Leak::parse(text, hops).is_ok();
    Ok(parts.iter().find(has).map_or("", |(name, _)| name))
}
