"""Publishes rows of an array: a batch goes with one call, and no line of Python runs for a single message.

    python examples/python/publisher.py tcp://127.0.0.1:7100 100
"""

import sys

import numpy

from forebay.net import Publisher

address, batches = sys.argv[1], int(sys.argv[2])
with Publisher(address) as publisher:
    publisher.wait_for_subscribers(timeout=60)
    samples = numpy.zeros((1000, 32), dtype=numpy.uint16)
    tags = numpy.arange(1000) % 4 + 40
    for number in range(batches):
        samples[:, 0] = number
        publisher.publish_many(tags, samples)
summary = publisher.summary
print(f"{summary['messages']} messages sent, {summary['dropped']} lost by name, residual {summary['residual_items']}")
