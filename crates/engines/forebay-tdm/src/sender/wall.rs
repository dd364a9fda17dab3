//! Disciplined wall clocks, here and at the receiver.

use forebay_wire::tdm::Welcome;

use super::Sender;
use crate::clock::Wall;

impl Sender {
    /// The wall clock here; none when nobody disciplines it. To be told again every now and then: bounds grow.
    pub fn handle_wall(&mut self, now_ns: u64, wall: Option<Wall>) {
        self.walls[0] = wall;
        self.bound_clock(now_ns);
    }

    /// What a welcome says of the receiver's.
    pub(super) fn take_wall(&mut self, now_ns: u64, welcome: &Welcome) {
        self.walls[1] = (welcome.wall_error_ns > 0).then(|| Wall {
            ahead_ns: welcome.wall_ns.cast_signed(),
            error_ns: welcome.wall_error_ns,
        });
        self.bound_clock(now_ns);
    }

    /// The receiver says that its wall clock is disciplined.
    #[must_use]
    pub const fn receiver_is_disciplined(&self) -> bool {
        self.walls[1].is_some()
    }

    fn bound_clock(&mut self, now_ns: u64) {
        let [here, there] = self.walls;
        self.clock.bound(now_ns, here.zip(there));
    }
}
