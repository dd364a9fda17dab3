"""The books of an end in Python are those of the program's."""

import json
import os
import subprocess
import sys

import pytest
from conftest import LIMIT, lost, receive_all, wait_until

from forebay.net import Publisher, Sender, Subscriber

KEYS = """record_version program run_id condition reason failed taints warnings duration_s cpu_s pids drops host_counters messages bytes dropped held residual_items residual_bytes left_items left_bytes connections_made attempts not_followed parted turned_away accept_errors unconfirmed
unconfirmed_bytes dropped_at_peers missing_at_peers missing_bytes_at_peers connections unlisted_connections""".split()


def test_the_books_of_both_ends_close_and_the_summary_has_the_agreed_keys(address):
    with Publisher(address, per_tag=True) as publisher, Subscriber(publisher.address, tags=[1]) as subscriber:
        publisher.wait_for_subscribers(timeout=LIMIT)
        assert publisher.publish_many([1, 2] * 500, bytes(10_000), sizes=[10] * 1000) == 500
        assert publisher.summary is None and not publisher.closed
        # Who closes waits until all is taken.
        assert len(receive_all(subscriber, 500)) == 500
        publisher.close()
        assert list(subscriber) == []
    assert publisher.closed and subscriber.closed
    assert sorted(subscriber.summary) == sorted(KEYS)
    assert sorted(publisher.summary) == sorted([*KEYS, "tags"])
    for summary in (publisher.summary, subscriber.summary):
        assert (summary["messages"], summary["bytes"]) == (500, 5000)
        assert (summary["residual_items"], summary["residual_bytes"], summary["missing_at_peers"]) == (0, 0, 0)
        assert (summary["held"], summary["parted"]) == (0, {})
    assert lost(publisher.summary) == {"no_subscriber": 500}
    assert publisher.summary["record_version"] == 2
    assert publisher.summary["tags"] == [{"tag": 1, "messages": 500, "bytes": 5000}]
    assert publisher.close() == publisher.summary


def test_what_nobody_took_is_held_and_can_still_be_had(address, tmp_path):
    with Publisher(address) as publisher, Subscriber(publisher.address, out=tmp_path / "sub") as subscriber:
        publisher.wait_for_subscribers(timeout=LIMIT)
        publisher.publish_many(range(10), bytes(100), sizes=[10] * 10)
        wait_until(lambda: subscriber.waiting == 10, "the messages")
        assert len(subscriber.receive(3)) == 3
        summary = subscriber.close()
    assert (summary["messages"], summary["held"], summary["residual_items"]) == (10, 7, 0)
    assert (publisher.summary["unconfirmed"], publisher.summary["missing_at_peers"]) == (7, 0)
    assert subscriber.receive().tags.tolist() == list(range(3, 10))
    with pytest.raises(ValueError, match="the subscriber is closed"):
        subscriber.receive()
    record = json.loads((tmp_path / "sub" / "run.json").read_text())
    assert record["run_id"].startswith("net-subscriber-")
    assert "Udp.InErrors" in record["host_counters"]["counters"]  # of the whole host, not of this end
    assert record == summary


def test_a_leak_is_seen(address):
    program = f"""if True:
        from forebay.net import Publisher, Subscriber
        with Publisher({address!r}) as publisher, Subscriber(publisher.address) as subscriber:
            publisher.wait_for_subscribers(timeout={LIMIT})
            publisher.publish_many(1, bytes(100), sizes=[10] * 10)
            got = 0
            while got < 6:
                got += len(subscriber.receive())
            publisher.close()
        print(publisher.summary["residual_items"], subscriber.summary["residual_items"])
    """
    environment = {**os.environ, "FOREBAY_LEAK": "deliver:4"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "0 4\n", done.stderr


def test_who_is_closed_says_so(address):
    publisher = Publisher(address)
    publisher.close()
    for use in (lambda: publisher.publish(1, b""), lambda: publisher.address, publisher.flush):
        with pytest.raises(ValueError, match="the publisher is closed"):
            use()


def test_what_is_wrong_is_named_with_its_value(address):
    publisher = Publisher(address)
    wrong = [
        (ValueError, "buffer_bytes is 0; it must be from 1 to", lambda: Publisher(address, buffer_bytes=0)),
        (ValueError, "buffer_count is 65537; it must be from 1 to 65536", lambda: Publisher(address, buffer_count=65537)),
        (ValueError, "flush_time is -1; it must be from 0", lambda: Publisher(address, flush_time=-1)),
        (TypeError, "flush_time is 'soon'; it must be a number", lambda: Publisher(address, flush_time="soon")),
        (ValueError, "connections_max is 0; it must be from 1 to 4096", lambda: Publisher(address, connections_max=0)),
        (TypeError, "there is no setting 'colour'; there are buffer_bytes,", lambda: Publisher(address, colour=1)),
        (ValueError, "ftp://x: no such backend; write tcp://", lambda: Publisher("ftp://x")),
        (ValueError, "addresses is empty", lambda: Subscriber([])),
        (TypeError, "addresses is 5; it must be", lambda: Subscriber(5)),
        (ValueError, 'policy is "fast"; it must be', lambda: Subscriber(address, policy="fast")),
        (ValueError, "tag is -1; it must be from 0", lambda: Subscriber(address, tags=[-1])),
        (TypeError, "a pattern is 7; it must be", lambda: Subscriber(address, patterns=[7])),
        (ValueError, "tag is 18446744073709551616; it", lambda: publisher.publish(2**64, b"")),
        (TypeError, "tag is 'a'; it must be a whole number", lambda: publisher.publish("a", b"")),
        (ValueError, "status is 256; it must be from 0 to 255", lambda: publisher.publish(1, b"", 256)),
        (TypeError, "data is 'text'; it must have the buffer", lambda: publisher.publish(1, "text")),
        (ValueError, "data is not contiguous", lambda: publisher.publish(1, memoryview(bytes(9))[::2])),
        (TypeError, "neither sizes nor offsets", lambda: publisher.publish_many(1, b"")),
        (TypeError, "both sizes and offsets", lambda: publisher.publish_many(1, b"", sizes=[], offsets=[0])),
        (ValueError, "the sum of sizes is 3; data has 4", lambda: publisher.publish_many(1, b"abcd", sizes=[1, 2])),
        (ValueError, r"sizes\[1\] is -2; it must be", lambda: publisher.publish_many(1, b"abcd", sizes=[6, -2])),
        (TypeError, r"sizes\[0\] is 1.5; it must be", lambda: publisher.publish_many(1, b"", sizes=[1.5])),
        (ValueError, r"offsets\[2\] is 1; it must be offsets\[1\], 2,", lambda: publisher.publish_many(1, b"abcd", offsets=[0, 2, 1])),
        (ValueError, "the last of offsets is 5; data has 4", lambda: publisher.publish_many(1, b"abcd", offsets=[0, 5])),
        (ValueError, "offsets is empty", lambda: publisher.publish_many(1, b"abcd", offsets=[])),
        (ValueError, "the number of tags is 1; there are 2", lambda: publisher.publish_many([1], b"abcd", sizes=[2, 2])),
        (ValueError, "timeout is -1; it must be", lambda: publisher.wait_for_subscribers(timeout=-1)),
        (TimeoutError, "0 of 2 subscribers are there", lambda: publisher.wait_for_subscribers(2, timeout=0.01)),
    ]
    for error, text, use in wrong:
        with pytest.raises(error, match=text):
            use()
    summary = publisher.close()
    assert (summary["messages"], summary["dropped"]) == (0, 0)


def test_an_address_in_use_and_nobody_there_are_errors_of_python():
    with Publisher("tcp://127.0.0.1:0") as publisher:
        with pytest.raises(OSError, match=publisher.address) as caught:
            Publisher(publisher.address)
        assert caught.value.errno == 98
        free = publisher.address
    sender = Sender(free, block_time=0.1)
    with pytest.raises(TimeoutError, match=f"{free} took nothing for 1.. ms: .*refused"):
        sender.send(1, b"to nobody")
    assert sender.close()["residual_items"] == 0
