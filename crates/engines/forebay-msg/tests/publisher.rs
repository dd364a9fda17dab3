//! Which subscriber gets what, and what a slow one costs the others.

#![allow(clippy::unwrap_used, reason = "a test may stop at what must not be")]

use forebay_msg::{Config, Inbound, PATTERNS_MAX, PeerId, Published, Publisher, Slow};
use forebay_wire::net::{Entry, Refusal};

fn publisher() -> Publisher {
    Publisher::new(&Config {
        block_ns: 1_000,
        ..Config::default()
    })
    .unwrap()
}

/// What is ready for a peer, as tags; it gives all of it back when `credit`.
fn drain(publisher: &mut Publisher, id: PeerId, inbound: &mut Inbound, credit: bool) -> Vec<u64> {
    let outbound = publisher.peer(id).unwrap();
    outbound.flush();
    let mut tags = Vec::new();
    let mut frames = 0;
    while let Some(frame) = outbound.poll_transmit() {
        frames += 1;
        assert!(frames <= 10_000, "the same frame again and again");
        let frame = frame.to_vec();
        tags.extend(
            inbound
                .handle_frame(&frame)
                .unwrap()
                .map(|message| message.tag),
        );
        outbound.handle_transmitted();
    }
    if credit {
        outbound.handle_credit(&inbound.credit()).unwrap();
    }
    tags
}

#[test]
fn each_gets_its_tags_and_wildcards_match() {
    let mut publisher = publisher();
    let one = publisher.add(1, Slow::Block, 1000, 4).unwrap();
    let all = publisher.add(2, Slow::Block, 1000, 4).unwrap();
    let three = [Entry::one(0x11), Entry::one(0x12), Entry::one(0x11)];
    publisher.subscribe(one, three).unwrap();
    publisher
        .subscribe(
            all,
            [Entry {
                tag: 0x10,
                mask: !0xf,
            }],
        )
        .unwrap();
    assert_eq!(publisher.subscriptions(one), 2);
    for tag in [0x11, 0x13, 0x21, 0x12] {
        publisher.publish(0, tag, 0, b"x");
    }
    assert_eq!(publisher.unheard(), [1, 1]);
    let (mut at_one, mut at_all) = (Inbound::new(1, 1000), Inbound::new(2, 1000));
    assert_eq!(drain(&mut publisher, one, &mut at_one, true), [0x11, 0x12]);
    assert_eq!(
        drain(&mut publisher, all, &mut at_all, true),
        [0x11, 0x13, 0x12]
    );
    // Subscriptions change while it runs.
    publisher.unsubscribe(one, [Entry::one(0x11)]);
    publisher.subscribe(one, [Entry::one(0x21)]).unwrap();
    for tag in [0x11, 0x21] {
        publisher.publish(0, tag, 0, b"y");
    }
    assert_eq!(drain(&mut publisher, one, &mut at_one, true), [0x21]);
    let gone = publisher.remove(all).unwrap();
    assert_eq!((gone.residual(), gone.held()), ([0, 0], [1, 1]));
    assert_eq!(publisher.publish(0, 0x11, 0, b"z"), Published::default());
    let gone = publisher.subscribe(all, [Entry::one(1)]);
    assert_eq!(gone, Err(Refusal::Ending));
}

#[test]
fn a_slow_subscriber_costs_itself_only() {
    let mut publisher = publisher();
    let slow = publisher.add(1, Slow::DropNewest, 100, 2).unwrap();
    let good = publisher.add(2, Slow::Block, 100, 2).unwrap();
    for id in [slow, good] {
        publisher.subscribe(id, [Entry::one(5)]).unwrap();
    }
    let mut inbound = Inbound::new(2, 100);
    let (mut dropped, mut came) = (0, 0);
    for _ in 0..100 {
        let published = publisher.publish(0, 5, 0, &[0; 80]);
        assert_eq!(
            (published.wait, published.taken + published.dropped),
            (false, 2)
        );
        dropped += published.dropped;
        came += drain(&mut publisher, good, &mut inbound, true).len();
    }
    assert_eq!((came, dropped), (100, 98));
    let slow = publisher.peer(slow).unwrap();
    assert_eq!(
        (slow.totals().messages_dropped, slow.residual()),
        (98, [0, 0])
    );
}

#[test]
fn block_holds_everybody_up_and_nothing_is_sent_twice() {
    let mut publisher = publisher();
    let block = publisher.add(1, Slow::Block, 100, 1).unwrap();
    let other = publisher.add(2, Slow::DropOldest, 100, 8).unwrap();
    for id in [block, other] {
        publisher.subscribe(id, [Entry::one(5)]).unwrap();
    }
    assert_eq!(publisher.publish(0, 5, 0, &[0; 80]).taken, 2);
    for now_ns in [10, 20, 30] {
        let published = publisher.publish(now_ns, 5, 0, &[1; 80]);
        assert!(published.wait && published.taken == 0);
    }
    let mut inbound = Inbound::new(1, 100);
    assert_eq!(drain(&mut publisher, block, &mut inbound, true).len(), 1);
    assert_eq!(publisher.publish(40, 5, 0, &[1; 80]).taken, 2);
    let mut inbound = Inbound::new(2, 100);
    assert_eq!(drain(&mut publisher, other, &mut inbound, true).len(), 2);
    // Its time over, it is given up and holds nobody up any more.
    assert!(publisher.publish(50, 5, 0, &[2; 80]).wait);
    let published = publisher.publish(1_050, 5, 0, &[2; 80]);
    assert_eq!((published.taken, published.dropped), (1, 1));
    assert!(publisher.peer(block).unwrap().is_given_up());
}

#[test]
fn a_message_longer_than_a_subscribers_buffers_is_dropped_for_it_alone() {
    let mut publisher = publisher();
    let mut ids = Vec::new();
    for (epoch, bytes) in [(1, 100), (2, 1000)] {
        let id = publisher.add(epoch, Slow::Block, bytes, 2).unwrap();
        publisher.subscribe(id, [Entry::one(5)]).unwrap();
        ids.push(id);
    }
    let published = publisher.publish(0, 5, 0, &[0; 101]);
    assert_eq!((published.taken, published.dropped), (1, 1));
    let small = publisher.peer(ids[0]).unwrap();
    assert_eq!(
        (small.dropped().too_long, small.residual()),
        ([1, 101], [0, 0])
    );
    assert_eq!(small.dropped().sum(), [1, 101], "it has one reason only");
    // Beyond our own limit it is the caller's mistake, whichever subscribers there are.
    let own = Config::default().buffer_bytes as usize;
    let published = publisher.publish(0, 5, 0, &vec![0; own + 1]);
    assert!(published.too_long && published.taken + published.dropped == 0);
}

#[test]
fn a_subscriber_has_so_many_patterns_and_no_more() {
    let mut publisher = publisher();
    let id = publisher.add(1, Slow::Block, 1000, 4).unwrap();
    let pattern = |tag| Entry { tag, mask: 0xffff };
    let most = PATTERNS_MAX as u64;
    publisher.subscribe(id, (1..most).map(pattern)).unwrap();
    // Two more, and one that is there already: all or nothing.
    let refused = publisher.subscribe(id, [1, most, most + 1].map(pattern));
    assert_eq!(refused, Err(Refusal::TooMany));
    assert_eq!(publisher.subscriptions(id), PATTERNS_MAX - 1);
    assert_eq!(publisher.publish(0, 1, 0, b"x").taken, 1);
    assert_eq!(publisher.publish(0, most, 0, b"x").taken, 0);
    // What is there counts once, and single tags are another matter.
    publisher.subscribe(id, (1..=most).map(pattern)).unwrap();
    publisher.subscribe(id, [Entry::one(1)]).unwrap();
    publisher.unsubscribe(id, [pattern(1)]);
    assert_eq!(publisher.subscriptions(id), PATTERNS_MAX);
    publisher.subscribe(id, [pattern(most + 1)]).unwrap();
}
