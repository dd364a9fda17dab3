//! Where built events go.

/// Memory for one event, and what its header must say.
#[derive(Debug)]
pub struct Slot<'a> {
    /// Exactly the bytes asked for.
    pub bytes: &'a mut [u8],
    /// Run number of the file that the event will lie in.
    pub run: u32,
    /// Seconds since 1970-01-01 00:00 UTC, for the event's date and time.
    pub unix_s: i64,
}

/// What the engine says of an event it wrote into a [`Slot`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventMeta {
    /// Size of the event with its header, in bytes.
    pub bytes: u32,
    /// Trigger number.
    pub trigger: u32,
    /// Sequence number, from 1.
    pub sequence: u32,
    /// Sub-events in it.
    pub subevents: u32,
    /// Whether every source is in it.
    pub complete: bool,
    /// Oldest receive stamp among its messages, in ns of the receiver's stamp clock; 0 when unknown.
    pub stamp_ns: u64,
}

/// A bounded place for built events.
pub trait Output {
    /// Memory for an event of `bytes`, or `None` when there is no room now.
    fn reserve(&mut self, bytes: usize) -> Option<Slot<'_>>;
    /// The event in the slot last reserved is complete in memory.
    fn commit(&mut self, event: &EventMeta);
}
