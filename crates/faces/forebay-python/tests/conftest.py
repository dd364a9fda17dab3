"""Addresses that are free, and ends that know each other."""

import itertools
import os
import time

import pytest

from forebay.net import Publisher, Subscriber

LIMIT = 20
"""Seconds after which what a test waits for will not come any more."""

numbers = itertools.count()


@pytest.fixture(params=["tcp", "shm"])
def address(request):
    if request.param == "tcp":
        return "tcp://127.0.0.1:0"
    return f"shm://forebay-pytest-{os.getpid()}-{next(numbers)}"


@pytest.fixture
def pair(address):
    """A publisher, and a subscriber of all that it has; both are closed at the end of the test, and their books with them."""
    with Publisher(address) as publisher, Subscriber(publisher.address) as subscriber:
        publisher.wait_for_subscribers(timeout=LIMIT)
        yield publisher, subscriber
    for end in (publisher, subscriber):
        assert end.summary["residual_items"] == 0 and end.summary["residual_bytes"] == 0


def wait_until(holds, what):
    until = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < until, f"waited in vain: {what}"
        time.sleep(0.001)


def lost(record):
    """Items lost by reason."""
    sums = {}
    for name, one in record["drops"].items():
        reason = name.split(".")[1]
        sums[reason] = sums.get(reason, 0) + one["items"]
    return sums


def receive_all(end, count):
    """So many messages as (tag, status, bytes)."""
    got = []
    while len(got) < count:
        batch = end.receive(timeout=LIMIT)
        assert len(batch), f"{len(got)} of {count} messages came"
        got += [(tag, int(status), bytes(payload)) for (tag, payload), status in zip(batch, batch.status)]
    assert len(got) == count
    return got
