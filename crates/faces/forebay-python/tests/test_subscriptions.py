"""Who gets what, and who comes and goes."""

import pytest
from conftest import LIMIT, lost, receive_all, wait_until

from forebay.net import Publisher, Subscriber


def published_to(publisher, subscriber, tags):
    publisher.publish_many(tags, bytes(len(tags)), sizes=[1] * len(tags))
    publisher.publish(END, b"")
    got = []
    while END not in got:
        got += subscriber.receive(timeout=LIMIT).tags.tolist()
    return got[:-1]


END = 2**40


def test_tags_and_patterns(address):
    with Publisher(address) as publisher:
        address = publisher.address
        with Subscriber(address, tags=[3, 5, END]) as some, Subscriber(address, END, patterns=[(0x10, 0xF0)]) as pattern:
            with Subscriber([address]) as everything:
                publisher.wait_for_subscribers(3, timeout=LIMIT)
                assert publisher.subscribers == 3 and publisher.subscriptions == 6
                tags = [3, 4, 5, 0x10, 0x1F, 0x21, 3]
                assert published_to(publisher, some, tags) == [3, 5, 3]
                for subscriber, expected in ((pattern, [0x10, 0x1F]), (everything, tags)):
                    assert [tag for tag, _, _ in receive_all(subscriber, len(expected) + 1)][:-1] == expected


def test_subscriptions_begin_and_end_while_it_runs(address):
    with Publisher(address) as publisher, Subscriber(publisher.address, tags=[1, END]) as subscriber:
        publisher.wait_for_subscribers(timeout=LIMIT)
        assert published_to(publisher, subscriber, [1, 2, 3]) == [1]
        subscriber.subscribe([2])
        subscriber.subscribe(patterns=[(3, 2**64 - 1)])
        wait_until(lambda: publisher.subscriptions == 4, "two more subscriptions")
        assert published_to(publisher, subscriber, [1, 2, 3]) == [1, 2, 3]
        subscriber.unsubscribe(1)
        wait_until(lambda: publisher.subscriptions == 3, "one less")
        assert published_to(publisher, subscriber, [1, 2, 3]) == [2, 3]
    assert lost(publisher.summary) == {"no_subscriber": 3}


def test_the_subscriber_may_come_first_and_finds_a_publisher_that_comes_again(address):
    with Publisher(address) as first:
        address = first.address
    with Subscriber(address, tags=[1], policy="drop-newest") as subscriber:
        with pytest.raises(TimeoutError, match="0 of 1 publishers are there: "):
            subscriber.wait_for_publishers(timeout=0.05)
        for life in range(2):
            with Publisher(address) as publisher:
                publisher.wait_for_subscribers(timeout=LIMIT)
                publisher.publish(1, b"life %d" % life)
                assert receive_all(subscriber, 1) == [(1, 0, b"life %d" % life)]
            assert publisher.summary["missing_at_peers"] == 0
        wait_until(lambda: subscriber.has_ended, "the end")
        assert list(subscriber) == []
        assert subscriber.connections_made == 2
    assert subscriber.summary["residual_items"] == 0


def test_several_publishers(address):
    with Publisher("tcp://127.0.0.1:0") as one, Publisher(address) as other:
        with Subscriber([one.address, other.address]) as subscriber:
            subscriber.wait_for_publishers(2, timeout=LIMIT)
            one.wait_for_subscribers(timeout=LIMIT)
            other.wait_for_subscribers(timeout=LIMIT)
            one.publish(1, b"one")
            other.publish(2, b"other")
            assert sorted(receive_all(subscriber, 2)) == [(1, 0, b"one"), (2, 0, b"other")]
