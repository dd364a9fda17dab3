"""A client of the multiplexer in Python, with frames and with sockets: on a virtual wire in a network namespace, with a daemon at its end and a packet socket at the other one."""

import errno
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


def load(*more):
    command = [program(), "load", "10.0.0.10:9500", "--rate", "200pps", "--size", "24,700,1472", "--format", "json", "--timeout", "20s", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_datagrams_over_a_stack_are_answered_and_all_parties_count_the_same(request, tmp_path):
    if not is_inside(request):
        return
    subprocess.run("ip address add 10.0.0.9/24 dev near".split(), check=True)
    world = World(tmp_path)
    with world.client() as client, client.udp(9500) as udp:
        assert udp.port == 9500 and client.arm_ip() > 0
        # Also teaches the other side this client's address.
        far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        far.settimeout(LIMIT)
        far.bind(("10.0.0.9", 0))
        assert udp.sendto(memoryview(b"hello"), far.getsockname()) == 5
        thread = threading.Thread(target=client.wait_ip, args=[LIMIT])
        thread.start()
        said, sender = far.recvfrom(100)
        assert said == b"hello" and sender == ("10.0.0.10", 9500)
        far.sendto(b"back", sender)
        thread.join()
        assert client.wait_ip(0) == "ready" and client.arm_ip() == 0
        assert udp.recvfrom(0) == (b"back", far.getsockname())
        far.close()
        with pytest.raises(TimeoutError):
            udp.recvfrom(0.001)
        running, ended = load("--duration", "500ms"), threading.Event()

        def answer():
            while not ended.is_set():
                try:
                    udp.sendto(*udp.recvfrom(0.1))
                except TimeoutError:
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        told, _ = running.communicate(timeout=LIMIT)
        ended.set()
        thread.join()
        target = json.loads(told)["targets"][0]
        sent = target["packets_sent"]
        assert sent == target["packets_answered"] > 0 and target["packets_lost"] == 0
        counts, of_udp, frames = client.ip_counts(), udp.counts(), client.counts()
    # One more of each: what this test said itself.
    assert [counts[key] for key in ("received", "taken", "asked", "sent", "frames_sent")] == [sent + 1] * 5
    of_bytes = [counts[f"{key}_bytes"] for key in ("received", "taken", "asked", "sent", "frames_sent")]
    assert of_bytes == [of_bytes[0]] * 2 + [of_bytes[0] + 1] * 3
    assert all(counts[key] == count for key, count in of_udp.items())
    lost = ("queue_full", "unread", "closed_unread", "unresolved", "no_way", "unsent", "closed_unsent", "refused_full", "unclaimed")
    assert [counts[key] for key in lost] == [0] * len(lost)
    record = world.end()
    place = record["clients"][0]
    daemon = [place[key] for key in ("frames_given", "packets_asked", "packets_sent")]
    assert daemon == [frames["received"], frames["sent"], frames["sent"]] and place["lies"] == {}


def test_what_a_socket_cannot_do_is_an_error_of_pythons_own(request, tmp_path):
    if not is_inside(request):
        return
    world = World(tmp_path)
    client = world.client()
    with pytest.raises(RuntimeError, match="call open_ip or udp"):
        client.ip_counts()
    with pytest.raises(ValueError, match="a prefix of 33 bits"):
        client.open_ip(prefix_v4=33)
    with pytest.raises(ValueError, match="gateways"):
        client.open_ip(gateways=["10.0.0.1", "10.0.0.2"])
    assert client.receive() is None
    client.open_ip(gateways=["10.0.0.254"])
    for refused in (client.open_ip, client.receive, client.arm, lambda: client.wait(0), lambda: client.send(bytes(60))):
        with pytest.raises(RuntimeError, match="IP stack"):
            refused()
    udp = client.udp(7, unread_max=1, unsent_max=1)
    with pytest.raises(OSError) as taken:
        client.udp(7)
    assert taken.value.errno == errno.EADDRINUSE
    with pytest.raises(OSError) as no_way:
        udp.sendto(b"", ("fd00::1", 1))
    assert no_way.value.errno == errno.ENETUNREACH
    with pytest.raises(ValueError, match="IP address in numbers"):
        udp.sendto(b"", ("a.name", 1))
    # The same of a socket of Python's own.
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for data, address in ((b"", ("10.0.0.9", 0)), (bytes(1 << 16), ("10.0.0.9", 1)), (b"", ("10.0.0.9", 1 << 16)), (b"", ("10.0.0.9", "1")), (b"", "10.0.0.9")):
        errors = []
        for one in (own, udp):
            with pytest.raises((OSError, OverflowError, TypeError)) as refused:
                one.sendto(data, address)
            errors.append((refused.type, getattr(refused.value, "errno", None)))
        assert errors[0] == errors[1], address
    own.close()
    with pytest.raises(OSError, match="1473 bytes; 0 to 1472") as long:
        udp.sendto(bytes(1473), ("10.0.0.9", 1))
    assert long.value.errno == errno.EMSGSIZE
    # Nobody has that address: it waits, and is given up.
    udp.sendto(b"lost", ("10.0.0.9", 1))
    with pytest.raises(BlockingIOError):
        udp.sendto(b"full", ("10.0.0.9", 1), 0)
    with pytest.raises(TimeoutError):
        udp.sendto(b"full", ("10.0.0.9", 1), 0.001)
    assert udp.sendto(b"later", ("10.0.0.9", 1), LIMIT) == 5
    assert client.ip_counts()["unresolved"] == 1 and udp.counts()["unsent"] == 1
    udp.close()
    udp.close()
    assert client.ip_counts()["closed_unsent"] == 1
    with pytest.raises(OSError, match="socket is closed") as closed:
        udp.recvfrom(0)
    assert closed.value.errno == errno.EBADF
    # One that the program has lost frees its port.
    assert client.udp(8).sendto(b"lost", ("10.0.0.9", 1)) == 4
    client.udp(8).close()
    other = client.udp()
    assert other.sendto(b"waits", ("10.0.0.9", 1)) == 5
    world.kill()
    with pytest.raises(ConnectionResetError, match="is gone"):
        other.recvfrom(LIMIT)
    client.close()
    with pytest.raises(ValueError, match="is closed"):
        other.recvfrom(0)
    # What waited has its name, also in the end: in two sockets, and in one that was lost.
    last = client.ip_counts()
    assert (last["unsent"], last["closed_unsent"]) == (0, 3)
    assert last["asked"] == sum(last[term] for term in ("sent", "unresolved", "no_way", "closed_unsent"))


def connected(client):
    """A socket of Python's own and one over the stack, with a connection between."""
    with client.tcp_listen(9501) as listener:
        own = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        own.settimeout(LIMIT)
        thread = threading.Thread(target=own.connect, args=[("10.0.0.10", listener.port)])
        thread.start()
        tcp, peer = listener.accept(LIMIT)
        thread.join()
        assert peer == tcp.getpeername() == own.getsockname() and tcp.port == 9501
        return own, tcp


def test_connections_carry_the_same_both_ways_and_what_ends_them_is_an_error_of_pythons_own(request, tmp_path):
    if not is_inside(request):
        return
    subprocess.run("ip address add 10.0.0.9/24 dev near".split(), check=True)
    # No card cuts what Linux would have a card cut.
    subprocess.run("ip link set near gso_max_segs 1".split(), check=True)
    world = World(tmp_path)
    client = world.client()
    stream = bytes(at % 251 for at in range(1 << 20))
    own, tcp = connected(client)
    # More than both ends keep, there and back.
    thread = threading.Thread(target=lambda: (own.sendall(stream), own.shutdown(socket.SHUT_WR)))
    thread.start()
    back = []
    reads = threading.Thread(target=lambda: back.append(b"".join(iter(lambda: own.recv(65536), b""))))
    reads.start()
    while data := tcp.recv(100_000, LIMIT):
        tcp.sendall(data, LIMIT)
    tcp.shutdown()
    with pytest.raises(BrokenPipeError):
        tcp.send(b"more")
    while reads.is_alive():
        client.wait_ip(0.01)
    thread.join()
    assert back == [stream] and tcp.recv(1) == b""
    counts = tcp.counts()
    assert [counts[term] for term in ("received_bytes", "taken_bytes", "asked_bytes")] == [len(stream)] * 3
    tcp.close()
    with pytest.raises(OSError) as closed:
        tcp.recv(1)
    assert closed.value.errno == errno.EBADF
    own.close()
    # One that is closed with something unread resets.
    own, tcp = connected(client)
    with pytest.raises(BlockingIOError):
        tcp.recv(1, 0)
    with pytest.raises(TimeoutError):
        tcp.recv(1, 0.01)
    tcp.sendall(b"unread")
    own.recv(1, socket.MSG_PEEK)
    own.close()
    with pytest.raises(ConnectionResetError):
        tcp.recv(1, LIMIT)
    own, tcp = connected(client)
    own.sendall(b"unread")
    wait_until(lambda: client.wait_ip(0.01) and tcp.counts()["unread_bytes"] == 6, "what was sent")
    # The program has lost it.
    del tcp
    client.wait_ip(0.01)
    with pytest.raises(ConnectionResetError):
        own.recv(1)
    own.close()
    with pytest.raises(ConnectionRefusedError):
        client.tcp_connect(("10.0.0.9", 1), LIMIT)
    with pytest.raises(TimeoutError):
        client.tcp_connect(("10.0.0.77", 1), 0.01)
    with pytest.raises(TimeoutError, match="has said nothing for 100 ms"):
        client.tcp_connect(("10.0.0.77", 1), peer_timeout=0.1)
    with pytest.raises(ValueError, match="a buffer of 1 bytes"):
        client.tcp_listen(buffer_bytes=1)
    far = socket.create_server(("10.0.0.9", 0))
    with client.tcp_connect(far.getsockname(), LIMIT) as tcp:
        own, _ = far.accept()
        own.settimeout(LIMIT)
        tcp.sendall(memoryview(b"hello"))
        assert own.recv(100) == b"hello"
        # The peer closes first.
        own.close()
        assert tcp.recv(100, LIMIT) == b""
    far.close()
    client.close()
    last = client.ip_counts()
    assert last["tcp_received_bytes"] == last["tcp_taken_bytes"] + last["tcp_closed_unread_bytes"] == len(stream) + 6
    asked = len(stream) + len(b"unread" + b"hello")
    assert last["tcp_asked_bytes"] == last["tcp_acknowledged_bytes"] + last["tcp_closed_unacknowledged_bytes"] == asked
    assert (last["tcp_refused"], last["tcp_reset"], last["tcp_timed_out"]) == (1, 1, 1)
    record = world.end()
    place = record["clients"][0]
    assert place["packets_asked"] == sum(last[term] for term in ("sent", "segments_sent", "others_sent")) and place["lies"] == {}


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
    for of, count in ((forebay.MuxClient, 21), (forebay.UdpSocket, 5), (forebay.TcpSocket, 8), (forebay.TcpListener, 3)):
        public = [name for name in vars(of) if not name.startswith("_")]
        assert len(public) == count and all(f"    def {name}(" in stub for name in public)
        assert all(getattr(of, name).__doc__ for name in public)
        assert of.__doc__ and of.__module__ == "forebay"
