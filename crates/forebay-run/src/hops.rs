//! The hops of each program at which `FOREBAY_LEAK=HOP:N` makes N items vanish uncounted, for tests of the books: each has the name of the account or
//! link that must show it. A name that a program does not have is refused with those that it has.

use forebay_ledger::Unit;
pub use forebay_ledger::{Leak, LeakHop};

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
    LeakHop::new("send", Unit::Messages),
    LeakHop::new("deliver", Unit::Messages),
];

/// A sender of time-division UDP.
pub const TDM_SEND: &[LeakHop] = &[LeakHop::new("send", Unit::Packets)];

/// A receiver of time-division UDP.
pub const TDM_RECEIVE: &[LeakHop] = &[
    LeakHop::new("datagrams", Unit::Datagrams),
    LeakHop::new("hand_over", Unit::Packets),
    LeakHop::new("windows", Unit::Packets),
    LeakHop::new("write", Unit::Packets),
    LeakHop::new("heaps", Unit::Messages),
];

/// To-host, with the end points that it publishes by.
pub const TOHOST: &[LeakHop] = &[
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
