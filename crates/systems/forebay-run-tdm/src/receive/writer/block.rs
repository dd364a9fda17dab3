//! What is handed over at once.

use forebay_tdm::plan::Plan;
use forebay_tdm::receiver::{LostRange, Row};
use forebay_wire::tdm::{Carries, DATA_HEAD_BYTES};

use super::super::watch::Came;

/// Payload of a block.
pub(super) const BLOCK_BYTES: usize = 1 << 20;
/// Packets of a block, however small they are: as many as make [`BLOCK_BYTES`] at the port with their heads alone. So the queue holds what the port brings in the time that it
/// is made for, whatever the size of packets.
pub(super) const PACKETS: u64 = (BLOCK_BYTES / DATA_HEAD_BYTES) as u64;
/// What else a block may have in it before it is full.
const OTHERS: u64 = 8_192;
/// Lost ranges and windows that a block takes behind that, while there is no room for it.
const OTHERS_MAX: u64 = 1 << 16;

/// Packets, and bytes of payload in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Sum {
    pub(in super::super) packets: u64,
    pub(in super::super) bytes: u64,
}

/// What is to be done, in order.
#[derive(Debug)]
pub(super) enum Op {
    /// The next bytes of the block; without `kept` only their number is known.
    Data {
        sender: u16,
        kept: bool,
        length: u32,
        offset: u64,
    },
    /// A line for a packet.
    Came(Came, i64),
    /// Packets that found no room.
    Missed {
        sender: u16,
        offset: u64,
        bytes: u64,
    },
    Lost(LostRange, u64),
    Open {
        sender: usize,
        name: String,
        carries: Carries,
    },
    Planned(Box<Plan>),
    Row(Box<Row>, i64),
    Flush,
    #[cfg(test)]
    Hold(std::sync::mpsc::Receiver<()>),
    #[cfg(test)]
    Panic,
    /// How many heaps each sender has sent, as far as they have said.
    End(Vec<Option<u64>>),
}

#[derive(Debug)]
pub(super) struct Block {
    pub(super) bytes: Vec<u8>,
    pub(super) ops: Vec<Op>,
    packets: u64,
    /// What is neither a packet nor a line for one.
    others: u64,
    /// By sender.
    sums: Vec<Sum>,
    /// Lost ranges and windows that found no room.
    pub(super) untold: u64,
}

impl Default for Block {
    fn default() -> Self {
        Self {
            // A payload more than it is full with.
            bytes: Vec::with_capacity(BLOCK_BYTES + (1 << 16)),
            ops: Vec::new(),
            packets: 0,
            others: 0,
            sums: Vec::new(),
            untold: 0,
        }
    }
}

impl Block {
    pub(super) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= BLOCK_BYTES || self.packets >= PACKETS || self.others >= OTHERS
    }

    pub(super) fn sums(&self) -> &[Sum] {
        &self.sums
    }

    #[inline]
    pub(super) fn data(&mut self, sender: u16, offset: u64, payload: &[u8], kept: bool) {
        let at = usize::from(sender);
        if self.sums.len() <= at {
            self.sums.resize(at + 1, Sum::default());
        }
        if let Some(sum) = self.sums.get_mut(at) {
            sum.packets += 1;
            sum.bytes += payload.len() as u64;
        }
        if kept {
            // Out of the receive buffer, which is used again.
            self.bytes.extend_from_slice(payload);
        }
        self.packets += 1;
        self.ops.push(Op::Data {
            sender,
            kept,
            length: payload.len() as u32,
            offset,
        });
    }

    /// A line for the packet that was added last.
    #[inline]
    pub(super) fn line(&mut self, came: Came, wall_ns: i64) {
        self.ops.push(Op::Came(came, wall_ns));
    }

    /// A packet that found no room: those that follow each other are one.
    pub(super) fn miss(&mut self, sender: u16, offset: u64, bytes: u64) {
        let missed = self
            .ops
            .iter_mut()
            .rev()
            .take(MISSED_LOOK)
            .find_map(|op| match op {
                Op::Missed {
                    sender: of,
                    offset: begin,
                    bytes: missed,
                } if *of == sender && *begin + *missed == offset => Some(missed),
                _ => None,
            });
        match missed {
            Some(missed) => *missed += bytes,
            None => self.push(Op::Missed {
                sender,
                offset,
                bytes,
            }),
        }
    }

    /// Something that is bounded where nobody takes it.
    pub(super) fn push(&mut self, op: Op) {
        if self.others < OTHERS_MAX {
            self.push_always(op);
        } else {
            self.untold += 1;
        }
    }

    /// Something that comes seldom.
    pub(super) fn push_always(&mut self, op: Op) {
        self.others += 1;
        self.ops.push(op);
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ops.clear();
        (self.packets, self.others) = (0, 0);
        self.sums.clear();
        self.untold = 0;
    }
}

/// So many of the last things are looked at for a range that goes on.
const MISSED_LOOK: usize = 64;
