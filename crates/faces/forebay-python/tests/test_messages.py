"""What is sent arrives, one by one and in batches."""

import array
import ctypes
import gc
import os

import numpy
import pytest
from conftest import LIMIT, receive_all, wait_until

from forebay.net import Publisher, Receiver, Sender, Subscriber


def test_messages_arrive_whole_and_in_order(pair):
    publisher, subscriber = pair
    sent = [(tag, tag % 3, os.urandom(tag % 50)) for tag in range(500)]
    for tag, status, payload in sent:
        assert publisher.publish(tag, payload, status) == 1
    assert receive_all(subscriber, len(sent)) == sent


@pytest.mark.parametrize(
    "form",
    [bytes, bytearray, memoryview, lambda data: array.array("B", data), lambda data: numpy.frombuffer(data, "<u4")],
)
@pytest.mark.parametrize("size", [8, 40_000])
def test_any_buffer_is_taken(pair, form, size):
    publisher, subscriber = pair
    data = os.urandom(size)
    publisher.publish(2**64 - 1, form(data))
    publisher.publish_many(7, form(data), sizes=[size // 4, 0, size - size // 4])
    got = receive_all(subscriber, 4)
    assert got == [
        (2**64 - 1, 0, data),
        (7, 0, data[: size // 4]),
        (7, 0, b""),
        (7, 0, data[size // 4 :]),
    ]


NODE = [("left", "<i4"), ("what", "O")]


class Linked(ctypes.Structure):
    _fields_ = [("number", ctypes.c_int), ("next", ctypes.c_void_p)]


class Pointing(ctypes.Structure):
    _fields_ = [("values", ctypes.POINTER(ctypes.c_int))]


NOT_PLAIN = {
    "object": (lambda: numpy.array(["x"], dtype=object), "the format 'O'"),
    "many objects": (lambda: numpy.array([object()] * 1000, dtype=object), "'O'"),
    "rows of objects": (lambda: numpy.array([["x", "y"]], dtype=object), "'O'"),
    "no objects": (lambda: numpy.array([], dtype=object), "'O'"),
    "a structure with an object": (lambda: numpy.zeros(3, NODE), "O:what:"),
    "the same in another one": (lambda: numpy.zeros(3, [("a", "u1"), ("b", NODE, (2,))]), "O:what:"),
    "text": (lambda: numpy.array(["x"]), "'1w'"),
    "pointers": (lambda: (ctypes.c_void_p * 3)(), "'P'|'<P'"),
    "a structure with a pointer": (lambda: Linked(1, None), "P:next:"),
    "a pointer to numbers": (lambda: Pointing(), "&<i:values:"),
    "a function": (lambda: (ctypes.CFUNCTYPE(None) * 1)(), "X{}"),
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_is_not_bytes_and_numbers_is_refused(pair, name):
    publisher, _ = pair
    make, named = NOT_PLAIN[name]
    data = make()
    with Receiver("tcp://127.0.0.1:0") as receiver, Sender(receiver.address) as sender:
        for call in [
            lambda: publisher.publish(1, data),
            lambda: publisher.publish(1, memoryview(data)),
            lambda: publisher.publish_many(1, data, sizes=[memoryview(data).nbytes]),
            lambda: publisher.publish_many(1, data),
            lambda: sender.send(1, data),
            lambda: sender.send_many(1, data, sizes=[memoryview(data).nbytes]),
        ]:
            with pytest.raises(TypeError, match=named) as refused:
                call()
            assert "astype" in str(refused.value)
        assert sender.close()["messages"] == 0
    assert publisher.close()["messages"] == 0


@pytest.mark.parametrize(
    "kind",
    ["?", "i1", "S3", "V5", ">u4", "<i8", "f2", ">f8", "g", "c8", "c16", [("a", ">u2"), ("b", "f4", (2, 3)), ("c", [("d", "S2")])]],
)
def test_bytes_and_numbers_of_every_kind_are_taken(pair, kind):
    publisher, subscriber = pair
    data = numpy.zeros(7, kind)
    publisher.publish(1, data)
    aligned = numpy.zeros(3, numpy.dtype([("a", "u1"), ("b", "f8")], align=True))
    publisher.publish(2, aligned)
    assert receive_all(subscriber, 2) == [(1, 0, data.tobytes()), (2, 0, aligned.tobytes())]


@pytest.mark.parametrize("kind", ["u8", "i8", "u4", "i4", "u2", "u1"])
def test_lengths_tags_and_offsets_are_arrays_of_any_whole_numbers(pair, kind):
    publisher, subscriber = pair
    tags, offsets = numpy.array([5, 6, 5], kind), numpy.array([1, 3, 3, 8], kind)
    assert publisher.publish_many(tags, b"-abcdefg-", offsets=offsets, status=4) == 3
    assert receive_all(subscriber, 3) == [(5, 4, b"ab"), (6, 4, b""), (5, 4, b"cdefg")]
    assert publisher.publish_many(iter([1, 2]), b"xyz", sizes=numpy.array([1, 2], kind)) == 2
    assert receive_all(subscriber, 2) == [(1, 0, b"x"), (2, 0, b"yz")]


def test_rows_are_messages_and_come_back_as_an_array(pair):
    publisher, subscriber = pair
    rows = numpy.arange(3000, dtype="<f8").reshape(100, 30)
    assert publisher.publish_many(numpy.arange(100), rows) == 100
    got, tags = [], []
    while len(tags) < 100:
        batch = subscriber.receive(timeout=LIMIT)
        assert len(batch)
        assert (batch.sizes == 240).all() and batch.offsets[-1] == batch.data.size
        got.append(batch.data.view("<f8").reshape(len(batch), 30))
        tags += batch.tags.tolist()
    assert (numpy.concatenate(got) == rows).all() and tags == list(range(100))


def test_empty_batches_and_empty_messages(pair):
    publisher, subscriber = pair
    assert publisher.publish_many([], b"", sizes=[]) == 0
    assert publisher.publish_many(1, numpy.zeros((0, 8))) == 0
    assert publisher.publish_many(1, numpy.zeros((3, 0))) == 3
    assert publisher.publish(9, b"") == 1
    assert receive_all(subscriber, 4) == [(1, 0, b"")] * 3 + [(9, 0, b"")]
    nothing = subscriber.receive(timeout=0)
    assert not nothing and nothing.data.size == 0 and nothing.offsets.tolist() == [0] and list(nothing) == []


def test_a_batch_is_typed_indexed_and_read_only(pair):
    publisher, subscriber = pair
    publisher.publish_many([1, 2, 3], b"aabbbc", sizes=[2, 3, 1])
    wait_until(lambda: subscriber.waiting == 3, "the messages come while nobody receives")
    batch = subscriber.receive(timeout=0)
    kinds = [batch.data.dtype, batch.tags.dtype, batch.offsets.dtype, batch.sizes.dtype, batch.status.dtype]
    assert kinds == ["u1", "u8", "i8", "i8", "u1"]
    assert (batch.sizes == [2, 3, 1]).all() and (batch.offsets == [0, 2, 5, 6]).all()
    assert bytes(batch[1][1]) == b"bbb" and batch[-1][0] == 3
    with pytest.raises(IndexError, match="message 3 of a batch of 3"):
        batch[3]
    assert repr(batch) == "<forebay.net.Batch: 3 messages, 6 bytes>"
    with pytest.raises(ValueError, match="read-only"):
        batch.data[0] = 1
    assert all(payload.readonly for _, payload in batch)


def test_as_many_as_asked_for_and_the_rest_later(pair):
    publisher, subscriber = pair
    publisher.publish_many(range(10), bytes(range(100)), sizes=[10] * 10)
    wait_until(lambda: subscriber.waiting == 10, "ten messages")
    assert subscriber.receive(4).tags.tolist() == [0, 1, 2, 3]
    second = subscriber.receive(4)
    assert second.tags.tolist() == [4, 5, 6, 7] and second.offsets[0] == 0
    assert bytes(second.data) == bytes(range(40, 80))
    publisher.publish(77, b"later")
    wait_until(lambda: subscriber.waiting == 3, "one more")
    assert receive_all(subscriber, 3)[1:] == [(9, 0, bytes(range(90, 100))), (77, 0, b"later")]


def test_arrays_live_longer_than_the_next_batch_and_the_subscriber(address):
    with Publisher(address) as publisher:
        subscriber = Subscriber(publisher.address)
        publisher.wait_for_subscribers(timeout=LIMIT)
        kept = []
        for number in range(50):
            publisher.publish_many(number, bytes([number]) * 20_000, sizes=[10_000, 10_000])
            publisher.flush()
            got = 0
            while got < 2:
                batch = subscriber.receive(timeout=LIMIT)
                got += len(batch)
                kept.append((number, batch.data, [payload for _, payload in batch], batch.tags))
        del batch
        subscriber.close()
        del subscriber
        gc.collect()
        for number, data, payloads, tags in kept:
            assert (data == number).all() and (tags == number).all()
            assert b"".join(payloads) == bytes(data)
        kept = [payloads for _, _, payloads, _ in kept]
        del data, payloads
        gc.collect()
        assert all(set(payload) == {number} for number, pair in zip(range(50), kept) for payload in pair)


def test_a_sender_and_a_receiver(address):
    with Receiver(address) as receiver, Sender(receiver.address) as sender:
        sender.send(3, b"one", status=200)
        sender.send_many([1, 2], numpy.array([[1, 2], [3, 4]], "u1"))
        assert receive_all(receiver, 3) == [(3, 200, b"one"), (1, 0, b"\1\2"), (2, 0, b"\3\4")]
        assert sender.connected and receiver.senders == 1 and sender.connections_made == 1
        sender.close()
        assert [len(batch) for batch in receiver] == [] and receiver.has_ended
    for summary in (sender.summary, receiver.summary):
        assert (summary["messages"], summary["bytes"], summary["residual_items"]) == (3, 7, 0)
        assert summary["missing_at_peers"] == 0


def test_a_message_longer_than_the_buffer_is_refused_with_what_to_do(address):
    with Publisher(address, buffer_bytes=1000) as publisher:
        with pytest.raises(ValueError, match="1001 bytes is longer than a buffer of 1000; raise buffer_bytes"):
            # Nobody would get it; the length is looked at where somebody is there.
            with Subscriber(publisher.address):
                publisher.wait_for_subscribers(timeout=LIMIT)
                publisher.publish(1, bytes(1001))
        with pytest.raises(ValueError, match="message 1 is 1001 bytes; a buffer has 1000"):
            publisher.publish_many(1, bytes(1003), sizes=[1, 1001, 1])
        assert publisher.close()["messages"] == 0
