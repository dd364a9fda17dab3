"""Messages between processes and hosts: publish/subscribe by tag, and point to point.

Addresses are tcp://HOST:PORT, shm://NAME (shared memory of this host) and fabric+PROVIDER://PLACE (libfabric).

    from forebay.net import Publisher, Subscriber

    with Publisher("tcp://127.0.0.1:0") as publisher, Subscriber(publisher.address, tags=[42]) as subscriber:
        publisher.wait_for_subscribers(timeout=5)
        publisher.publish(42, b"hello")
        for tag, payload in subscriber.receive(timeout=5):
            print(tag, bytes(payload))

An end point works while it is called, and a thread of its own works for it meanwhile. It may be used by several threads, one at a
time; all that waits releases the interpreter's lock. It does not outlive `os.fork`. Up to 4 MiB (or 65,536 messages) wait for
`receive`; what comes then waits with the publishers, and costs what the subscriber's policy says.

What `receive` gives is acknowledged to whoever sent it, and nothing before: of a process that is killed its senders say
how many messages are *unconfirmed*, which may have been received or not. With `acknowledge_by_hand` that is so when `acknowledge`
is called, as after a write. Who sends waits in `close` until all is acknowledged, `timeout` seconds at most: where one thread has both
ends, it receives first, and then closes the end that sends.

Each end closes its books with `close`: the summary says how many messages came, went and were lost by what name.
`residual_items` is what the books cannot explain, `held` are messages that came and that nobody took with `receive`: their
senders count them as unconfirmed, and `left_items` and `left_bytes` say that they stay in the books.

Settings of all end points, as keyword arguments; times are in seconds:
    buffer_bytes      payload that a buffer takes: a message of that size fits; 65,536
    buffer_count      buffers of a connection; 64
    water_mark_bytes  a buffer goes out when so much is in it; when it is full
    flush_time        a buffer goes out at the latest so long after its first message; 0.001
    block_time        how long a peer that takes nothing, or is not there, is waited for; 10
    spin_time         how long a wait looks again and again before it sleeps; 0.000 05
    connections_max   most connections at a time; 128
    per_tag           counts by tag, too; False
    out               directory for the ledger and the record of this end, for `forebay top` and `forebay audit`; None
    tls_certificate   PEM file of this end's certificate: tcp:// is encrypted, and both sides prove who they are; None
    tls_key           PEM file of its key; None
    tls_authority     PEM file of the authority that both sides' certificates are of; None
    acknowledge_by_hand  messages count as received when `acknowledge` says so, not when `receive` gives them; False
    plain             tcp:// without that, beyond this host's loopback too; False

Beyond loopback an end point over tcp:// wants the three files or `plain`; the options of the program are named likewise
(docs/CONFIGURATION.md says how the files are made).
"""

from forebay._native import Batch, Publisher, Receiver, Sender, Subscriber

__all__ = ["Batch", "Publisher", "Receiver", "Sender", "Subscriber"]
