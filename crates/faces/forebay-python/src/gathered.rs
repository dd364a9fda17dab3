//! Messages that were delivered and wait for the caller.

use forebay_run_net::Delivered;

/// The caller's end reads no more when so much waits, in bytes of payload.
const FULL_BYTES: usize = 4 << 20;
/// The same in messages, as those without a payload take memory, too.
const FULL_MESSAGES: usize = 1 << 16;

/// Messages in a row: payloads without a gap, and where each ends.
#[derive(Debug)]
pub(crate) struct Messages {
    /// Payloads, one after the other.
    pub(crate) data: Vec<u8>,
    /// Where each begins, and where the last one ends.
    pub(crate) offsets: Vec<i64>,
    /// Of each message.
    pub(crate) tags: Vec<u64>,
    /// Of each message.
    pub(crate) status: Vec<u8>,
}

impl Messages {
    fn with_room(of: &Self) -> Self {
        let mut offsets = Vec::with_capacity(of.offsets.len());
        offsets.push(0);
        Self {
            data: Vec::with_capacity(of.data.len()),
            offsets,
            tags: Vec::with_capacity(of.tags.len()),
            status: Vec::with_capacity(of.status.len()),
        }
    }

    /// Bytes of each.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = u64> {
        let pairs = self.offsets.windows(2);
        pairs.map(|pair| (pair[1] - pair[0]) as u64)
    }

    /// Where a message begins; behind the last one, where that ends.
    pub(crate) fn begin(&self, at: usize) -> usize {
        self.offsets[at] as usize
    }
}

impl Default for Messages {
    fn default() -> Self {
        Self {
            data: Vec::new(),
            offsets: vec![0],
            tags: Vec::new(),
            status: Vec::new(),
        }
    }
}

/// Messages that wait, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    messages: Messages,
    /// Those in front that were taken.
    taken: usize,
}

impl Gathered {
    pub(crate) fn push(&mut self, delivered: &Delivered<'_>) {
        let message = &delivered.message;
        let all = &mut self.messages;
        all.data.extend_from_slice(message.payload);
        all.offsets.push(all.data.len() as i64);
        all.tags.push(message.tag);
        all.status.push(message.status);
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.messages.tags.len() - self.taken
    }

    /// Bytes of their payloads.
    pub(crate) fn bytes(&self) -> usize {
        self.messages.data.len() - self.messages.begin(self.taken)
    }

    /// Whether no more should be read before something is taken.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes() >= FULL_BYTES || self.len() >= FULL_MESSAGES
    }

    /// Takes the oldest ones out: without a copy when that is all of them.
    pub(crate) fn take(&mut self, most: usize) -> Messages {
        let count = self.len().min(most);
        if count == 0 {
            return Messages::default();
        }
        if self.taken == 0 && count == self.messages.tags.len() {
            let fresh = Messages::with_room(&self.messages);
            return std::mem::replace(&mut self.messages, fresh);
        }
        let all = &self.messages;
        let (from, to) = (self.taken, self.taken + count);
        let (begin, end) = (all.begin(from), all.begin(to));
        let places = all.offsets[from..=to].iter();
        let part = Messages {
            data: all.data[begin..end].to_vec(),
            offsets: places.map(|at| at - begin as i64).collect(),
            tags: all.tags[from..to].to_vec(),
            status: all.status[from..to].to_vec(),
        };
        self.taken = to;
        if self.len() == 0 {
            *self = Self::default();
        }
        part
    }
}
