//! Frames other than buffers of messages, on their way out.

use std::collections::VecDeque;

use forebay_wire::net::{Credit, Entry, Frame, Kind, Subscribe};

/// They go one by one, so that a link that keeps pieces has one frame in each.
#[derive(Debug, Default)]
pub(super) struct Control {
    frames: VecDeque<Vec<u8>>,
    /// Bytes of the first one that the link has.
    taken: usize,
    /// How many of them answer what the peer asked.
    answers: usize,
}

fn is_of(frame: &[u8], kind: Kind) -> bool {
    frame.get(3) == Some(&(kind as u8))
}

impl Control {
    pub(super) fn say(&mut self, frame: &Frame<'_>) {
        self.answers += usize::from(frame.kind() == Kind::Subscribed);
        self.frames.push_back(frame.emit());
    }

    /// As many entries in a frame as `most`; the first ones go with the frame that waits last, if that is the same request.
    pub(super) fn say_subscribe(
        &mut self,
        request: u32,
        begin: bool,
        mut entries: &[Entry],
        most: usize,
    ) {
        if let Some(last) = self.last_unbegun() {
            let added = Subscribe::extend_frame(last, request, begin, entries, most);
            entries = &entries[added..];
        }
        for some in entries.chunks(most) {
            let frame = Subscribe::to_frame(request, begin, some);
            self.frames.push_back(frame);
        }
    }

    /// The last frame, if the link has none of it.
    fn last_unbegun(&mut self) -> Option<&mut Vec<u8>> {
        let begun = self.frames.len() == 1 && self.taken > 0;
        self.frames.back_mut().filter(|_| !begun)
    }

    /// Credit tells how much there was in all: one frame that waits is enough.
    pub(super) fn say_credit(&mut self, credit: Credit) {
        let frame = Frame::Credit(credit).emit();
        match self.last_unbegun() {
            Some(last) if is_of(last, Kind::Credit) => *last = frame,
            _ => self.frames.push_back(frame),
        }
    }

    /// Answers that wait.
    pub(super) fn answers(&self) -> usize {
        self.answers
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(super) fn next(&self) -> Option<&[u8]> {
        self.frames.front()?.get(self.taken..)
    }

    pub(super) fn taken(&mut self, count: usize) {
        self.taken += count;
        let done = self.frames.front().map(|frame| self.taken >= frame.len());
        if done == Some(true) {
            let done = self.frames.pop_front().unwrap_or_default();
            self.answers -= usize::from(is_of(&done, Kind::Subscribed));
            self.taken = 0;
        }
    }
}
