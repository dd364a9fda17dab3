"""One sender to one receiver with spead2, over loopback, as fast as it goes.

heaps.py receive SECONDS [CPU]      prints its port, then what came as JSON
heaps.py send PORT SECONDS [CPU]    sends for so long
"""

import json
import socket
import sys
import threading
import time

import numpy as np
import spead2
import spead2.recv
import spead2.send

# Bytes of a datagram (UDP payload), as the other side of the comparison has them.
DATAGRAM_BYTES = 1472
# Bytes of a heap: large, so that heaps cost little.
HEAP_BYTES = 4 << 20
# Heaps under way.
HEAPS = 4
SOCKET_BYTES = 8 << 20
# Beyond the host's limit, as root (asm-generic/socket.h).
SO_RCVBUFFORCE = 33


def pool(arguments):
    return spead2.ThreadPool(1, [int(cpu) for cpu in arguments[:1]])


def receive(seconds, arguments):
    stream = spead2.recv.Stream(
        pool(arguments),
        spead2.recv.StreamConfig(
            max_heaps=HEAPS * 2,
            memory_allocator=spead2.MemoryPool(HEAP_BYTES, 2 * HEAP_BYTES, 8 * HEAPS, 8 * HEAPS),
        ),
        spead2.recv.RingStreamConfig(heaps=HEAPS, contiguous_only=False),
    )
    taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for option in (socket.SO_RCVBUF, SO_RCVBUFFORCE):
        try:
            taken.setsockopt(socket.SOL_SOCKET, option, SOCKET_BYTES)
        except PermissionError:
            pass
    taken.bind(("127.0.0.1", 0))
    stream.add_udp_reader(taken, max_size=9200)
    print(taken.getsockname()[1], flush=True)
    # Where so much is lost that no heap comes any more, it ends nevertheless.
    limit = threading.Timer(3 * seconds, stream.stop)
    limit.start()
    before, begun, passed = 0, time.monotonic(), 0.0
    try:
        # The first heap is where the time begins.
        stream.get()
        before, begun = stream.stats["packets"], time.monotonic()
        while passed < seconds:
            stream.get()
            passed = time.monotonic() - begun
    except spead2.Stopped:
        passed = time.monotonic() - begun
    packets = stream.stats["packets"] - before
    limit.cancel()
    print(json.dumps({"packets": packets, "seconds": passed, "version": spead2.__version__}), flush=True)
    stream.stop()


def send(port, seconds, arguments):
    stream = spead2.send.UdpStream(
        pool(arguments),
        [("127.0.0.1", port)],
        spead2.send.StreamConfig(max_packet_size=DATAGRAM_BYTES, rate=0, max_heaps=HEAPS),
        buffer_size=SOCKET_BYTES,
        interface_address="127.0.0.1",
    )
    group = spead2.send.ItemGroup()
    group.add_item(0x1000, "data", "a test stream", shape=(HEAP_BYTES,), dtype=np.uint8)
    group["data"].value = np.arange(HEAP_BYTES, dtype=np.uint8)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        stream.send_heap(group.get_heap(descriptors="none", data="all"))


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(float(sys.argv[2]), sys.argv[3:])
    else:
        send(int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:])
