"""First the effect, then the acknowledgement: what a receiving process had when it was killed."""

import subprocess
import sys
import time

from conftest import LIMIT, receive_all, wait_until

from forebay.net import Receiver, Sender

SENT = 5000

CHILD = """
import sys
import time
from forebay.net import Receiver

with Receiver(sys.argv[1]) as receiver:
    print(receiver.address, flush=True)
    got = 0
    while got < 50:
        got += len(receiver.receive(50 - got))
    print(got, flush=True)
    while receiver.waiting < 1000:
        time.sleep(0.001)
    print("behind", flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_process_was_not_given_is_unconfirmed(address):
    command = [sys.executable, "-c", CHILD, address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        sender = Sender(child.stdout.readline().strip())
        sender.send_many(1, bytes(SENT * 8), sizes=[8] * SENT)
        sender.flush()
        assert [child.stdout.readline().strip() for _ in range(2)] == ["50", "behind"]
        child.kill()
    wait_until(lambda: not sender.connected, "the connection is lost")
    summary = sender.close(timeout=0.1)
    sent = SENT - summary["dropped"]
    assert sent - 50 <= summary["unconfirmed"] <= sent


def test_what_nobody_was_given_before_the_close_is_unconfirmed(address):
    for by_hand in (False, True):
        with Receiver(address, acknowledge_by_hand=by_hand) as receiver:
            sender = Sender(receiver.address)
            sender.send_many(1, bytes(100 * 8), sizes=[8] * 100)
            sender.flush()
            wait_until(lambda: receiver.waiting == 100, "the messages")
            assert len(receiver.receive(30)) == 30
            receiver.acknowledge()
            begun = time.monotonic()
            summary = receiver.close(timeout=LIMIT)
            # Nobody waits for what nobody can acknowledge any more.
            assert time.monotonic() - begun < LIMIT / 2
            assert (summary["messages"], summary["held"], summary["residual_items"]) == (100, 70, 0)
            assert sender.close(timeout=1)["unconfirmed"] == 70
            assert len(receiver.receive()) == 70


def test_what_is_not_acknowledged_by_hand_is_unconfirmed(address):
    with Receiver(address, acknowledge_by_hand=True) as receiver:
        sender = Sender(receiver.address)
        sender.send_many(1, bytes(100 * 8), sizes=[8] * 100)
        assert len(receive_all(receiver, 100)) == 100
        receiver.acknowledge(60)
        # The end waits in vain for the rest.
        assert sender.close(timeout=1)["unconfirmed"] == 40
        receiver.acknowledge()
        assert receiver.close()["held"] == 0
    with Receiver(address, acknowledge_by_hand=True) as receiver, Sender(receiver.address) as sender:
        sender.send(1, b"x")
        receive_all(receiver, 1)
        receiver.acknowledge(0)
        receiver.acknowledge()
        summary = sender.close()
        assert (summary["unconfirmed"], summary["messages"]) == (0, 1)
