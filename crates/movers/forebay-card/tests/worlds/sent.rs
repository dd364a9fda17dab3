//! Frames, and how a program sends them.

use forebay_card::{Flushed, Sent};
use forebay_sys::clock::monotonic_ns;

use super::{SECOND_NS, World, frame, is_writable, tagged};

/// Frames of all lengths, some with a tag.
pub(crate) fn all_lengths() -> Vec<Vec<u8>> {
    let lengths = (18..=1_514).step_by(7).chain([1_514]);
    lengths
        .zip(0..)
        .map(|(bytes, number)| match number % 3 {
            0 => tagged(number, bytes + 4),
            _ => frame(number, bytes),
        })
        .collect()
}

pub(crate) fn none() -> Vec<Vec<u8>> {
    Vec::new()
}

pub(crate) fn few() -> Vec<Vec<u8>> {
    (0..10).map(|number| frame(number, 100)).collect()
}

/// Sends all of these as a program would: what there is no room for is sent again when there is.
pub(crate) fn send_all(world: &mut World, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let until_ns = monotonic_ns() + 60 * SECOND_NS;
    let mut came = Vec::new();
    for frame in frames {
        loop {
            match world.driver.send.send(frame) {
                Sent::Taken => break,
                Sent::NoRoom => {}
                Sent::Refused(why) => panic!("{} bytes: {why:?}", frame.len()),
            }
            world.driver.send.flush();
            came.extend(world.far.receive());
            let descriptor = world.driver.send.descriptor();
            assert!(is_writable(descriptor, 20 * SECOND_NS));
            assert!(monotonic_ns() < until_ns);
        }
    }
    came.extend(flush(world));
    came
}

/// Flushes until all is with the card, or given up, and gives what comes at the far end meanwhile.
pub(crate) fn flush(world: &mut World) -> Vec<Vec<u8>> {
    let until_ns = monotonic_ns() + 60 * SECOND_NS;
    let mut came = Vec::new();
    while world.driver.send.flush() != Flushed::All {
        came.extend(world.far.receive());
        assert!(is_writable(world.driver.send.descriptor(), 20 * SECOND_NS));
        assert!(monotonic_ns() < until_ns);
    }
    came
}
