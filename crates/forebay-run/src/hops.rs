//! The hops of each program at which `FOREBAY_LEAK=HOP:N` makes N items vanish uncounted, for tests of the books: each has the name of the account or
//! link that must show it. A name that a program does not have is refused with those that it has.

use forebay_ledger::Unit;
pub use forebay_ledger::{Leak, LeakError, LeakHop};

/// The event builder with its receiver and sinks, live.
pub const EVB: &[LeakHop] = &[
    LeakHop::new("generator", Unit::SubEvents),
    LeakHop::new("socket", Unit::Datagrams),
    LeakHop::new("elink", Unit::Chunks),
    LeakHop::new("receiver", Unit::Datagrams),
    LeakHop::new("queue", Unit::SubEvents),
    LeakHop::new("ring", Unit::SubEvents),
    LeakHop::new("builder", Unit::SubEvents),
    LeakHop::new("events", Unit::Events),
    LeakHop::new("fan_out", Unit::Events),
    LeakHop::new("offer", Unit::Events),
    LeakHop::new("sink_queue", Unit::Events),
    LeakHop::new("sink", Unit::Events),
    LeakHop::new("stream", Unit::Events),
    LeakHop::new("reassembly", Unit::Datagrams),
    LeakHop::new("capture", Unit::Datagrams),
];

/// A remote mover.
pub const MOVER: &[LeakHop] = &[
    LeakHop::new("stream", Unit::Events),
    LeakHop::new("mover", Unit::Events),
];

/// An end point of messaging.
pub const NET: &[LeakHop] = &[
    LeakHop::new("publish", Unit::Messages),
    LeakHop::new("copies", Unit::Messages),
    LeakHop::new("send", Unit::Messages),
    LeakHop::new("receive", Unit::Messages),
    LeakHop::new("read", Unit::Messages),
    LeakHop::new("deliver", Unit::Messages),
];

/// A sender of time-division UDP.
pub const TDM_SEND: &[LeakHop] = &[
    LeakHop::new("heaps", Unit::Messages),
    LeakHop::new("send", Unit::Packets),
];

/// A receiver of time-division UDP.
pub const TDM_RECEIVE: &[LeakHop] = &[
    LeakHop::new("datagrams", Unit::Datagrams),
    LeakHop::new("hand_over", Unit::Packets),
    LeakHop::new("windows", Unit::Packets),
    LeakHop::new("writer_queue", Unit::Packets),
    LeakHop::new("write", Unit::Packets),
    LeakHop::new("heaps", Unit::Messages),
];

/// To-host, with the end points that it publishes by.
pub const TOHOST: &[LeakHop] = &[
    LeakHop::new("dma", Unit::Blocks),
    LeakHop::new("decode", Unit::Subchunks),
    LeakHop::new("publish", Unit::Chunks),
    LeakHop::new("send", Unit::Messages),
];

/// To-flx, with the end point that it receives by.
pub const TOFLX: &[LeakHop] = &[
    LeakHop::new("deliver", Unit::Messages),
    LeakHop::new("route", Unit::Messages),
    LeakHop::new("encode", Unit::Messages),
    LeakHop::new("ring", Unit::Packets),
];

/// An emulated card.
pub const CARD: &[LeakHop] = &[
    LeakHop::new("card", Unit::Chunks),
    LeakHop::new("from_host", Unit::Messages),
];

/// A card that shows the blocks of a file.
pub const CARD_REPLAY: &[LeakHop] = &[
    LeakHop::new("file", Unit::Blocks),
    LeakHop::new("card", Unit::Blocks),
];

/// A subscriber that checks chunks, with its end point.
pub const SWROD: &[LeakHop] = &[
    LeakHop::new("deliver", Unit::Messages),
    LeakHop::new("check", Unit::Chunks),
];

/// The processes of `demo tohost` by name, who publishes first: of several that have a hop the first one is meant.
pub const DEMO_TOHOST: [(&str, &[LeakHop]); 3] =
    [("tohost", TOHOST), ("card", CARD), ("swrod", SWROD)];

/// Which of the processes of a chain has the hop of `text`: the first one.
///
/// # Errors
/// It is not `hop:N`, or none has such a hop; the error lists those of all of them.
pub fn part_of(
    text: &str,
    parts: &[(&'static str, &[LeakHop])],
) -> Result<&'static str, LeakError> {
    let all: Vec<LeakHop> = parts
        .iter()
        .flat_map(|(_, hops)| hops.iter().copied())
        .collect();
    Leak::parse(text, &all)?;
    let has = |(_, hops): &&(&str, &[LeakHop])| Leak::parse(text, hops).is_ok();
    Ok(parts.iter().find(has).map_or("", |(name, _)| name))
}
