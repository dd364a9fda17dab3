//! What only regions of memory can get wrong, by whose fault it is.

use std::fs::File;
use std::os::fd::OwnedFd;

use forebay_link::bytes::{ByteLinkError, Received, Region};

use crate::hostile::{World, world};
use crate::world::{Deadline, greeting, over_shm, pair};

/// References, as they stand in a piece.
fn references(words: &[[u64; 3]]) -> Vec<u8> {
    let words = words.iter().flatten();
    words.flat_map(|word| word.to_le_bytes()).collect()
}

fn blame(world: &mut World) -> &'static str {
    match world.link.receive() {
        Err(ByteLinkError::Broken { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

/// A descriptor of what is no sealed memory.
fn ordinary_file() -> OwnedFd {
    let file = tempfile::tempfile().unwrap();
    file.set_len(4096).unwrap();
    file.into()
}

#[test]
fn a_peer_that_lies_about_its_memory_is_named() {
    type Lie = fn(&mut World);
    let cases: [(Lie, &str); 9] = [
        (
            |world| world.piece(&references(&[[7, 0, 1]]), 1),
            "unknown_region",
        ),
        (
            |world| world.piece(&references(&[[7, 0, 1]; 5]), 5),
            "references",
        ),
        (|world| world.piece(&[0; 23], 1), "references"),
        (
            |world| {
                world.show(7);
                world.piece(&references(&[[7, 4096, 1]]), 1);
            },
            "references",
        ),
        (
            |world| {
                world.show(7);
                world.piece(&references(&[[7, u64::MAX, 2]]), 1);
            },
            "references",
        ),
        (
            |world| {
                world.show(7);
                world.show(7);
                world.piece(&references(&[[9, 0, 1]]), 1);
            },
            "regions",
        ),
        (
            |world| {
                (0..17).for_each(|number| world.show(number));
                world.piece(&references(&[[99, 0, 1]]), 1);
            },
            "regions",
        ),
        (
            |world| {
                world.say(&greeting(4, 7, 0), &[]);
                world.piece(&references(&[[7, 0, 1]]), 1);
            },
            "descriptors",
        ),
        (
            |world| {
                world.say(&greeting(4, 7, 0), &[ordinary_file()]);
                world.piece(&references(&[[7, 0, 1]]), 1);
            },
            "region",
        ),
    ];
    for (number, (lie, expected)) in cases.into_iter().enumerate() {
        let mut world = world();
        lie(&mut world);
        assert_eq!(blame(&mut world), expected, "case {number}");
    }
}

/// `/dev/null` is nobody's memory, and of no size.
#[test]
fn a_device_is_no_memory() {
    let mut world = world();
    let device = File::open("/dev/null").unwrap();
    world.say(&greeting(4, 7, 0), &[device.into()]);
    world.piece(&references(&[[7, 0, 1]]), 1);
    assert_eq!(blame(&mut world), "region");
}

#[test]
fn what_is_at_hand_is_there_until_the_next_look() {
    let mut world = world();
    world.show(7);
    world.piece(&references(&[[7, 100, 50], [7, 0, 0], [7, 4000, 96]]), 3);
    world.piece(b"all here", 0);
    assert_eq!(world.link.receive().unwrap(), Received::Some);
    let apart = world.link.apart().unwrap();
    assert_eq!(apart.len(), 146);
    let parts: Vec<usize> = apart.parts().map(|part| part.len()).collect();
    assert_eq!((parts, world.link.bytes().len()), (vec![50, 0, 96], 0));
    assert_eq!(world.link.receive().unwrap(), Received::Some);
    assert!(world.link.apart().is_none());
    assert_eq!(world.link.bytes(), b"all here");
}

/// So many regions that the peer would not take: what lies in the last ones is copied, and comes all the same.
#[test]
fn a_seventeenth_region_is_copied() {
    let backend = over_shm().unwrap_or_else(|reason| panic!("{reason}"));
    let mut pair = pair(&backend);
    let deadline = Deadline::begin();
    for number in 0..20_u8 {
        let mut region = Region::create("many", 1).unwrap();
        region.bytes_mut()[..3].fill(number);
        while pair.near.send_from(b"x", &region, &[0..3]).unwrap() == 0 {
            deadline.check();
        }
        while pair.far.receive().unwrap() == Received::Nothing {
            deadline.check();
        }
        let mut came = pair.far.bytes().to_vec();
        let apart = pair.far.apart();
        assert_eq!(apart.is_some(), number < 16);
        if let Some(apart) = apart {
            apart.copy_to(&mut came);
        }
        assert_eq!(came, [b'x', number, number, number]);
        pair.far.used(came.len());
    }
}

#[test]
fn a_range_that_the_region_does_not_have_is_the_callers_mistake() {
    let backend = over_shm().unwrap_or_else(|reason| panic!("{reason}"));
    let mut pair = pair(&backend);
    let region = Region::create("small", 100).unwrap();
    let error = pair
        .near
        .send_from(b"", &region, &[4000..4097])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "bytes 4000 to 4097 of a region of 4096 bytes"
    );
}
