"""A client of the multiplexer in Python: on a virtual wire in a network namespace, with a daemon at its end and a packet socket at the other one."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import LIMIT, wait_until

import forebay

FRAMES = 300
PEER = bytes.fromhex("020000000009")
MAC = bytes.fromhex("020000000001")

INSIDE = "FOREBAY_PYTEST_IN_NAMESPACE"
"""Says to a test that it runs in a namespace of its own."""


def program():
    """The binary of the daemon, which `cargo xtask` builds and names."""
    named = os.environ.get("FOREBAY_PROGRAM")
    target = os.environ.get("CARGO_TARGET_DIR") or Path(__file__).parents[4] / "target"
    return Path(named or Path(target) / "debug" / "forebay")


def is_inside(request):
    """Whether this process is in a namespace of its own. If not, the test runs in one, as a process of its own."""
    if INSIDE in os.environ:
        for line in (
            "ip link add near type veth peer name far",
            "ip link set lo up",
            "sysctl -q -w net.ipv6.conf.near.disable_ipv6=1 net.ipv6.conf.far.disable_ipv6=1",
            "ip link set near up",
            "ip link set far up",
        ):
            subprocess.run(line.split(), check=True)
        for end in ("near", "far"):
            shown = ["ip", "-brief", "link", "show", end]
            wait_until(lambda: b" UP " in subprocess.run(shown, capture_output=True).stdout, "the wire")
        return True
    if subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode:
        pytest.skip("no network namespace may be made (needs root and unshare)")
    if not program().exists():
        pytest.skip(f"the daemon is not built ({program()}): cargo build -p forebay")
    command = ["unshare", "--net", sys.executable, "-m", "pytest", "-q", request.node.nodeid]
    done = subprocess.run(command, env={**os.environ, INSIDE: "1"}, capture_output=True, text=True, cwd=request.config.rootpath)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
    return False


class World:
    """A daemon at the end `far` with a place for this user and one for another, and a packet socket at `near`."""

    def __init__(self, folder):
        self.socket = folder / "socket"
        places = [("a", os.getuid(), 1, 'address = ["10.0.0.10"]'), ("other", os.getuid() + 1, 2, "")]
        text = f'[mux]\ninterface = "far"\nsocket = "{self.socket}"\ndirectory = "{folder}/run"\n'
        for name, uid, number, more in places:
            text += f'[[clients]]\nname = "{name}"\nuid = {uid}\nmac = "02:00:00:00:00:0{number}"\nguarantee = 8\n{more}\n'
        (folder / "mux.toml").write_text(text)
        command = [program(), "mux", "run", "--format", "json", folder / "mux.toml"]
        self.daemon = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.peer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
        self.peer.bind(("near", 0))
        self.peer.settimeout(LIMIT)

    def client(self, name="a"):
        until = time.monotonic() + LIMIT
        while True:
            try:
                return forebay.MuxClient(self.socket, name, timeout=LIMIT)
            except (FileNotFoundError, ConnectionRefusedError) as error:
                # Until it listens.
                if "refuses" in str(error) or time.monotonic() > until:
                    raise

    def kill(self):
        self.peer.close()
        self.daemon.kill()
        self.daemon.communicate()

    def end(self):
        self.peer.close()
        self.daemon.send_signal(signal.SIGINT)
        said, _ = self.daemon.communicate(timeout=LIMIT)
        assert self.daemon.returncode == 0
        return json.loads(said)


def frame(number, size):
    return MAC + PEER + b"\x88\xb5" + number.to_bytes(4, "big") + bytes(number * at % 256 for at in range(size - 18))


def echo(client):
    while client.counts()["sent"] < FRAMES:
        assert client.wait(LIMIT) == "frame"
        while (came := client.receive()) is not None:
            client.send(memoryview(came[6:12] + came[:6] + came[12:]))
    client.flush()


def test_each_frame_goes_back_and_all_parties_count_the_same(request, tmp_path):
    if not is_inside(request):
        return
    world = World(tmp_path)
    with world.client() as client:
        assert (client.mac, client.addresses, client.mtu, client.vlan) == ("02:00:00:00:00:01", ["10.0.0.10"], 1500, None)
        assert client.receive() is None and client.wait(0) == "due"
        thread = threading.Thread(target=echo, args=[client])
        thread.start()
        sent_bytes = 0
        for number in range(FRAMES):
            asked = frame(number, 60 + number)
            sent_bytes += len(asked)
            world.peer.send(asked)
            back = world.peer.recv(2000)
            assert back == asked[6:12] + asked[:6] + asked[12:], number
        thread.join()
        counts = client.counts()
    assert client.closed
    same = {"received": FRAMES, "received_bytes": sent_bytes, "sent": FRAMES, "sent_bytes": sent_bytes, "refused_full": 0}
    assert counts == same
    record = world.end()
    place = record["clients"][0]
    daemon = [place[key] for key in ("frames_given", "bytes_given", "packets_asked", "packets_sent", "bytes_sent")]
    assert daemon == [FRAMES, sent_bytes, FRAMES, FRAMES, sent_bytes]
    assert place["lies"] == {} and record["drops"] == {}


def test_what_cannot_be_is_an_error_with_its_reason(request, tmp_path):
    if not is_inside(request):
        return
    world = World(tmp_path)
    client = world.client()
    with pytest.raises(ConnectionRefusedError, match="no place 'other' for user .*not_allowed"):
        world.client("other")
    with pytest.raises(ConnectionRefusedError, match="taken"):
        world.client()
    with pytest.raises(ValueError, match="a name has"):
        forebay.MuxClient(world.socket, "no name")
    with pytest.raises(FileNotFoundError):
        forebay.MuxClient(tmp_path / "none", "a")
    for size in (0, 13, 1519):
        with pytest.raises(ValueError, match=f"a frame of {size} bytes; 14 to"):
            client.send(bytes(size))
    with pytest.raises(TypeError):
        client.send("text")
    with pytest.raises(TypeError):
        client.wait("long")
    # By the descriptor of one's own wait.
    assert client.arm() is None and not select.select([client], [], [], 0)[0]
    world.peer.send(frame(7, 100))
    assert select.select([client], [], [], LIMIT)[0] and client.wait(LIMIT) == "frame"
    assert client.arm() == "frame" and client.receive() == frame(7, 100)
    client.flush()
    world.kill()
    with pytest.raises(ConnectionResetError, match="is gone"):
        client.wait(LIMIT)
    client.close()
    client.close()
    with pytest.raises(ValueError, match="is closed"):
        client.receive()


def test_the_stub_says_what_is_there():
    stub = Path(forebay.__file__).with_name("__init__.pyi").read_text()
    public = [name for name in vars(forebay.MuxClient) if not name.startswith("_")]
    assert len(public) == 14 and all(f"    def {name}(self" in stub for name in public)
    assert all(getattr(forebay.MuxClient, name).__doc__ for name in public)
    assert forebay.MuxClient.__doc__ and forebay.MuxClient.__module__ == "forebay"
