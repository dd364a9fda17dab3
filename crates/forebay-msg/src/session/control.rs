//! Frames other than buffers of messages, on their way out.

use std::collections::VecDeque;

use forebay_wire::net::{Frame, Kind};

/// They go one by one, so that a link that keeps pieces has one frame in each.
#[derive(Debug, Default)]
pub(super) struct Control {
    frames: VecDeque<Vec<u8>>,
    /// Bytes of the first one that the link has.
    taken: usize,
}

impl Control {
    pub(super) fn say(&mut self, frame: &Frame<'_>) {
        self.say_bytes(frame.emit());
    }

    pub(super) fn say_bytes(&mut self, frame: Vec<u8>) {
        self.frames.push_back(frame);
    }

    /// Credit tells how much there was in all: one frame that waits is enough.
    pub(super) fn say_credit(&mut self, given: u64) {
        let frame = Frame::Credit(given).emit();
        let begun = self.frames.len() == 1 && self.taken > 0;
        match self.frames.back_mut() {
            Some(last) if !begun && last.get(3) == Some(&(Kind::Credit as u8)) => *last = frame,
            _ => self.frames.push_back(frame),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(super) fn next(&self) -> Option<&[u8]> {
        self.frames.front()?.get(self.taken..)
    }

    pub(super) fn taken(&mut self, count: usize) {
        self.taken += count;
        if self
            .frames
            .front()
            .is_some_and(|frame| self.taken >= frame.len())
        {
            self.frames.pop_front();
            self.taken = 0;
        }
    }
}
