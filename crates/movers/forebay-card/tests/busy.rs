//! A card whose queue is full: the driver keeps what it has, and gives it again. The card is an interface whose other end is in this process, in a network
//! namespace that ends with its test.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use forebay_card::packet::{self, PacketOptions};
use forebay_card::{CardOutDrop, Driver, Flushed, Sent};
use forebay_sys::tap::Tap;
use forebay_testing::wire::{is_inside, may_have_tun, sh};

/// Frames that wait in the interface's queue.
const QUEUE: usize = 8;

/// The interface, and its other end; nothing where there can be none.
fn card(test: &str) -> Option<(Driver, Tap)> {
    if !may_have_tun() {
        return None;
    }
    if !is_inside(test) {
        return None;
    }
    let tap = Tap::open("tap0").unwrap();
    sh(&format!(
        "f=/proc/sys/net/ipv6/conf/tap0/disable_ipv6; [ ! -e $f ] || echo 1 > $f; ip link set tap0 txqueuelen {QUEUE} up"
    ));
    Some((
        packet::open("tap0", &PacketOptions::default()).unwrap(),
        tap,
    ))
}

/// A frame of a local experimental EtherType (IEEE 802), with its number behind the header.
fn frame(number: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    frame.resize(100, number);
    frame
}

/// The numbers of the frames that wait at the other end.
fn taken(tap: &Tap) -> Vec<u8> {
    let mut room = [0; 2048];
    let mut numbers = Vec::new();
    while let Ok(bytes) = tap.receive(&mut room) {
        assert_eq!(room[..bytes], frame(room[14]));
        numbers.push(room[14]);
    }
    numbers
}

#[test]
fn a_full_queue_of_the_card_costs_no_frame() {
    let Some((mut driver, tap)) = card("a_full_queue_of_the_card_costs_no_frame") else {
        return;
    };
    for number in 0..40 {
        assert_eq!(driver.send.send(&frame(number)), Sent::Taken);
    }
    let mut came = Vec::new();
    while driver.send.flush() == Flushed::Waits {
        let counts = driver.send.counts().unwrap();
        assert_eq!(counts.out + counts.held, 40, "{counts:?}");
        came.extend(taken(&tap));
    }
    came.extend(taken(&tap));
    assert_eq!(came, (0..40).collect::<Vec<_>>());
    let counts = driver.send.counts().unwrap();
    assert_eq!((counts.out, counts.held), (40, 0));
}

#[test]
fn a_queue_that_stays_full_costs_the_first_frame_alone() {
    let Some((mut driver, tap)) = card("a_queue_that_stays_full_costs_the_first_frame_alone")
    else {
        return;
    };
    for number in 0..10 {
        assert_eq!(driver.send.send(&frame(number)), Sent::Taken);
    }
    let dropped = |driver: &mut Driver| driver.send.counts().unwrap().dropped[CardOutDrop::Device];
    while dropped(&mut driver) == 0 {
        assert_eq!(driver.send.flush(), Flushed::Waits);
    }
    assert_eq!(dropped(&mut driver), 1, "the next one is waited for anew");
    let first: Vec<u8> = (0..8).collect();
    assert_eq!(taken(&tap), first);
    assert_eq!(driver.send.flush(), Flushed::All);
    assert_eq!(taken(&tap), [9], "8 was given up");
}
