"""The interpreter goes on while an end point waits, and an end point while the interpreter does."""

import ast
import contextlib
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy
import pytest
from conftest import LIMIT, receive_all, wait_until

import forebay
from forebay import net
from forebay.net import Publisher, Receiver, Sender, Subscriber


@contextlib.contextmanager
def uninterrupted():
    """Only who gives the interpreter away lets another thread in."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def test_other_threads_run_while_one_waits(address):
    with Publisher(address) as publisher, Subscriber(publisher.address) as subscriber:
        publisher.wait_for_subscribers(timeout=LIMIT)
        go = threading.Event()
        thread = threading.Thread(target=lambda: go.wait() and publisher.publish(1, b"now"))
        thread.start()
        with uninterrupted():
            go.set()
            # It comes to publish while this one waits, or never.
            got = subscriber.receive(timeout=LIMIT)
        thread.join()
        assert got.tags.tolist() == [1]
        with pytest.raises(TimeoutError):
            publisher.wait_for_subscribers(2, timeout=0)


def test_other_threads_run_while_a_large_batch_is_copied(address):
    # Most of it finds room when the other thread has taken what came before.
    rows = numpy.zeros((1000, 60_000), "u1")
    with Receiver(address) as receiver, Sender(receiver.address, block_time=LIMIT) as sender:
        taken = []
        thread = threading.Thread(target=lambda: taken.extend(receive_all(receiver, 1000)))
        thread.start()
        with uninterrupted():
            sender.send_many(1, rows)
        thread.join()
        assert len(taken) == 1000


def test_a_waiting_call_holds_no_other_thread_up(address):
    with Publisher(address) as publisher, Subscriber(publisher.address, tags=[1]) as subscriber:
        got = []
        thread = threading.Thread(target=lambda: got.append(subscriber.receive(timeout=LIMIT)))
        thread.start()
        publisher.wait_for_subscribers(timeout=LIMIT)
        # The other one waits in receive meanwhile.
        subscriber.subscribe([2])
        wait_until(lambda: publisher.subscriptions == 2, "the subscription")
        publisher.publish(2, b"now")
        thread.join(LIMIT)
        assert got[0].tags.tolist() == [2]


INTERRUPTED = """if True:
    import signal, sys
    # Whoever runs the tests in the background may have it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from forebay.net import *
    end = {make}
    try:
        print("ready", flush=True)
        {wait}
    except KeyboardInterrupt:
        summary = end.close(timeout=0)
        print("interrupted", summary["residual_items"])
"""


@pytest.mark.parametrize(
    "make, wait",
    [
        ('Subscriber("tcp://127.0.0.1:9")', "end.receive()"),
        ('Publisher("tcp://127.0.0.1:0")', "end.wait_for_subscribers()"),
        ('Sender("tcp://127.0.0.1:9", block_time=1000)', 'end.send(1, b"x")'),
    ],
)
def test_control_c_ends_a_wait(make, wait):
    program = INTERRUPTED.format(make=make, wait=wait)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "ready\n"
            begun = time.monotonic()
            child.send_signal(signal.SIGINT)
            output, _ = child.communicate(timeout=LIMIT)
        finally:
            child.kill()
    assert output == "interrupted 0\n" and child.returncode == 0
    assert time.monotonic() - begun < LIMIT / 2


def test_a_message_goes_out_though_python_does_something_else(address):
    with Publisher(address, flush_time=0.001) as publisher, Subscriber(publisher.address) as subscriber:
        wait_until(lambda: subscriber.waiting == 0 and publisher.subscribers == 1, "the connection")
        publisher.wait_for_subscribers(timeout=LIMIT)
        publisher.publish(1, b"alone")
        # Nobody calls the publisher again; its keeper sends.
        assert receive_all(subscriber, 1) == [(1, 0, b"alone")]


def test_who_takes_nothing_fills_no_memory_and_loses_nothing(address):
    rows = numpy.zeros((64, 50_000), "u1")
    with Publisher(address, buffer_count=16) as publisher, Subscriber(publisher.address, buffer_count=16) as subscriber:
        publisher.wait_for_subscribers(timeout=LIMIT)
        done = threading.Event()

        def publish():
            for number in range(10):
                publisher.publish_many(number, rows)
            publisher.close()
            done.set()

        thread = threading.Thread(target=publish)
        thread.start()
        wait_until(lambda: subscriber.waiting * 50_000 >= 4 << 20, "as much as may wait")
        most = 0
        while not done.wait(0.01):
            most = max(most, subscriber.waiting)
            subscriber.receive(16, timeout=0)
        # What may wait, and what came with one look.
        assert most * 50_000 <= (4 << 20) + 17 * 65_536 + 50_000
        thread.join()
        list(subscriber)
    assert publisher.summary["messages"] == 640 == subscriber.summary["messages"]
    assert subscriber.summary["residual_items"] == 0 and subscriber.summary["held"] == 0


def test_what_is_dropped_unclosed_leaves_no_thread(address):
    def keepers():
        names = (Path(task, "comm") for task in Path("/proc/self/task").iterdir())
        return sum(name.read_text().startswith("forebay-keeper") for name in names)

    before = keepers()
    publisher = Publisher(address)
    wait_until(lambda: keepers() == before + 1, "its thread")
    del publisher
    wait_until(lambda: keepers() == before, "its end")


def test_it_works_without_numpy(address):
    program = f"""if True:
        import sys
        sys.modules["numpy"] = None
        from forebay.net import Publisher, Subscriber
        with Publisher({address!r}) as publisher, Subscriber(publisher.address) as subscriber:
            publisher.wait_for_subscribers(timeout={LIMIT})
            publisher.publish_many([1, 2], bytearray(b"a" * 9000), sizes=[4000, 5000])
            got = []
            while len(got) < 2:
                batch = subscriber.receive(timeout={LIMIT})
                assert isinstance(batch.data, memoryview) and batch.data.readonly
                assert batch.tags.format == "Q" and batch.offsets.format == "q" and len(batch.status) == len(batch)
                got += [(tag, bytes(payload)) for tag, payload in batch]
                assert batch.sizes.tolist() == [len(payload) for _, payload in batch]
                assert batch.offsets.tolist()[-1] == batch.data.nbytes
            assert got == [(1, b"a" * 4000), (2, b"a" * 5000)]
            assert subscriber.receive(timeout=0).data.nbytes == 0
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_examples_agree():
    examples = Path(__file__).parents[4] / "examples" / "python"
    address = f"shm://forebay-pytest-{os.getpid()}-examples"
    both = [("subscriber.py", [address]), ("publisher.py", [address, "20"])]
    children = [
        subprocess.Popen([sys.executable, examples / name, *words], stdout=subprocess.PIPE, text=True) for name, words in both
    ]
    outputs = [child.communicate(timeout=60)[0] for child in children]
    assert outputs == [
        f"5000 rows, sum {250 * sum(range(20))}, 0 lost by name, residual 0\n",
        "5000 messages sent, 15000 lost by name, residual 0\n",
    ]


def test_stubs_and_docs_say_what_is_there():
    stub = ast.parse(Path(forebay.__file__).with_name("net.pyi").read_text())
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    for name in net.__all__:
        real = getattr(net, name)
        assert real.__doc__ and real.__module__ == "forebay.net"
        declared = {node.name: node for node in classes[name].body if isinstance(node, ast.FunctionDef)}
        public = {member for member in vars(real) if not member.startswith("_")}
        assert public == {member for member in declared if not member.startswith("_")}, name
        for member, node in declared.items():
            thing = real if member == "__init__" else getattr(real, member)
            if any(getattr(decorator, "id", "") == "property" for decorator in node.decorator_list):
                assert inspect.isgetsetdescriptor(thing) and thing.__doc__, f"{name}.{member}"
                continue
            if not member.startswith("_"):
                assert thing.__doc__, f"{name}.{member}"
            elif member not in ("__init__", "__exit__"):
                assert hasattr(real, member)
                continue
            arguments = [one.arg for one in node.args.posonlyargs + node.args.args + node.args.kwonlyargs]
            extra = [one.arg for one in (node.args.vararg, node.args.kwarg) if one]
            signature = [one for one in inspect.signature(thing).parameters]
            assert signature == [one for one in arguments + extra if one != "self" or member != "__init__"], f"{name}.{member}"
    settings = {node.target.id for node in classes["Settings"].body}
    with pytest.raises(TypeError) as error:
        Publisher("tcp://127.0.0.1:0", nothing=0)
    assert set(str(error.value).split("there are ")[1].split(", ")) == settings
    assert all(f"    {name} " in net.__doc__ for name in settings)
    cargo = (Path(__file__).parents[4] / "Cargo.toml").read_text()
    assert f'version = "{forebay.__version__}"' in cargo
