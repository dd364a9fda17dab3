//! What every driver of a card promises, held on all of them by the same tests. Those of an interface need root, and say so if they are left out.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod worlds;

use forebay_card::account::OutDrops;
use forebay_card::{
    CardInDrop, CardOutDrop, CardState, CardWatch, Change, Fate, Flushed, Link, SendCounts, Sent,
};
use forebay_sys::clock::monotonic_ns;
use worlds::sent::{all_lengths, few, flush, none, send_all};
use worlds::{
    Kind, Room, SECOND_NS, Threads, World, frame, is_readable, is_writable, receive, run, tagged,
};

/// A test for each of these kinds, with what the far end sends to begin with.
macro_rules! held {
    ($test:ident, $room:expr, $first:expr, $($name:ident $kind:ident),+) => {
        mod $test {
            use super::*;
            $(#[test]
            fn $name() {
                let name = concat!(stringify!($test), "::", stringify!($name));
                run(name, (Kind::$kind, Threads::One), $room, $first, super::$test);
            })+

            /// Frames go in a thread of their own.
            mod apart {
                use super::*;
                $(#[test]
                fn $name() {
                    let name = concat!(stringify!($test), "::apart::", stringify!($name));
                    run(name, (Kind::$kind, Threads::Two), $room, $first, super::super::$test);
                })+
            }
        }
    };
}

/// What came adds up, and what went; both when nothing is under way.
fn assert_closed(world: &mut World) {
    let came = world.driver.receive.counts().unwrap();
    assert_eq!((came.residual(), came.held), (0, 0), "{came:?}");
    let until_ns = monotonic_ns() + 20 * SECOND_NS;
    loop {
        // A buffer that went comes back with a later flush.
        let flushed = world.driver.send.flush();
        let went = world.driver.send.counts().unwrap();
        assert_eq!(went.residual(), 0, "{went:?}");
        if flushed == Flushed::All && went.held == 0 {
            assert_told(world, &went);
            return;
        }
        assert!(monotonic_ns() < until_ns, "{went:?}");
    }
}

/// The fate of each frame was told, as it is counted.
fn assert_told(world: &mut World, went: &SendCounts) {
    let (mut out, mut dropped) = (0, OutDrops::default());
    world.driver.send.fates(&mut |fate| match fate {
        Fate::Out => out += 1,
        Fate::Dropped(why) => dropped[why] += 1,
    });
    assert_eq!((out, dropped), (went.out, went.dropped));
}

held!(
    frames_come_once_in_order_and_whole,
    Room::Ample, all_lengths,
    packet Packet, blocks Blocks, xdp Xdp, tap Tap, pcap Pcap, emulated Emulated);

fn frames_come_once_in_order_and_whole(mut world: World) {
    // What this end sends, and what the host does, comes to nobody here.
    send_all(&mut world, &few());
    world.far.host_sends();
    let frames = all_lengths();
    assert_eq!(world.begin(), frames.len() as u64);
    world.far.host_sends();
    assert_eq!(world.receive(frames.len()), frames);
    // Nothing that came is of another one: the host's frames did not come, as a program that looked for them would have to filter.
    let counts = world.driver.receive.counts().unwrap();
    let bytes = frames.iter().map(|frame| frame.len() as u64).sum::<u64>();
    if world.kind != Kind::Tap {
        let visited = (counts.visited.items, counts.visited.bytes);
        assert_eq!(visited, (frames.len() as u64, bytes));
    }
    assert_closed(&mut world);
}

held!(
    what_is_sent_arrives_byte_for_byte,
    Room::Ample, none,
    packet Packet, blocks Blocks, xdp Xdp, tap Tap, pcap Pcap, emulated Emulated);

fn what_is_sent_arrives_byte_for_byte(mut world: World) {
    let frames = all_lengths();
    let mut came = Vec::new();
    for some in frames.chunks(50) {
        let mut these = send_all(&mut world, some);
        let missing = some.len() - these.len();
        these.extend(world.far_receives(missing));
        came.extend(these);
    }
    // None was padded: no kind of these cards does that.
    assert_eq!(came, frames);
    let counts = world.driver.send.counts().unwrap();
    let bytes = frames.iter().map(|frame| frame.len() as u64).sum::<u64>();
    let taken = (counts.taken.items, counts.taken.bytes);
    assert_eq!(taken, (frames.len() as u64, bytes));
    assert_closed(&mut world);
    let counts = world.driver.send.counts().unwrap();
    assert_eq!(counts.out, frames.len() as u64);
}

held!(
    a_frame_is_written_where_the_driver_has_it_or_nothing_of_it_goes,
    Room::Ample, none,
    packet Packet, blocks Blocks, xdp Xdp, tap Tap, pcap Pcap, emulated Emulated);

fn a_frame_is_written_where_the_driver_has_it_or_nothing_of_it_goes(mut world: World) {
    let frames: Vec<_> = (0..60)
        .map(|number| frame(number, 100 + number as usize))
        .collect();
    for (number, frame) in frames.iter().enumerate() {
        let is_there = number % 3 != 1;
        let mut fill = |place: &mut [u8]| {
            // Also of a frame that fails something was written.
            place.copy_from_slice(frame);
            is_there
        };
        let wanted = match is_there {
            true => Sent::Taken,
            false => Sent::Refused(CardOutDrop::NotFilled),
        };
        let sent = world.driver.send.send_with(frame.len(), &mut fill);
        assert_eq!(sent, wanted);
    }
    for bytes in [13, 1_519] {
        let unasked = &mut |_: &mut [u8]| panic!("{bytes} bytes");
        let sent = world.driver.send.send_with(bytes, unasked);
        assert!(matches!(sent, Sent::Refused(_)));
    }
    world.driver.send.flush();
    let wanted: Vec<_> = (0..60).filter(|number| number % 3 != 1).collect();
    let wanted: Vec<_> = wanted.iter().map(|at| frames[*at].clone()).collect();
    assert_eq!(world.far_receives(wanted.len()), wanted);
    let counts = world.driver.send.counts().unwrap();
    assert_eq!(counts.refused[CardOutDrop::NotFilled], 20);
    assert_eq!(counts.taken.items, wanted.len() as u64);
    assert_closed(&mut world);
}

held!(
    a_frame_that_is_too_long_or_short_is_refused_by_name,
    Room::Ample, none,
    packet Packet, blocks Blocks, xdp Xdp, tap Tap, pcap Pcap, emulated Emulated);

fn a_frame_that_is_too_long_or_short_is_refused_by_name(mut world: World) {
    let send = &mut world.driver.send;
    assert_eq!(send.send(&frame(0, 100)), Sent::Taken);
    let too_long = Sent::Refused(CardOutDrop::TooLong);
    assert_eq!(send.send(&frame(1, 1_519)), too_long);
    let too_short = Sent::Refused(CardOutDrop::TooShort);
    assert_eq!(send.send(&frame(2, 13)), too_short);
    assert_eq!(send.send(&tagged(3, 1_518)), Sent::Taken);
    // One byte too many for the interface, if there is one: at once, or when the kernel has seen it.
    let knows_mtu = !matches!(world.kind, Kind::Tap | Kind::Pcap);
    let mut refused = 1;
    if knows_mtu {
        assert_ne!(send.send(&frame(4, 1_515)), Sent::NoRoom);
        refused += 1;
    }
    assert_eq!(send.send(&frame(5, 1_514)), Sent::Taken);
    let mut came = flush(&mut world);
    let counts = world.driver.send.counts().unwrap();
    let of = |why| counts.refused[why] + counts.dropped[why];
    assert_eq!(of(CardOutDrop::TooLong), refused, "{counts:?}");
    assert_eq!(of(CardOutDrop::TooShort), 1);
    let wanted = [frame(0, 100), tagged(3, 1_518), frame(5, 1_514)];
    came.extend(world.far_receives(3 - came.len()));
    assert_eq!(came, wanted);
    assert_closed(&mut world);
}

held!(
    a_frame_that_comes_too_long_is_dropped_by_name,
    Room::Ample, none,
    packet Packet, blocks Blocks, xdp Xdp, tap Tap, emulated Emulated);

fn a_frame_that_comes_too_long_is_dropped_by_name(mut world: World) {
    world.far.set_mtu(3_000);
    let frames = [
        tagged(0, 1_518),
        frame(1, 1_519),
        frame(2, 2_900),
        frame(3, 100),
    ];
    for frame in &frames {
        assert!(world.far.send(frame));
    }
    assert_eq!(world.receive(2), [&frames[0][..], &frames[3]]);
    let counts = world.driver.receive.counts().unwrap();
    assert_eq!(counts.dropped, [(CardInDrop::TooLong, 2)].into());
    assert_closed(&mut world);
}

held!(
    full_means_no_room_now_and_room_later,
    Room::LittleOut, none,
    packet Packet, blocks Blocks, xdp Xdp, tap Tap, emulated Emulated);

/// Sends until there is no room.
fn fill(world: &mut World, frames: &mut Vec<Vec<u8>>) {
    loop {
        let next = frame(frames.len() as u32, 1_000);
        match world.driver.send.send(&next) {
            Sent::Taken => frames.push(next),
            Sent::NoRoom => return,
            Sent::Refused(why) => panic!("{why:?}"),
        }
        assert!(frames.len() < 10_000, "it never has no room");
    }
}

fn full_means_no_room_now_and_room_later(mut world: World) {
    let mut frames = Vec::new();
    fill(&mut world, &mut frames);
    let taken = world.driver.send.counts().unwrap();
    assert_eq!((taken.taken.items, taken.no_room), (frames.len() as u64, 1));
    assert_eq!(taken.residual(), 0, "{taken:?}");
    // A TAP interface has none that waits here: each goes at once, or finds no room. A thread takes some away meanwhile.
    if world.threads == Threads::One {
        assert_eq!(taken.held > 0, world.kind != Kind::Tap, "{taken:?}");
    }
    // A port past the stack is told of room early; all others when there is some. One that is held up finds some: then it is filled again.
    while world.kind != Kind::Xdp {
        world.driver.send.flush();
        if !is_writable(world.driver.send.descriptor(), 0) {
            break;
        }
        fill(&mut world, &mut frames);
    }
    // All that was taken, and as much again.
    let more = (0..400).map(|number| frame(10_000 + number, 1_000));
    let more = more.collect::<Vec<_>>();
    let mut came = send_all(&mut world, &more);
    frames.extend(more);
    let missing = frames.len() - came.len();
    came.extend(world.far_receives(missing));
    assert_eq!(came, frames);
    assert_closed(&mut world);
    let counts = world.driver.send.counts().unwrap();
    assert_eq!(counts.dropped.total() + counts.refused.total(), 0);
}

fn too_many() -> Vec<Vec<u8>> {
    (0..3_000).map(|number| frame(number, 500)).collect()
}

held!(
    books_close_when_frames_are_lost,
    Room::LittleIn, too_many,
    packet Packet, blocks Blocks, xdp Xdp, tap Tap, emulated Emulated);

fn books_close_when_frames_are_lost(mut world: World) {
    let carried = world.begin();
    // An interface that has no room says so to its sender at once, and counts the frame all the same.
    let sent = match world.kind {
        Kind::Tap => too_many().len() as u64,
        _ => carried,
    };
    let mut came = Vec::new();
    let receive = &mut world.driver.receive;
    let until_ns = monotonic_ns() + 20 * SECOND_NS;
    let counts = loop {
        let mut visit = |frame: &[u8]| came.push(frame.to_vec());
        receive.receive(16, &mut visit).unwrap();
        receive.settle();
        let counts = receive.counts().unwrap();
        if counts.held == 0 && came.len() as u64 + counts.dropped.total() >= sent {
            break counts;
        }
        assert!(monotonic_ns() < until_ns, "{sent} sent: {counts:?}");
    };
    let lost = counts.dropped[CardInDrop::RingFull] + counts.dropped[CardInDrop::NoBuffer];
    assert!(lost > 0, "{counts:?}");
    assert_eq!(counts.residual(), 0, "{counts:?}");
    assert_eq!(came.len() as u64, counts.visited.items);
    assert_eq!(counts.came, sent, "{counts:?}");
    // Those that came are whole, and in order.
    let mut sent = too_many().into_iter();
    assert!(came.iter().all(|frame| sent.any(|sent| sent == *frame)));
}

held!(
    a_link_that_goes_down_and_up_is_survived_and_told,
    Room::Ample, none,
    packet Packet, blocks Blocks, xdp Xdp, tap Tap, emulated Emulated);

fn change(from: Link, to: Link) -> Vec<Change> {
    vec![Change::Link { from, to }]
}

fn a_link_that_goes_down_and_up_is_survived_and_told(mut world: World) {
    let mut watch = CardWatch::new(world.driver.card.look());
    let mut told = |world: &mut World| {
        let state = world.driver.card.look();
        watch.observe(state).collect::<Vec<_>>()
    };
    assert_eq!(told(&mut world), []);
    let mut told_next = |world: &mut World| {
        // A carrier is noticed by the kernel some time after it went.
        let until_ns = monotonic_ns() + 20 * SECOND_NS;
        loop {
            let changes = told(world);
            if !changes.is_empty() {
                assert_eq!(told(world), []);
                return changes;
            }
            assert!(monotonic_ns() < until_ns);
        }
    };
    let downs: &[Link] = match world.kind {
        Kind::Tap => &[Link::Down],
        _ => &[Link::Down, Link::NoCarrier],
    };
    for (round, down) in downs.iter().enumerate() {
        world.far.set_link(*down);
        assert_eq!(told_next(&mut world), change(Link::Up, *down));
        // What woke a wait is taken away by this, and nothing comes.
        world.driver.receive.settle();
        let came = world.driver.receive.receive(16, &mut |_| panic!("a frame"));
        assert_eq!(came.unwrap(), 0);
        assert!(!is_readable(world.driver.receive.descriptor()));
        // What is sent meanwhile is given up by name, or waits.
        let mut lost = 0;
        if world.driver.send.send(&frame(7, 100)) == Sent::Taken {
            // What waits for an interface past the stack waits until it is up.
            if world.kind == Kind::Xdp {
                world.driver.send.flush();
            } else {
                flush(&mut world);
            }
            let counts = world.driver.send.counts().unwrap();
            lost = counts.dropped.total();
            assert_eq!(counts.residual(), 0, "{counts:?}");
        }
        if world.kind != Kind::Xdp {
            assert_eq!(lost, round as u64 + 1);
        }
        world.far.set_link(Link::Up);
        assert_eq!(told_next(&mut world), change(*down, Link::Up));
        world.driver.receive.settle();
        for frame in few() {
            assert!(world.far.send(&frame));
        }
        assert_eq!(world.receive(10), few());
        let mut came = send_all(&mut world, &few());
        while !came.ends_with(&few()) {
            came.extend(world.far_receives(1));
        }
    }
    assert_closed(&mut world);
}

held!(
    a_change_of_the_longest_packet_is_told,
    Room::Ample, none,
    packet Packet, blocks Blocks, xdp Xdp, tap Tap, emulated Emulated);

fn a_change_of_the_longest_packet_is_told(mut world: World) {
    let first = world.driver.card.look();
    assert_eq!(first.mtu_bytes, 1_500);
    let mut watch = CardWatch::new(first);
    world.far.set_mtu(1_400);
    let now = world.driver.card.look();
    let (from, to) = (1_500, 1_400);
    assert!(watch.observe(now).eq([Change::Mtu { from, to }]));
    let wanted = CardState {
        mtu_bytes: 1_400,
        ..first
    };
    assert_eq!(now, wanted);
    world.driver.send.send(&frame(0, 1_414));
    world.driver.send.send(&frame(1, 1_415));
    let mut came = flush(&mut world);
    let counts = world.driver.send.counts().unwrap();
    let too_long = counts.refused[CardOutDrop::TooLong] + counts.dropped[CardOutDrop::TooLong];
    // The host takes any length that is put into it.
    let wanted = u64::from(world.kind != Kind::Tap);
    assert_eq!(too_long, wanted, "{counts:?}");
    came.extend(world.far_receives(1 - came.len().min(1)));
    assert_eq!(came[0], frame(0, 1_414));
}

held!(
    a_card_that_is_gone_is_told_and_harms_nobody,
    Room::Ample, none,
    packet Packet, blocks Blocks, xdp Xdp, tap Tap, emulated Emulated);

fn is_readable_soon(world: &World) -> bool {
    let until_ns = monotonic_ns() + 20 * SECOND_NS;
    while !is_readable(world.driver.receive.descriptor()) {
        if monotonic_ns() > until_ns {
            return false;
        }
    }
    true
}

fn a_card_that_is_gone_is_told_and_harms_nobody(mut world: World) {
    // What was visited is in the books, though nobody may be asked for it any more.
    world.far.send(&frame(9, 100));
    assert!(is_readable_soon(&world));
    let visited = world.driver.receive.receive(16, &mut |_| {}).unwrap();
    world.far.set_link(Link::Gone);
    let state = world.driver.card.look();
    assert_eq!((state.link, state.mtu_bytes), (Link::Gone, 0));
    if world.kind == Kind::Tap {
        let counts = world.driver.receive.counts().unwrap();
        assert_eq!(
            (counts.came, counts.residual()),
            (visited as u64, 0),
            "{counts:?}"
        );
    }
    world.driver.receive.settle();
    let came = world.driver.receive.receive(16, &mut |_| panic!("a frame"));
    assert_eq!(came.unwrap(), 0);
    world.driver.send.send(&frame(0, 100));
    if world.kind == Kind::Xdp {
        world.driver.send.flush();
    } else {
        flush(&mut world);
    }
    let counts = world.driver.send.counts().unwrap();
    assert_eq!(counts.residual(), 0);
    if world.kind != Kind::Xdp {
        assert_eq!(counts.dropped[CardOutDrop::Gone], 1, "{counts:?}");
    }
}

held!(
    each_half_may_have_a_thread,
    Room::Ample, all_lengths,
    packet Packet, blocks Blocks, xdp Xdp, tap Tap, pcap Pcap, emulated Emulated);

fn each_half_may_have_a_thread(mut world: World) {
    let frames = all_lengths();
    let (_, none_comes) = (none(), few());
    let World {
        driver: forebay_card::Driver { receive: half, .. },
        ..
    } = &mut world;
    // The half goes away for good: what stays in its place is of another card.
    let (other, _far) =
        forebay_card::emulated::open(&forebay_card::emulated::EmulatedOptions::default()).unwrap();
    let mut half = std::mem::replace(half, other.receive);
    let wanted = frames.len();
    let thread = std::thread::spawn(move || receive(&mut *half, wanted));
    let mut went = send_all(&mut world, &none_comes);
    world.begin();
    went.extend(send_all(&mut world, &frames));
    let all = [none_comes, frames.clone()].concat();
    let missing = all.len() - went.len();
    went.extend(world.far_receives(missing));
    assert_eq!(went, all);
    assert_eq!(thread.join().unwrap(), frames);
}
