//! Subscriptions, and the answers to them.

use forebay_wire::net::{Entry, Frame, Refusal, Subscribe};

use super::Session;

impl Session {
    /// Asks for subscriptions to begin or end, as many as go into frames of `frame_bytes_max`; each frame has the number `request`. The peer judges and
    /// answers each frame by itself: of what takes several, some may be refused and others carried out. What is asked for under the same number while
    /// the frame before has not begun to go out goes with it.
    pub fn subscribe(
        &mut self,
        request: u32,
        begin: bool,
        entries: &[Entry],
        frame_bytes_max: usize,
    ) {
        let per_frame = Subscribe::entries_in(frame_bytes_max).max(1);
        self.control
            .say_subscribe(request, begin, entries, per_frame);
    }

    /// Answers a subscription.
    pub fn answer(&mut self, request: u32, refusal: Option<Refusal>) {
        self.control
            .say(&Frame::Subscribed(request, refusal.map(Ok)));
    }
}
