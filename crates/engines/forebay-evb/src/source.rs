//! What waits of each source: messages in order of arrival, as many as its queue holds.

use std::collections::VecDeque;

use crate::absent::Absent;
use crate::numbering::Rhythm;
use crate::numbers::Run;

/// One HADTU message in a source's queue: where its sub-events lie and how many the receiver counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Position of the first sub-event in the source's queue, in bytes.
    pub at: u64,
    /// Bytes of all sub-events, padding included.
    pub len: u32,
    /// Number of sub-events that the receiver found.
    pub items: u32,
    /// Position to free the queue up to when the message is consumed.
    pub end: u64,
    /// When the kernel received the message, in ns of the receiver's stamp clock; 0 when unknown.
    pub stamp_ns: u64,
    /// Sub-events of the source that came between the message before and this one, and that the receiver dropped by name.
    pub dropped: u32,
    /// Their trigger numbers, where they are known.
    pub numbers: Option<Run>,
}

impl Message {
    /// Whether it only says what was dropped: nothing came from the source.
    #[must_use]
    pub fn is_note(&self) -> bool {
        self.items == 0 && self.dropped > 0
    }
}

/// Where the engine reads the bytes of its sources. Memory that another process may write:
/// the engine reads a header once, believes only its own copy, and checks every length.
pub trait Input {
    /// The 16 bytes at `at` in the queue of `source`, or `None` outside the queue.
    fn header(&self, source: usize, at: u64) -> Option<[u8; 16]>;
    /// Copies the bytes at `at` into `into`; false (and `into` unspecified) outside the queue.
    fn copy(&self, source: usize, at: u64, into: &mut [u8]) -> bool;
    /// Hints that the `len` bytes at `at` will be read soon; `at` may lie outside the queue.
    #[inline]
    fn prefetch(&self, _source: usize, _at: u64, _len: usize) {}
}

/// A message that waits, and how much of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived {
    pub(crate) message: Message,
    /// When the engine first saw it.
    pub(crate) arrived_ns: u64,
    /// Bytes at its start that a predecessor had consumed; 0 but for the first message after a restart.
    pub(crate) offset: u32,
    /// Bytes and sub-events from there on.
    pub(crate) bytes: u32,
    pub(crate) items: u32,
}

impl Arrived {
    pub(crate) fn whole(message: Message, arrived_ns: u64) -> Self {
        Self {
            message,
            arrived_ns,
            offset: 0,
            bytes: message.len,
            items: message.items,
        }
    }
}

/// Where a restarted engine goes on in the messages that its predecessor had already counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Replay {
    /// Consumed bytes and remaining sub-events of the first message.
    pub(crate) front: Option<(u32, u32)>,
    /// What the predecessor held: no more is taken from these messages, and what is missing is charged.
    pub(crate) owed_items: u64,
    pub(crate) owed_bytes: u64,
}

impl Replay {
    /// The part of a known message that was still held. The queue's memory may have changed since: never
    /// more than is owed.
    pub(crate) fn admit(&mut self, mut message: Message, arrived_ns: u64) -> Arrived {
        if self.front.is_some() {
            // The predecessor had begun with it.
            message.dropped = 0;
        }
        let (offset, items) = self.front.take().unwrap_or((0, message.items));
        let offset = offset.min(message.len);
        let limit = |value: u32, owed: u64| u64::from(value).min(owed) as u32;
        let bytes = limit(message.len - offset, self.owed_bytes);
        let items = limit(items, self.owed_items);
        self.owed_bytes -= u64::from(bytes);
        self.owed_items -= u64::from(items);
        Arrived {
            message,
            arrived_ns,
            offset,
            bytes,
            items,
        }
    }
}

/// What is known of one source apart from its head.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// The first one is laid open in [`crate::head::Head`].
    pub(crate) messages: VecDeque<Arrived>,
    /// Sub-events and bytes in the messages behind the first one.
    pub(crate) behind_items: u64,
    pub(crate) behind_bytes: u64,
    pub(crate) replay: Replay,
    /// When its messages come.
    pub(crate) rhythm: Rhythm,
    /// When what waited of it was used up: until then a full queue may have held it back, which is no silence.
    pub(crate) emptied_ns: u64,
    /// Given up after its silence was too long, and nothing came since.
    pub(crate) silent: bool,
    /// The same under a policy that waits for it again and again: it is told of, no more.
    pub(crate) mute: bool,
    /// Nothing will come any more.
    pub(crate) closed: bool,
    /// Its queue is nearly full.
    pub(crate) pressed: bool,
    /// Since when its numbers are not those of the other sources.
    pub(crate) astray_since_ns: Option<u64>,
    /// Position up to which messages were taken in when the last pause of all sources ended; `None` when there was none.
    pub(crate) paused: Option<u64>,
    /// End of its first message behind a pause, in which its numbers go back; 0 when there is none.
    pub(crate) rested: u64,
    /// Events without it, for which something may still come.
    pub(crate) absent: Absent,
    /// Position up to which the queue may be freed.
    pub(crate) released: u64,
    /// Position up to which messages were taken in.
    pub(crate) pulled: u64,
}
