//! Pages over a connection of each provider that this host has.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "tests say what they met")]

mod pair;

use forebay_fabric::{Config, Endpoint, FabricError, Received};
use pair::{Pair, deadline, libfabric, pair, pattern, push, until};

/// One page from one end to the other.
fn carry(from: &mut Endpoint, to: &mut Endpoint, page: &[u8]) {
    push(from, to, page);
    until("a page comes", || {
        from.receive().unwrap();
        (to.receive().unwrap() == Received::Some).then_some(())
    });
    assert_eq!(to.bytes(), page);
    to.used(page.len());
    assert!(to.bytes().is_empty());
}

fn sizes_both_ways(provider: &str) {
    let config = Config::default();
    let Some(Pair {
        mut near, mut far, ..
    }) = pair(provider, &config)
    else {
        return;
    };
    for len in [
        1, 2, 63, 64, 127, 128, 4_095, 4_096, 4_097, 20_000, 65_536, 66_000,
    ] {
        let page = pattern(len as u64, len);
        carry(&mut near, &mut far, &page);
        carry(&mut far, &mut near, &page);
    }
    for end in [&near, &far] {
        let totals = end.totals();
        assert_eq!((totals.pages_sent, totals.pages_received), (12, 12));
        assert_eq!(totals.bytes_sent, totals.bytes_received);
    }
}

#[test]
fn sizes_both_ways_over_tcp() {
    sizes_both_ways("tcp");
}

/// Another provider with connections, which nothing here was written for.
#[test]
fn sizes_both_ways_over_net() {
    sizes_both_ways("net");
}

/// Where there is an RDMA device.
#[test]
fn sizes_both_ways_over_verbs() {
    sizes_both_ways("verbs");
}

/// The receiver does not look until the sender cannot go on; then all comes, in order and whole.
fn held_back(provider: &str, pages: u64) {
    let config = Config {
        page_bytes: 20_000,
        receive_pages: 16,
        send_pages: 16,
        ..Config::default()
    };
    let Some(Pair {
        mut near, mut far, ..
    }) = pair(provider, &config)
    else {
        return;
    };
    let page = |number: u64| pattern(number, 1 + (number as usize * 37) % 20_000);
    push(&mut near, &mut far, &page(0));
    let mut sent = 1;
    let mut refused = 0;
    // What the kernel's sockets hold comes to it; a sender that was never held back would go on for ever.
    until("the sender is held back", || {
        match near.send(&[&page(sent)]).unwrap() {
            0 => refused += 1,
            _ => (sent, refused) = (sent + 1, 0),
        }
        assert!(sent < pages, "nothing held the sender back");
        (refused > 2_000).then_some(())
    });
    let held_at = sent;
    println!("{provider}: held back after {held_at} pages");
    let mut received = 0;
    until("all comes", || {
        while sent < pages && near.send(&[&page(sent)]).unwrap() > 0 {
            sent += 1;
        }
        // Sends get on when the sender looks, also those that were taken.
        near.receive().unwrap();
        while !far.bytes().is_empty() || far.receive().unwrap() == Received::Some {
            assert_eq!(far.bytes(), page(received), "page {received}");
            far.used(usize::MAX);
            received += 1;
        }
        (received == pages).then_some(())
    });
    near.finish();
    until("the end comes", || {
        near.receive().unwrap();
        (far.receive().unwrap() == Received::Ended).then_some(())
    });
    until("it is drained", || near.is_drained().then_some(()));
    let (near, far) = (near.totals(), far.totals());
    assert_eq!(near.pages_sent, pages);
    assert_eq!(near.pages_completed, pages);
    assert_eq!(near.unconfirmed_pages(), 0);
    assert_eq!(
        (far.pages_received, far.bytes_received),
        (pages, near.bytes_sent)
    );
    assert!(near.sends_without_room > 2_000);
}

#[test]
fn a_receiver_that_stops_holds_the_sender_back_over_tcp() {
    held_back("tcp", 10_000);
}

fn ends_in_order(provider: &str) {
    let config = Config {
        receive_pages: 2,
        ..Config::default()
    };
    let Some(Pair {
        mut near, mut far, ..
    }) = pair(provider, &config)
    else {
        return;
    };
    // One side ends; the other one still sends.
    push(&mut near, &mut far, b"last");
    near.finish();
    assert_eq!(near.send(&[b"more"]).unwrap_err(), FabricError::AfterEnd);
    until("the last page comes", || {
        near.receive().unwrap();
        far.receive().unwrap();
        (far.bytes() == b"last").then_some(())
    });
    assert_eq!(far.bytes(), b"last");
    assert_eq!(far.receive().unwrap(), Received::Nothing);
    far.used(4);
    until("the end comes", || {
        near.receive().unwrap();
        (far.receive().unwrap() == Received::Ended).then_some(())
    });
    carry(&mut far, &mut near, b"answer");
    far.finish();
    until("the other end comes", || {
        far.receive().unwrap();
        (near.receive().unwrap() == Received::Ended).then_some(())
    });
    drop(near);
    // It stays ended when the peer has gone.
    for _ in 0..100 {
        assert_eq!(far.receive().unwrap(), Received::Ended);
    }
}

#[test]
fn a_side_ends_and_the_other_goes_on_over_tcp() {
    ends_in_order("tcp");
}

/// What was sent before the end comes, also when the sender is dropped at once.
fn dropped_after_the_end(provider: &str) {
    let config = Config {
        page_bytes: 4_000,
        receive_pages: 4,
        ..Config::default()
    };
    let Some(Pair {
        mut near, mut far, ..
    }) = pair(provider, &config)
    else {
        return;
    };
    push(&mut near, &mut far, &[7; 4_000]);
    let mut sent = 1;
    for _ in 0..20 {
        sent += u64::from(near.send(&[&[7; 4_000]]).unwrap() > 0);
    }
    near.finish();
    let sender = std::thread::spawn(move || drop(near));
    let mut received = 0;
    until("all comes, and the end", || match far.receive().unwrap() {
        Received::Some => {
            far.used(4_000);
            received += 1;
            None
        }
        Received::Nothing => None,
        Received::Ended => Some(()),
    });
    assert_eq!(received, sent);
    sender.join().unwrap();
}

#[test]
fn what_was_sent_comes_though_the_sender_is_dropped_over_tcp() {
    dropped_after_the_end("tcp");
}

fn smaller_pages(provider: &str) {
    let Some(libfabric) = libfabric() else { return };
    let small = Config {
        page_bytes: 100,
        ..Config::default()
    };
    let mut listener = libfabric.listen(provider, pair::PLACE, &small).unwrap();
    let address = listener.local_address().unwrap();
    let near = libfabric.connect(provider, &address, &Config::default());
    let mut near = near.unwrap();
    assert_eq!(near.page_bytes_max(), 66_000);
    let mut far = pair::meet(&mut listener, &mut near);
    assert_eq!((near.page_bytes_max(), far.page_bytes_max()), (100, 100));
    let error = near.send(&[&[0; 60], &[0; 41]]).unwrap_err();
    let expected = FabricError::TooLong {
        bytes: 101,
        most: 100,
    };
    assert_eq!(error, expected);
    push(&mut near, &mut far, &[0; 100]);
}

#[test]
fn the_smaller_page_of_both_limits_over_tcp() {
    smaller_pages("tcp");
}

/// A receiver that sleeps whenever it is told that it may misses nothing.
#[test]
fn a_sleeper_is_woken_over_tcp() {
    let config = Config {
        page_bytes: 1_000,
        receive_pages: 4,
        send_pages: 4,
        ..Config::default()
    };
    let Some(Pair {
        mut near, mut far, ..
    }) = pair("tcp", &config)
    else {
        return;
    };
    assert!(!far.must_be_polled());
    const PAGES: u64 = 5_000;
    let receiver = std::thread::spawn(move || {
        let mut received = 0_u64;
        loop {
            match far.receive().unwrap() {
                Received::Some => {
                    assert_eq!(far.bytes(), received.to_le_bytes());
                    far.used(8);
                    received += 1;
                }
                Received::Ended => return received,
                Received::Nothing if far.arm(false).unwrap() => pair::sleep(far.fds()),
                Received::Nothing => {}
            }
        }
    });
    for number in 0..PAGES {
        while near.send(&[&number.to_le_bytes()]).unwrap() == 0 {
            if near.arm(true).unwrap() {
                pair::sleep(near.fds());
            }
        }
    }
    near.finish();
    until("it is drained", || near.is_drained().then_some(()));
    assert_eq!(receiver.join().unwrap(), PAGES);
    assert!(deadline() > std::time::Instant::now());
}

/// One page is taken, and those behind it have none to go to.
fn delivery_confirmed(provider: &str) {
    let config = Config {
        confirm_delivery: true,
        page_bytes: 10_000,
        receive_pages: 1,
        ..Config::default()
    };
    let Some(Pair {
        mut near, mut far, ..
    }) = pair(provider, &config)
    else {
        return;
    };
    push(&mut near, &mut far, &[0; 10_000]);
    let mut behind = 0;
    while behind < 3 && near.send(&[&[1; 10_000]]).unwrap() > 0 {
        behind += 1;
    }
    until("one is there", || {
        near.receive().unwrap();
        far.receive().unwrap();
        (!far.bytes().is_empty()).then_some(())
    });
    until("one is confirmed", || {
        near.receive().unwrap();
        far.receive().unwrap();
        (near.totals().pages_completed == 1).then_some(())
    });
    assert_eq!(near.unconfirmed_pages(), behind);
    drop(far);
    until("the loss shows", || near.receive().err());
    assert_eq!(near.unconfirmed_pages(), behind);
}

#[test]
fn delivery_can_be_confirmed_over_tcp() {
    delivery_confirmed("tcp");
}
